// ClientRenewOp: a lease made to last longer or less long, by its caller or because a pull needs
// it.
//
// One RENEW per batch of the lease's match; it lasts as long as the shortest of them is granted,
// and is over when one of them is. What nobody asked for ends without an event.
#pragma once

#include "client/core.h"

namespace varve {

class ClientRenewOp final : public ClientOp {
 public:
  enum class For : uint8_t { kCaller, kUse };
  ClientRenewOp(Core& core, OpId op, const RenewRequest& request, For who);
  void run() override;
  const char* name() const override { return "client.renew"; }
  void on_lost(Status cause) override;
  void on_frame(const wire::Frame& frame) override;

 private:
  enum class Stage : uint8_t { kAsk, kAnswer, kDone };
  bool ask();
  void take(Code code);
  void finish(Status status);

  RenewRequest request_;
  For for_;
  Stage stage_ = Stage::kAsk;
  std::vector<uint64_t> wire_ops_;  // of the parts asked so far
  uint32_t owed_ = 0;               // their answers
  Nanos asked_ns_ = 0;              // the first of them
  uint32_t granted_ms_ = 0;
  Code code_ = Code::kOk;  // the worst answer
};

}  // namespace varve
