// Recovery of the slices of one target, one after the other (FORMAT 8).
//
// A target has kRecoverOps of these at work at once; each takes the next slice that nobody has
// taken. Work per turn is bounded: a window of I/O, or kDeliverMax fragments told to the user.
#pragma once

#include <vector>

#include "server/flash/segment_writer.h"
#include "server/flash/tail_scan.h"
#include "server/flash/window_op.h"

namespace varve::flash {

inline constexpr uint32_t kRecoverOps = 4;          // per target
inline constexpr uint32_t kDeliverMax = 1024;       // fragments in one turn
inline constexpr uint32_t kTailUnreadableMax = 64;  // of a segment; then whole windows are skipped
inline constexpr uint32_t kHeadReads = 64;          // checkpoint and segment headers at once
inline constexpr uint32_t kAreas = 2;               // of checkpoints in a slice

enum class RecoverSource : uint8_t { kCheckpoint, kFooter, kTail };

class RecoverOp final : public WindowOp {
 public:
  // Gives the next slice to recover, null when there is none; told when one is done.
  struct Work {
    SliceLog* (*next)(void* owner, Target& target) = nullptr;
    void (*done)(void* owner, Target& target, SliceLog& log) = nullptr;
    void* owner = nullptr;
  };
  RecoverOp(Target& target, SegmentWriter& writer, const Work& work);

  void start();
  bool running() const { return stage_ != Stage::kIdle; }
  void run() override;
  const char* name() const override { return "flash.recover"; }

 private:
  static constexpr uint32_t kNoSegment = ~0u;
  enum class Stage : uint8_t {
    kIdle,
    kPick,
    kHeads,
    kHeadsRead,
    kTable,
    kTableRead,
    kEntries,
    kEntriesRead,
    kEntriesTell,
    kSegment,
    kTrailerRead,
    kFooterRead,
    kFooterConfirm,
    kFooterTell,
    kScan,
    kScanRead,
    kScanConfirm,
    kScanTell,
    kSealed,
    kEraseHeader,
    kEraseFlush,
    kErased,
    kSliceDone,
  };
  struct Row {  // of the checkpoint's table
    uint32_t segment = 0;
    uint32_t entries = 0;
    bool covered = false;
  };
  struct Found {  // what is known of a segment of this slice
    HeaderFound header = HeaderFound::kZero;
    bool unreadable = false;
    bool covered = false;
    uint32_t resume_page = 1;  // entries before it came from a checkpoint that broke off
  };

  void go(Stage stage) {
    stage_ = stage;
    again();
  }
  void pick();
  void begin_slice(SliceLog& log);
  uint32_t send_heads();
  void take_heads();
  void take_area(uint32_t area, ConstByteSpan page);
  void take_segment_header(uint32_t index, ConstByteSpan page);
  void unreadable_header(uint32_t index);
  void read_table();
  void take_table(Status status);
  void take_table_page(ConstByteSpan page, uint32_t index);
  void rows_complete();
  void read_entries();
  void tell_ahead(ConstByteSpan page, uint32_t count);
  bool tell_entries();
  void plan_segments();
  void read_segment();
  void take_trailer(Status status);
  void take_footer(Status status);
  void no_footer();
  void erase();
  bool tell_footer();
  bool confirm_told(uint32_t found_count, CatalogEntry (RecoverOp::*found_at)(uint32_t) const);
  CatalogEntry footer_found(uint32_t i) const;
  CatalogEntry scan_found(uint32_t i) const { return scan_.entries()[i]; }
  void read_tail();
  void take_tail(Status status);
  void scanned();
  bool tell_scan();
  void seal_scanned();
  void tell(uint32_t segment, const CatalogEntry& entry, RecoverSource source);
  void end_slice();
  FooterExpect expect(uint32_t segment) const;
  uint64_t area_offset(uint32_t page) const;
  uint32_t table_pages() const;

  SegmentWriter& writer_;
  Work work_;
  Stage stage_ = Stage::kIdle;
  SliceLog* log_ = nullptr;
  CheckpointHeader checkpoint_;  // magic 0: none
  std::vector<Found> found_;
  std::vector<Row> rows_;
  std::vector<uint32_t> pending_;  // segments to read from footer or tail, by sequence
  std::vector<Transfer> head_reads_;
  std::vector<iovec> head_runs_;
  uint32_t heads_first_ = 0;  // of the batch
  uint32_t heads_count_ = 0;
  uint32_t area_page_ = 0;     // next page of the checkpoint area
  uint32_t window_count_ = 0;  // pages in the window
  uint32_t cursor_ = 0;        // page or entry inside the window
  uint32_t row_ = 0;
  uint32_t row_told_ = 0;      // entries of the row already passed
  uint32_t row_page_ = 1;      // first page the row's next entry may have
  uint64_t entries_left_ = 0;  // of the checkpoint
  // Told of the row being read. When the checkpoint breaks off inside a row, the footer or the scan
  // of its segment must find these again, or they are lost: what is sealed then lists only what
  // was found.
  std::vector<CatalogEntry> row_entries_;
  uint32_t broken_segment_ = kNoSegment;
  uint32_t confirm_ = 0;        // of row_entries_
  uint32_t confirm_found_ = 0;  // of what was found, in the order of pages
  uint32_t next_pending_ = 0;
  uint32_t segment_ = 0;  // being read
  FooterTrailer trailer_;
  TailScan scan_;
  uint32_t careful_pages_ = 1;
  uint32_t tail_unreadable_ = 0;  // pages of this segment that were read alone and failed
  uint32_t careful_until_ = 0;    // small windows before this page: one around here is not readable
  SegmentIo* seal_ = nullptr;
};

}  // namespace varve::flash
