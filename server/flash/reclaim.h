// Reclaim of one target: makes room by emptying and erasing the sealed segment with the least live
// pages, one at a time.
//
// What is worth keeping is copied through a window, verified on the way, to reclaim's own open
// segment; then flush, wait for the last reader of the victim, zero its footer and its header,
// flush (L3). Where even the best victim is nearly full, the user is asked to evict first; where
// nothing can be gained, the slice rests until something is released or a reservation is refused
// again.
#pragma once

#include "server/flash/kill.h"
#include "server/flash/segment_writer.h"
#include "server/flash/window_op.h"

namespace varve::flash {

class ReclaimOp final : public WindowOp {
 public:
  ReclaimOp(Target& target, SegmentWriter& writer);

  // Something changed: a slice fell low, a reservation was refused, pages were released, a read
  // ended.
  void wake();
  bool running() const { return stage_ != Stage::kIdle; }
  static bool wants(const Target& target, const SliceLog& log);
  void run() override;
  const char* name() const override { return "flash.reclaim"; }

 private:
  static constexpr uint32_t kAsksMax = 8;        // evictions asked for in one round
  static constexpr uint32_t kVerdictsMax = 256;  // entries in one turn
  static constexpr uint32_t kReadTries = 2;
  static constexpr uint32_t kFruitlessAsk = 2;  // victims without one more free segment
  static constexpr uint32_t kFruitlessMax = 8;

  enum class Stage : uint8_t {
    kIdle,
    kPick,
    kChoose,
    kFooterRead,
    kEntries,
    kCopyRead,
    kCopyTake,
    kCopyWritten,
    kCopied,
    kCopyFlushed,
    kReaders,
    kFooterZeroed,
    kZeroed,
    kErased,
    kDiscarded,
  };

  void go(Stage stage) {
    stage_ = stage;
    again();
  }
  void pick();
  void choose();
  bool for_record() const;
  bool ask();
  void take_footer(Status status);
  void entries();
  bool copy_begin(const FragmentInfo& from, const KillInfo* record);
  bool copy_kill(const CatalogEntry& entry);
  void copy_read();
  void copy_take(Status status);
  bool verify_window(uint32_t pages);
  void copy_lost(DropReason reason, const char* why);
  void copied();
  void kill_over();
  void emptied();
  void readers();
  void unaccounted();
  void erased();
  void give_up();

  SegmentWriter& writer_;
  Stage stage_ = Stage::kIdle;
  SliceLog* log_ = nullptr;
  uint32_t next_slice_ = 0;
  uint32_t victim_ = 0;
  uint32_t asks_ = 0;
  uint32_t fruitless_ = 0;
  uint32_t free_best_ = 0;
  bool pressed_ = false;     // somebody was refused: worth copying much for little
  bool copied_any_ = false;  // since the last flush, also of a victim that was given up
  bool copying_kill_ = false;
  uint64_t oldest_ = 0;                // sequence of the slice, the victim aside
  std::vector<CatalogEntry> entries_;  // of the victim; the window is needed for copying
  uint32_t cursor_ = 0;
  FragmentInfo from_;
  Place to_;
  OpenSegment* open_ = nullptr;
  SegmentIo* io_ = nullptr;
  FragmentCheck check_;
  CatalogEntry copy_entry_;
  uint32_t copied_pages_ = 0;
  uint32_t window_count_ = 0;
  uint32_t tries_ = 0;
  HeaderWaiter header_;
};

}  // namespace varve::flash
