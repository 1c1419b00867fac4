// ExtentOp: one extent of one block on its way to one pull: read it if need be, then send it, or
// say that it is lost.
//
// It holds the block's pin and counts as a user of the extent's bytes, so that neither leaves DRAM
// before the last frame is off the lane. A fragment that cannot be read costs its extents, not the
// block: the reader is told, with the extent's row of the table, and rebuilds it from others. A
// pull that ends early detaches those that still read: the read goes on for whoever else waits, and
// nothing is sent.
#pragma once

#include "common/reactor/op.h"
#include "server/op/fetch.h"
#include "server/op/part.h"
#include "server/tier/tier.h"

namespace varve {

struct OpContext;
class PullOp;
class SendTable;

struct SendHook : ListHook {};  // waits for DATA frames
struct PullHook : ListHook {};  // belongs to a pull

class ExtentOp final : public Op, public SendHook, public PullHook {
 public:
  explicit ExtentOp(OpContext& context);

  struct Begin {
    PullOp* pull = nullptr;
    PullPart* part = nullptr;
    uint32_t item = 0;      // of the pull
    uint32_t position = 0;  // of the block in the request
    TierBlock* block = nullptr;
    uint32_t extent = 0;
    uint32_t fragment = 0;  // the position that holds it
    uint32_t bytes = 0;     // by the format
    Nanos wanted_ns = 0;
    Fetch* fetch = nullptr;     // set: this op has taken the pages and reads the extent itself
    bool lead_started = false;  // this op opened the block
    bool lost = false;          // its fragment cannot be read: only the header is wanted
    bool ahead = false;         // only read: whoever will ask for it finds it in DRAM
  };
  void begin(const Begin& begin);
  // The pull is over: no frame leaves from here on. Only while the session has nothing of it.
  void detach();
  // Frames on a lane, or a note.
  bool with_session() const { return stage_ == Stage::kDone || note_out_; }
  uint32_t item() const { return at_.item; }
  uint32_t extent() const { return at_.extent; }
  uint32_t fragment() const { return at_.fragment; }
  uint32_t credit_bytes() const { return at_.ahead ? 0 : at_.bytes; }
  bool lost() const { return at_.lost; }
  bool ahead() const { return at_.ahead; }

  void run() override;
  const char* name() const override { return "extent"; }

  // Its read takes long: tells the reader, once.
  void late();
  // Answered when the session has nothing of it.
  void fence(FencePart& part) { fences_.push(&part); }

  // For SendTable: one frame at a time, in offset order.
  Nanos wanted_ns() const { return at_.wanted_ns; }
  uint32_t frames_left() const { return frames_left_; }
  bool unwanted() const;
  void post(DataSend& send);
  void drop_frames();
  SendTable& sends();

 private:
  enum class Stage : uint8_t { kLead, kRead, kSend, kDone, kLost };
  void wait_for(uint32_t extent);
  bool others_are_enough() const;
  void failed(Status status);
  void post_note(wire::LostState state, Code code);
  void note_back();
  Status check_entry();
  bool fetch_now();
  void finish(Status status);

  OpContext& context_;
  Stage stage_ = Stage::kLead;
  Begin at_;
  ExtentEntry entry_;
  ExtentWaiter waiter_;
  bool from_dram_ = false;
  bool read_here_ = false;
  uint32_t frames_left_ = 0;
  uint32_t posted_bytes_ = 0;
  LostNote note_;
  bool note_out_ = false;  // with the session
  bool late_told_ = false;
  bool lost_told_ = false;
  Code lost_code_ = Code::kOk;
  bool ended_ = false;  // waits for its note only
  Status end_;
  Queue<FencePart, &FencePart::next> fences_;
  Nanos send_started_ns_ = 0;
};

// DATA frames on their way; an extent whose frames find none free waits, least slack first.
class SendTable final : public Task {
 public:
  SendTable(OpContext& context, uint32_t sends_max);
  void queue(ExtentOp& op);
  // What waits for frames and is of no use any more ends now, whoever the frames are with.
  void drop_unwanted();
  void run() override;
  const char* name() const override { return "send"; }
  uint32_t live() const { return pool_.used(); }

 private:
  void returned(DataSend& send);
  OpContext& context_;
  Pool<DataSend> pool_;
  List<ExtentOp, SendHook> waiting_;
  bool front_partly_posted_ = false;
};

}  // namespace varve
