// A pull: locate and pin, then credit, pages and extents pair by pair, then give everything back.
//
// run() is woken by any of its completions (credit, an extent that ended, pages, the poll), so it
// is a Task with counters instead of an Op with one count: it starts what it can and returns.
#include "server/op/pull.h"

#include <algorithm>

#include "server/op/lease.h"
#include "server/op/op.h"

namespace varve {

PullOp::PullOp(OpContext& context) : context_(context) {
  items_.reserve(wire::kIdsMax);
  ask_.owner = this;
  ask_.back = [](Message& message) {
    CreditAsk& ask = *static_cast<CreditAsk*>(message.owner);
    static_cast<PullOp*>(ask.owner)->credit_back(ask);
  };
}

void PullOp::begin(PullPart& part) {
  VARVE_ASSERT(part_ == nullptr);
  VARVE_ASSERT(part.format != nullptr);
  VARVE_ASSERT(part.rank < part.format->tables.size(), part.rank);
  part_ = &part;
  table_ = &part.format->tables[part.rank];
  VARVE_ASSERT(part.begin <= part.end, part.begin, part.end);
  VARVE_ASSERT(part.end - part.begin <= wire::kIdsMax);
  VARVE_ASSERT(part.extent_first < part.extent_end, part.extent_first, part.extent_end);
  VARVE_ASSERT(part.extent_end <= table_->extents.size(), part.extent_end);
  stage_ = Stage::kLease;
  extent_ = part.extent_first;
  item_ = 0;
  wanted_ns_ = wanted_of(extent_);
  credit_bytes_ = busy_bytes_ = 0;
  busy_ = 0;
  asking_ = false;
  began_ns_ = context_.reactor.now_ns();
  end_ = Status();
  const auto extents = static_cast<uint16_t>(part.extent_end - part.extent_first);
  items_.assign(part.end - part.begin, Item{.extents_left = extents});
  alive_ = part.end - part.begin;
  context_.reactor.make_ready(*this);
}

void PullOp::run() {
  if (part_ == nullptr) return;  // woken and finished in one turn
  switch (stage_) {
    case Stage::kLease:
      if (end_ = locate(); !end_.ok()) {
        stage_ = Stage::kDrain;
        return finish();
      }
      stage_ = Stage::kFlow;
      [[fallthrough]];
    case Stage::kFlow:
      if (!cut_short() && !start_extents()) return;  // woken when one more may start
      detach_readers();
      context_.pulls->leave_room_queue(*this);
      stage_ = Stage::kDrain;
      [[fallthrough]];
    case Stage::kDrain:
      if (cut_short()) detach_readers();
      if (busy_ > 0 || asking_) return;  // woken by each of them
      return finish();
  }
}

// What the pull reads stays in the index until it ends, whatever its lease does meanwhile (O5).
Status PullOp::locate() {
  if (cut_short()) return end_;
  if (part_->lease_required && !context_.leases->holds(part_->lease, part_->session)) {
    context_.metrics.pull_lease_refused.add();
    part_->lease_over = true;
    return Status::timed_out("the lease is over");
  }
  for (uint32_t i = 0; i < items_.size(); ++i) {
    const std::optional<uint32_t> slot = context_.index.base_slot(block_id(i).base);
    if (!slot) {
      fail_item(i, Code::kUnavailable);
      continue;
    }
    items_[i].base_slot = *slot;
    context_.index.lease_add(*slot);
  }
  return Status();
}

// Starts pairs until all are started (true), or one has to wait.
bool PullOp::start_extents() {
  while (extent_ < part_->extent_end && alive_ > 0) {
    if (items_[item_].code != Code::kOk) {
      next_pair();
      continue;
    }
    if (!may_start(extent_bytes(extent_))) return false;
    const uint32_t index = item_;
    Began began = start_extent(index, extent_);
    if (began == Began::kNoRoom) began = out_of_room(index);
    if (began == Began::kNoRoom || began == Began::kTargetBusy) return false;
    if (began == Began::kStarted) next_pair();
    if (began == Began::kFailed) VARVE_ASSERT(items_[index].code != Code::kOk);
  }
  return true;
}

void PullOp::next_pair() {
  VARVE_ASSERT(extent_ < part_->extent_end, extent_);
  if (++item_ < items_.size()) return;
  item_ = 0;
  ++extent_;
  if (extent_ < part_->extent_end) wanted_ns_ = wanted_of(extent_);
}

// Credit first (O4), then a share of what the shard may have in progress. Whoever waits for these
// does not stand in the queue for pages.
bool PullOp::may_start(uint32_t bytes) {
  PullTable& pulls = *context_.pulls;
  VARVE_ASSERT(bytes > 0 && bytes <= kExtentBytesMax, bytes);
  if (credit_bytes_ < bytes) {
    // One more window keeps what is in progress within its limit.
    const uint64_t others = context_.options.pull_windows_max - 1;
    if (!asking_ && busy_bytes_ <= others * window_bytes()) ask_credit();
    pulls.leave_room_queue(*this);
    return false;
  }
  if (!pulls.has_share(part_->session, bytes)) {
    pulls.leave_room_queue(*this);
    return false;
  }
  if (pulls.has_extent()) return true;
  pulls.wait_for_room(*this);
  return false;
}

// One window: as many of the next pairs as fit, one at least.
void PullOp::ask_credit() {
  const uint64_t window = window_bytes();
  uint64_t bytes = 0;
  uint32_t item = item_;
  for (uint32_t extent = extent_; extent < part_->extent_end;) {
    if (items_[item].code == Code::kOk) {
      const uint64_t more = extent_bytes(extent);
      if (bytes > 0 && bytes + more > window) break;
      bytes += more;
      if (bytes >= window) break;
    }
    if (++item == items_.size()) {
      item = 0;
      ++extent;
    }
  }
  VARVE_ASSERT(bytes > credit_bytes_, bytes, credit_bytes_);
  asking_ = true;
  asked_ns_ = context_.reactor.now_ns();
  ask_.bytes = bytes - credit_bytes_;
  ask_.wanted_ns = wanted_ns_;
  ask_.part = part_;
  ask_.status = Status();
  ask_.message.owner = &ask_;
  ask_.message.deliver = part_->deliver_credit;
  part_->session_reactor->post(ask_.message);
}

void PullOp::credit_back(CreditAsk& ask) {
  VARVE_ASSERT(asking_);
  VARVE_ASSERT(ask.part == part_);
  asking_ = false;
  context_.metrics.pull_stage_credit.record(context_.reactor.now_ns() - asked_ns_);
  if (ask.status.ok()) {
    credit_bytes_ += ask.bytes;
  } else if (end_.ok()) {
    end_ = ask.status;
  }
  context_.reactor.make_ready(*this);
}

PullOp::Began PullOp::start_extent(uint32_t index, uint32_t extent) {
  Item& item = items_[index];
  std::optional<Located> located;
  bool foreign = false;
  TierBlock* block =
      item.block != nullptr ? item.block : find_in_dram(item, index, &located, &foreign);
  if (item.code != Code::kOk) return Began::kFailed;
  if (foreign) return Began::kNoRoom;
  if (block != nullptr && block->state[extent] != ExtentState::kAbsent) {
    launch(index, extent, *block, nullptr, false);  // there, or on its way for someone else
    return Began::kStarted;
  }
  if (block != nullptr && block->doomed) {  // lost or replaced since: its place is another's now
    fail_item(index, Code::kUnavailable);
    return Began::kFailed;
  }
  if (!located) located = context_.index.find(block_id(index));
  if (!located || located->state != FragmentState::kFlash || context_.catalog->is_gone(*located)) {
    fail_item(index, Code::kUnavailable);
    return Began::kFailed;
  }
  PullTable& pulls = *context_.pulls;
  FetchTable& fetches = *context_.fetches;
  const uint32_t target = located->place.target;
  const uint32_t pages = pages_of(extent_bytes(extent));
  uint32_t read_pages = block == nullptr ? located->place.lead_pages : 0;  // extent 0 is in there
  if (block != nullptr || extent != 0) read_pages += pages;
  if (!fetches.has_share(target, read_pages)) {
    context_.metrics.pull_target_waits.add();
    pulls.leave_room_queue(*this);  // woken by the target's next read that ends
    return Began::kTargetBusy;
  }
  if (!pulls.may_take_room(*this) || fetches.available() < 2) return Began::kNoRoom;
  item.read = true;
  if (block == nullptr) {
    block = open_block(index, extent, *located);
    if (block == nullptr) return Began::kNoRoom;
    item.block = block;
    launch(index, extent, *block, extent == 0 ? nullptr : fetches.take(target, pages), true);
  } else {
    if (!context_.tier.take_extent(*block, extent, extent_bytes(extent))) return Began::kNoRoom;
    launch(index, extent, *block, fetches.take(target, pages), false);
  }
  pulls.leave_room_queue(*this);
  return Began::kStarted;
}

// The block in DRAM, pinned for this pull; null when it is only on flash, or not at all (code set),
// or being read by a pull that believes in another format (`foreign`: look again later).
TierBlock* PullOp::find_in_dram(Item& item, uint32_t index, std::optional<Located>* located,
                                bool* foreign) {
  const BlockId id = block_id(index);
  *located = context_.index.find(id);
  if (!located->has_value() || context_.catalog->is_gone(**located)) {
    fail_item(index, Code::kUnavailable);
    return nullptr;
  }
  TierBlock* block = context_.tier.find((*located)->fragment_slot);
  if (block == nullptr) {
    VARVE_ASSERT((*located)->state == FragmentState::kFlash);  // in memory means in DRAM
    if (!fits((*located)->place)) fail_item(index, Code::kInvalid);
    return nullptr;
  }
  VARVE_ASSERT(block->block == id);
  if (block->fingerprint != part_->format->fingerprint) {
    if (block->header_present) {
      fail_item(index, Code::kInvalid);
    } else {
      *foreign = true;  // another pull's belief: its lead read will tell who is wrong
    }
    return nullptr;
  }
  VARVE_ASSERT(block->extent_count == table_->extents.size(), block->extent_count);
  context_.tier.pin(*block);
  item.block = block;
  return block;
}

// Whether a fragment there can be one of this pull's format: what the client says must never decide
// how much of a fragment is read. That it is one, the lead read checks by the fingerprint.
bool PullOp::fits(const flash::Place& place) const {
  const auto extent_count = static_cast<uint32_t>(table_->extents.size());
  const uint32_t lead = flash::header_pages_of(extent_count) + pages_of(extent_bytes(0));
  return place.lead_pages == lead && place.pages == flash::fragment_pages_max_of(*table_);
}

// An empty block with pages for its header, its first extent and the one wanted; the lead read is
// started. Pinned. Null: no room for all of them, and nothing was taken.
TierBlock* PullOp::open_block(uint32_t index, uint32_t extent, const Located& located) {
  const auto extent_count = static_cast<uint32_t>(table_->extents.size());
  TierBlock* block =
      context_.tier.open(block_id(index), located.fragment_slot, extent_count, Budget::kPull);
  if (block == nullptr) return nullptr;
  context_.tier.pin(*block);
  block->fingerprint = part_->format->fingerprint;  // believed; the lead read checks it
  const bool first = context_.tier.take_extent(*block, 0, extent_bytes(0));
  const bool all =
      first && (extent == 0 || context_.tier.take_extent(*block, extent, extent_bytes(extent)));
  if (!all) {
    if (first) context_.tier.extent_read(*block, 0, Status::cancelled("no room"));
    context_.tier.forget(*block);
    context_.tier.unpin(*block);
    return nullptr;
  }
  Fetch* fetch = context_.fetches->take(located.place.target, located.place.lead_pages);
  VARVE_ASSERT(fetch != nullptr);
  context_.fetches->start_lead(*fetch, *block, located.place, part_->format->fingerprint,
                               wanted_ns_);
  return block;
}

void PullOp::launch(uint32_t index, uint32_t extent, TierBlock& block, Fetch* fetch,
                    bool lead_started) {
  ExtentOp* op = context_.pulls->take_extent();
  VARVE_ASSERT(op != nullptr);  // has_extent() was asked
  const uint32_t bytes = extent_bytes(extent);
  VARVE_ASSERT(credit_bytes_ >= bytes, credit_bytes_, bytes);
  credit_bytes_ -= bytes;
  busy_bytes_ += bytes;
  ++busy_;
  ++items_[index].busy;
  extents_.push_back(op);
  context_.pulls->share_add(part_->session, bytes);
  op->begin(ExtentOp::Begin{.pull = this,
                            .part = part_,
                            .item = index,
                            .position = position(index),
                            .block = &block,
                            .extent = extent,
                            .bytes = bytes,
                            .wanted_ns = wanted_ns_,
                            .fetch = fetch,
                            .lead_started = lead_started});
}

// No pages for the next pair. Waits for those that are in use; where none are, idle pins are shed
// and the pair is tried again; where that does not help either, DRAM is too small for it (I8).
PullOp::Began PullOp::out_of_room(uint32_t index) {
  PullTable& pulls = *context_.pulls;
  if (pulls.is_stuck() && pulls.may_take_room(*this)) {
    pulls.shed_all();
    const Began again = start_extent(index, extent_);
    if (again != Began::kNoRoom) return again;
    if (!pulls.is_moving()) {
      fail_item(index, Code::kOverloaded);
      return Began::kFailed;
    }
  }
  pulls.wait_for_room(*this);
  return Began::kNoRoom;
}

void PullOp::extent_done(ExtentOp& op, uint32_t index, uint32_t bytes, uint32_t posted_bytes,
                         Status status) {
  VARVE_ASSERT(busy_ > 0);
  Item& item = items_[index];
  extents_.remove(&op);
  --busy_;
  --item.busy;
  busy_bytes_ -= bytes;
  credit_bytes_ += bytes - posted_bytes;  // posted frames are the session's to account for
  context_.pulls->share_drop(part_->session, bytes);
  if (status.ok()) {
    VARVE_ASSERT(item.extents_left > 0);
    --item.extents_left;
  } else if (!cut_short()) {
    fail_item(index, status.code());
  }
  context_.reactor.make_ready(*this);
}

void PullOp::fail_item(uint32_t index, Code code) {
  VARVE_ASSERT(code != Code::kOk);
  if (items_[index].code != Code::kOk) return;
  items_[index].code = code;
  VARVE_ASSERT(alive_ > 0);
  --alive_;
  context_.metrics.pull_blocks_failed[static_cast<uint32_t>(code)].add();
}

bool PullOp::cut_short() {
  if (!end_.ok()) return true;
  if (part_->cancelled.load(std::memory_order_relaxed)) {
    end_ = Status::cancelled("pull");
  } else if (context_.reactor.now_ns() >= part_->deadline_ns) {
    end_ = Status::timed_out("pull");
  }
  return !end_.ok();
}

// Reads go on for whoever else wants the bytes; this pull only waits for what is on its lanes (I8).
void PullOp::detach_readers() {
  if (!cut_short()) return;
  context_.sends->drop_unwanted();  // FENCED must not wait for the lanes of others
  for (ExtentOp* op = extents_.front(); op != nullptr;) {
    ExtentOp* following = extents_.next(op);
    if (!op->on_lane()) {
      const uint32_t index = op->item();
      const uint32_t bytes = op->bytes();
      extents_.remove(op);
      op->detach();
      --busy_;
      --items_[index].busy;
      busy_bytes_ -= bytes;
      credit_bytes_ += bytes;
      context_.pulls->share_drop(part_->session, bytes);
    }
    op = following;
  }
}

uint32_t PullOp::shed() {
  uint32_t count = 0;
  for (size_t i = items_.size(); i > 0; --i) {
    Item& item = items_[i - 1];
    if (item.block == nullptr || item.busy > 0) continue;
    context_.tier.unpin(*item.block);
    item.block = nullptr;
    ++count;
  }
  return count;
}

void PullOp::finish() {
  VARVE_ASSERT(busy_ == 0 && extents_.empty());
  VARVE_ASSERT(!asking_);
  OpMetrics& metrics = context_.metrics;
  // From the last to the first, so that leaves are older than the prefix they need.
  for (size_t i = items_.size(); i > 0; --i) {
    Item& item = items_[i - 1];
    const bool whole = item.code == Code::kOk && item.extents_left == 0;
    if (item.code == Code::kOk && !whole) item.code = end_.ok() ? Code::kInternal : end_.code();
    part_->codes[position(static_cast<uint32_t>(i - 1))] = static_cast<uint8_t>(item.code);
    if (whole) metrics.pull_blocks_ok.add();
    if (item.block != nullptr) {
      const AdmissionQuestion question{.bytes = table_->block_bytes, .depth_known = 0};
      const bool droppable = item.read && !item.block->dirty && !item.block->doomed;
      if (droppable && context_.admission.admit(question) == Admit::kNo) {
        context_.tier.forget(*item.block);
      }
      context_.tier.unpin(*item.block);
    }
    if (item.base_slot != ~0u) {
      context_.eviction.touch(item.base_slot);
      context_.index.lease_drop(item.base_slot);
    }
  }
  if (end_.code() == Code::kCancelled) metrics.pull_cancelled.add();
  if (end_.code() == Code::kTimedOut) metrics.pull_timed_out.add();
  metrics.pull_seconds.record(context_.reactor.now_ns() - began_ns_);
  PullPart& part = *part_;
  part.credit_unused_bytes = credit_bytes_;
  part_ = nullptr;
  context_.pulls->end(*this);
  part_back(part, end_);
}

const char* PullOp::where() const {
  if (busy_ > 0) return "extents are being read or sent";
  if (asking_) return "waits for credit";
  return stage_ == Stage::kFlow ? "waits for pages" : "waits for its turn";
}

BlockId PullOp::block_id(uint32_t item) const {
  return BlockId{.base = part_->request->ids[position(item)], .rank = part_->rank};
}

uint32_t PullOp::position(uint32_t item) const {
  return part_->request->positions[part_->begin + item];
}

uint64_t PullOp::window_bytes() const {
  return std::min<uint64_t>(context_.options.pull_window_bytes, kExtentBytesMax);
}

uint32_t PullOp::extent_bytes(uint32_t extent) const {
  return table_->extents[extent].bytes;
}

Nanos PullOp::wanted_of(uint32_t extent) const {
  const uint32_t layers =
      table_->extents[extent].layer_first - table_->extents[part_->extent_first].layer_first;
  return part_->first_wanted_ns + part_->layer_ns * layers;
}

}  // namespace varve
