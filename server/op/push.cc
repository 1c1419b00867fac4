// A push: receive (lent), commit, append. "Commit, then append" (ADR-0002): only what was accepted
// is ever written, so a whole fragment on a drive is the proof of its commit (I2).
//
// Answers: kCached when the block is visible, kDurable when flash has flushed it. A target lost on
// the way costs a fragment: the block is then thin, as long as one more than k are there (with
// parity). One that flash refuses altogether is dropped again, and counted as a lost write.
#include "server/op/push.h"

#include <algorithm>
#include <cstring>

#include "server/op/fetch.h"
#include "server/op/lineage.h"
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
  failure_ = Status();
  purged_ = false;
  for (uint32_t p = 0; p < kWidthMax; ++p) {
    const uint8_t target = grant.spots.target[p];
    writes_[p] = FragmentWrite{.op = this,
                               .position = p,
                               .target = target == Placer::kNone ? ~0u : target,
                               .pages = grant.pages[p],
                               .next = nullptr};
  }
  since_ns_ = reactor().now_ns();
}

void PushOp::commit(CommitPart& part) {
  VARVE_ASSERT(stage_ == Stage::kReceive && part_ == nullptr);
  VARVE_ASSERT(part.attempt == grant_.attempt);  // the session has checked the client's
  part_ = &part;
  stage_ = Stage::kCommit;
  context_.pushes->session_committed(*this);
  reactor().make_ready(*this);
}

void PushOp::abort(AbortPart& part) {
  VARVE_ASSERT(stage_ == Stage::kReceive && part_ == nullptr);
  VARVE_ASSERT(part.attempt == grant_.attempt);
  context_.metrics.push_aborted.add();
  context_.pushes->session_committed(*this);
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
      if (purged_) {
        context_.metrics.push_purged.add();
        answer(Status::cancelled("purged"));
        return drop();
      }
      if (Status s = check(); !s.ok()) {
        answer(s);
        return drop();
      }
      if (!publish()) return drop();
      stage_ = Stage::kWrite;
      return start_appends();
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
  VARVE_ASSERT(block.extent_count == table.count(), block.extent_count);
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
  fill_headers();
  for (uint32_t e = 0; e < block.extent_count; ++e) {
    context_.tier.extent_read(block, e, Status());  // the session has received and checked it
  }
  block.header_present = true;
  switch (context_.catalog->publish(block, grant_.format->format.rank_count())) {
    case Index::Insert::kExists:  // recovery found it meanwhile, so it is durable
      VARVE_ASSERT(context_.index.find(block.block)->state == BlockState::kFlash);
      metrics.push_exists.add();
      answer(Status());
      return false;
    case Index::Insert::kFull:
      answer(Status::no_space("index"));
      return false;
    case Index::Insert::kDone:
      break;
  }
  context_.lineages->set(block.slot, block.block.domain, grant_.format->lineage);
  const uint64_t bytes = grant_.format->tables[grant_.block.rank].block_bytes;
  metrics.push_bytes.add(bytes);
  PushGroup& group = *grant_.group;
  group.base_slots[grant_.group_index] = context_.index.find(block.block)->base_slot;
  group.domain = block.block.domain;
  group.ids[grant_.group_index] = block.block.base;
  if (part_->ack == wire::AckKind::kCached) {
    metrics.push_committed_cached.add();
    answer(Status());
  }
  return true;
}

// One header for each fragment, alike but for the position; flash fills in the rest.
void PushOp::fill_headers() {
  const SessionFormat& format = *grant_.format;
  const TierBlock& block = *grant_.tier_block;
  const ExtentTable& table = format.tables[block.block.rank];
  const Scheme scheme = context_.options.scheme;
  flash::FragmentHeader header;
  header.extent_count = block.extent_count;
  header.data_extent_count = table.data_count();
  header.base = block.block.base;
  header.parent = grant_.parent;
  header.fingerprint = format.fingerprint;
  header.rank = block.block.rank;
  header.rank_count = format.format.rank_count();
  header.attempt = grant_.attempt;
  header.epoch = grant_.epoch;
  const flash::LineageMark mark = context_.lineages->mark(block.block.domain, format.lineage);
  header.domain = mark.domain;
  header.domain_generation = mark.domain_generation;
  header.lineage_generation = mark.lineage_generation;
  header.matrix = static_cast<uint16_t>(matrix_of(scheme));
  header.k = static_cast<uint8_t>(scheme.k);
  header.m = static_cast<uint8_t>(scheme.m);
  if (grant_.spots.count < scheme.width()) header.flags = flash::kFragmentThin;
  header.block_bytes_low = static_cast<uint32_t>(table.block_bytes);
  header.block_bytes_high = static_cast<uint32_t>(table.block_bytes >> 32);
  header.lineage = format.lineage;
  Arena& arena = context_.tier.arena();
  for (uint32_t p = 0; p < scheme.width(); ++p) {
    const uint64_t at = bytes_of(p == 0 ? 0 : (p - 1) * block.header.page_count);
    const Slab& slab = p == 0 ? block.header : block.spare_headers;
    for (uint32_t page = 0; p > 0 && page < block.header.page_count; ++page) {
      std::memcpy(arena.byte_at(slab, at + bytes_of(page)),
                  arena.byte_at(block.header, bytes_of(page)), kPageBytes);
    }
    header.position = static_cast<uint8_t>(p);
    header.role = static_cast<uint8_t>(p < scheme.k ? flash::FragmentRole::kData
                                                    : flash::FragmentRole::kParity);
    std::memcpy(arena.byte_at(slab, at), &header, sizeof(header));
  }
}

void PushOp::start_appends() {
  VARVE_ASSERT(grant_.spots.count >= context_.options.scheme.k, grant_.spots.count);
  // Its append lays out the header that readers of the block in DRAM use.
  VARVE_ASSERT(writes_[0].target != ~0u);
  wait(grant_.spots.count);
  for (FragmentWrite& write : writes_) {
    if (write.target != ~0u) context_.pushes->append(write);
  }
}

void PushOp::append(FragmentWrite& write, AppendSlot& slot) {
  VARVE_ASSERT(stage_ == Stage::kWrite && write.pages > 0);
  TierBlock& block = *grant_.tier_block;
  const ExtentTable& table = grant_.format->tables[block.block.rank];
  Arena& arena = context_.tier.arena();
  std::vector<iovec>& runs = slot.runs;
  runs.resize(write.pages);
  const std::span<iovec> all(runs);
  const uint64_t header_bytes = bytes_of(block.header.page_count);
  const Slab& headers = write.position == 0 ? block.header : block.spare_headers;
  const uint64_t header_at = write.position == 0 ? 0 : (write.position - 1) * header_bytes;
  const uint32_t header_count = arena.pieces(headers, header_at, header_bytes, all);
  uint32_t count = header_count;
  for (uint32_t e = 0; e < block.extent_count; ++e) {
    if (flash::position_at(table, block.block, e) != write.position) continue;
    const Slab& slab = context_.tier.extent(block, e);
    count += arena.pieces(slab, 0, bytes_of(slab.page_count), all.subspan(count));
  }
  runs.resize(count);
  context_.tier.pin(block);
  slot.block = &block;
  slot.write = &write;
  slot.dram_pages = grant_.dram_pages;
  flash::Append& append = slot.append;
  VARVE_ASSERT(append.target == write.target, append.target);
  append.slice = grant_.slice;
  append.pages = write.pages;
  append.header = reinterpret_cast<flash::FragmentHeader*>(arena.byte_at(headers, header_at));
  append.header_pages = std::span<const iovec>(runs.data(), header_count);
  append.runs = runs;
  append.buffer_index = context_.options.buffer_index;
  // Flushed also where nobody waits for it: what the index says is on flash must be there after a
  // power cut, because the next writer of the block is told that it exists.
  append.flush = part_ != nullptr ? flash::FlushBy::kNow : flash::FlushBy::kSoon;
  append.status = Status();
  append.held = false;
  write.pages = 0;  // the reservation is the append's now
  context_.flash.append(append);
}

void PushOp::appended(FragmentWrite& write, Status status) {
  VARVE_ASSERT(stage_ == Stage::kWrite && write.pages == 0);
  if (failure_.ok()) failure_ = status;
  if (!status.ok()) context_.metrics.push_fragments_lost.add();
  completed(Status());
}

void PushOp::written() {
  TierBlock& block = *grant_.tier_block;
  VARVE_ASSERT(block.dirty);
  // What was written is ended by its KILL records, or its generation. The walk of a purge may end
  // the block alone: a lineage without a number dies with any other.
  if (is_purged()) {
    context_.metrics.push_purged.add();
    if (part_ != nullptr) answer(Status::cancelled("purged"));
    return;
  }
  const Scheme scheme = context_.options.scheme;
  const uint32_t needed = scheme.m == 0 ? scheme.k : std::min(grant_.spots.count, scheme.k + 1);
  if (!context_.catalog->settled(block, needed)) {
    context_.metrics.push_lost_writes.add();
    if (failure_.ok()) failure_ = Status::unavailable("its targets have failed");
    if (part_ != nullptr) answer(failure_);
    return;
  }
  block.dirty = false;
  if (block.lent == 0) context_.tier.settle_written(block);
  if (part_ == nullptr) return;
  context_.metrics.push_committed_durable.add();
  answer(Status());
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
  for (FragmentWrite& write : writes_) {
    if (write.pages == 0) continue;
    context_.flash.unreserve(write.target, grant_.slice, write.pages);
    context_.pushes->share_drop(write.target, grant_.dram_pages);
  }
  context_.tier.unpin(*grant_.tier_block);
  PushGroup& group = *grant_.group;
  stage_ = Stage::kReceive;
  context_.pushes->end(*this);
  if (--group.live == 0) context_.pushes->group_end(group);
}

}  // namespace varve
