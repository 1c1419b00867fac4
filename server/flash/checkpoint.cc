// Writes one checkpoint after the other; see FORMAT 6.2 for the order that makes a torn one
// harmless. A segment that changes its life meanwhile does no harm: its row names sequence and
// nonce.
#include "server/flash/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "server/flash/kill.h"

namespace varve::flash {

namespace {
constexpr uint32_t kFilterMax = 1024;  // entries asked about in one turn
}

CheckpointOp::CheckpointOp(Target& target, const Work& work) : WindowOp(target), work_(work) {
  VARVE_ASSERT(work.next != nullptr && work.done != nullptr);
}

void CheckpointOp::wake() {
  if (stage_ == Stage::kIdle) go(Stage::kPick);
}

void CheckpointOp::run() {
  RunScope scope(*this);
  const Status status = take_failure();
  if (!target_.ok()) {
    stage_ = Stage::kIdle;
    return work_.done(work_.owner, target_);
  }
  switch (stage_) {
    case Stage::kIdle:
      return;
    case Stage::kPick:
      return pick();
    case Stage::kSegment:
      return read_footer();
    case Stage::kFooterRead:
      return take_footer(status);
    case Stage::kFilter:
      return filter();
    case Stage::kOutWritten:
      return go(after_out_);
    case Stage::kTable:
      return write_table();
    case Stage::kTableWritten:
      if (rows_written_ < rows_.size()) return go(Stage::kTable);
      stage_ = Stage::kBodyFlushed;
      flush();
      return wait(1);
    case Stage::kBodyFlushed:
      return write_header();
    case Stage::kHeaderWritten:
      return end_slice();
  }
}

void CheckpointOp::pick() {
  SliceLog* next = work_.next(work_.owner, target_);
  if (next == nullptr) {
    stage_ = Stage::kIdle;
    return work_.done(work_.owner, target_);
  }
  begin_slice(*next);
  return go(Stage::kSegment);
}

uint64_t CheckpointOp::area_offset(uint32_t page) const {
  VARVE_ASSERT(page < target_.geometry.checkpoint_pages, page);
  return bytes_of(target_.geometry.checkpoint_page(log_->slice(), area_) + page);
}

void CheckpointOp::begin_slice(SliceLog& log) {
  log_ = &log;
  area_ = log.checkpoint_count == 0 ? 0 : 1 - log.checkpoint_area;
  write_count_ = log.checkpoint_count + 1;
  changed_ = log.changed_segments;
  segments_.clear();
  rows_.clear();
  for (uint32_t i = 0; i < log.segment_count(); ++i) {
    if (log.segment(i).state == SegmentState::kSealed) segments_.push_back(i);
  }
  std::stable_sort(segments_.begin(), segments_.end(), [&log](uint32_t a, uint32_t b) {
    return log.segment(a).sequence < log.segment(b).sequence;
  });
  const auto count = static_cast<uint32_t>(segments_.size());
  table_pages_ = (count + kRowsPerPage - 1) / kRowsPerPage;
  VARVE_ASSERT(1 + table_pages_ < target_.geometry.checkpoint_pages, table_pages_);
  entries_max_ = uint64_t{target_.geometry.checkpoint_pages - 1 - table_pages_} * kEntriesPerPage;
  entries_ = 0;
  next_segment_ = 0;
  out_entries_ = 0;
  out_page_ = 1 + table_pages_;
  rows_written_ = 0;
}

void CheckpointOp::read_footer() {
  if (next_segment_ == segments_.size()) {
    // As many table pages as were left room for: rows that are missing are rows of zeros.
    if (out_entries_ > 0) return write_out(Stage::kTable);
    return go(Stage::kTable);
  }
  stage_ = Stage::kFooterRead;
  footer_read(*log_, segments_[next_segment_]);
  return wait(1);
}

void CheckpointOp::take_footer(Status status) {
  const uint32_t segment = segments_[next_segment_];
  const Footer footer = log_->segment(segment).state == SegmentState::kSealed
                            ? footer_take(*log_, segment, status)
                            : Footer::kNone;
  if (footer == Footer::kMore) return wait(1);
  // Not in the area's room, or not readable: recovery reads this segment itself.
  if (footer == Footer::kNone || entries_ + footer_count() > entries_max_) {
    ++next_segment_;
    return go(Stage::kSegment);
  }
  cursor_ = 0;
  CheckpointSegment row;
  row.segment = segment;
  row.sequence = footer_trailer().sequence;
  row.nonce = footer_trailer().nonce;
  rows_.push_back(row);
  return go(Stage::kFilter);
}

void CheckpointOp::filter() {
  const uint32_t end = std::min(footer_count(), cursor_ + kFilterMax);
  for (; cursor_ < end; ++cursor_) {
    if (out_entries_ == kOutPages * kEntriesPerPage) return write_out(Stage::kFilter);
    const CatalogEntry entry = footer_at(cursor_);
    const FragmentInfo info = info_of(entry, target_.index(), log_->slice(), rows_.back().segment);
    // Records all of them: they count as live until reclaim drops them.
    if (!is_kill(entry) && !target_.user.on_live(info.block, info.place)) continue;
    put(entry);
    ++rows_.back().entry_count;
    ++entries_;
  }
  if (cursor_ < footer_count()) return go(Stage::kFilter);
  ++next_segment_;
  return go(Stage::kSegment);
}

void CheckpointOp::put(const CatalogEntry& entry) {
  const uint32_t page = kFooterPages + out_entries_ / kEntriesPerPage;
  const uint32_t slot = out_entries_ % kEntriesPerPage;
  const ByteSpan memory = window_.span(page, 1);
  if (slot == 0) std::memset(memory.data(), 0, memory.size());
  store(memory, sizeof(PagePrefix) + slot * sizeof(CatalogEntry), entry);
  ++out_entries_;
}

void CheckpointOp::write_out(Stage then) {
  const uint32_t pages = (out_entries_ + kEntriesPerPage - 1) / kEntriesPerPage;
  VARVE_ASSERT(pages > 0 && pages <= kOutPages);
  for (uint32_t i = 0; i < pages; ++i) {
    seal_page(window_.span(kFooterPages + i, 1), 0, out_page_ + i, write_count_);
  }
  after_out_ = then;
  stage_ = Stage::kOutWritten;
  write(area_offset(out_page_), kFooterPages, pages);
  out_page_ += pages;
  out_entries_ = 0;
  return wait(1);
}

// The table's room was fixed before its rows were known; fewer rows need fewer pages, so the
// entries would begin earlier than they do. Rows of zeros keep them where they are.
void CheckpointOp::write_table() {
  if (table_pages_ == 0) {
    stage_ = Stage::kTableWritten;
    return again();
  }
  rows_.resize(segments_.size());
  const uint32_t first = rows_written_ / kRowsPerPage;
  const uint32_t pages = std::min(kWindowPages, table_pages_ - first);
  for (uint32_t i = 0; i < pages; ++i) {
    const ByteSpan page = window_.span(i, 1);
    std::memset(page.data(), 0, page.size());
    for (uint32_t r = 0; r < kRowsPerPage && rows_written_ < rows_.size(); ++r) {
      store(page, sizeof(PagePrefix) + r * sizeof(CheckpointSegment), rows_[rows_written_]);
      ++rows_written_;
    }
    seal_page(page, 0, 1 + first + i, write_count_);
  }
  stage_ = Stage::kTableWritten;
  write(area_offset(1 + first), 0, pages);
  return wait(1);
}

void CheckpointOp::write_header() {
  CheckpointHeader header;
  header.slice = log_->slice();
  std::memcpy(header.target_uuid, target_.info.super.target_uuid, 16);
  header.write_count = write_count_;
  header.next_sequence = log_->next_sequence();
  header.segment_count = static_cast<uint32_t>(rows_.size());
  header.entry_count = entries_;
  const ByteSpan page = window_.span(0, 1);
  std::memset(page.data(), 0, page.size());
  store(page, 0, header);
  seal_page(page, 0, 0, write_count_);
  stage_ = Stage::kHeaderWritten;
  write(area_offset(0), 0, 1);
  return wait(1);
}

void CheckpointOp::end_slice() {
  target_.flusher.note_write();
  target_.metrics.checkpoints.add();
  target_.metrics.checkpoint_entries.add(entries_);
  log_->checkpoint_count = write_count_;
  log_->checkpoint_area = area_;
  VARVE_ASSERT(log_->changed_segments >= changed_);
  log_->changed_segments -= changed_;
  log_ = nullptr;
  return go(Stage::kPick);
}

}  // namespace varve::flash
