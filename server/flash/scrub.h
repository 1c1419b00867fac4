// Scrub of one target: every live fragment of every sealed segment read and verified whole, both
// checksums of every extent, at background priority. Rot is reported to the user, who forgets it.
#pragma once

#include <vector>

#include "server/flash/fragment.h"
#include "server/flash/window_op.h"

namespace varve::flash {

class ScrubOp final : public WindowOp {
 public:
  explicit ScrubOp(Target& target);

  void start();  // no-op while a pass runs
  bool running() const { return stage_ != Stage::kIdle; }
  void run() override;
  const char* name() const override { return "flash.scrub"; }

 private:
  enum class Stage : uint8_t { kIdle, kSegment, kFooterRead, kEntry, kRead, kTake };
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
};

}  // namespace varve::flash
