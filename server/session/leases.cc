// Leases of one session: reserve, activate, find, renew, release, expire.
#include "server/session/leases.h"

#include <algorithm>

namespace varve {

Result<SessionLease*> Leases::reserve() {
  if (count_ >= scope_.context.options.leases_max) {
    return Status::quota("this session holds leases_max leases");
  }
  SessionLease* lease = scope_.context.leases->take(scope_.domain);
  if (lease == nullptr) return Status::overloaded("leases_sum_max leases are held");
  ++count_;
  scope_.context.metrics.leases.add(1);
  lease->id = 0;
  lease->leases = this;
  lease->parts_out = 0;
  lease->renewing = lease->release_wanted = false;
  for (LeaseId& home : lease->by_shard)
    home = 0;
  return lease;
}

void Leases::give_up(SessionLease& lease) {
  VARVE_ASSERT(lease.id == 0);
  VARVE_ASSERT(lease.parts_out == 0);
  drop(lease);
}

void Leases::activate(SessionLease& lease, const Cover& cover) {
  VARVE_ASSERT(lease.id == 0);
  VARVE_ASSERT(cover.count > 0);
  lease.id = ++scope_.context.lease_last;
  lease.hold = ++scope_.context.hold_last;
  lease.count = cover.count;
  lease.bytes = cover.bytes;
  lease.began_ns = scope_.context.reactor.now_ns();
  lease.timer.owner = &lease;
  lease.timer.on_fire = [](Timer& timer) {
    auto& expired = *static_cast<SessionLease*>(timer.owner);
    Leases& leases = *expired.leases;
    leases.scope_.context.metrics.leases_expired.add();
    leases.active_.remove(&expired);
    leases.drop(expired);
  };
  arm(lease, cover.lease_ns);
  active_.push_back(&lease);
}

void Leases::arm(SessionLease& lease, Nanos lease_ns) {
  lease.until_ns = scope_.context.reactor.now_ns() + lease_ns;
  scope_.context.reactor.arm(lease.timer, lease_ns);
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
  scope_.sign(part);
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
  lease->release_wanted = true;
  if (!lease->renewing) release_all(*lease);  // else when the renewals are back
}

// It is nobody's any more; ends with on_released of the last home.
void Leases::release_all(SessionLease& lease) {
  VARVE_ASSERT(lease.parts_out == 0);
  VARVE_ASSERT(!lease.linked());
  for (uint32_t s = 0; s < lease.by_shard.size(); ++s) {
    if (lease.by_shard[s] != 0) post_release(lease, s, 0, on_released, &lease);
  }
  VARVE_ASSERT(lease.parts_out > 0);  // an active lease pins something
}

void Leases::on_released(Part& part) {
  auto& lease = *static_cast<SessionLease*>(part.owner);
  VARVE_ASSERT(lease.parts_out > 0);
  if (--lease.parts_out > 0) return;
  Leases& leases = *lease.leases;
  if (lease.release_wanted) {
    leases.scope_.reply(
        leases.scope_.context.encoder().released(lease.release_op, wire::Released{}));
  }
  leases.drop(lease);
}

void Leases::answer_renew(uint64_t op, Code code, uint32_t lease_ms) {
  wire::Renewed body;
  body.code = static_cast<uint8_t>(code);
  body.lease_ms = lease_ms;
  scope_.reply(scope_.context.encoder().renewed(op, body));
}

void Leases::renew(uint64_t op, uint64_t id, uint32_t lease_ms) {
  SessionContext& context = scope_.context;
  context.metrics.renews.add();
  SessionLease* lease = find(id);
  if (lease == nullptr) return answer_renew(op, Code::kTimedOut, 0);  // expired, or never given
  if (lease->renewing) return answer_renew(op, Code::kInvalid, 0);    // one at a time
  VARVE_ASSERT(lease->parts_out == 0);
  // Whether it is over is for the homes to say from here on: it is they who keep the blocks.
  context.reactor.cancel(lease->timer);
  lease->renewing = true;
  lease->renew_op = op;
  lease->renew_began_ns = context.reactor.now_ns();
  lease->renew_ms = std::min(lease_ms, context.options.lease_ms_max);
  for (uint32_t s = 0; s < lease->by_shard.size(); ++s) {
    if (lease->by_shard[s] == 0) continue;
    RenewPart& part = lease->renewals[s];
    part.session_reactor = &context.reactor;
    part.shard = s;
    part.status = Status();
    part.on_back = on_renewed;
    part.owner = lease;
    scope_.sign(part);
    part.lease = lease->by_shard[s];
    part.lease_ms = lease->renew_ms;
    ++lease->parts_out;
    context.shards[s]->submit(part);
  }
  VARVE_ASSERT(lease->parts_out > 0);
}

void Leases::on_renewed(Part& part) {
  auto& lease = *static_cast<SessionLease*>(part.owner);
  VARVE_ASSERT(lease.renewing);
  VARVE_ASSERT(lease.parts_out > 0);
  if (--lease.parts_out == 0) lease.leases->merge_renewed(lease);
}

// A lease that is over at one home is over: what others still keep of it goes.
void Leases::merge_renewed(SessionLease& lease) {
  lease.renewing = false;
  if (scope_.over()) {  // the GoneParts do the rest
    if (lease.linked()) active_.remove(&lease);
    return drop(lease);
  }
  SessionContext& context = scope_.context;
  context.metrics.renew_ns.record(context.reactor.now_ns() - lease.renew_began_ns);
  bool over = lease.release_wanted;
  for (uint32_t s = 0; s < lease.by_shard.size(); ++s) {
    if (lease.by_shard[s] != 0 && !lease.renewals[s].status.ok()) over = true;
  }
  if (!over) {
    context.metrics.leases_renewed.add();
    arm(lease, lease.renew_ms * kMillisecond);
    return answer_renew(lease.renew_op, Code::kOk, lease.renew_ms);
  }
  answer_renew(lease.renew_op, Code::kTimedOut, 0);
  if (!lease.release_wanted) {
    context.metrics.leases_expired.add();
    active_.remove(&lease);
  }
  release_all(lease);
}

void Leases::end_all() {
  while (SessionLease* lease = active_.pop_front()) {
    scope_.context.reactor.cancel(lease->timer);
    if (!lease->renewing) drop(*lease);  // else when its parts are back
  }
}

void Leases::drop(SessionLease& lease) {
  VARVE_ASSERT(count_ > 0);
  VARVE_ASSERT(!lease.timer.armed());
  VARVE_ASSERT(lease.parts_out == 0, lease.parts_out);
  --count_;
  scope_.context.metrics.leases.add(-1);
  lease.id = 0;
  scope_.context.leases->give(&lease, scope_.domain);
  scope_.something_ended();
}

}  // namespace varve
