// A push: receive (lent), commit, append. "Commit, then append" (ADR-0002): only what was accepted
// is ever written, so a whole fragment on a drive is the proof of its commit (I2).
//
// Answers: kCached when the block is visible, kDurable when flash has flushed it. A cached block
// that flash then refuses is dropped again, and counted as a lost write.
#include "server/op/push.h"

#include <algorithm>
#include <cstring>

#include "server/op/fetch.h"
#include "server/op/op.h"

namespace varve {

PushOp::PushOp(OpContext& context) : Op(context.reactor), context_(context) {}

void PushOp::begin(const Grant& grant) {
  VARVE_ASSERT(grant.tier_block != nullptr);
  VARVE_ASSERT(grant.group != nullptr);
  reset();
  grant_ = grant;
  stage_ = Stage::kReceive;
  part_ = nullptr;
  slot_ = nullptr;
  since_ns_ = reactor().now_ns();
}

void PushOp::commit(CommitPart& part) {
  VARVE_ASSERT(stage_ == Stage::kReceive && part_ == nullptr);
  VARVE_ASSERT(part.attempt == grant_.attempt);  // the session has checked the client's
  part_ = &part;
  stage_ = Stage::kCommit;
  context_.pushes->session_committed(grant_.session, grant_.dram_pages);
  reactor().make_ready(*this);
}

void PushOp::abort(AbortPart& part) {
  VARVE_ASSERT(stage_ == Stage::kReceive && part_ == nullptr);
  VARVE_ASSERT(part.attempt == grant_.attempt);
  context_.metrics.push_aborted.add();
  context_.pushes->session_committed(grant_.session, grant_.dram_pages);
  drop();
  part_back(part, Status());
}

void PushOp::run() {
  RunScope scope(*this);
  switch (stage_) {
    case Stage::kReceive:
      VARVE_ASSERT(false);  // commit() or abort() end this stage
      return;
    case Stage::kCommit:
      context_.metrics.push_stage_receive.record(reactor().now_ns() - since_ns_);
      since_ns_ = reactor().now_ns();
      if (Status s = check(); !s.ok()) {
        answer(s);
        return drop();
      }
      if (!publish()) return drop();
      stage_ = Stage::kAppend;
      [[fallthrough]];
    case Stage::kAppend:
      if (!start_append()) return;  // woken by slot_given()
      stage_ = Stage::kWrite;
      return wait(1);
    case Stage::kWrite:
      context_.metrics.push_stage_write.record(reactor().now_ns() - since_ns_);
      written();
      return finish();
  }
}

// What the session wrote into the header pages must fit the format: sizes, codecs, reserved fields.
Status PushOp::check() {
  if (part_->epoch != context_.options.epoch) return Status::invalid("commit of another epoch");
  const TierBlock& block = *grant_.tier_block;
  const ExtentTable& table = grant_.format->tables[grant_.block.rank];
  VARVE_ASSERT(block.extent_count == table.extents.size(), block.extent_count);
  ExtentEntry entries[kExtentsMax];
  for (uint32_t e = 0; e < block.extent_count; ++e) {
    entries[e] = entry_of(context_.tier, block, e);
  }
  Status status = check_entries(std::span<const ExtentEntry>(entries, block.extent_count), table);
  if (!status.ok()) context_.metrics.push_invalid.add();
  return status;
}

// Makes the block visible (I2). False: it is not, and the part was answered.
bool PushOp::publish() {
  TierBlock& block = *grant_.tier_block;
  VARVE_ASSERT(block.dirty && !block.header_present && block.pins > 0);
  OpMetrics& metrics = context_.metrics;
  fill_header();
  for (uint32_t e = 0; e < block.extent_count; ++e) {
    context_.tier.extent_read(block, e, Status());  // the session has received and checked it
  }
  block.header_present = true;
  switch (context_.catalog->publish(block)) {
    case Index::Insert::kExists:  // recovery found it meanwhile, so it is durable
      VARVE_ASSERT(context_.index.find(block.block)->state == FragmentState::kFlash);
      metrics.push_exists.add();
      answer(Status());
      return false;
    case Index::Insert::kFull:
      answer(Status::no_space("index"));
      return false;
    case Index::Insert::kDone:
      break;
  }
  const uint64_t bytes = grant_.format->tables[grant_.block.rank].block_bytes;
  metrics.push_bytes.add(bytes);
  PushGroup& group = *grant_.group;
  group.base_slots[grant_.group_index] = context_.index.find(block.block)->base_slot;
  group.ids[grant_.group_index] = block.block.base;
  if (part_->ack == wire::AckKind::kCached) {
    metrics.push_committed_cached.add();
    answer(Status());
  }
  return true;
}

void PushOp::fill_header() {
  const SessionFormat& format = *grant_.format;
  const TierBlock& block = *grant_.tier_block;
  const uint64_t bytes = format.tables[block.block.rank].block_bytes;
  flash::FragmentHeader header;
  header.extent_count = block.extent_count;
  header.data_extent_count = grant_.format->tables[block.block.rank].data_count();
  header.base = block.block.base;
  header.parent = grant_.parent;
  header.fingerprint = format.fingerprint;
  header.rank = block.block.rank;
  header.rank_count = format.format.rank_count();
  header.attempt = grant_.attempt;
  header.epoch = grant_.epoch;
  header.domain = context_.options.domain;
  header.domain_generation = context_.options.domain_generation;
  header.k = static_cast<uint8_t>(context_.options.k);
  header.m = static_cast<uint8_t>(context_.options.m);
  header.block_bytes_low = static_cast<uint32_t>(bytes);
  header.block_bytes_high = static_cast<uint32_t>(bytes >> 32);
  header.lineage = format.lineage;
  std::memcpy(context_.tier.arena().byte_at(block.header, 0), &header, sizeof(header));
}

void PushOp::slot_given(AppendSlot& slot) {
  VARVE_ASSERT(stage_ == Stage::kAppend && slot_ == nullptr);
  slot_ = &slot;
  reactor().make_ready(*this);
}

bool PushOp::start_append() {
  if (slot_ == nullptr) slot_ = context_.pushes->take_slot(*this);
  if (slot_ == nullptr) return false;
  TierBlock& block = *grant_.tier_block;
  Arena& arena = context_.tier.arena();
  std::vector<iovec>& runs = slot_->runs;
  runs.resize(grant_.pages);
  const std::span<iovec> all(runs);
  const uint32_t header_count =
      arena.pieces(block.header, 0, bytes_of(block.header.page_count), all);
  uint32_t count = header_count;
  for (uint32_t e = 0; e < block.extent_count; ++e) {
    const Slab& slab = context_.tier.extent(block, e);
    count += arena.pieces(slab, 0, bytes_of(slab.page_count), all.subspan(count));
  }
  runs.resize(count);
  slot_->block = &block;
  slot_->op = this;
  slot_->dram_pages = grant_.dram_pages;
  flash::Append& append = slot_->append;
  VARVE_ASSERT(append.target == grant_.target, append.target);
  append.slice = grant_.slice;
  append.pages = grant_.pages;
  append.header = reinterpret_cast<flash::FragmentHeader*>(arena.byte_at(block.header, 0));
  append.header_pages = std::span<const iovec>(runs.data(), header_count);
  append.runs = runs;
  append.buffer_index = context_.options.buffer_index;
  // Flushed also where nobody waits for it: what the index says is on flash must be there after a
  // power cut, because the next writer of the block is told that it exists.
  append.flush = part_ != nullptr ? flash::FlushBy::kNow : flash::FlushBy::kSoon;
  append.status = Status();
  append.held = false;
  grant_.pages = 0;  // the reservation is the append's now
  context_.flash.append(append);
  return true;
}

void PushOp::written() {
  TierBlock& block = *grant_.tier_block;
  VARVE_ASSERT(slot_ != nullptr && block.dirty);
  const flash::Append& append = slot_->append;
  if (append.status.ok()) {
    block.dirty = false;
    if (part_ != nullptr) {
      context_.metrics.push_committed_durable.add();
      answer(Status());
    }
    return;
  }
  // Gone from index and DRAM: what no drive holds must not be promised (bytes lost to a fault).
  context_.catalog->unpublish(block);
  context_.metrics.push_lost_writes.add();
  if (part_ != nullptr) answer(append.status);
}

void PushOp::answer(Status status) {
  VARVE_ASSERT(part_ != nullptr);
  CommitPart& part = *part_;
  part_ = nullptr;
  part_back(part, status);
}

// The attempt ends without a trace: pages and flash space go back.
void PushOp::drop() {
  VARVE_ASSERT(part_ == nullptr);
  context_.tier.forget(*grant_.tier_block);
  finish();
}

void PushOp::finish() {
  if (grant_.pages > 0) context_.flash.unreserve(grant_.target, grant_.slice, grant_.pages);
  const bool held = slot_ != nullptr && slot_->append.held;
  if (slot_ != nullptr) slot_->op = nullptr;
  if (!held) {
    context_.pushes->share_drop(grant_.target, grant_.dram_pages);
    if (slot_ != nullptr) context_.pushes->give_slot(*slot_);
    context_.tier.unpin(*grant_.tier_block);
  }
  PushGroup& group = *grant_.group;
  stage_ = Stage::kReceive;
  context_.pushes->end(*this);
  if (--group.live == 0) context_.pushes->group_end(group);
}

}  // namespace varve
