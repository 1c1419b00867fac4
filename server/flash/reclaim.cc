// Empties and erases segments, one victim at a time; the stages are in the order of a victim's end.
// The victim stays readable until its last reader is gone; it is zeroed only after the copies were
// flushed, so a crash in between finds each fragment twice and never not at all.
#include "server/flash/reclaim.h"

#include <algorithm>

#include "server/flash/kill.h"

namespace varve::flash {

ReclaimOp::ReclaimOp(Target& target, SegmentWriter& writer) : WindowOp(target), writer_(writer) {
  entries_.reserve(1024);
  header_.owner = this;
  header_.on_done = [](HeaderWaiter& waiter, Status status) {
    static_cast<ReclaimOp*>(waiter.owner)->completed(status);
  };
}

void ReclaimOp::wake() {
  if (stage_ == Stage::kIdle) return go(Stage::kPick);
  if (stage_ == Stage::kReaders) again();
}

void ReclaimOp::run() {
  RunScope scope(*this);
  const Status status = take_failure();
  if (!target_.ok()) {
    stage_ = Stage::kIdle;
    return;
  }
  switch (stage_) {
    case Stage::kIdle:
      return;
    case Stage::kPick:
      return pick();
    case Stage::kChoose:
      return choose();
    case Stage::kFooterRead:
      return take_footer(status);
    case Stage::kEntries:
      return entries();
    case Stage::kCopyRead:
      return copy_read();
    case Stage::kCopyTake:
      return copy_take(status);
    case Stage::kCopyWritten:
      copied_pages_ += window_count_;
      if (copied_pages_ < from_.place.pages) return go(Stage::kCopyRead);
      stage_ = Stage::kCopied;
      return writer_.header_written(*io_, header_) ? again() : wait(1);
    case Stage::kCopied:
      return copied();
    case Stage::kCopyFlushed:
      copied_any_ = false;
      return go(Stage::kReaders);
    case Stage::kReaders:
      return readers();
    case Stage::kFooterZeroed:
      stage_ = Stage::kZeroed;
      zero_page(target_.offset(*log_, victim_, 0));
      return wait(1);
    case Stage::kZeroed:
      stage_ = Stage::kErased;
      flush();
      return wait(1);
    case Stage::kErased:
      return erased();
    case Stage::kDiscarded:
      log_->erased(victim_);
      target_.changed(*log_);
      return go(Stage::kChoose);
  }
}

bool ReclaimOp::wants(const Target& target, const SliceLog& log) {
  if (target.draining || !target.ok() || !log.ready) return false;
  return log.room_refused || (!log.stalled() && log.free_count() < log.low_water());
}

void ReclaimOp::pick() {
  const auto slices = static_cast<uint32_t>(target_.logs.size());
  for (uint32_t i = 0; i < slices; ++i) {  // round robin: one busy slice does not starve others
    SliceLog* log = target_.logs[(next_slice_ + i) % slices].get();
    if (log == nullptr || !wants(target_, *log)) continue;
    next_slice_ = (next_slice_ + i + 1) % slices;
    log_ = log;
    asks_ = 0;
    fruitless_ = 0;
    free_best_ = log->free_count();
    return go(Stage::kChoose);
  }
  SliceLog* any = log_;
  for (size_t i = 0; any == nullptr && i < target_.logs.size(); ++i)
    any = target_.logs[i].get();
  log_ = nullptr;
  stage_ = Stage::kIdle;
  if (any != nullptr) target_.changed(*any);  // a drain may have waited for us
}

void ReclaimOp::choose() {
  VARVE_ASSERT(log_ != nullptr);
  if (!wants(target_, *log_)) return go(Stage::kPick);
  pressed_ = log_->room_refused || log_->free_count() <= log_->kept_free();
  if (log_->room_refused && log_->free_count() > log_->kept_free()) {
    log_->room_refused = false;  // whoever was refused finds a free segment now
    return go(Stage::kChoose);
  }
  if (log_->stalled()) {
    ask();
    return log_->stalled() ? give_up() : go(Stage::kChoose);
  }
  if (log_->free_count() > free_best_) {
    free_best_ = log_->free_count();
    fruitless_ = 0;
  }
  const std::optional<uint32_t> victim = log_->victim();
  const uint32_t usable = target_.geometry.fragment_pages_max();
  const uint32_t gain = victim.has_value() ? log_->gain(log_->segment(*victim)) : 0;
  // Fragments of many sizes may not pack better than they lie: then only eviction makes room.
  const bool little = gain < std::max(1u, usable / 4) || fruitless_ >= kFruitlessAsk;
  if (little && asks_ < kAsksMax && ask()) {
    fruitless_ = 0;
    return go(Stage::kChoose);
  }
  const uint32_t least = std::max(1u, pressed_ ? usable / 16 : usable / 4);
  if (gain < least || ++fruitless_ > kFruitlessMax) return give_up();
  asks_ = 0;
  victim_ = *victim;
  log_->reclaiming(victim_);
  entries_.clear();
  cursor_ = 0;
  if (log_->segment(victim_).live_pages == 0) return emptied();
  stage_ = Stage::kFooterRead;
  footer_read(*log_, victim_);
  return wait(1);
}

// One page is wanted, which a sixteenth of a segment gives: it ends the stall.
bool ReclaimOp::for_record() const {
  return log_->room_refused && log_->room_refused_pages == 1;
}

// True: the user released something, so the choice may be better now.
bool ReclaimOp::ask() {
  ++asks_;
  const uint64_t before = log_->live_pages();
  const uint32_t usual = target_.geometry.segment_pages / (for_record() ? 16 : 4);
  const uint32_t pages = std::max(usual, log_->room_refused_pages);
  target_.metrics.room_wanted.add();
  target_.user.on_room_wanted(target_.index(), log_->slice(), pages);
  return log_->live_pages() < before;
}

// Nothing to gain now; release() and the next refusal end the rest.
void ReclaimOp::give_up() {
  VARVE_ASSERT(log_ != nullptr);
  log_->stall();
  log_->room_refused = false;
  return go(Stage::kPick);
}

void ReclaimOp::take_footer(Status status) {
  VARVE_ASSERT(log_->segment(victim_).state == SegmentState::kReclaiming, victim_);
  VARVE_ASSERT(entries_.empty() && cursor_ == 0);
  const Footer footer = footer_take(*log_, victim_, status);
  if (footer == Footer::kMore) return wait(1);
  if (footer == Footer::kNone) {
    logf(LogLevel::kWarn, "flash",
         "target %u slice %u segment %u: footer does not verify; not reclaimed before a restart",
         target_.index(), log_->slice(), victim_);
    target_.metrics.reclaim_rot.add();
    log_->segment(victim_).footer_rotten = true;
    log_->reclaim_given_up(victim_);
    return go(Stage::kChoose);
  }
  for (uint32_t i = 0; i < footer_count(); ++i)
    entries_.push_back(footer_at(i));
  oldest_ = log_->oldest_sequence(victim_);
  return go(Stage::kEntries);
}

void ReclaimOp::entries() {
  VARVE_ASSERT(cursor_ <= entries_.size(), cursor_);
  for (uint32_t asked = 0; cursor_ < entries_.size() && asked < kVerdictsMax; ++asked) {
    if (is_kill(entries_[cursor_])) {
      const bool is_over = cursor_ < log_->segment(victim_).kills_over;
      if (!is_over && kill_needed(entries_[cursor_], oldest_)) {
        if (copy_kill(entries_[cursor_])) return wait(1);
        log_->reclaim_given_up(victim_);
        return give_up();
      }
      if (!is_over) {
        target_.metrics.kills_dropped.add();
        kill_over();
      }
      ++cursor_;
      continue;
    }
    const FragmentInfo info = info_of(entries_[cursor_], target_.index(), log_->slice(), victim_);
    const FlashUser::Verdict verdict = target_.user.on_reclaim(info.block, info.place);
    if (verdict == FlashUser::Verdict::kReinsert) {
      if (copy_begin(info, nullptr)) return go(Stage::kCopyRead);
      log_->reclaim_given_up(victim_);  // no free segment to copy to: wait for one
      return give_up();
    }
    if (verdict == FlashUser::Verdict::kDropped) {
      log_->live_drop(victim_, info.place.pages);
      target_.metrics.reclaim_dropped.add();
    }
    ++cursor_;
  }
  if (cursor_ < entries_.size()) return go(Stage::kEntries);
  emptied();
}

bool ReclaimOp::copy_begin(const FragmentInfo& from, const KillInfo* record) {
  open_ = log_->take_reclaim(from.place.pages);
  if (open_ == nullptr) return false;
  VARVE_ASSERT(open_->segment != victim_, victim_);
  from_ = from;
  copying_kill_ = record != nullptr;
  io_ = &writer_.open(*log_, *open_);
  to_ = record != nullptr ? log_->place_kill(*open_, record->domain, kill_until(*record))
                          : log_->place(*open_, from.place.pages, from.place.lead_pages);
  copied_pages_ = 0;
  tries_ = 0;
  return true;
}

// The entry says all that the record does, so there is nothing to read.
bool ReclaimOp::copy_kill(const CatalogEntry& entry) {
  FragmentInfo from;
  from.place = {.target = static_cast<uint8_t>(target_.index()),
                .slice = static_cast<uint8_t>(log_->slice()),
                .segment = static_cast<uint16_t>(victim_),
                .page = entry.page,
                .pages = 1,
                .lead_pages = 1};
  const KillInfo kill = kill_of(entry);
  if (!copy_begin(from, &kill)) return false;
  target_.metrics.kills_live.add(1);
  const Segment& segment = log_->segment(to_.segment);
  fill_kill_record(window_.span(0, 1), kill, {segment.nonce, segment.sequence, to_.page, 1});
  copy_entry_ = entry_of(kill, to_.page);
  window_count_ = 1;
  stage_ = Stage::kCopyWritten;
  write(target_.offset(*log_, to_.segment, to_.page), 0, 1);
  return true;
}

void ReclaimOp::copy_read() {
  VARVE_ASSERT(copied_pages_ < from_.place.pages, copied_pages_);
  VARVE_ASSERT(to_.pages == from_.place.pages, to_.pages);
  window_count_ = std::min(kWindowPages, from_.place.pages - copied_pages_);
  stage_ = Stage::kCopyTake;
  read(target_.offset(*log_, victim_, from_.place.page + copied_pages_), 0, window_count_);
  return wait(1);
}

void ReclaimOp::copy_take(Status status) {
  if (!status.ok()) {
    if (++tries_ < kReadTries) return go(Stage::kCopyRead);
    return copy_lost(DropReason::kMedia, status.what());
  }
  if (!verify_window(window_count_)) return copy_lost(DropReason::kRot, "checksum or header");
  stage_ = Stage::kCopyWritten;
  write(target_.offset(*log_, to_.segment, to_.page + copied_pages_), 0, window_count_);
  return wait(1);
}

// The window's part of the fragment verifies; its header then says where the copy lies.
bool ReclaimOp::verify_window(uint32_t pages) {
  VARVE_ASSERT(pages > 0 && copied_pages_ + pages <= from_.place.pages, pages);
  uint32_t skip = 0;
  if (copied_pages_ == 0) {
    const Segment& victim = log_->segment(victim_);
    const HeaderExpect expect = {victim.nonce, victim.sequence, from_.place.page,
                                 from_.place.pages};
    if (!check_.begin(view(0, pages), expect).ok()) return false;
    if (check_.block() != from_.block || check_.header().attempt != from_.attempt ||
        check_.header().pages != from_.place.pages) {
      return false;
    }
    skip = check_.header().header_pages;
  }
  if (skip < pages && !check_.feed(view(skip, pages - skip))) return false;
  if (copied_pages_ == 0) {
    const Segment& segment = log_->segment(to_.segment);
    auto& header = *reinterpret_cast<FragmentHeader*>(window_.page(0));
    const iovec piece = {window_.page(0), static_cast<size_t>(bytes_of(skip))};
    seal_header({&piece, 1}, header, {segment.nonce, segment.sequence, to_.page, to_.pages});
    copy_entry_ = entry_of(header);
  }
  return copied_pages_ + pages < from_.place.pages || check_.complete();
}

void ReclaimOp::copy_lost(DropReason reason, const char* why) {
  logf(LogLevel::kError, "flash",
       "%s: block %s rank %u on target %u slice %u segment %u page %u, found by reclaim: %s",
       drop_reason_name(reason), short_name(from_.block.base).c_str(), from_.block.rank,
       target_.index(), log_->slice(), victim_, from_.place.page, why);
  target_.metrics.reclaim_rot.add();
  log_->live_drop(to_.segment, to_.pages);
  log_->append_ended(*open_);
  target_.user.on_lost(from_.block, from_.place, reason);
  ++cursor_;
  return go(Stage::kEntries);
}

void ReclaimOp::copied() {
  VARVE_ASSERT(copied_pages_ == from_.place.pages, copied_pages_);
  VARVE_ASSERT(copying_kill_ || check_.complete());  // nothing unverified is copied
  io_->footer.add(copy_entry_);
  target_.flusher.note_write();
  copied_any_ = true;
  if (copying_kill_) {
    target_.metrics.kills_copied.add();
    kill_over();
  } else if (target_.user.on_moved(from_.block, from_.place, to_)) {
    log_->live_drop(victim_, from_.place.pages);
    target_.metrics.reinserted.add();
    target_.metrics.reinserted_bytes.add(bytes_of(to_.pages));
  } else {
    log_->live_drop(to_.segment, to_.pages);  // it died meanwhile, and was released there
  }
  log_->append_ended(*open_);
  ++cursor_;
  target_.changed(*log_);  // an open segment that is full may be sealed
  return go(Stage::kEntries);
}

// The record at the cursor counts in the victim no more. One that its footer does not list goes on
// to, so that the victim is not erased: unaccounted().
void ReclaimOp::kill_over() {
  const uint32_t domain = entries_[cursor_].domain;
  log_->segment(victim_).kills_over = cursor_ + 1;
  if (!log_->has_kill(victim_, domain)) return;  // a checkpoint told of fewer
  log_->kill_drop(victim_, domain);
  target_.metrics.kills_live.add(-1);
}

void ReclaimOp::emptied() {
  VARVE_ASSERT(cursor_ == entries_.size(), cursor_);
  if (!copied_any_) return go(Stage::kReaders);
  stage_ = Stage::kCopyFlushed;
  flush();
  return wait(1);
}

void ReclaimOp::readers() {
  Segment& victim = log_->segment(victim_);
  VARVE_ASSERT(victim.state == SegmentState::kReclaiming, victim_);
  if (victim.readers > 0) return;  // the last one's end wakes us
  if (victim.live_pages > 0) return unaccounted();
  log_->erasing(victim_);
  stage_ = Stage::kFooterZeroed;  // first: nobody believes it when the header cannot be read
  zero_page(target_.offset(*log_, victim_, target_.geometry.segment_pages - 1));
  return wait(1);
}

// The footer does not list all that is live here: it differs from what recovery was told by a
// checkpoint. Erasing would destroy what the index still names, so the segment stays as it is.
void ReclaimOp::unaccounted() {
  Segment& victim = log_->segment(victim_);
  logf(LogLevel::kError, "flash",
       "target %u slice %u segment %u: %u live pages are not in its footer; not reclaimed before a "
       "restart",
       target_.index(), log_->slice(), victim_, victim.live_pages);
  target_.metrics.reclaim_unaccounted.add();
  victim.footer_rotten = true;
  log_->reclaim_given_up(victim_);
  return go(Stage::kChoose);
}

void ReclaimOp::erased() {
  VARVE_ASSERT(log_->segment(victim_).state == SegmentState::kErasing, victim_);  // L3
  target_.metrics.reclaimed_segments.add();
  if (target_.options.discard_erased) {
    stage_ = Stage::kDiscarded;
    discard(target_.offset(*log_, victim_, 1), bytes_of(target_.geometry.segment_pages - 1));
    return wait(1);
  }
  log_->erased(victim_);
  target_.changed(*log_);
  return go(Stage::kChoose);
}

}  // namespace varve::flash
