// Live attempts by block (at most one each, I3), the groups they came in, and the slots in which
// their fragments wait for flash.
//
// Appends are few at a time because each holds room for the page list of a whole fragment; commits
// queue for them per target in order, which is the order in which their senders are answered.
#include <algorithm>

#include "server/op/op.h"
#include "server/op/push.h"

namespace varve {

PushTable::PushTable(OpContext& context)
    : context_(context),
      pool_(context.options.pushes_max, context),
      groups_(context.options.pushes_max),
      slots_(context.options.appends_max),
      targets_(context.flash.target_count()) {
  buckets_.resize(std::bit_ceil(context.options.pushes_max * 2));
  reservers_.reserve(context.options.pushes_max);
  uses_.reserve(context.options.pushes_max);
  for (const auto& slot : slots_.all()) {
    slot->table = this;
    slot->runs.reserve(context.flash.fragment_pages_max());
    slot->append.owner = slot.get();
    slot->append.on_done = [](flash::Append& append) {
      AppendSlot& self = *static_cast<AppendSlot*>(append.owner);
      self.table->append_done(self);
    };
    slot->append.limbo.owner = slot.get();
    slot->append.limbo.on_returned = [](void* owner) {
      AppendSlot& self = *static_cast<AppendSlot*>(owner);
      VARVE_ASSERT(self.block != nullptr && self.block->lent > 0);
      TierBlock& block = *self.block;
      // Its push has ended without this, and readers may keep it.
      if (--block.lent == 0 && !block.dirty) self.table->context_.tier.settle_written(block);
      self.table->append_returned(self);
    };
  }
}

uint32_t PushTable::bucket_of(const BlockId& block) const {
  const size_t hash = BlockHash{context_.options.hash_seed}(block);
  return static_cast<uint32_t>(hash & (buckets_.size() - 1));
}

PushOp* PushTable::find(const BlockId& block) const {
  PushOp* op = buckets_[bucket_of(block)];
  while (op != nullptr && op->grant().block != block)
    op = op->bucket_next;
  return op;
}

PushOp* PushTable::begin(const PushOp::Grant& grant) {
  VARVE_ASSERT(find(grant.block) == nullptr);  // I3
  PushOp* op = pool_.take();
  if (op == nullptr) return nullptr;
  PushOp::Grant own = grant;
  own.format = formats_.take(*grant.format);
  if (own.format == nullptr) {
    pool_.give(op);
    return nullptr;
  }
  op->begin(own);
  PushOp*& bucket = buckets_[bucket_of(grant.block)];
  op->bucket_next = bucket;
  bucket = op;
  for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
    if (grant.spots.target[p] == Placer::kNone) continue;
    Target& target = targets_[grant.spots.target[p]];
    ++target.attempts;
    target.dram_pages += grant.dram_pages;
  }
  Reserver* reserver = nullptr;
  for (Reserver& known : reservers_) {
    if (known.session == grant.session) reserver = &known;
  }
  if (reserver == nullptr) {
    VARVE_ASSERT(reservers_.size() < reservers_.capacity());  // at most one per attempt
    reserver = &reservers_.emplace_back(Reserver{.session = grant.session});
  }
  ++reserver->attempts;
  reserver->dram_pages += grant.dram_pages;
  DomainUse* use = find_use(grant.block.domain);
  if (use == nullptr) use = &uses_.emplace_back(DomainUse{.domain = grant.block.domain});
  ++use->attempts;
  use->dram_pages += grant.dram_pages;
  context_.metrics.pushes_live.set(live());
  return op;
}

void PushTable::end(PushOp& op) {
  PushOp** at = &buckets_[bucket_of(op.grant().block)];
  while (*at != &op) {
    VARVE_ASSERT(*at != nullptr);
    at = &(*at)->bucket_next;
  }
  *at = op.bucket_next;
  op.bucket_next = nullptr;
  formats_.give(op.grant().format);
  const uint32_t dram_pages = op.grant().dram_pages;
  DomainUse* use = find_use(op.grant().block.domain);
  VARVE_ASSERT(use != nullptr && use->attempts > 0 && use->dram_pages >= dram_pages, dram_pages);
  use->dram_pages -= dram_pages;
  if (--use->attempts == 0) {
    *use = uses_.back();
    uses_.pop_back();
  }
  pool_.give(&op);
  context_.metrics.pushes_live.set(live());
}

void PushTable::purge(uint32_t domain, const BaseId& base) {
  for (uint32_t rank = 0; rank < kRanksMax; ++rank) {
    if (PushOp* op = find({.base = base, .rank = rank, .domain = domain})) op->purge();
  }
}

void PushTable::group_end(PushGroup& group) {
  VARVE_ASSERT(group.live == 0);
  context_.catalog->touch_backwards(group.domain,
                                    std::span<const uint32_t>(group.base_slots, group.count),
                                    std::span<const BaseId>(group.ids, group.count));
  group.count = 0;
  groups_.give(&group);
}

uint32_t PushTable::watch(Nanos now_ns) const {
  uint32_t count = 0;
  for (const auto& op : pool_.all()) {
    if (!op->is_overdue(now_ns, context_.options.write_ns_max)) continue;
    ++count;
    if (count > 1) continue;  // one line stands for all of them
    logf(LogLevel::kWarn, "op",
         "block %s committed %llu s ago is not on flash yet: its targets write too slowly, or one "
         "is "
         "stuck (varve_target_suspect, varve_appends_waiting); check the drives",
         short_name(op->grant().block.base).c_str(),
         static_cast<unsigned long long>(context_.options.write_ns_max / kSecond));
  }
  if (count > 0) context_.metrics.push_overdue.add(count);
  return count;
}

PushTable::DomainUse* PushTable::find_use(uint32_t domain) {
  for (DomainUse& use : uses_) {
    if (use.domain == domain) return &use;
  }
  return nullptr;
}

bool PushTable::may_reserve(uint64_t session, uint32_t domain, uint32_t domains,
                            uint32_t dram_pages) const {
  using Share = DomainLimit::Share;
  const uint64_t limit = context_.tier.limit_bytes(Budget::kPush) / kPageBytes;
  DomainLimit pages(limit, domains);
  DomainLimit attempts(context_.options.pushes_max, domains);
  DomainUse own;
  for (const DomainUse& use : uses_) {
    if (use.domain == domain) {
      own = use;
      continue;
    }
    if (context_.options.domains.dropped(use.domain)) {
      pages.ending(use.dram_pages);
      attempts.ending(use.attempts);
    } else {
      pages.other(use.dram_pages);
      attempts.other(use.attempts);
    }
  }
  const bool has_both = pages.share(own.dram_pages + dram_pages) != Share::kNone &&
                        attempts.share(own.attempts + 1) != Share::kNone;
  if (own.attempts > 0 && !has_both) return false;
  const uint64_t used = context_.tier.used_bytes(Budget::kPush) / kPageBytes;
  const uint64_t left = std::min(limit - std::min(limit, used),
                                 pages.most() - std::min(pages.most(), own.dram_pages));
  const uint64_t part = domains == 1 ? 0 : pages.part();
  for (const Reserver& reserver : reservers_) {
    if (reserver.session != session) continue;
    return reserver.dram_pages + dram_pages <= std::max(left, part) / 2;
  }
  return true;
}

void PushTable::session_committed(const PushOp& op) {
  const uint32_t dram_pages = op.grant().dram_pages;
  for (Reserver& reserver : reservers_) {
    if (reserver.session != op.grant().session) continue;
    VARVE_ASSERT(reserver.attempts > 0 && reserver.dram_pages >= dram_pages, dram_pages);
    reserver.dram_pages -= dram_pages;
    if (--reserver.attempts > 0) return;
    reserver = reservers_.back();
    return reservers_.pop_back();
  }
  VARVE_ASSERT(false, op.grant().session);
}

bool PushTable::has_share(uint32_t target, uint32_t dram_pages) const {
  const Target& of = targets_[target];
  // Where every block has a fragment on every target nobody could do without it.
  const auto usable = static_cast<uint32_t>(std::popcount(context_.placer->usable()));
  if (of.attempts == 0 || usable <= context_.options.scheme.width()) return true;
  // Each block counts for all its targets: what one has when nothing is stuck, and half of the
  // rest.
  const uint32_t width = context_.options.scheme.width();
  const uint64_t part = width == 1 ? 1 : usable + width;
  const uint64_t whole = width == 1 ? 2 : uint64_t{2} * usable;
  const uint64_t bytes = context_.tier.limit_bytes(Budget::kPush) * part / whole;
  const uint64_t attempts = std::max<uint64_t>(1, context_.options.pushes_max * part / whole);
  return of.attempts < attempts && bytes_of(of.dram_pages + dram_pages) <= bytes;
}

void PushTable::share_drop(uint32_t target, uint32_t dram_pages) {
  Target& of = targets_[target];
  VARVE_ASSERT(of.attempts > 0 && of.dram_pages >= dram_pages, of.attempts, of.dram_pages);
  --of.attempts;
  of.dram_pages -= dram_pages;
}

bool PushTable::may_append(uint32_t target) const {
  const uint64_t share =
      std::max<uint64_t>(1, target_share(context_, context_.options.appends_max));
  if (slots_.available() == 0) return false;
  // One that failed refuses at once, whatever its device holds on to.
  return targets_[target].appends < share || !has_peer(context_, target) ||
         !context_.flash.target_ok(target);
}

void PushTable::occupy(FragmentWrite& write) {
  AppendSlot* slot = slots_.take();
  VARVE_ASSERT(slot != nullptr);
  VARVE_ASSERT(slot->write == nullptr && slot->block == nullptr);
  slot->append.target = write.target;
  ++targets_[write.target].appends;
  write.op->append(write, *slot);
}

void PushTable::append(FragmentWrite& write) {
  Target& target = targets_[write.target];
  if (target.waiting.empty() && may_append(write.target)) return occupy(write);
  target.waiting.push(&write);
  waiting_changed(1);
}

void PushTable::give_slot(AppendSlot& slot) {
  VARVE_ASSERT(slot.write == nullptr);
  Target& of = targets_[slot.append.target];
  VARVE_ASSERT(of.appends > 0);
  --of.appends;
  slot.block = nullptr;
  slots_.give(&slot);
  pump();
}

// Whoever waits gets the slot itself, so that nobody can come in between: first the target whose
// turn it is, then the others.
void PushTable::pump() {
  for (size_t i = 0; i < targets_.size() && slots_.available() > 0; ++i) {
    turn_ = (turn_ + 1) % static_cast<uint32_t>(targets_.size());
    Target& target = targets_[turn_];
    // Behind its KILL record nothing of a block may be written: the record goes before it.
    while (!target.waiting.empty() && target.waiting.front()->op->is_purged()) {
      waiting_changed(-1);
      target.waiting.pop()->op->passed_over();
    }
    if (target.waiting.empty() || !may_append(turn_)) continue;
    waiting_changed(-1);
    occupy(*target.waiting.pop());
  }
}

void PushTable::waiting_changed(int64_t by) {
  waiting_ += by;
  VARVE_ASSERT(waiting_ >= 0, waiting_);
  context_.metrics.appends_waiting.set(waiting_);
}

void PushTable::append_done(AppendSlot& slot) {
  VARVE_ASSERT(slot.write != nullptr);
  FragmentWrite& write = *slot.write;
  flash::Append& append = slot.append;
  if (append.status.ok() && context_.catalog->is_failed(append.place.target)) {
    context_.flash.release(append.place);
    append.status = Status::unavailable("its target has failed");
  }
  // The place is good in this turn only: published here, the rest follows when the op runs.
  if (append.status.ok()) context_.catalog->placed(*slot.block, write.position, append.place);
  slot.write = nullptr;
  const bool held = append.held;
  if (held) ++slot.block->lent;  // until append_returned(), which may be never
  write.op->appended(write, append.status);
  if (held) return pump();  // one that waits for this target may be refused now
  append_returned(slot);
}

// The device is done with the pages, for a held append maybe much later: they may be used again.
void PushTable::append_returned(AppendSlot& slot) {
  VARVE_ASSERT(slot.write == nullptr && slot.block != nullptr);
  TierBlock& block = *slot.block;
  share_drop(slot.append.target, slot.dram_pages);
  give_slot(slot);
  context_.tier.unpin(block);
}

}  // namespace varve
