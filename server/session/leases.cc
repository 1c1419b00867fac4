// Leases of one session: reserve, activate, find, release, expire.
#include "server/session/leases.h"

namespace varve {

Result<SessionLease*> Leases::reserve() {
  if (count_ >= scope_.context.options.leases_max) {
    return Status::quota("this session holds leases_max leases");
  }
  SessionLease* lease = scope_.context.leases->take();
  if (lease == nullptr) return Status::overloaded("leases_sum_max leases are held");
  ++count_;
  scope_.context.metrics.leases.add(1);
  lease->id = 0;
  lease->leases = this;
  lease->parts_out = 0;
  for (LeaseId& home : lease->by_shard)
    home = 0;
  return lease;
}

void Leases::give_up(SessionLease& lease) {
  VARVE_ASSERT(lease.id == 0);
  VARVE_ASSERT(lease.parts_out == 0);
  drop(lease);
}

void Leases::activate(SessionLease& lease, Nanos lease_ns) {
  VARVE_ASSERT(lease.id == 0);
  lease.id = ++scope_.context.lease_last;
  lease.timer.owner = &lease;
  lease.timer.on_fire = [](Timer& timer) {
    auto& expired = *static_cast<SessionLease*>(timer.owner);
    Leases& leases = *expired.leases;
    leases.scope_.context.metrics.leases_expired.add();
    leases.active_.remove(&expired);
    leases.drop(expired);
  };
  scope_.context.reactor.arm(lease.timer, lease_ns);
  active_.push_back(&lease);
}

void Leases::post_release(SessionLease& lease, uint32_t shard, uint32_t keep_below,
                          Part::Back on_back, void* owner) {
  VARVE_ASSERT(lease.by_shard[shard] != 0);
  ReleasePart& part = lease.releases[shard];
  part.session_reactor = &scope_.context.reactor;
  part.shard = shard;
  part.status = Status();
  part.on_back = on_back;
  part.owner = owner;
  part.session = scope_.id;
  part.lease = lease.by_shard[shard];
  part.keep_below = keep_below;
  if (keep_below == 0) lease.by_shard[shard] = 0;
  ++lease.parts_out;
  scope_.context.shards[shard]->submit(part);
}

SessionLease* Leases::find(uint64_t id) {
  for (SessionLease* lease = active_.front(); lease != nullptr; lease = active_.next(lease)) {
    if (lease->id == id) return lease;
  }
  return nullptr;
}

void Leases::release(uint64_t op, uint64_t id) {
  scope_.context.metrics.releases.add();
  SessionLease* lease = find(id);
  if (lease == nullptr) {
    wire::Released body;
    body.code = static_cast<uint8_t>(Code::kTimedOut);  // expired, or never given
    scope_.reply(scope_.context.encoder().released(op, body));
    return;
  }
  active_.remove(lease);
  scope_.context.reactor.cancel(lease->timer);
  lease->release_op = op;
  VARVE_ASSERT(lease->parts_out == 0);
  for (uint32_t s = 0; s < lease->by_shard.size(); ++s) {
    if (lease->by_shard[s] != 0) post_release(*lease, s, 0, on_released, lease);
  }
  VARVE_ASSERT(lease->parts_out > 0);  // an active lease pins something
}

void Leases::on_released(Part& part) {
  auto& lease = *static_cast<SessionLease*>(part.owner);
  VARVE_ASSERT(lease.parts_out > 0);
  if (--lease.parts_out > 0) return;
  Leases& leases = *lease.leases;
  leases.scope_.reply(leases.scope_.context.encoder().released(lease.release_op, wire::Released{}));
  leases.drop(lease);
}

void Leases::end_all() {
  while (SessionLease* lease = active_.pop_front()) {
    scope_.context.reactor.cancel(lease->timer);
    drop(*lease);
  }
}

void Leases::drop(SessionLease& lease) {
  VARVE_ASSERT(count_ > 0);
  VARVE_ASSERT(!lease.timer.armed());
  --count_;
  scope_.context.metrics.leases.add(-1);
  lease.id = 0;
  scope_.context.leases->give(&lease);
  scope_.something_ended();
}

}  // namespace varve
