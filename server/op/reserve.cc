// Reserve: the right to write blocks, answered at once and never waiting: exists, busy, granted or
// refused, each by itself.
//
// A grant holds everything the block will need until it is on flash (O2, I7): space in one slice of
// the target of each fragment, DRAM pages, a place in the index, an op. What cannot be had is
// refused with its reason and counted: this is where an overload is shed (I11). A full drive is an
// overload as long as room can be made of what is there; only then does kNoSpace, which is final
// for the client, say that nothing may go.
#include <algorithm>
#include <bit>

#include "common/placement/placement.h"
#include "server/op/evict.h"
#include "server/op/op.h"
#include "server/op/placer.h"
#include "server/op/push.h"
#include "server/op/request.h"

namespace varve {

namespace {

struct Reserve {
  OpContext& context;
  const ReservePart& part;
  const ExtentTable& table;
  uint32_t dram_pages = 0;  // of kPush
  uint32_t granted = 0;
  PushGroup* group = nullptr;
};

void give_space(OpContext& context, const PushOp::Grant& grant) {
  for (uint32_t p = 0; p < kWidthMax; ++p) {
    if (grant.pages[p] == 0) continue;
    context.flash.unreserve(grant.spots.target[p], grant.slice, grant.pages[p]);
  }
}

// Asks one target for the fragment of one position.
struct Taking {
  const Reserve& reserve;
  const PushOp::Grant& grant;
  bool spare;            // there are more targets than fragments
  uint32_t for_now = 0;  // targets that refused and may take one later

  static bool take(void* context, uint32_t position, uint32_t target) {
    auto& self = *static_cast<Taking*>(context);
    OpContext& shard = self.reserve.context;
    if (self.spare && shard.flash.target_suspect(target)) {  // others can take it
      ++self.for_now;
      return false;
    }
    if (!shard.pushes->has_share(target, self.reserve.dram_pages)) {
      shard.metrics.push_share_full.add();
      ++self.for_now;
      return false;
    }
    const uint32_t slice = self.grant.slice;
    if (shard.flash.reserve(target, slice, self.grant.pages[position])) return true;
    const bool ahead =
        shard.flash.making_room(target, slice) || !shard.evict->gave_up(target, slice);
    if (ahead) ++self.for_now;
    return false;
  }
};

// Space for each fragment. kOverloaded: too few targets have some now; kNoSpace: or soon.
Code reserve_space(const Reserve& reserve, const BlockId& block, PushOp::Grant* grant) {
  OpContext& context = reserve.context;
  const Scheme scheme = context.options.scheme;
  const uint32_t slice = grant->slice;
  for (uint32_t p = 0; p < scheme.width(); ++p) {
    grant->pages[p] = flash::fragment_pages_of(reserve.table, block, p);
    if (grant->pages[p] > context.flash.fragment_pages_max()) return Code::kUnsupported;
  }
  if (bytes_of(reserve.dram_pages) > context.tier.limit_bytes(Budget::kPush)) {
    return Code::kUnsupported;  // no waiting would ever help
  }
  if (!context.flash.slice_ready(slice)) return Code::kOverloaded;  // being recovered
  const auto usable = static_cast<uint32_t>(std::popcount(context.placer->usable()));
  if (usable < scheme.k) return Code::kUnavailable;
  Taking taking{reserve, *grant, usable > scheme.width()};
  grant->spots = context.placer->place(block.base, ~0u, 0, Taking::take, &taking);
  for (uint32_t p = 0; p < kWidthMax; ++p) {
    if (p >= scheme.width() || grant->spots.target[p] == Placer::kNone) grant->pages[p] = 0;
  }
  // Thin is for targets that are not there, not for those that are full or busy.
  const uint32_t wanted = std::min(usable, scheme.width());
  if (grant->spots.count >= wanted) return Code::kOk;
  give_space(context, *grant);
  return grant->spots.count + taking.for_now >= wanted ? Code::kOverloaded : Code::kNoSpace;
}

// A place in the index for this attempt besides all that were granted before it.
Code index_place(const OpContext& context, uint32_t slice) {
  const auto has_place = [&context] {
    const uint32_t used = context.index.block_count() + context.pushes->live();
    return used < context.index.blocks_max();
  };
  if (has_place()) return Code::kOk;
  const EvictOp::Place place = context.evict->index_wanted(slice);
  if (place == EvictOp::Place::kNone) return Code::kNoSpace;
  return has_place() ? Code::kOk : Code::kOverloaded;
}

Code grant(Reserve& reserve, const BlockId& block, const BaseId& parent, GrantLoan* loan) {
  OpContext& context = reserve.context;
  if (context.draining) return Code::kUnavailable;
  if (reserve.granted >= reserve.part.grants_max) return Code::kQuota;
  const PushTable& pushes = *context.pushes;
  if (!pushes.available(*reserve.part.format)) return Code::kOverloaded;
  const ReservePart& part = reserve.part;
  if (!pushes.may_reserve(part.session, part.domain, part.domains, reserve.dram_pages)) {
    context.metrics.push_share_full.add();
    return Code::kOverloaded;
  }
  const uint32_t slice = slice_of(block.base, context.options.slices);
  if (Code code = index_place(context, slice); code != Code::kOk) return code;
  PushOp::Grant order;
  order.slice = slice;
  if (Code code = reserve_space(reserve, block, &order); code != Code::kOk) return code;
  uint32_t first = 0;  // who grants: the target of the lowest position
  while (order.spots.target[first] == Placer::kNone)
    ++first;
  const uint32_t target = order.spots.target[first];
  const Attempt attempt{.boot_generation = context.flash.boot_generation(target),
                        .target = target,
                        .counter = context.attempts + 1};
  TierBlock* tier_block = context.tier.grant(block, attempt, reserve.table, Budget::kPush);
  if (tier_block == nullptr) {
    give_space(context, order);
    return Code::kOverloaded;
  }
  ++context.attempts;
  context.tier.pin(*tier_block);
  tier_block->fingerprint = reserve.part.format->fingerprint;
  if (reserve.group == nullptr || reserve.group->count == PushGroup::kMax) {
    reserve.group = context.pushes->group_begin();
    VARVE_ASSERT(reserve.group != nullptr);  // as many as attempts
    VARVE_ASSERT(reserve.group->live == 0 && reserve.group->count == 0);
  }
  PushGroup& group = *reserve.group;
  group.base_slots[group.count] = ~0u;
  order.block = block;
  order.parent = parent;
  order.attempt = attempt;
  order.format = reserve.part.format;
  order.epoch = reserve.part.epoch;
  order.dram_pages = reserve.dram_pages;
  order.tier_block = tier_block;
  order.group = &group;
  order.group_index = group.count;
  order.session = reserve.part.session;
  PushOp* push = context.pushes->begin(order);
  VARVE_ASSERT(push != nullptr);
  VARVE_ASSERT(tier_block->charged_pages == reserve.dram_pages, tier_block->charged_pages);
  ++group.count;
  ++group.live;
  ++reserve.granted;
  *loan = GrantLoan{.outcome = wire::ReserveOutcome::kGranted,
                    .code = Code::kOk,
                    .attempt = attempt,
                    .push = push,
                    .block = tier_block,
                    .tier = &context.tier};
  return Code::kOk;
}

// "Exists" is an acknowledgement without a write, so it promises what the strongest one does (I10):
// the block is on flash and flushed. Until then its writer is still busy with it.
bool exists(OpContext& context, const BlockId& block) {
  const std::optional<Located> located = context.index.find(block);
  if (!located) return false;
  if (context.catalog->is_gone(*located)) return false;  // the walk has not come to it yet
  if (located->state == BlockState::kFlash) return true;
  VARVE_ASSERT(context.pushes->find(block) != nullptr);  // its write-behind
  return false;
}

void answer_one(Reserve& reserve, const BaseId& id, const BaseId& parent, GrantLoan* loan) {
  OpMetrics& metrics = reserve.context.metrics;
  const BlockId block{.base = id, .rank = reserve.part.rank, .domain = reserve.part.domain};
  *loan = GrantLoan{};
  metrics.reserve_ids.add();
  // What recovery has told of it may still be ended by a KILL record, so it neither exists nor not.
  if (!reserve.context.catalog->serves(id)) {
    loan->outcome = wire::ReserveOutcome::kRefused;
    loan->code = Code::kOverloaded;
    return metrics.refused[static_cast<uint32_t>(loan->code)].add();
  }
  if (exists(reserve.context, block)) {
    loan->outcome = wire::ReserveOutcome::kExists;
    return metrics.reserve_exists.add();
  }
  if (reserve.context.pushes->find(block) != nullptr) {  // being written, or not yet flushed
    loan->outcome = wire::ReserveOutcome::kBusy;
    return metrics.reserve_busy.add();
  }
  const Code code = grant(reserve, block, parent, loan);
  if (code == Code::kOk) return metrics.reserve_granted.add();
  loan->outcome = wire::ReserveOutcome::kRefused;
  loan->code = code;
  metrics.refused[static_cast<uint32_t>(code)].add();
}

}  // namespace

void reserve_blocks(OpContext& context, ReservePart& part) {
  VARVE_ASSERT(part.format != nullptr);
  VARVE_ASSERT(part.rank < part.format->tables.size(), part.rank);
  if (part.epoch != context.options.epoch) {
    return part_back(part, Status::invalid("reserve of another epoch"));
  }
  const RequestIds& request = *part.request;
  VARVE_ASSERT(part.begin <= part.end && part.end <= request.count, part.begin, part.end);
  const ExtentTable& table = part.format->tables[part.rank];
  Reserve reserve{.context = context, .part = part, .table = table};
  reserve.dram_pages = DramTier::pages_of_block(table);
  for (uint32_t i = part.begin; i < part.end; ++i) {
    const uint16_t position = request.positions[i];
    VARVE_ASSERT(position < request.count, position, request.count);
    // The parent is the id before it, which may belong to another home.
    const BaseId& parent = position == 0 ? part.parent : request.ids[position - 1];
    answer_one(reserve, request.ids[position], parent, &part.loans[position]);
  }
  part_back(part, Status());
}

}  // namespace varve
