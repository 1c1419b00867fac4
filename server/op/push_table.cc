// Live attempts by block (at most one each, I3), the groups they came in, and the slots in which
// their fragments wait for flash.
//
// Appends are few at a time because each holds room for the page list of a whole fragment; commits
// queue for them in order, which is the order in which their senders are answered anyway.
#include "server/op/op.h"
#include "server/op/push.h"

namespace varve {

PushTable::PushTable(OpContext& context)
    : context_(context),
      pool_(context.options.pushes_max, context),
      groups_(context.options.pushes_max),
      slots_(context.options.appends_max) {
  buckets_.resize(std::bit_ceil(context.options.pushes_max * 2));
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
      self.table->append_returned(self);
    };
  }
}

uint32_t PushTable::bucket_of(const BlockId& block) const {
  const uint64_t hash = block.base.prefix64() + block.rank * 0x9E3779B97F4A7C15ull;
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
  op->begin(grant);
  PushOp*& bucket = buckets_[bucket_of(grant.block)];
  op->bucket_next = bucket;
  bucket = op;
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
  pool_.give(&op);
  context_.metrics.pushes_live.set(live());
}

void PushTable::group_end(PushGroup& group) {
  VARVE_ASSERT(group.live == 0);
  context_.catalog->touch_backwards(std::span<const uint32_t>(group.base_slots, group.count),
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
    logf(LogLevel::kWarn, "op", "block %s committed %llu s ago is not on flash target %u yet",
         short_name(op->grant().block.base).c_str(),
         static_cast<unsigned long long>(context_.options.write_ns_max / kSecond),
         op->grant().target);
  }
  if (count > 0) context_.metrics.push_overdue.add(count);
  return count;
}

AppendSlot* PushTable::take_slot(PushOp& op) {
  AppendSlot* slot = slots_.take();
  if (slot == nullptr) {
    waiting_.push(&op);
    context_.metrics.appends_waiting.set(static_cast<int64_t>(waiting_.size()));
  }
  return slot;
}

void PushTable::give_slot(AppendSlot& slot) {
  VARVE_ASSERT(slot.op == nullptr);
  slot.block = nullptr;
  slots_.give(&slot);
  if (PushOp* op = waiting_.pop()) op->slot_free();
  context_.metrics.appends_waiting.set(static_cast<int64_t>(waiting_.size()));
}

void PushTable::append_done(AppendSlot& slot) {
  VARVE_ASSERT(slot.op != nullptr);
  // The place is good in this turn only: published here, the rest follows when the op runs.
  if (slot.append.status.ok()) context_.catalog->placed(*slot.block, slot.append.place);
  slot.op->completed(slot.append.status);
}

// The device gave a failed append back after all: its pages may be used again.
void PushTable::append_returned(AppendSlot& slot) {
  VARVE_ASSERT(slot.append.held);
  TierBlock& block = *slot.block;
  VARVE_ASSERT(block.doomed);
  give_slot(slot);
  context_.tier.unpin(block);
}

}  // namespace varve
