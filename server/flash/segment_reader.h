// The reading end of one target: demand reads, verified before anybody sees them (I1, L4).
//
// A place that the drive cannot read is asked twice, then lost like rot, under its own name. A read
// that fails for what the bytes are (header, place, checksum) is rot: counted, the user
// forgets the place, the read ends with kCorrupt. A place that is not readable any more (its
// segment was erased since it was looked up) is stale: kCorrupt without a word to the user.
#pragma once

#include <memory>
#include <vector>

#include "server/flash/target.h"

namespace varve::flash {

class SegmentReader final : public Task {
 public:
  explicit SegmentReader(Target& target) : target_(target) {}
  SegmentReader(const SegmentReader&) = delete;
  SegmentReader& operator=(const SegmentReader&) = delete;

  void read(SliceLog& log, Read& read);
  bool idle() const { return reading_ == 0; }
  void run() override;
  const char* name() const override { return "flash.reader"; }

 private:
  struct Slot {
    Transfer transfer;
    SegmentReader* reader = nullptr;
    SliceLog* log = nullptr;
    Read* read = nullptr;
    uint64_t nonce = 0, sequence = 0;
    Nanos started_ns = 0;
    uint32_t tries = 0;
    Status early;  // why it ends without I/O
    Slot* next = nullptr;
  };
  static constexpr uint32_t kTries = 2;

  Slot& take_slot();
  void done(Slot& slot);
  void lost(Slot& slot, DropReason reason, Status why);
  void end_early(Slot& slot, Status why);
  Status verify(const Slot& slot) const;
  void finish(Slot& slot, Status status);

  Target& target_;
  std::vector<std::unique_ptr<Slot>> slots_;  // as many as reads ever waited at once
  Slot* free_ = nullptr;
  Queue<Slot, &Slot::next> early_;  // end in the next turn, without I/O
  uint32_t reading_ = 0;
};

}  // namespace varve::flash
