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
  left_out_.reserve(kLeftOutMax);
  ask_.owner = this;
  ask_.back = [](Message& message) {
    CreditAsk& ask = *static_cast<CreditAsk*>(message.owner);
    static_cast<PullOp*>(ask.owner)->credit_back(ask);
  };
}

void PullOp::begin(PullPart& part) {
  VARVE_ASSERT(part_ == nullptr);
  cursor_.begin(part);
  part_ = &part;
  table_ = &part.format->tables[part.rank];
  stage_ = Stage::kLease;
  const bool wants = part.wants != nullptr;
  const auto range = static_cast<uint16_t>(wants ? 0 : part.extent_end - part.extent_first);
  items_.assign(part.end - part.begin, Item{.extents_left = range});
  alive_ = part.end - part.begin;
  for (uint32_t w = 0; w < part.want_count; ++w) {
    const uint32_t item = cursor_.item_at(part.wants[w].block);
    VARVE_ASSERT(item < items_.size(), part.wants[w].block);
    VARVE_ASSERT(part.wants[w].extent < table_->count(), part.wants[w].extent);
    ++items_[item].extents_left;
  }
  left_out_.clear();
  left_out_next_ = 0;
  credit_bytes_ = busy_bytes_ = 0;
  busy_ = 0;
  hold_until_ns_ = 0;
  asking_ = held_back_ = false;
  began_ns_ = context_.reactor.now_ns();
  end_ = Status();
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
    const std::optional<uint32_t> slot = context_.index.base_slot(part_->domain, block_id(i).base);
    if (!slot || !context_.catalog->serves(block_id(i).base)) {
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
  PullPair pair;
  while (alive_ > 0 && cursor_.next(&pair)) {
    Item& item = items_[pair.item];
    if (item.code != Code::kOk) {
      cursor_.pop();
      continue;
    }
    if (cursor_.take_fence(pair)) {
      --item.extents_left;
      cursor_.pop();
      continue;
    }
    if (hold_back() || !may_start(extent_bytes(pair.extent))) return false;
    Began began = start_extent(pair);
    if (began == Began::kNoRoom) began = out_of_room(pair);
    if (began == Began::kNoRoom || began == Began::kTargetBusy) return false;
    if (began == Began::kStarted) begun();
    if (began == Began::kFailed) VARVE_ASSERT(item.code != Code::kOk);
  }
  context_.pulls->leave_room_queue(*this);
  detach_ahead();
  // What is in progress may have to begin again.
  return alive_ == 0 || busy_ == 0;
}

void PullOp::fence(FencePart& part) {
  const uint32_t index = cursor_.item_at(part.position);
  ExtentOp* op = extents_.front();
  while (op != nullptr && (op->ahead() || op->item() != index || op->extent() != part.extent))
    op = extents_.next(op);
  if (op != nullptr && op->with_session()) return op->fence(part);
  const PullCursor::Fence fence =
      op != nullptr ? PullCursor::Fence::kPast : cursor_.fence({index, part.extent});
  if (op != nullptr) fenced(*op);
  if (fence == PullCursor::Fence::kDropped) --items_[index].extents_left;
  // Then nothing of this block is begun any more.
  if (fence == PullCursor::Fence::kFull) fail_item(index, Code::kOverloaded);
  context_.reactor.make_ready(*this);
  part_back(part, Status());
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
  if (!pulls.has_share(*part_, bytes)) {
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
  cursor_.for_each([&](PullPair pair) {  // false: the window is full
    if (items_[pair.item].code != Code::kOk) return true;
    const uint64_t more = extent_bytes(pair.extent);
    if (bytes > 0 && bytes + more > window) return false;
    bytes += more;
    return bytes < window;
  });
  VARVE_ASSERT(bytes > credit_bytes_, bytes, credit_bytes_);
  asking_ = true;
  asked_ns_ = context_.reactor.now_ns();
  ask_.bytes = bytes - credit_bytes_;
  ask_.wanted_ns = wanted_ns();
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

PullOp::Began PullOp::start_extent(PullPair pair) {
  const auto [index, extent] = pair;
  Item& item = items_[index];
  std::optional<Located> located;
  bool foreign = false;
  TierBlock* block =
      item.block != nullptr ? item.block : find_in_dram(item, index, &located, &foreign);
  if (item.code != Code::kOk) return Began::kFailed;
  if (foreign) return Began::kNoRoom;
  if (block != nullptr && block->purged) {
    fail_item(index, Code::kUnavailable);
    return Began::kFailed;
  }
  const ExtentState state = block == nullptr ? ExtentState::kAbsent : block->state[extent];
  if (state == ExtentState::kPresent || state == ExtentState::kReading) {
    launch(pair, *block, nullptr, false, As::kSent);  // there, or on its way for someone else
    return Began::kStarted;
  }
  if (block != nullptr && block->doomed) {
    if (!block->header_present && context_.options.scheme.m > 0 && item.again < kAgainMax) {
      ++item.again;  // another pull's read of the header failed, before this one had begun
      context_.tier.unpin(*block);
      item.block = nullptr;
      return start_extent(pair);
    }
    fail_item(index, Code::kUnavailable);  // lost or replaced since: its place is another's now
    return Began::kFailed;
  }
  if (!located) located = context_.index.find(block_id(index));
  if (!located || located->state != BlockState::kFlash || context_.catalog->is_gone(*located)) {
    fail_item(index, Code::kUnavailable);
    return Began::kFailed;
  }
  const uint16_t usable = context_.catalog->usable(*located);
  const uint32_t holder = holder_of(pair);
  const bool slow = (usable >> holder & 1) == 0 && may_leave_out(pair);
  const bool lost = state == ExtentState::kHeld || !is_readable(pair) || slow;
  if (lost && block != nullptr) {
    launch(pair, *block, nullptr, false, As::kLost);
    return Began::kStarted;
  }
  const uint32_t lead = block == nullptr ? lead_of(pair, usable) : holder;
  const flash::Place place = context_.index.place_of(*located, lead);
  if (block == nullptr && !fits(block_id(index), lead, place)) {
    fail_item(index, Code::kInvalid);
    return Began::kFailed;
  }
  PullTable& pulls = *context_.pulls;
  FetchTable& fetches = *context_.fetches;
  const bool own_read =
      !lost && (block != nullptr || extent != first_extent(block_id(index), lead));
  const uint32_t pages = pages_of(extent_bytes(extent));
  // The header from one that is not slow, where the extent itself must come from one that is.
  const uint32_t own_target =
      own_read ? context_.index.place_of(*located, holder).target : uint32_t{place.target};
  const bool one = own_target == place.target;
  const uint32_t lead_pages = block == nullptr ? place.lead_pages : 0;
  if (!fetches.has_share(place.target, lead_pages + (own_read && one ? pages : 0)) ||
      (!one && !fetches.has_share(own_target, pages))) {
    context_.metrics.pull_target_waits.add();
    pulls.leave_room_queue(*this);  // woken by the target's next read that ends
    return Began::kTargetBusy;
  }
  if (!pulls.may_take_room(*this) || fetches.available() < 2) return Began::kNoRoom;
  item.read = true;
  const bool opened = block == nullptr;
  if (opened) {
    block = open_block(pair, *located, lead, lost);
    if (block == nullptr) return Began::kNoRoom;
    item.block = block;
  } else if (!context_.tier.take_extent(*block, extent, extent_bytes(extent))) {
    return Began::kNoRoom;
  }
  launch(pair, *block, own_read ? fetches.take(own_target, pages) : nullptr, opened,
         lost ? As::kLost : As::kSent);
  pulls.leave_room_queue(*this);
  return Began::kStarted;
}

// The fragment whose header is read: the one that holds the extent, else one that holds any. Of k
// fragments that may be read one does.
uint32_t PullOp::lead_of(PullPair pair, uint16_t usable) const {
  const BlockId id = block_id(pair.item);
  const uint32_t holder = holder_of(pair);
  if ((usable >> holder & 1) != 0) return holder;
  const uint32_t width = context_.options.scheme.width();
  uint32_t lead = 0;
  while (lead < width && ((usable >> lead & 1) == 0 || first_extent(id, lead) == table_->count()))
    ++lead;
  VARVE_ASSERT(lead < width, usable);
  return lead;
}

// The first extent that the fragment of a position holds; table_->count(): none.
uint32_t PullOp::first_extent(const BlockId& id, uint32_t position) const {
  uint32_t extent = 0;
  while (extent < table_->count() && flash::position_at(*table_, id, extent) != position)
    ++extent;
  return extent;
}

// The position that holds it.
uint32_t PullOp::holder_of(PullPair pair) const {
  return flash::position_at(*table_, block_id(pair.item), pair.extent);
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
  TierBlock* block = context_.tier.find((*located)->block_slot);
  if (block == nullptr) {
    VARVE_ASSERT((*located)->state == BlockState::kFlash);  // in memory means in DRAM
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
  VARVE_ASSERT(block->extent_count == table_->count(), block->extent_count);
  if (is_outlived(*block, **located)) {
    context_.metrics.pull_blocks_outlived.add();
    context_.tier.forget(*block);
    return nullptr;
  }
  context_.tier.pin(*block);
  item.block = block;
  return block;
}

// A device keeps some of its extents, maybe for ever, which can be read elsewhere by now, and
// nobody uses the rest: the block is read anew, in other pages.
bool PullOp::is_outlived(const TierBlock& block, const Located& located) const {
  if (block.held_count == 0 || block.pins > block.held_count) return false;
  VARVE_ASSERT(block.pins == block.held_count, block.pins);  // each is its read's
  const uint16_t usable = context_.catalog->usable(located);
  for (uint32_t e = 0; e < block.extent_count; ++e) {
    if (block.state[e] != ExtentState::kHeld) continue;
    if ((usable >> flash::position_at(*table_, block.block, e) & 1) != 0) return true;
  }
  return false;
}

// Whether a fragment there can be one of this pull's format: what the client says must never decide
// how much of a fragment is read. That it is one, the lead read checks by the fingerprint.
bool PullOp::fits(const BlockId& id, uint32_t position, const flash::Place& place) const {
  const uint32_t first = first_extent(id, position);
  const uint32_t first_pages = first == table_->count() ? 0 : pages_of(extent_bytes(first));
  return place.lead_pages == flash::header_pages_of(table_->count()) + first_pages &&
         place.pages == flash::fragment_pages_of(*table_, id, position);
}

// An empty block with pages for its header, the first extent of the fragment it is read from, and
// the one wanted; the lead read is started. Pinned. Null: no room for all of them, and nothing was
// taken.
TierBlock* PullOp::open_block(PullPair pair, const Located& located, uint32_t lead, bool lost) {
  const BlockId id = block_id(pair.item);
  TierBlock* block = context_.tier.open(id, located.block_slot, table_->count(),
                                        table_->data_count(), Budget::kPull);
  if (block == nullptr) return nullptr;
  context_.tier.pin(*block);
  block->fingerprint = part_->format->fingerprint;  // believed; the lead read checks it
  const uint32_t first = first_extent(id, lead);
  VARVE_ASSERT(first < table_->count(), lead);
  block->lead_extent = first;
  const bool own = !lost && pair.extent != first;
  const bool has_first = context_.tier.take_extent(*block, first, extent_bytes(first));
  const bool all = has_first && (!own || context_.tier.take_extent(*block, pair.extent,
                                                                   extent_bytes(pair.extent)));
  if (!all) {
    if (has_first) context_.tier.extent_read(*block, first, Status::cancelled("no room"));
    context_.tier.forget(*block);
    context_.tier.unpin(*block);
    return nullptr;
  }
  const flash::Place place = context_.index.place_of(located, lead);
  Fetch* fetch = context_.fetches->take(place.target, place.lead_pages);
  VARVE_ASSERT(fetch != nullptr);
  context_.fetches->start_lead(*fetch, *block, place, part_->format->fingerprint, wanted_ns());
  return block;
}

void PullOp::launch(PullPair pair, TierBlock& block, Fetch* fetch, bool lead_started, As as) {
  ExtentOp* op = context_.pulls->take_extent();
  VARVE_ASSERT(op != nullptr);  // has_extent() was asked
  op->begin(ExtentOp::Begin{.pull = this,
                            .part = part_,
                            .item = pair.item,
                            .position = cursor_.position(pair.item),
                            .block = &block,
                            .extent = pair.extent,
                            .fragment = holder_of(pair),
                            .bytes = extent_bytes(pair.extent),
                            .wanted_ns = as == As::kAhead ? part_->first_wanted_ns : wanted_ns(),
                            .fetch = fetch,
                            .lead_started = lead_started,
                            .lost = as == As::kLost,
                            .ahead = as == As::kAhead});
  const uint32_t bytes = op->credit_bytes();
  VARVE_ASSERT(credit_bytes_ >= bytes, credit_bytes_, bytes);
  credit_bytes_ -= bytes;
  busy_bytes_ += bytes;
  ++busy_;
  ++items_[pair.item].busy;
  extents_.push_back(op);
  context_.pulls->share_add(*part_, bytes);
}

// No pages for the next pair. Waits for those that are in use; where none are, idle pins are shed
// and the pair is tried again; where that does not help either, DRAM is too small for it (I8).
PullOp::Began PullOp::out_of_room(PullPair pair) {
  PullTable& pulls = *context_.pulls;
  if (pulls.is_stuck() && pulls.may_take_room(*this)) {
    pulls.shed_all();
    const Began again = start_extent(pair);
    if (again != Began::kNoRoom) return again;
    if (!pulls.is_moving()) {
      fail_item(pair.item, Code::kOverloaded);
      return Began::kFailed;
    }
  }
  pulls.wait_for_room(*this);
  return Began::kNoRoom;
}

void PullOp::extent_done(ExtentOp& op, PullPair pair, uint32_t bytes, uint32_t posted_bytes,
                         Status status, bool not_read) {
  VARVE_ASSERT(busy_ > 0);
  Item& item = items_[pair.item];
  extents_.remove(&op);
  --busy_;
  --item.busy;
  busy_bytes_ -= bytes;
  credit_bytes_ += bytes - posted_bytes;  // posted frames are the session's to account for
  context_.pulls->share_drop(*part_, bytes);
  const std::optional<Located> located = context_.index.find(block_id(pair.item));
  const bool wrong_asker = status.code() == Code::kInvalid;
  if (status.ok()) {
    VARVE_ASSERT(item.extents_left > 0);
    --item.extents_left;
  } else if (!cut_short() && not_read && !wrong_asker && item.again < kAgainMax && located &&
             context_.options.scheme.m > 0 && !context_.catalog->is_gone(*located)) {
    // What was left out is read next time, unless one more fragment goes again: no try of the
    // block's, of which any number may wait. In pages that a device keeps it is not.
    const bool kept = item.block != nullptr && item.block->state[pair.extent] == ExtentState::kHeld;
    if (kept) ++item.again;
    if (item.block != nullptr && item.block->doomed) {  // told to the first of those that waited
      ++item.again;
      context_.tier.unpin(*item.block);
      item.block = nullptr;
    }
    cursor_.begin_again(pair);
  } else if (!cut_short()) {
    const bool purged =
        status.code() == Code::kCancelled || (item.block != nullptr && item.block->purged);
    fail_item(pair.item, purged ? Code::kUnavailable : status.code());
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

void PullOp::fenced(ExtentOp& op) {
  Item& item = items_[op.item()];
  VARVE_ASSERT(item.extents_left > 0);
  --item.extents_left;
  detach(op);
  context_.reactor.make_ready(*this);
}

// Its read goes on for whoever else wants the bytes; of this pull nothing is sent any more.
void PullOp::detach(ExtentOp& op) {
  VARVE_ASSERT(!op.with_session() && busy_ > 0);
  const uint32_t bytes = op.credit_bytes();
  --items_[op.item()].busy;
  extents_.remove(&op);
  op.detach();
  --busy_;
  busy_bytes_ -= bytes;
  credit_bytes_ += bytes;
  context_.pulls->share_drop(*part_, bytes);
}

// The pull only waits for what is on its lanes (I8).
void PullOp::detach_readers() {
  if (!cut_short()) return;
  context_.sends->drop_unwanted();  // FENCED must not wait for the lanes of others
  for (ExtentOp* op = extents_.front(); op != nullptr;) {
    ExtentOp* following = extents_.next(op);
    if (!op->with_session()) detach(*op);
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
    part_->codes[cursor_.position(static_cast<uint32_t>(i - 1))] = static_cast<uint8_t>(item.code);
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
  return BlockId{.base = part_->request->ids[cursor_.position(item)],
                 .rank = part_->rank,
                 .domain = part_->domain};
}

uint64_t PullOp::window_bytes() const {
  return std::min<uint64_t>(context_.options.pull_window_bytes, kExtentBytesMax);
}

uint32_t PullOp::extent_bytes(uint32_t extent) const {
  return table_->bytes_at(extent);
}

}  // namespace varve
