// All pulls of a shard: who waits for pages in which order, what one session may have in progress,
// and the poll that lets waiting pulls see their cancel flag and deadline.
//
// The queue for pages is by the time the next extent is wanted (least slack first). Only its front
// may take pages while it is not empty, so that a stream of small pulls cannot starve a large one.
#include <algorithm>

#include "server/op/op.h"
#include "server/op/pull.h"

namespace varve {

namespace {

constexpr uint32_t frames_of(uint32_t bytes) {
  return (bytes + kPayloadBytesMax - 1) / kPayloadBytesMax;
}

}  // namespace

PullTable::PullTable(OpContext& context)
    : context_(context),
      pulls_(context.options.pulls_max, context),
      extents_(context.options.extents_max, context) {
  shares_.reserve(context.options.pulls_max);
  woken_.reserve(context.options.pulls_max);
  const uint64_t by_sends = uint64_t{context.options.data_sends_max} * kPayloadBytesMax;
  shared_bytes_max_ = std::min(by_sends, context.tier.limit_bytes(Budget::kPull));
  poll_.owner = this;
  poll_.on_fire = [](Timer& timer) { static_cast<PullTable*>(timer.owner)->poll(); };
}

PullTable::~PullTable() {
  context_.reactor.cancel(poll_);
}

void PullTable::begin(PullPart& part) {
  context_.metrics.pull_requests.add();
  PullOp* op = pulls_.take();
  if (op == nullptr) {
    for (uint32_t i = part.begin; i < part.end; ++i) {
      part.codes[part.request->positions[i]] = static_cast<uint8_t>(Code::kOverloaded);
    }
    context_.metrics.pull_blocks_failed[static_cast<uint32_t>(Code::kOverloaded)].add(part.end -
                                                                                      part.begin);
    return part_back(part, Status::overloaded("pulls"));
  }
  active_.push_back(op);
  if (!poll_.armed()) context_.reactor.arm(poll_, context_.options.cancel_poll_ns);
  context_.metrics.pulls_live.set(live());
  op->begin(part);
}

void PullTable::end(PullOp& op) {
  leave_room_queue(op);
  active_.remove(&op);
  pulls_.give(&op);
  if (active_.empty()) context_.reactor.cancel(poll_);
  context_.metrics.pulls_live.set(live());
  room_given();
}

// A pull that is over has nothing left to send, and its part may be another's by now.
void PullTable::fence(FencePart& part) {
  context_.metrics.pull_fences.add();
  for (PullOp* op = active_.front(); op != nullptr; op = active_.next(op)) {
    if (&op->part() == part.pull && op->part().number == part.number) return op->fence(part);
  }
  part_back(part, Status());
}

void PullTable::give_extent(ExtentOp& op) {
  extents_.give(&op);
  context_.metrics.extents_live.set(extents_live());
  room_given();
}

bool PullTable::has_share(const PullPart& part, uint32_t bytes) {
  const Share* share = share_of(part);
  if (share == nullptr) return true;
  const uint64_t bytes_left = shared_bytes_max_ - std::min(shared_bytes_max_, shared_bytes_);
  const uint32_t frames_max = context_.options.data_sends_max;
  const uint32_t frames_left = frames_max - std::min(frames_max, shared_frames_);
  const bool has = share->bytes + bytes <= bytes_left / 2 &&
                   share->frames + frames_of(bytes) <= frames_left / 2 &&
                   share->extents < extents_.available() / 2;
  share_wanted_ = share_wanted_ || !has;
  return has;
}

PullTable::Share* PullTable::share_of(const PullPart& part) {
  for (Share& share : shares_) {
    if (share.session == part.session && share.wants == (part.wants != nullptr)) return &share;
  }
  return nullptr;
}

void PullTable::share_add(const PullPart& part, uint32_t bytes) {
  Share* share = share_of(part);
  if (share == nullptr) {
    VARVE_ASSERT(shares_.size() < shares_.capacity());  // at most one per pull
    shares_.push_back(Share{.session = part.session, .wants = part.wants != nullptr});
    share = &shares_.back();
  }
  share->bytes += bytes;
  share->frames += frames_of(bytes);
  shared_bytes_ += bytes;
  shared_frames_ += frames_of(bytes);
  ++share->extents;
  context_.metrics.extents_live.set(extents_live());
}

void PullTable::share_drop(const PullPart& part, uint32_t bytes) {
  Share* share = share_of(part);
  VARVE_ASSERT(share != nullptr);
  VARVE_ASSERT(share->bytes >= bytes && share->extents > 0, share->bytes, bytes);
  share->bytes -= bytes;
  share->frames -= frames_of(bytes);
  shared_bytes_ -= bytes;
  shared_frames_ -= frames_of(bytes);
  if (--share->extents == 0) {
    VARVE_ASSERT(share->bytes == 0, share->bytes);
    *share = shares_.back();
    shares_.pop_back();
  }
  if (!share_wanted_) return;
  share_wanted_ = false;
  wake_all();  // less in progress is a larger share for everybody
}

bool PullTable::may_take_room(const PullOp& op) const {
  return room_.empty() || room_.front() == &op;
}

void PullTable::wait_for_room(PullOp& op) {
  RoomHook& hook = op;
  if (hook.linked()) return;
  PullOp* after = room_.back();
  while (after != nullptr && after->wanted_ns() > op.wanted_ns())
    after = room_.previous(after);
  room_.insert_after(after, &op);
  context_.metrics.pull_room_waits.add();
  room_given();  // the front looks again: it may be stuck without anything in progress
}

void PullTable::leave_room_queue(PullOp& op) {
  RoomHook& hook = op;
  if (!hook.linked()) return;
  room_.remove(&op);
  room_given();
}

void PullTable::room_given() {
  if (!room_.empty()) context_.reactor.make_ready(*room_.front());
}

bool PullTable::is_tight() const {
  return !room_.empty() ||
         context_.tier.used_bytes(Budget::kPull) * 2 > context_.tier.limit_bytes(Budget::kPull);
}

bool PullTable::is_moving() const {
  return extents_.used() > 0 || context_.fetches->live() > 0;
}

bool PullTable::is_stuck() const {
  return !is_moving() || reading_bytes_ * 4 < context_.tier.used_bytes(Budget::kPull);
}

void PullTable::shed_all() {
  uint32_t count = 0;
  for (PullOp* op = active_.front(); op != nullptr; op = active_.next(op))
    count += op->shed();
  if (count > 0) context_.metrics.pull_sheds.add(count);
}

// Least slack first: what became free is taken in this order.
void PullTable::wake_all() {
  woken_.clear();
  for (PullOp* op = active_.front(); op != nullptr; op = active_.next(op))
    woken_.push_back(op);
  std::stable_sort(woken_.begin(), woken_.end(), [](const PullOp* a, const PullOp* b) {
    return a->wanted_ns() < b->wanted_ns();
  });
  for (PullOp* op : woken_)
    context_.reactor.make_ready(*op);
}

// A pull that waits for a read, pages or credit would otherwise not see its flag, its deadline or
// that it held back later layers for long enough.
void PullTable::poll() {
  for (PullOp* op = active_.front(); op != nullptr; op = active_.next(op)) {
    if (op->cut_short() || op->held_back()) context_.reactor.make_ready(*op);
  }
  context_.fetches->watch();
  room_given();
  if (!active_.empty()) context_.reactor.arm(poll_, context_.options.cancel_poll_ns);
}

uint32_t PullTable::watch(Nanos now_ns) {
  uint32_t count = 0;
  for (PullOp* op = active_.front(); op != nullptr; op = active_.next(op)) {
    const PullPart& part = op->part();
    if (part.deadline_ns == kNever || now_ns < part.deadline_ns + context_.options.overdue_ns) {
      continue;
    }
    ++count;
    context_.metrics.pull_overdue.add();
    logf(LogLevel::kWarn, "op", "pull of session %016llx is %llu ms past its deadline: %s",
         static_cast<unsigned long long>(part.session),
         static_cast<unsigned long long>((now_ns - part.deadline_ns) / kMillisecond), op->where());
  }
  return count;
}

}  // namespace varve
