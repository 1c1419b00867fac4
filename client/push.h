// ClientPushOp: layers out of the caller's memory as they become final, extent by extent over all
// blocks.
//
// The ids are reserved in prefix order, window by window: a RESERVE for a run of ids, at most one
// under way, as many ids as the pace allows. What the daemon refuses for now is asked again after a
// pause until the deadline. Payload leaves straight from the caller's memory; both checksums are
// computed in one fused pass just before an extent's pieces are queued. Behind the last data extent
// of a stripe its parity leaves, made in scratch round by round. Extents and COMMIT of one
// block share one bulk lane, so the order is the lane's. Blocks are independent (I9). The terminal
// event comes when no send refers to the caller's memory.
// Invariants:
//   U1 what is granted behind a block that is refused for now is given back unsent and asked for
//      after it, so that no run of a prefix is stored that no match can reach. A busy block is no
//      such hole: another writer holds its place.
#pragma once

#include <deque>
#include <vector>

#include "client/core.h"
#include "client/stripe_out.h"

namespace varve {

class ClientPushOp final : public ClientOp {
 public:
  ClientPushOp(Core& core, OpId op, PushRequest request, BoundLayout layout);
  void run() override;
  const char* name() const override { return "client.push"; }
  void on_lost(Status cause) override;
  void on_frame(const wire::Frame& frame) override;
  void on_timer() override;
  Status layer_final(uint32_t layer);
  void on_sent(PieceSend& piece);

 private:
  enum class Stage : uint8_t { kBegin, kMove, kFence, kDone };
  enum class Answer : uint8_t {
    kNone,     // not asked, or given back behind a hole
    kForNow,   // refused; a moment may change it
    kBusy,     // another writer has it: these first three are open, to be asked for (again)
    kAsked,    // RESERVE is under way
    kGranted,  // ours to write
    kFinal,    // exists, or refused for good
  };
  struct Block {
    Code code = Code::kOk;
    Answer answer = Answer::kNone;
    bool settled = false;     // its end is known
    bool committing = false;  // COMMIT was sent
    bool exists = false;      // somebody else's bytes are there already
    bool told = false;        // a kReserved named its attempt
    Nanos not_before_ns = 0;  // refused or busy: the pause before it is asked for again
    Attempt attempt;
    uint64_t granted_by = 0;  // the window that sends it: an earlier one may be over it as well
    std::vector<ExtentEntry> entries;
  };
  // One RESERVE: a run of blocks, and the cursor of what was sent of them, extent-major.
  struct Window {
    uint64_t wire_op = 0;
    uint32_t first = 0, count = 0;
    bool answered = false;
    uint32_t unsettled = 0;  // granted and without an end
    uint32_t extent = 0, block = 0, offset = 0;
  };
  enum class Sent : uint8_t { kAll, kNotFinal, kNoRoom };
  bool begin();
  void reserve();
  bool next_run(uint32_t* first, uint32_t* count);
  bool send_reserve(uint32_t first, uint32_t count);
  void on_reserved(Window& window, const wire::ReservedView& answers);
  void take_answers(Window& window, const wire::ReservedView& answers);
  void reopen(uint32_t index, Answer answer, Code code);
  void refuse(uint32_t index, Code code);
  bool open(uint32_t index) const { return blocks_[index].answer <= Answer::kBusy; }
  void take_grant(Window& window, uint32_t index, const Attempt& attempt);
  void abort(const Window& window, uint32_t index, const Attempt& attempt);
  void on_committed(Window& window, const wire::Committed& body);
  void announce();
  void send();
  Sent send_window(Window& window);
  Sent send_extent(Window& window, uint32_t block);  // the cursor's extent of this block
  Sent send_piece(Window& window, uint32_t block, const ExtentSpec& spec);
  Sent send_parity(Window& window, uint32_t block);  // of the stripe that the cursor's extent ends
  Sent send_parity_piece(Window& window, uint32_t block);
  bool take_bounce(uint32_t index, const ExtentSpec& spec, uint32_t length, Columns& out);
  void queue(PieceSend& piece, const Window& window, uint32_t block, wire::Extent head);
  bool commit(Window& window, uint32_t block);
  void seal_entry(uint32_t block, uint32_t extent);
  bool extent_final(uint32_t extent) const;
  Window* find_window(uint64_t wire_op);
  void retire_windows();
  void end_attempts(uint32_t count);
  void settle(uint32_t block, Code code);
  void drop_parity();
  void give_back();
  void finish(Status status);
  uint32_t lane_of(uint32_t block) const { return block % core_.session().lanes(); }

  PushRequest request_;
  BoundLayout layout_;
  const ExtentTable* table_ = nullptr;  // the session's, from kMove on
  Stage stage_ = Stage::kBegin;
  std::vector<Block> blocks_;
  std::deque<Window> windows_;  // oldest first; gone when nothing of them is owed
  StripeOut parity_;            // of the one block whose parity is leaving
  uint64_t parity_window_ = 0;  // and the window that sends it
  std::vector<bool> layer_final_;
  uint32_t sending_ = 0;  // pieces that refer to the caller's memory
  uint32_t unsettled_ = 0;
  uint32_t open_ = 0;        // blocks to ask for (again)
  uint32_t open_first_ = 0;  // none before it is open
  uint32_t attempts_ = 0;    // taken from the pace
  bool asking_ = false;      // a RESERVE is under way
  bool in_line_ = false;     // for the next one
  bool news_ = false;        // answers that no kReserved told of
  uint64_t bytes_ = 0;
};

}  // namespace varve
