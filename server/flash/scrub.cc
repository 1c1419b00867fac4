// One pass over the sealed segments of a target, in order; a segment is held like by a reader.
// What changed its place or died while it was read is no rot: the user is asked again before it
// counts.
#include "server/flash/scrub.h"

#include <algorithm>

#include "server/flash/kill.h"

namespace varve::flash {

ScrubOp::ScrubOp(Target& target) : WindowOp(target) {
  entries_.reserve(1024);
  pause_.owner = this;
  pause_.on_fire = [](Timer& timer) {
    static_cast<ScrubOp*>(timer.owner)->completed(Status::ok_status());
  };
}

ScrubOp::~ScrubOp() {
  reactor().cancel(pause_);
}

void ScrubOp::start() {
  duration_ns_ = 0;  // of a pass that runs, too
  if (running()) return stop();
  start_paced(0);
}

void ScrubOp::start_paced(Nanos duration_ns) {
  if (stage_ != Stage::kIdle || target_.draining || !target_.ok()) return;
  VARVE_ASSERT(log_ == nullptr && !pause_.armed());
  duration_ns_ = duration_ns;
  pass_pages_ = 0;
  pass_done_pages_ = 0;
  unpaced_pages_ = 0;
  for (const auto& log : target_.logs) {
    if (log != nullptr) pass_pages_ += log->live_pages();
  }
  slice_ = 0;
  segment_ = 0;
  go(Stage::kSegment);
}

void ScrubOp::run() {
  RunScope scope(*this);
  const Status status = take_failure();
  if (!target_.ok() || target_.draining) return end_pass();
  switch (stage_) {
    case Stage::kIdle:
      return;
    case Stage::kSegment:
      return next_segment();
    case Stage::kFooterRead:
      return take_footer(status);
    case Stage::kEntry:
      return next_entry();
    case Stage::kPause:
      stage_ = Stage::kRead;
      if (const Nanos pause = take_pause_ns(); pause > 0) {
        reactor().arm(pause_, pause);
        return wait(1);
      }
      [[fallthrough]];
    case Stage::kRead:
      if (!must_leave()) return read_window();
      leave_segment();
      return go(Stage::kSegment);
    case Stage::kTake:
      return take_window(status);
  }
}

void ScrubOp::stop() {
  if (!pause_.armed()) return;
  reactor().cancel(pause_);
  completed(Status::ok_status());
}

void ScrubOp::end_pass() {
  if (log_ != nullptr) leave_segment();
  stage_ = Stage::kIdle;
}

// Reclaim chose it, and waits for its last reader.
bool ScrubOp::must_leave() const {
  VARVE_ASSERT(log_ != nullptr && log_->segment(held_).readers > 0, held_);
  return log_->segment(held_).state != SegmentState::kSealed;
}

// One pause for a window's worth of pages, however small the fragments are.
Nanos ScrubOp::take_pause_ns() {
  if (duration_ns_ == 0 || unpaced_pages_ < kWindowPages) return 0;
  unpaced_pages_ -= kWindowPages;
  const uint64_t windows = std::max<uint64_t>(1, pass_pages_ / kWindowPages);
  return std::min<Nanos>(duration_ns_ / windows, kScrubPauseMax);
}

void ScrubOp::next_segment() {
  for (; slice_ < target_.logs.size(); ++slice_, segment_ = 0) {
    SliceLog* log = target_.logs[slice_].get();
    if (log == nullptr || !log->ready) continue;
    for (; segment_ < log->segment_count(); ++segment_) {
      Segment& segment = log->segment(segment_);
      if (segment.state != SegmentState::kSealed || segment.live_pages == 0) continue;
      log_ = log;
      held_ = segment_++;
      ++segment.readers;
      stage_ = Stage::kFooterRead;
      footer_read(*log_, held_);
      return wait(1);
    }
  }
  target_.metrics.scrub_passes.add();
  stage_ = Stage::kIdle;
}

void ScrubOp::leave_segment() {
  Segment& segment = log_->segment(held_);
  VARVE_ASSERT(segment.readers > 0);
  --segment.readers;
  SliceLog& log = *log_;
  log_ = nullptr;
  target_.changed(log);  // reclaim may wait for the last reader
}

void ScrubOp::take_footer(Status status) {
  const Footer footer = footer_take(*log_, held_, status);
  if (footer == Footer::kMore) return wait(1);
  entries_.clear();
  cursor_ = 0;
  if (footer == Footer::kNone) {
    target_.metrics.scrub_rot.add();
    logf(LogLevel::kWarn, "flash",
         "target %u slice %u segment %u: footer does not verify; a restart scans and seals it anew",
         target_.index(), log_->slice(), held_);
  } else {
    for (uint32_t i = 0; i < footer_count(); ++i)
      entries_.push_back(footer_at(i));
  }
  return go(Stage::kEntry);
}

void ScrubOp::next_entry() {
  VARVE_ASSERT(log_ != nullptr && log_->segment(held_).readers > 0, held_);
  for (uint32_t asked = 0; cursor_ < entries_.size() && asked < kAskMax; ++asked, ++cursor_) {
    if (is_kill(entries_[cursor_])) continue;  // what it says stands in the footer too
    info_ = info_of(entries_[cursor_], target_.index(), log_->slice(), held_);
    if (!target_.user.on_live(info_.block, info_.place)) continue;
    done_pages_ = 0;
    return go(Stage::kPause);
  }
  if (cursor_ < entries_.size()) return go(Stage::kEntry);
  leave_segment();
  return go(Stage::kSegment);
}

void ScrubOp::read_window() {
  VARVE_ASSERT(done_pages_ < info_.place.pages, done_pages_);
  window_count_ = std::min(kWindowPages, info_.place.pages - done_pages_);
  stage_ = Stage::kTake;
  read(target_.offset(*log_, held_, info_.place.page + done_pages_), 0, window_count_);
  return wait(1);
}

void ScrubOp::take_window(Status status) {
  if (!status.ok()) return end_entry(status);
  uint32_t skip = 0;
  if (done_pages_ == 0) {
    const Segment& segment = log_->segment(held_);
    const Status begun =
        check_.begin(view(0, window_count_),
                     {segment.nonce, segment.sequence, info_.place.page, info_.place.pages});
    if (!begun.ok()) return end_entry(begun);
    if (check_.block() != info_.block || check_.header().attempt != info_.attempt ||
        check_.header().pages != info_.place.pages) {
      return end_entry(Status::corrupt("fragment differs from its footer"));
    }
    skip = check_.header().header_pages;
  }
  if (skip < window_count_ && !check_.feed(view(skip, window_count_ - skip))) {
    return end_entry(Status::corrupt("extent checksum"));
  }
  done_pages_ += window_count_;
  unpaced_pages_ += window_count_;
  if (done_pages_ < info_.place.pages) return go(Stage::kPause);
  return end_entry(check_.complete() ? Status::ok_status() : Status::corrupt("fragment too long"));
}

void ScrubOp::end_entry(Status status) {
  VARVE_ASSERT(cursor_ < entries_.size(), cursor_);
  pass_done_pages_ += info_.place.pages;
  if (status.ok()) {
    target_.metrics.scrubbed.add();
    target_.metrics.scrubbed_bytes.add(bytes_of(info_.place.pages));
  } else if (target_.user.on_live(info_.block, info_.place)) {
    target_.metrics.scrub_rot.add();
    const DropReason reason = status.code() == Code::kIo ? DropReason::kMedia : DropReason::kRot;
    logf(LogLevel::kError, "flash",
         "%s: block %s rank %u on target %u slice %u segment %u page %u, found by scrub: %s",
         drop_reason_name(reason), short_name(info_.block.base).c_str(), info_.block.rank,
         target_.index(), log_->slice(), held_, info_.place.page, status.what());
    log_->forget_wanted();
    target_.user.on_lost(info_.block, info_.place, reason);
    target_.changed(*log_);
  }
  ++cursor_;
  return go(Stage::kEntry);
}

}  // namespace varve::flash
