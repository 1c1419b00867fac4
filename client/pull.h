// ClientPullOp: layers of blocks into the caller's scattered memory, verified, in layer order.
//
// The payload is received straight into the caller's memory; each piece is checksummed while it is
// hot and an extent counts only when its stored CRC32C holds (I1). Cancel and deadline go through
// the fence: from then on nothing new is placed, and the terminal event comes when no receive is in
// flight into this op's memory and the daemon said FENCED, or the lanes were closed (I8). A lost
// session is asked once more, from the first layer that was not handed over. Extents that the
// daemon says are lost or late are rebuilt (rebuild.h); a pull ends only when each has arrived or
// its block has failed.
//
// A follow is the same, asked with FOLLOW: of each block one attempt, named from the start, and
// nothing else. That all of it is here says nothing yet: only PULLED says that it was committed.
#pragma once

#include "client/core.h"
#include "client/rebuild.h"

namespace varve {

class ClientPullOp final : public ClientOp {
 public:
  // `attempts`: of each block, for a follow; none for a pull.
  ClientPullOp(Core& core, OpId op, PullRequest request, BoundLayout layout,
               std::vector<Attempt> attempts);
  void run() override;
  const char* name() const override { return "client.pull"; }
  void on_lost(Status cause) override;
  void on_frame(const wire::Frame& frame) override;
  void on_timer() override;
  uint64_t lease_in_use() const override { return resent_ ? 0 : request_.lease; }
  void place(uint64_t op, const wire::Data& data, uint32_t payload_bytes, ByteSpan bounce,
             Placement& where);
  void on_data(uint64_t op, const wire::Data& data, uint32_t payload_bytes, const Placement& where);

  // For Rebuild, while something is lost or late.
  const ExtentTable& table() const { return *table_; }
  const BoundLayout& layout() const { return layout_; }
  StripeIn::Of stripe_of(uint32_t block, uint32_t stripe) const;
  StripeIn::Sight sight(const StripeIn::Of& of) const;
  bool misses(uint32_t block, uint32_t extent) const;    // it is still to arrive
  bool receives(uint32_t block, uint32_t extent) const;  // a lane may write into it
  void came_from(uint8_t tiers) { tier_mask_ |= tiers; }
  // What still comes of it is discarded.
  void close_extent(uint32_t block, uint32_t extent) { progress(block, extent).closed = true; }
  void deliver(uint32_t block, uint32_t extent, std::span<std::byte* const> columns);
  void fail_block(uint32_t block, Code code);
  bool send_wants(uint64_t wire_op, std::span<const uint32_t> blocks,
                  std::span<const wire::Want> wants);
  bool send_cancel(uint32_t block, uint32_t extent);
  bool may_ask() const { return retry_now(); }
  // Wants name the lease no more. False: they did not.
  bool forget_lease() { return std::exchange(wants_leased_, false) && request_.lease != 0; }
  void pause() { retry_later(Status()); }
  void forget_pauses() { retry_anew(); }  // the next one is short again
  Nanos due_ns() const { return started_ns_ + std::min(request_.slack_ns, kDeadlineMax); }

 private:
  enum class Stage : uint8_t { kAsk, kReceive, kFence, kDone };
  struct Progress {  // of one (block, extent)
    uint32_t received = 0;
    uint32_t crc = 0;
    bool receiving = false;  // a placement is under way: one at a time
    bool bounced = false;    // that one goes through the bounce buffer
    bool settled = false;    // verified, or written off with its block
    bool late = false;       // the daemon said so
    bool closed = false;     // lost, or fenced: what still comes of it is discarded
  };
  struct Block {
    Code code = Code::kOk;
    uint32_t missing = 1;  // extents; of how many is known when the session is
    Attempt attempt;
  };
  bool ask();
  ConstByteSpan encode_ask();  // empty: it was cancelled
  void ask_again(Status refused);
  bool name_lease(wire::Pull& body);
  bool is_follow() const { return !attempts_.empty(); }
  Code check_attempt(uint32_t block, const Attempt& attempt);
  void forget();
  void restart();
  bool fits(const wire::Data& data, uint32_t payload_bytes);
  void copy_out(uint32_t block, uint32_t extent, uint32_t offset, ConstByteSpan bytes);
  void arrive(uint32_t block, uint32_t extent);
  bool in_range(uint32_t extent) const {
    return extent >= extent_first_ && extent < extent_first_ + extent_count_;
  }
  bool complete() const;
  void settle(uint32_t block, uint32_t extent);
  void announce_layers();
  void take_pulled(const wire::PulledView& answer);
  void take_lost(const wire::LostView& view);
  Code check_row(const wire::LostExtent& row);
  void begin_fence();
  void finish(Status status);
  Progress& progress(uint32_t block, uint32_t extent) {
    VARVE_ASSERT(block < blocks_.size() && in_range(extent), block, extent);
    return progress_[size_t{block} * extent_count_ + (extent - extent_first_)];
  }
  const Progress& progress(uint32_t block, uint32_t extent) const {
    VARVE_ASSERT(block < blocks_.size() && in_range(extent), block, extent);
    return progress_[size_t{block} * extent_count_ + (extent - extent_first_)];
  }

  PullRequest request_;
  BoundLayout layout_;
  std::vector<Attempt> attempts_;       // that a follow named
  const ExtentTable* table_ = nullptr;  // of the session that was asked last
  Stage stage_ = Stage::kAsk;
  uint32_t extent_first_ = 0, extent_count_ = 0;
  std::vector<Progress> progress_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> layer_missing_;  // (block, extent) pairs per layer, from layer_first
  uint32_t next_layer_ = 0;
  uint32_t blocks_alive_ = 0, extents_missing_ = 0;
  uint32_t receiving_ = 0;  // placements of ours under way
  uint64_t wire_op_ = 0;
  Rebuild rebuild_;
  bool wants_leased_ = true;
  bool resent_ = false, pulled_ = false, fenced_ = false;
  bool told_ = false;  // by PULLED, of each block how it ended
  Status pulled_status_;
  Nanos first_layer_ns_ = 0;
  uint64_t bytes_ = 0;
  uint8_t tier_mask_ = 0;
};

}  // namespace varve
