// ClientPurgeOp: blocks, a lineage or the domain, never to be found again; asked once.
#pragma once

#include "client/core.h"

namespace varve {

class ClientPurgeOp final : public ClientOp {
 public:
  ClientPurgeOp(Core& core, OpId op, PurgeRequest request);
  void run() override;
  const char* name() const override { return "client.purge"; }
  void on_lost(Status cause) override;
  void on_frame(const wire::Frame& frame) override;

 private:
  enum class Stage : uint8_t { kAsk, kAnswer, kDone };
  bool ask();
  void finish(Status status);

  PurgeRequest request_;
  Stage stage_ = Stage::kAsk;
  uint64_t wire_op_ = 0;
  bool answered_ = false;
  PurgeResult result_;
};

}  // namespace varve
