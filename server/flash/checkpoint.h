// Checkpoints of the slices of one target, one after the other (FORMAT 6.2).
//
// A checkpoint is made from the footers on the drive, so no list of fragments is kept in memory:
// every sealed segment's footer is read, the user says which entries are live, and those are
// written to the area that does not count. Body, flush, header: a header proves its body.
#pragma once

#include <vector>

#include "server/flash/window_op.h"

namespace varve::flash {

class CheckpointOp final : public WindowOp {
 public:
  struct Work {
    SliceLog* (*next)(void* owner, Target& target) = nullptr;
    void (*done)(void* owner, Target& target) = nullptr;  // nothing is left to do
    void* owner = nullptr;
  };
  CheckpointOp(Target& target, const Work& work);

  void wake();
  bool running() const { return stage_ != Stage::kIdle; }
  void run() override;
  const char* name() const override { return "flash.checkpoint"; }

 private:
  enum class Stage : uint8_t {
    kIdle,
    kPick,
    kSegment,
    kFooterRead,
    kFilter,
    kOutWritten,
    kTable,
    kTableWritten,
    kBodyFlushed,
    kHeaderWritten,
  };
  static constexpr uint32_t kOutPages = kWindowPages - kFooterPages;  // behind the footer's

  void go(Stage stage) {
    stage_ = stage;
    again();
  }
  void pick();
  void begin_slice(SliceLog& log);
  void read_footer();
  void take_footer(Status status);
  void filter();
  void put(const CatalogEntry& entry);
  void write_out(Stage then);
  void write_table();
  void write_header();
  void end_slice();
  uint64_t area_offset(uint32_t page) const;

  Work work_;
  Stage stage_ = Stage::kIdle;
  Stage after_out_ = Stage::kIdle;
  SliceLog* log_ = nullptr;
  uint32_t area_ = 0;
  uint64_t write_count_ = 0;
  uint32_t changed_ = 0;            // what this checkpoint takes into account
  std::vector<uint32_t> segments_;  // sealed when it began, by sequence
  std::vector<CheckpointSegment> rows_;
  uint32_t next_segment_ = 0;
  uint32_t table_pages_ = 0;
  uint64_t entries_max_ = 0;
  uint64_t entries_ = 0;
  uint32_t cursor_ = 0;       // entry of the footer
  uint32_t out_entries_ = 0;  // in the out pages
  uint32_t out_page_ = 0;     // area page of the first out page
  uint32_t rows_written_ = 0;
};

}  // namespace varve::flash
