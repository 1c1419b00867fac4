// The writing end of one target's segments: append, the segment header, the seal.
//
// An append goes straight from the caller's pages. It counts as written when its own write and its
// segment's header have completed, and as durable after a flush submitted from then on (L1).
// Sealing: flush, then the footer; the footer needs no flush of its own (FORMAT 7.5).
#pragma once

#include <memory>
#include <vector>

#include "common/reactor/op.h"
#include "server/flash/catalog.h"
#include "server/flash/target.h"

namespace varve::flash {

class SegmentWriter;

struct HeaderWaiter {
  using Done = void (*)(HeaderWaiter&, Status);
  Done on_done = nullptr;
  void* owner = nullptr;
  HeaderWaiter* next = nullptr;
};

// I/O of one open segment from its first append to its seal. Pooled; grows to its peak only.
struct SegmentIo final : public Op {
  enum class Stage : uint8_t { kFlush, kFooter, kDone };

  explicit SegmentIo(SegmentWriter& of_writer);
  void begin() {
    reset();
    stage = Stage::kFlush;
  }
  void run() override;
  const char* name() const override { return "flash.seal"; }

  SegmentWriter& writer;
  SliceLog* log = nullptr;
  uint32_t segment = 0;
  Stage stage = Stage::kFlush;
  FooterImage footer;
  PageMemory header{1};
  iovec header_run = {};
  Transfer header_transfer;
  Transfer footer_transfer;
  FlushWaiter flush;
  bool header_written = false;
  Status header_status;
  Queue<HeaderWaiter, &HeaderWaiter::next> header_waiters;
  Op* sealed_waiter = nullptr;  // recovery, waiting for the end of the seal
};

class SegmentWriter {
 public:
  explicit SegmentWriter(Target& target) : target_(target) {}
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  void append(SliceLog& log, Append& append);
  // The record goes to a page that log.take_kill() gave; flushed with what else waits (kNow).
  void kill(SliceLog& log, OpenSegment& open, Kill& kill);
  // Makes sure that the header of an open segment is on its way: sequence and nonce are valid
  // after.
  SegmentIo& open(SliceLog& log, OpenSegment& open);
  // Calls the waiter in this or a later turn, but never inside this call, when the header is
  // written. True: it is already, the waiter is not used.
  bool header_written(SegmentIo& io, HeaderWaiter& waiter);
  // Seals what is quiet: all but the newest open segments, or (`all`) these too.
  void seal_quiet(SliceLog& log, SealScope scope);
  // Recovery: an unsealed segment of an earlier life gets the footer it never had.
  SegmentIo& adopt(SliceLog& log, uint32_t segment);
  void seal(SegmentIo& io);
  bool idle() const { return appending_ == 0 && sealing_ == 0; }

 private:
  friend struct SegmentIo;
  struct Slot {  // one append, or one record
    Transfer transfer;
    HeaderWaiter header;
    FlushWaiter flush;
    SegmentWriter* writer = nullptr;
    Append* append = nullptr;
    Kill* kill = nullptr;
    std::unique_ptr<PageMemory> page;  // of records: from the first one on
    iovec page_run = {};
    SliceLog* log = nullptr;
    OpenSegment* open = nullptr;
    Nanos started_ns = 0;
    Slot* next_free = nullptr;
  };

  Slot& take_slot();
  SegmentIo& take_io(SliceLog& log, uint32_t segment);
  void header_done(SegmentIo& io, Status status);
  void write_done(Slot& slot);
  void written(Slot& slot, Status status);
  void finish(Slot& slot, Status status);
  void finish_kill(Slot& slot, Status status);
  void seal_done(SegmentIo& io, Status status);

  Target& target_;
  std::vector<std::unique_ptr<Slot>> slots_;  // as many as appends were ever waiting at once
  Slot* free_slots_ = nullptr;
  std::vector<std::unique_ptr<SegmentIo>> ios_;
  std::vector<SegmentIo*> free_ios_;
  uint32_t appending_ = 0;
  uint32_t sealing_ = 0;
};

}  // namespace varve::flash
