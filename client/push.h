// ClientPushOp: layers out of the caller's memory as they become final, extent by extent over all
// blocks.
//
// Payload leaves straight from the caller's memory; both checksums are computed in one fused pass
// just before an extent's pieces are queued. Extents and COMMIT of one block share one bulk lane,
// so the order is the lane's. Blocks are independent (I9). The terminal event comes when no send
// refers to the caller's memory.
#pragma once

#include "client/core.h"

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
  enum class Stage : uint8_t { kReserve, kGranted, kSend, kCommitted, kFence, kDone };
  struct Block {
    Code code = Code::kOk;
    bool granted = false, settled = false;  // settled: its answer is known
    bool committing = false;                // COMMIT was sent
    bool exists = false;                    // somebody else's bytes are there already
    Attempt attempt;
    std::vector<ExtentEntry> entries;
  };
  bool reserve();
  void take_answers(const wire::ReservedView& answers);
  void announce();
  bool send_extents();               // false: no room or the next layer is not final yet
  bool send_extent(uint32_t block);  // the current extent of this block; false: no room
  bool send_piece(uint32_t block, const ExtentSpec& spec);
  bool commit(uint32_t block);
  bool extent_final(uint32_t extent) const;
  void settle(uint32_t block, Code code);
  void give_back();
  void finish(Status status);
  uint32_t lane_of(uint32_t block) const { return block % core_.session().lanes(); }

  PushRequest request_;
  BoundLayout layout_;
  const ExtentTable* table_;
  Stage stage_ = Stage::kReserve;
  std::vector<Block> blocks_;
  std::vector<bool> layer_final_;
  uint32_t extent_ = 0, block_ = 0;  // the cursor, extent-major
  uint32_t offset_ = 0;              // inside the current extent
  uint32_t sending_ = 0;             // pieces that refer to the caller's memory
  uint32_t unsettled_ = 0;
  uint64_t wire_op_ = 0;
  bool reserved_ = false;
  uint64_t bytes_ = 0;
};

}  // namespace varve
