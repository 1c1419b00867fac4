// Operations: builds the pools and tables of one shard and leads each part to its op.
//
// The order of construction is the order of dependence; nothing here runs before begin().
#include "server/op/op.h"

#include <algorithm>

#include "server/op/evict.h"
#include "server/op/fetch.h"
#include "server/op/lease.h"
#include "server/op/lineage.h"
#include "server/op/placer.h"
#include "server/op/pull.h"
#include "server/op/purge.h"
#include "server/op/push.h"
#include "server/op/repair.h"
#include "server/op/request.h"
#include "server/op/siblings.h"

namespace varve {

uint32_t targets_away(const OpContext& context) {
  static_assert(kTargetsMax <= 32);
  uint32_t away = 0;
  for (uint32_t t = 0; t < context.flash.target_count(); ++t) {
    if (!context.flash.target_ok(t)) away |= 1u << t;
  }
  return (away & ~context.options.drained_targets) | context.options.absent_targets;
}

bool has_peer(const OpContext& context, uint32_t target) {
  for (uint32_t t = 0; t < context.flash.target_count(); ++t) {
    if (t != target && context.flash.target_ok(t)) return true;
  }
  return false;
}

void part_back(Part& part, Status status) {
  VARVE_ASSERT(part.on_back != nullptr);
  VARVE_ASSERT(part.session_reactor != nullptr);
  part.status = status;
  part.message.owner = &part;
  part.message.deliver = [](Message& message) {
    Part& back = *static_cast<Part*>(message.owner);
    back.on_back(back);
  };
  part.session_reactor->post(part.message);
}

Operations::Operations(OpContext& context) : context_(context) {
  const OpOptions& options = context.options;
  VARVE_ASSERT(options.slices > 0 && options.slices <= kSlicesMax, options.slices);
  VARVE_ASSERT(options.pushes_max > 0 && options.pulls_max > 0);
  VARVE_ASSERT(options.pull_windows_max > 0);
  VARVE_ASSERT(options.fetches_max >= 2, options.fetches_max);  // a lead and an extent
  context.gathered.resize(wire::kIdsMax);
  placer_ = std::make_unique<Placer>(context);
  context.placer = placer_.get();
  lineages_ = std::make_unique<Lineages>(context.index.blocks_max(), context.flash.generations());
  context.lineages = lineages_.get();
  siblings_ = std::make_unique<Siblings>(context);
  context.siblings = siblings_.get();
  catalog_ = std::make_unique<Catalog>(context);
  context.catalog = catalog_.get();
  leases_ = std::make_unique<LeaseTable>(context.reactor, context.index, context.metrics,
                                         LeaseOptions{.leases_max = options.leases_max,
                                                      .pins_max = options.lease_pins_max,
                                                      .lease_ms_max = options.lease_ms_max});
  context.leases = leases_.get();
  pushes_ = std::make_unique<PushTable>(context);
  context.pushes = pushes_.get();
  fetches_ = std::make_unique<FetchTable>(context, options.fetches_max);
  context.fetches = fetches_.get();
  sends_ = std::make_unique<SendTable>(context, options.data_sends_max);
  context.sends = sends_.get();
  pulls_ = std::make_unique<PullTable>(context);
  context.pulls = pulls_.get();
  const uint64_t block_bytes_max = std::min(bytes_of(context.flash.fragment_pages_max()),
                                            context.tier.limit_bytes(Budget::kPush));
  context.metrics.push_block_bytes_max.set(static_cast<int64_t>(block_bytes_max));
  evict_ = std::make_unique<EvictOp>(context);
  context.evict = evict_.get();
  repair_ = std::make_unique<RepairTable>(context);
  context.repair = repair_.get();
  purges_ = std::make_unique<PurgeTable>(context);
  context.purges = purges_.get();
}

Operations::~Operations() = default;

void Operations::begin(Part& part) {
  switch (part.kind) {
    case Part::Kind::kMatch:
      return match_ids(context_, static_cast<MatchPart&>(part));
    case Part::Kind::kRelease:
      return release_lease(context_, static_cast<ReleasePart&>(part));
    case Part::Kind::kRenew:
      return renew_lease(context_, static_cast<RenewPart&>(part));
    case Part::Kind::kReserve:
      return reserve_blocks(context_, static_cast<ReservePart&>(part));
    case Part::Kind::kCommit: {
      auto& commit = static_cast<CommitPart&>(part);
      return commit.push->commit(commit);
    }
    case Part::Kind::kAbort: {
      auto& abort = static_cast<AbortPart&>(part);
      return abort.push->abort(abort);
    }
    case Part::Kind::kPull:
      return pulls_->begin(static_cast<PullPart&>(part));
    case Part::Kind::kFence:
      return pulls_->fence(static_cast<FencePart&>(part));
    case Part::Kind::kPurge:
      return purges_->begin(static_cast<PurgePart&>(part));
    case Part::Kind::kGone:
      return session_gone(context_, static_cast<GonePart&>(part));
  }
  VARVE_ASSERT(false, static_cast<uint32_t>(part.kind));
}

void Operations::room_wanted(uint32_t target, uint32_t slice, uint32_t pages) {
  evict_->room_wanted(target, slice, pages);
}

void Operations::draining_set(uint32_t target, Draining draining) {
  VARVE_ASSERT(target < context_.flash.target_count(), target);
  VARVE_ASSERT(draining == Draining::kOff || repairs());
  const uint32_t bit = 1u << target;
  uint32_t& targets = context_.options.draining_targets;
  targets = draining == Draining::kOn ? targets | bit : targets & ~bit;
  if (draining == Draining::kOn) repair_->wake();
}

Status Operations::replaceable(uint32_t target) const {
  return catalog_->replaceable(target);
}

void Operations::target_replaced(uint32_t target) {
  VARVE_ASSERT(context_.flash.target_ok(target), target);
  context_.options.draining_targets &= ~(1u << target);
  context_.options.drained_targets &= ~(1u << target);
  placer_->target_replaced(target);
  catalog_->target_replaced(target);
  repair_->wake();
}

bool Operations::repairs() const {
  return repair_->able();
}

void Operations::repair_rate_set(uint64_t bytes_per_s) {
  repair_->rate_set(bytes_per_s);
}

void Operations::drain() {
  context_.draining = true;
}

bool Operations::pushes_done() const {
  return pushes_->live() == 0 && repair_->live() == 0 && purges_->live() == 0;
}

bool Operations::at_rest() const {
  return pushes_->live() == 0 && pushes_->appends_live() == 0 && pulls_->live() == 0 &&
         pulls_->extents_live() == 0 && fetches_->live() == 0 && sends_->live() == 0 &&
         leases_->live() == 0 && leases_->pins() == 0 && evict_->at_rest() &&
         purges_->live() == 0 && repair_->at_rest();
}

uint32_t Operations::watch() {
  const Nanos now_ns = context_.reactor.now_ns();
  repair_->watch();
  return pulls_->watch(now_ns) + pushes_->watch(now_ns);
}

void Operations::register_metrics(MetricSet& metrics) {
  context_.metrics.register_in(metrics);
}

}  // namespace varve
