// ClientMatchOp: the longest prefix that every rank has, asked in batches that stop at the first
// gap; or, of each id, in batches that do not.
#pragma once

#include "client/core.h"

namespace varve {

class ClientMatchOp final : public ClientOp {
 public:
  ClientMatchOp(Core& core, OpId op, MatchRequest request);
  void run() override;
  const char* name() const override { return "client.match"; }
  void on_lost(Status cause) override;
  void on_frame(const wire::Frame& frame) override;

 private:
  enum class Stage : uint8_t { kAsk, kAnswer, kDone };
  bool each() const { return request_.of == MatchOf::kEach; }
  bool ask();
  void take(const wire::MatchedView& answer);
  void take_lease(const wire::Matched& body);
  void take_tiers(const wire::MatchedView& answer);
  void finish(Status status);

  MatchRequest request_;
  Stage stage_ = Stage::kAsk;
  uint32_t asked_ = 0;  // ids answered so far
  uint32_t batch_ = 0;  // ids in the batch under way
  uint64_t wire_op_ = 0;
  Nanos asked_ns_ = 0;
  bool admitted_ = false, resent_ = false, answered_ = false, more_ = true;
  Event result_;
  ClientLease lease_;
};

}  // namespace varve
