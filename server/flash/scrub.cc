// One pass over the sealed segments of a target, in order; a segment is held like by a reader.
// What changed its place or died while it was read is no rot: the user is asked again before it
// counts.
#include "server/flash/scrub.h"

#include <algorithm>

namespace varve::flash {

ScrubOp::ScrubOp(Target& target) : WindowOp(target) {
  entries_.reserve(1024);
}

void ScrubOp::start() {
  if (stage_ != Stage::kIdle) return;
  slice_ = 0;
  segment_ = 0;
  go(Stage::kSegment);
}

void ScrubOp::run() {
  RunScope scope(*this);
  const Status status = take_failure();
  if (!target_.ok()) {
    if (log_ != nullptr) leave_segment();
    stage_ = Stage::kIdle;
    return;
  }
  switch (stage_) {
    case Stage::kIdle:
      return;
    case Stage::kSegment:
      return next_segment();
    case Stage::kFooterRead:
      return take_footer(status);
    case Stage::kEntry:
      return next_entry();
    case Stage::kRead:
      return read_window();
    case Stage::kTake:
      return take_window(status);
  }
}

void ScrubOp::next_segment() {
  for (; slice_ < target_.logs.size(); ++slice_, segment_ = 0) {
    SliceLog* log = target_.logs[slice_].get();
    if (log == nullptr) continue;
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
  for (uint32_t asked = 0; cursor_ < entries_.size() && asked < kAskMax; ++asked, ++cursor_) {
    info_ = info_of(entries_[cursor_], target_.index(), log_->slice(), held_);
    if (!target_.user.on_live(info_.block, info_.place)) continue;
    done_pages_ = 0;
    return go(Stage::kRead);
  }
  if (cursor_ < entries_.size()) return go(Stage::kEntry);
  leave_segment();
  return go(Stage::kSegment);
}

void ScrubOp::read_window() {
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
  if (done_pages_ < info_.place.pages) return go(Stage::kRead);
  return end_entry(check_.complete() ? Status::ok_status() : Status::corrupt("fragment too long"));
}

void ScrubOp::end_entry(Status status) {
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
    target_.user.on_lost(info_.block, info_.place, reason);
  }
  ++cursor_;
  return go(Stage::kEntry);
}

}  // namespace varve::flash
