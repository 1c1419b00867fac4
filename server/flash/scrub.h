// Scrub of one target: every live fragment of every sealed segment read and verified whole, both
// checksums of every extent, at background priority. Rot is reported to the user, who forgets it.
//
// A pass by interval pauses between its windows so that it takes about half of the interval. It
// gives a segment up that reclaim has chosen, and the pass when the shard drains.
#pragma once

#include <algorithm>
#include <vector>

#include "server/flash/fragment.h"
#include "server/flash/window_op.h"

namespace varve::flash {

inline constexpr Nanos kScrubPauseMax = 100 * kMillisecond;

class ScrubOp final : public WindowOp {
 public:
  explicit ScrubOp(Target& target);

  ~ScrubOp();

  void start();                         // at once; a pass that runs makes no pause any more
  void start_paced(Nanos duration_ns);  // about this long, see kScrubPauseMax
  void stop();                          // a pass that pauses ends now, any other at its next step
  bool running() const { return stage_ != Stage::kIdle; }
  // Of the pass that runs: live pages when it began, and of these, those it is through with. What
  // is pushed meanwhile may make it more.
  uint64_t pass_pages() const { return running() ? pass_pages_ : 0; }
  uint64_t pass_done_pages() const {
    return running() ? std::min(pass_done_pages_, pass_pages_) : 0;
  }
  void run() override;
  const char* name() const override { return "flash.scrub"; }

 private:
  enum class Stage : uint8_t { kIdle, kSegment, kFooterRead, kEntry, kPause, kRead, kTake };
  static constexpr uint32_t kAskMax = 256;  // dead entries passed over in one turn

  void go(Stage stage) {
    stage_ = stage;
    again();
  }
  void next_segment();
  void take_footer(Status status);
  void next_entry();
  void read_window();
  void take_window(Status status);
  void end_entry(Status status);
  void leave_segment();
  void end_pass();
  bool must_leave() const;
  Nanos take_pause_ns();

  Stage stage_ = Stage::kIdle;
  uint32_t slice_ = 0;
  uint32_t segment_ = 0;  // the next one to look at
  SliceLog* log_ = nullptr;
  uint32_t held_ = 0;  // the segment being scrubbed: not erased meanwhile
  std::vector<CatalogEntry> entries_;
  uint32_t cursor_ = 0;
  FragmentInfo info_;
  FragmentCheck check_;
  uint32_t done_pages_ = 0;
  uint32_t window_count_ = 0;
  Nanos duration_ns_ = 0;    // of the pass; 0 = as fast as it goes
  uint64_t pass_pages_ = 0;  // live when it began
  uint64_t pass_done_pages_ = 0;
  uint32_t unpaced_pages_ = 0;  // read since the last pause
  Timer pause_;
};

}  // namespace varve::flash
