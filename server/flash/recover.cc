// Checkpoint first, then footers, then tails: the steps of FORMAT 8 in the order they are written
// there. Nothing here trusts a byte: what does not verify is passed over, counted and read the
// longer way.
#include "server/flash/recover.h"

#include <algorithm>
#include <cstring>

#include "server/flash/kill.h"

namespace varve::flash {

RecoverOp::RecoverOp(Target& target, SegmentWriter& writer, const Work& work)
    : WindowOp(target), writer_(writer), work_(work) {
  VARVE_ASSERT(work.next != nullptr && work.done != nullptr);
  head_reads_.resize(kHeadReads);
  head_runs_.resize(kHeadReads);
  for (uint32_t i = 0; i < kHeadReads; ++i) {
    Transfer& transfer = head_reads_[i];
    head_runs_[i] = {window_.page(i), kPageBytes};
    transfer.runs = {&head_runs_[i], 1};
    transfer.length_bytes = kPageBytes;
    transfer.owner = this;
    transfer.on_done = [](Transfer& done) {  // one unreadable header is not the op's failure
      static_cast<RecoverOp*>(done.owner)->completed(Status::ok_status());
    };
    transfer.limbo.on_returned = [](void*) {};
  }
}

void RecoverOp::start() {
  VARVE_ASSERT(stage_ == Stage::kIdle);
  go(Stage::kPick);
}

void RecoverOp::run() {
  RunScope scope(*this);
  const Status status = take_failure();
  if (!target_.ok() && log_ != nullptr) stage_ = Stage::kSliceDone;
  switch (stage_) {
    case Stage::kIdle:
      return;
    case Stage::kPick:
      return pick();
    case Stage::kHeads:
      if (heads_first_ == kAreas + log_->segment_count()) return go(Stage::kTable);
      stage_ = Stage::kHeadsRead;
      return wait(send_heads());
    case Stage::kHeadsRead:
      take_heads();
      return go(Stage::kHeads);
    case Stage::kTable:
      return read_table();
    case Stage::kTableRead:
      return take_table(status);
    case Stage::kEntries:
      return read_entries();
    case Stage::kEntriesRead:
      if (!status.ok()) entries_left_ = 0;  // the rest comes from footers
      return go(status.ok() ? Stage::kEntriesTell : Stage::kEntries);
    case Stage::kEntriesTell:
      return go(tell_entries() ? Stage::kEntries : Stage::kEntriesTell);
    case Stage::kSegment:
      return read_segment();
    case Stage::kTrailerRead:
      return take_trailer(status);
    case Stage::kFooterRead:
      return take_footer(status);
    case Stage::kFooterConfirm:
      return go(confirm_told(trailer_.entry_count, &RecoverOp::footer_found)
                    ? Stage::kFooterTell
                    : Stage::kFooterConfirm);
    case Stage::kFooterTell:
      return go(tell_footer() ? Stage::kSegment : Stage::kFooterTell);
    case Stage::kScan:
      return scan_.done() ? go(Stage::kScanConfirm) : read_tail();
    case Stage::kScanRead:
      return take_tail(status);
    case Stage::kScanConfirm:
      return confirm_told(static_cast<uint32_t>(scan_.entries().size()), &RecoverOp::scan_found)
                 ? scanned()
                 : go(Stage::kScanConfirm);
    case Stage::kScanTell:
      return tell_scan() ? seal_scanned() : go(Stage::kScanTell);
    case Stage::kSealed:
      return go(Stage::kSegment);
    case Stage::kEraseHeader:
      stage_ = Stage::kEraseFlush;
      zero_page(target_.offset(*log_, segment_, 0));
      return wait(1);
    case Stage::kEraseFlush:
      stage_ = Stage::kErased;
      flush();
      return wait(1);
    case Stage::kErased:
      log_->erased(segment_);
      return go(Stage::kSegment);
    case Stage::kSliceDone:
      return end_slice();
  }
}

void RecoverOp::pick() {
  SliceLog* next = work_.next(work_.owner, target_);
  if (next == nullptr) {
    stage_ = Stage::kIdle;
    row_entries_ = std::vector<CatalogEntry>();
    return;
  }
  begin_slice(*next);
  return go(Stage::kHeads);
}

// The table, and as many entries behind it as the window holds.
void RecoverOp::read_table() {
  if (checkpoint_.magic == 0 || area_page_ >= 1 + table_pages()) {
    rows_complete();
    return go(Stage::kEntries);
  }
  const uint64_t entry_pages = (checkpoint_.entry_count + kEntriesPerPage - 1) / kEntriesPerPage;
  window_count_ = static_cast<uint32_t>(
      std::min<uint64_t>(kWindowPages, 1 + table_pages() + entry_pages - area_page_));
  stage_ = Stage::kTableRead;
  read(area_offset(area_page_), 0, window_count_);
  return wait(1);
}

void RecoverOp::take_table(Status status) {
  if (!status.ok()) checkpoint_.magic = 0;
  const uint32_t pages = std::min(window_count_, 1 + table_pages() - area_page_);
  for (uint32_t i = 0; i < pages && checkpoint_.magic != 0; ++i) {
    take_table_page(view(i, 1), area_page_ + i);
  }
  if (pages == window_count_ || checkpoint_.magic == 0) {
    area_page_ += pages;
    return go(Stage::kTable);
  }
  rows_complete();
  cursor_ = pages;
  return go(entries_left_ > 0 ? Stage::kEntriesTell : Stage::kEntries);
}

void RecoverOp::read_entries() {
  if (entries_left_ == 0) {
    plan_segments();
    return go(Stage::kSegment);
  }
  window_count_ = static_cast<uint32_t>(
      std::min<uint64_t>(kWindowPages, (entries_left_ + kEntriesPerPage - 1) / kEntriesPerPage));
  cursor_ = 0;
  stage_ = Stage::kEntriesRead;
  read(area_offset(area_page_), 0, window_count_);
  return wait(1);
}

void RecoverOp::read_segment() {
  VARVE_ASSERT(next_pending_ <= pending_.size(), next_pending_);
  if (next_pending_ == pending_.size()) return go(Stage::kSliceDone);
  segment_ = pending_[next_pending_++];
  stage_ = Stage::kTrailerRead;
  read(target_.offset(*log_, segment_, target_.geometry.segment_pages - 1), 0, 1);
  return wait(1);
}

void RecoverOp::take_footer(Status status) {
  const uint32_t pages = footer_pages_of(trailer_.entry_count);
  if (!status.ok() || !check_footer(view(0, pages), trailer_, target_.geometry.segment_pages)) {
    return no_footer();
  }
  cursor_ = 0;
  Segment& segment = log_->segment(segment_);
  VARVE_ASSERT(segment.state == SegmentState::kUnknown, segment_);
  segment.sequence = trailer_.sequence;
  segment.nonce = trailer_.nonce;
  segment.used_pages = trailer_.used_pages;
  log_->sequence_seen(trailer_.sequence);
  log_->sealed(segment_);
  return go(Stage::kFooterConfirm);
}

void RecoverOp::read_tail() {
  const uint32_t want = scan_.want_page();
  const uint32_t most = want < careful_until_ ? careful_pages_ : kWindowPages;
  window_count_ = std::min(most, target_.geometry.segment_pages - want);
  stage_ = Stage::kScanRead;
  read(target_.offset(*log_, segment_, scan_.want_page()), 0, window_count_);
  return wait(1);
}

// One bad sector must not cost a whole window of fragments: it is read again page by page, headers
// of several pages at once, and only the page that fails is passed over.
void RecoverOp::take_tail(Status status) {
  if (status.ok()) {
    const uint32_t want = scan_.want_page();
    scan_.feed(view(0, window_count_));
    careful_pages_ = scan_.want_page() == want ? kHeaderPagesMax : 1;  // a header was cut off
  } else if (window_count_ > kHeaderPagesMax && tail_unreadable_ < kTailUnreadableMax) {
    careful_until_ = scan_.want_page() + window_count_;
    careful_pages_ = 1;
  } else if (window_count_ > kHeaderPagesMax) {
    scan_.skip(window_count_);
  } else {
    // A drive that takes seconds to refuse each page must not keep the slice from serving.
    ++tail_unreadable_;
    const uint32_t want = scan_.want_page();
    const bool enough = tail_unreadable_ >= kTailUnreadableMax && want < careful_until_;
    scan_.skip(enough ? careful_until_ - want : 1);
    careful_pages_ = 1;
  }
  return go(Stage::kScan);
}

void RecoverOp::seal_scanned() {
  stage_ = Stage::kSealed;
  VARVE_ASSERT(seal_ != nullptr && seal_->footer.count() == scan_.entries().size());
  seal_->sealed_waiter = this;
  writer_.seal(*seal_);
  return wait(1);
}

FooterExpect RecoverOp::expect(uint32_t segment) const {
  const Segment& known = log_->segment(segment);
  return {std::span<const std::byte, 16>(target_.info.super.target_uuid),
          log_->slice(),
          segment,
          known.sequence,
          known.nonce,
          target_.geometry.segment_pages};
}

uint64_t RecoverOp::area_offset(uint32_t page) const {
  return bytes_of(target_.geometry.checkpoint_page(log_->slice(), log_->checkpoint_area) + page);
}

uint32_t RecoverOp::table_pages() const {
  return (checkpoint_.segment_count + kRowsPerPage - 1) / kRowsPerPage;
}

void RecoverOp::begin_slice(SliceLog& log) {
  VARVE_ASSERT(log_ == nullptr && !log.ready, log.slice());
  log_ = &log;
  checkpoint_ = CheckpointHeader();
  checkpoint_.magic = 0;
  found_.assign(log.segment_count(), Found());
  rows_.clear();
  pending_.clear();
  heads_first_ = next_pending_ = 0;
  area_page_ = row_page_ = 1;
  row_ = row_told_ = 0;
  row_entries_.clear();
  broken_segment_ = kNoSegment;
  entries_left_ = 0;
}

// Takes a checkpoint header if it is valid and newer than what we have.
void RecoverOp::take_area(uint32_t area, ConstByteSpan page) {
  const auto header = load<CheckpointHeader>(page);
  if (header.magic != kCheckpointMagic || header.version != kFormatVersion) return;
  if (!check_page(page, 0, 0, header.write_count)) return;
  if (header.write_count > kSequenceMax || header.next_sequence > kSequenceMax) return;
  if (header.slice != log_->slice() ||
      std::memcmp(header.target_uuid, target_.info.super.target_uuid, 16) != 0) {
    return;
  }
  const uint64_t table = (uint64_t{header.segment_count} + kRowsPerPage - 1) / kRowsPerPage;
  const uint64_t entries = (header.entry_count + kEntriesPerPage - 1) / kEntriesPerPage;
  if (header.segment_count > log_->segment_count() ||
      header.entry_count > uint64_t{kSegmentFragmentsMax} * kSegmentsMax ||
      1 + table + entries > target_.geometry.checkpoint_pages) {
    return;
  }
  if (checkpoint_.magic != 0 && header.write_count <= checkpoint_.write_count) return;
  checkpoint_ = header;
  log_->checkpoint_area = area;
  log_->checkpoint_count = header.write_count;
  if (header.next_sequence > 0) log_->sequence_seen(header.next_sequence - 1);
}

// Both checkpoint headers and every segment header, a batch at a time.
uint32_t RecoverOp::send_heads() {
  heads_count_ = std::min(kHeadReads, kAreas + log_->segment_count() - heads_first_);
  for (uint32_t i = 0; i < heads_count_; ++i) {
    const uint32_t head = heads_first_ + i;
    head_reads_[i].offset_bytes =
        head < kAreas ? bytes_of(target_.geometry.checkpoint_page(log_->slice(), head))
                      : target_.offset(*log_, head - kAreas, 0);
    target_.io.submit(head_reads_[i], IoClass::kBackRead);
  }
  return heads_count_;
}

void RecoverOp::take_heads() {
  VARVE_ASSERT(heads_count_ > 0 && heads_count_ <= kHeadReads, heads_count_);
  for (uint32_t i = 0; i < heads_count_; ++i) {
    const uint32_t head = heads_first_ + i;
    const bool read = head_reads_[i].status.ok();
    if (head < kAreas) {
      if (read) take_area(head, view(i, 1));
    } else if (read) {
      take_segment_header(head - kAreas, view(i, 1));
    } else {
      unreadable_header(head - kAreas);
    }
  }
  heads_first_ += heads_count_;
}

// One bad sector: the footer says all that the header does, as of one that rotted.
void RecoverOp::unreadable_header(uint32_t index) {
  VARVE_ASSERT(log_->segment(index).state == SegmentState::kUnknown, index);
  found_[index].unreadable = true;
  found_[index].header = HeaderFound::kInvalid;
}

void RecoverOp::take_segment_header(uint32_t index, ConstByteSpan page) {
  Segment& segment = log_->segment(index);
  VARVE_ASSERT(segment.state == SegmentState::kUnknown && segment.live_pages == 0, index);
  SegmentHeader header;
  found_[index].header = read_segment_header(page, expect(index), &header);
  if (found_[index].header == HeaderFound::kZero) log_->free_found(index);
  if (found_[index].header != HeaderFound::kValid) return;
  segment.sequence = header.sequence;
  segment.nonce = header.nonce;
  log_->sequence_seen(header.sequence);
}

// A page that does not verify: without a whole table the checkpoint says nothing.
void RecoverOp::take_table_page(ConstByteSpan page, uint32_t index) {
  if (!check_page(page, 0, index, checkpoint_.write_count)) {
    checkpoint_.magic = 0;
    return;
  }
  for (uint32_t i = 0; i < kRowsPerPage && rows_.size() < checkpoint_.segment_count; ++i) {
    const auto row =
        load<CheckpointSegment>(page, sizeof(PagePrefix) + i * sizeof(CheckpointSegment));
    Row taken;
    taken.segment = row.segment;
    taken.entries = row.entry_count;
    if (row.segment < log_->segment_count()) {
      const Segment& segment = log_->segment(row.segment);
      taken.covered = found_[row.segment].header == HeaderFound::kValid &&
                      !found_[row.segment].covered && segment.sequence == row.sequence &&
                      segment.nonce == row.nonce;
      if (taken.covered) found_[row.segment].covered = true;
    }
    rows_.push_back(taken);
  }
}

void RecoverOp::rows_complete() {
  VARVE_ASSERT(rows_.size() <= log_->segment_count(), rows_.size());
  uint64_t sum = 0;
  for (const Row& row : rows_)
    sum += row.entries;
  if (checkpoint_.magic == 0 || sum != checkpoint_.entry_count) {
    checkpoint_.magic = 0;
    rows_.clear();
    for (Found& found : found_)
      found.covered = false;
    sum = 0;
  }
  entries_left_ = sum;
  for (const Row& row : rows_) {  // without entries: nothing lives there, and that is known
    if (!row.covered) continue;
    Segment& segment = log_->segment(row.segment);
    segment.state = SegmentState::kSealed;
    segment.used_pages = target_.geometry.segment_pages;
  }
}

// The ids of a page, before they are told: the misses of a random table then overlap, which is most
// of what recovery from checkpoints costs (64 % of its time stood in the index's first probe).
void RecoverOp::tell_ahead(ConstByteSpan page, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const auto entry = load<CatalogEntry>(page, sizeof(PagePrefix) + i * sizeof(CatalogEntry));
    target_.user.on_recovery_ahead(entry.domain, entry.base);
  }
}

// Entries of the window, at most kDeliverMax a turn. True: the window is done with.
bool RecoverOp::tell_entries() {
  uint32_t told = 0;
  while (cursor_ < window_count_ && told < kDeliverMax) {
    const ConstByteSpan page = view(cursor_, 1);
    bool good = check_page(page, 0, area_page_ + cursor_, checkpoint_.write_count);
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(kEntriesPerPage, entries_left_));
    if (good) tell_ahead(page, count);
    for (uint32_t i = 0; good && i < count; ++i) {
      while (row_ < rows_.size() && row_told_ == rows_[row_].entries) {
        ++row_;
        row_told_ = 0;
        row_page_ = 1;
        row_entries_.clear();
      }
      VARVE_ASSERT(row_ < rows_.size(), row_);  // rows_complete() compared the sums
      const Row& row = rows_[row_];
      ++row_told_;
      --entries_left_;
      if (!row.covered) continue;
      const auto entry = load<CatalogEntry>(page, sizeof(PagePrefix) + i * sizeof(CatalogEntry));
      good = check_entry(entry, row_page_, target_.geometry.segment_pages);
      if (!good) break;
      row_page_ = uint32_t{entry.page} + entry.pages;
      tell(row.segment, entry, RecoverSource::kCheckpoint);
      row_entries_.push_back(entry);
      ++told;
    }
    ++cursor_;
    if (!good) {  // rot: what was not told comes from footers, the broken row from where it broke
      target_.metrics.dropped_rot.add();
      entries_left_ = 0;
      return true;
    }
  }
  if (cursor_ < window_count_) return false;
  area_page_ += window_count_;
  return true;
}

// What the checkpoint did not tell to its end, and what it did not know, by sequence.
void RecoverOp::plan_segments() {
  while (row_ < rows_.size() && row_told_ == rows_[row_].entries) {
    ++row_;
    row_told_ = 0;
    row_page_ = 1;
    row_entries_.clear();
  }
  if (!row_entries_.empty()) broken_segment_ = rows_[row_].segment;
  confirm_ = confirm_found_ = 0;
  for (; row_ < rows_.size(); ++row_) {
    const Row& row = rows_[row_];
    if (!row.covered) continue;
    found_[row.segment].covered = false;
    found_[row.segment].resume_page = row_page_;
    log_->segment(row.segment).state = SegmentState::kUnknown;
    row_page_ = 1;
  }
  for (uint32_t i = 0; i < log_->segment_count(); ++i) {
    const Found& found = found_[i];
    if (!found.covered && found.header != HeaderFound::kZero) pending_.push_back(i);
  }
  std::stable_sort(pending_.begin(), pending_.end(), [this](uint32_t a, uint32_t b) {
    const bool lost_a = found_[a].header == HeaderFound::kInvalid;
    const bool lost_b = found_[b].header == HeaderFound::kInvalid;
    if (lost_a != lost_b) return lost_b;
    return log_->segment(a).sequence < log_->segment(b).sequence;
  });
}

void RecoverOp::take_trailer(Status status) {
  if (!status.ok()) return no_footer();
  Result<FooterTrailer> trailer = read_trailer(view(0, 1), expect(segment_));
  if (!trailer.has_value()) return no_footer();
  trailer_ = *trailer;
  const uint32_t pages = footer_pages_of(trailer_.entry_count);
  stage_ = Stage::kFooterRead;
  read(target_.offset(*log_, segment_, target_.geometry.segment_pages - pages), 0, pages);
  return wait(1);
}

// Tail scan; without any identity (header rotten too) an erasure, or, where the drive may yet give
// the header, nothing.
void RecoverOp::no_footer() {
  if (found_[segment_].header == HeaderFound::kValid) {
    const Segment& segment = log_->segment(segment_);
    scan_.begin(segment.nonce, segment.sequence, target_.geometry.segment_pages);
    careful_until_ = tail_unreadable_ = 0;
    return go(Stage::kScan);
  }
  const bool unreadable = found_[segment_].unreadable;
  if (!unreadable && target_.info.formatted_now) return erase();  // of whoever had the drive before
  logf(LogLevel::kWarn, "flash", "target %u slice %u segment %u: header %s and no footer; %s",
       target_.index(), log_->slice(), segment_, unreadable ? "not readable" : "rotten",
       unreadable ? "what it holds cannot be read in this life" : "what it held is lost");
  if (unreadable) {
    log_->segment(segment_).state = SegmentState::kBad;
    target_.metrics.unreadable_segments.add();
    return go(Stage::kSegment);
  }
  target_.metrics.dropped_rot.add();
  erase();
}

// The footer first: of an earlier life, it would be believed where the header cannot be read.
void RecoverOp::erase() {
  VARVE_ASSERT(log_->segment(segment_).state == SegmentState::kUnknown, segment_);
  log_->erasing(segment_);
  stage_ = Stage::kEraseHeader;
  zero_page(target_.offset(*log_, segment_, target_.geometry.segment_pages - 1));
  return wait(1);
}

CatalogEntry RecoverOp::footer_found(uint32_t i) const {
  const uint32_t pages = footer_pages_of(trailer_.entry_count);
  return footer_entry(view(0, pages), pages, i);
}

// What a checkpoint told of this segment before it broke off, and the drive does not bear out: the
// user forgets it now. Nobody would find it again: the segment is emptied by its footer one day.
// True: done with; at most kDeliverMax a turn.
bool RecoverOp::confirm_told(uint32_t found_count,
                             CatalogEntry (RecoverOp::*found_at)(uint32_t) const) {
  if (segment_ != broken_segment_) return true;
  VARVE_ASSERT(confirm_ <= row_entries_.size(), confirm_);
  const auto told = static_cast<uint32_t>(row_entries_.size());
  const uint32_t end = std::min(told, confirm_ + kDeliverMax);
  for (; confirm_ < end; ++confirm_) {
    const CatalogEntry& entry = row_entries_[confirm_];
    while (confirm_found_ < found_count && (this->*found_at)(confirm_found_).page < entry.page)
      ++confirm_found_;
    if (confirm_found_ < found_count) {
      if (is_same((this->*found_at)(confirm_found_), entry)) continue;
    }
    if (is_kill(entry)) {  // still believed: only its page is given up
      log_->kill_drop(segment_, entry.domain);
      target_.metrics.kills_live.add(-1);
      continue;
    }
    const FragmentInfo info = info_of(entry, target_.index(), log_->slice(), segment_);
    target_.metrics.dropped_rot.add();
    target_.metrics.dropped_rot_bytes.add(bytes_of(entry.pages));
    target_.user.on_lost(info.block, info.place, DropReason::kRot);
  }
  return confirm_ == told;
}

bool RecoverOp::tell_footer() {
  const uint32_t end = std::min(trailer_.entry_count, cursor_ + kDeliverMax);
  for (; cursor_ < end; ++cursor_) {
    const CatalogEntry entry = footer_found(cursor_);
    if (entry.page < found_[segment_].resume_page) continue;
    tell(segment_, entry, RecoverSource::kFooter);
  }
  return cursor_ == trailer_.entry_count;
}

void RecoverOp::scanned() {
  target_.metrics.dropped_torn.add(scan_.torn());
  target_.metrics.dropped_torn_bytes.add(bytes_of(scan_.torn_pages()));
  Segment& segment = log_->segment(segment_);
  // Somebody may still read what a checkpoint told of it: then it is sealed, empty, for reclaim.
  if (scan_.entries().empty() && segment.live_pages == 0 && segment.readers == 0) return erase();
  seal_ = &writer_.adopt(*log_, segment_);
  segment.used_pages = scan_.used_pages();
  segment.state = SegmentState::kSealing;  // readable from the first fragment told
  cursor_ = 0;
  return go(Stage::kScanTell);
}

bool RecoverOp::tell_scan() {
  const auto count = static_cast<uint32_t>(scan_.entries().size());
  const uint32_t end = std::min(count, cursor_ + kDeliverMax);
  for (; cursor_ < end; ++cursor_) {
    const CatalogEntry& entry = scan_.entries()[cursor_];
    seal_->footer.add(entry);
    if (entry.page >= found_[segment_].resume_page) tell(segment_, entry, RecoverSource::kTail);
  }
  return cursor_ == count;
}

void RecoverOp::tell(uint32_t segment, const CatalogEntry& entry, RecoverSource source) {
  if (is_kill(entry)) {
    const KillInfo kill = kill_of(entry);
    // Kept until reclaim finds it not needed.
    log_->kill_add(segment, kill.domain, kill_until(kill));
    for (uint32_t t = 0; t < kTargetsMax; ++t) {
      if ((kill.away >> t & 1) == 0) continue;
      target_.kills_away[t] = std::max(target_.kills_away[t], entry.attempt.boot_generation);
    }
    target_.metrics.kills_live.add(1);
    target_.metrics.kills_recovered.add();
    return target_.user.on_killed(entry.domain, entry.base, entry.attempt);
  }
  const FragmentInfo info = info_of(entry, target_.index(), log_->slice(), segment);
  if (is_old(target_.generations, info.mark)) {
    target_.metrics.dropped_generation.add();
    return target_.metrics.dropped_generation_bytes.add(bytes_of(entry.pages));
  }
  // Counted before the user is told, so that it may release() at once; taken back when refused.
  log_->live_add(segment, entry.pages);
  if (!target_.user.on_recovered(info)) {
    log_->live_drop(segment, entry.pages);
    target_.metrics.refused_bytes.add(bytes_of(entry.pages));
    return target_.metrics.refused.add();
  }
  target_.metrics.recovered[static_cast<size_t>(source)].add();
  target_.metrics.recovered_bytes[static_cast<size_t>(source)].add(bytes_of(entry.pages));
}

void RecoverOp::end_slice() {
  VARVE_ASSERT(log_ != nullptr && !log_->ready);
  SliceLog& log = *log_;
  log_ = nullptr;
  log.ready = true;
  stage_ = Stage::kPick;
  again();
  work_.done(work_.owner, target_, log);
}

}  // namespace varve::flash
