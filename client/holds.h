// ClientHoldsOp: what all sessions of a domain hold, page by page, as one event.
#pragma once

#include "client/core.h"

namespace varve {

// Several times what a daemon's pools hold: beyond it the rows so far, and kOverloaded.
inline constexpr uint32_t kHoldRowsMax = 65536;

class ClientHoldsOp final : public ClientOp {
 public:
  ClientHoldsOp(Core& core, OpId op, const HoldsRequest& request);
  void run() override;
  const char* name() const override { return "client.holds"; }
  void on_lost(Status cause) override;
  void on_frame(const wire::Frame& frame) override;

 private:
  enum class Stage : uint8_t { kAsk, kAnswer, kDone };
  bool ask();
  void take(const wire::HeldView& page);
  void finish(Status status);

  Stage stage_ = Stage::kAsk;
  uint64_t wire_op_ = 0;
  uint64_t cursor_ = 0;  // of the next page
  bool answered_ = false;
  std::vector<HoldRow> rows_;
};

}  // namespace varve
