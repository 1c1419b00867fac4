// Rig: one home shard's ops over a fake flash, and a session side that a test can hold and release.
//
// Everything runs on one reactor in manual time. The session answers credit and DATA frames at
// once, or keeps them until told; what arrives is put together per (position, extent) and compared
// with the bytes that were pushed.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "common/reactor/reactor.h"
#include "server/op/op.h"
#include "tests/server/op/fake_flash.h"

namespace varve {

struct RigOptions {
  uint32_t arena_pages = 8192;
  uint32_t push_pages = 4096, pull_pages = 1024, resident_pages = 1024;
  uint32_t blocks_max = 256;
  uint32_t index_blocks_max = 1024;
  uint32_t targets = 2;
  uint32_t ranks = 1;
  std::vector<uint32_t> layer_bytes = {70000, 70000, 200000, 70000};
  uint32_t repair_pages = 512;  // besides
  OpOptions op;                 // with the scheme
};

class Rig {
 public:
  explicit Rig(RigOptions options = {});
  ~Rig();

  // Turns and moves time to the next timer until `done` or `for_ns` went by; false when it did.
  template <class Done>
  bool run_until(Done done, Nanos for_ns = 10 * kSecond) {
    const Nanos end_ns = clock.now_ns() + for_ns;
    while (!done()) {
      if (reactor.turn()) continue;
      const Nanos due_ns = reactor.next_work_ns();
      if (due_ns > end_ns) {
        clock.advance_to(end_ns);
        reactor.turn();
        return done();
      }
      clock.advance_to(std::max(due_ns, clock.now_ns()));
    }
    return true;
  }
  void run_for(Nanos duration_ns) {
    run_until([] { return false; }, duration_ns);
  }
  void settle() { run_for(50 * kMillisecond); }

  BaseId id(uint32_t n) const;
  BlockId block(uint32_t n, uint32_t rank = 0) const { return {id(n), rank, domain}; }
  // Where the fragment of a position lies; of a block that is there.
  flash::Place place_of(const BlockId& block, uint32_t position = 0) const;
  // The target that holds this extent of block n.
  uint32_t holder_of(uint32_t n, uint32_t extent) const {
    return place_of(block(n), flash::position_at(table(), block(n), extent)).target;
  }
  // Its reads stay in flight until flash.let_go().
  void hold_reads_of(uint32_t target) {
    flash.hold_reads = true;
    flash.hold_targets = 1u << target;
  }
  // The bytes that push() writes for extent `e` of block `n`, parity included.
  std::vector<std::byte> bytes_of_extent(uint32_t n, uint32_t e) const;
  const ExtentTable& table(uint32_t rank = 0) const { return format.tables[rank]; }

  // --- parts, one at a time unless a test makes its own
  struct Reserved {
    Status status;
    std::vector<GrantLoan> loans;
  };
  Reserved reserve(const std::vector<uint32_t>& blocks, uint32_t rank = 0);
  void fill(const GrantLoan& loan, uint32_t n);  // payload, pads and table, as the session does
  Status commit(const GrantLoan& loan, wire::AckKind ack = wire::AckKind::kCached);
  Status abort(const GrantLoan& loan);
  void push(const std::vector<uint32_t>& blocks, uint32_t rank = 0);  // cached, and on flash
  // Takes the fragment of one position away, as a fault would.
  void lose(uint32_t n, uint32_t position);
  void drop_from_dram(uint32_t n, uint32_t rank = 0);

  struct Matched {
    std::vector<wire::TierKind> tiers;
    LeaseId lease = 0;
    uint32_t found() const;
  };
  Matched match(const std::vector<uint32_t>& blocks, uint32_t lease_ms = 0,
                wire::MatchOf of = wire::MatchOf::kPrefix);
  void release(LeaseId lease, uint32_t keep_below = 0);
  void gone();

  // A pull in progress: the part, its inputs and what came of it.
  struct Pull {
    Rig* rig = nullptr;
    PullPart part;
    RequestIds request;
    std::vector<uint8_t> codes;
    bool back = false;
    std::map<std::pair<uint32_t, uint32_t>, std::vector<std::byte>> got;
    std::vector<std::pair<uint32_t, uint32_t>> order;  // (extent, position) of first frames
    std::vector<wire::LostExtent> lost;
    std::vector<wire::Want> wants;
    uint64_t granted_bytes = 0, posted_bytes = 0;
    Code code(uint32_t i) const { return static_cast<Code>(codes[i]); }
  };
  std::unique_ptr<Pull> make_pull(const std::vector<uint32_t>& blocks, uint32_t rank = 0);
  // Just these extents: (index in `blocks`, extent).
  std::unique_ptr<Pull> make_wants(const std::vector<uint32_t>& blocks,
                                   const std::vector<wire::Want>& wants);
  // Sends nothing of this extent from the time it returns on.
  void fence(Pull& pull, uint32_t block, uint32_t extent);
  void start(Pull& pull) { operations->begin(pull.part); }
  void finish(Pull& pull) {
    ASSERT_TRUE(run_until([&] { return pull.back; })) << "the pull did not come back";
    EXPECT_EQ(pull.granted_bytes, pull.posted_bytes + pull.part.credit_unused_bytes);
  }
  // Every extent asked for of every block that ended well arrived with the right bytes.
  void expect_bytes(const Pull& pull, const std::vector<uint32_t>& blocks) const;
  void expect_at_rest();

  // --- the session's side, held on demand
  bool hold_credit = false, hold_data = false;
  Status credit_status, data_status;
  std::vector<CreditAsk*> asks;
  std::vector<DataSend*> sends;
  void answer_credit();
  void answer_data(size_t limit = ~size_t{0});

  RigOptions options;
  ManualClock clock;
  Reactor reactor;
  std::vector<std::byte> memory;
  Arena arena;
  DramTier tier;
  Index index;
  std::unique_ptr<EvictionPolicy> eviction;
  std::unique_ptr<AdmissionPolicy> admission;
  FakeFlash flash;
  SessionFormat format;
  std::unique_ptr<OpContext> context;
  std::unique_ptr<Operations> operations;
  uint64_t session = 7;
  uint32_t domain = kDomainDefault;  // of parts and blocks from now on
  uint32_t domains = 1;              // that the node has

 private:
  template <class SomePart>
  void ask(SomePart& part);
  void fill_request(RequestIds& request, const std::vector<uint32_t>& blocks) const;
  void on_data(DataSend& send);
  static void deliver_data(Message& message);
  static void deliver_credit(Message& message);
  static void deliver_lost(Message& message);
  struct Loop : flash::FlashUser {
    Rig* rig = nullptr;
    bool on_recovered(const flash::FragmentInfo& f) override;
    void on_target_failed(uint32_t target) override {
      rig->operations->catalog().target_failed(target);
    }
    void on_lost(const BlockId& b, const flash::Place& p, flash::DropReason r) override;
    Verdict on_reclaim(const BlockId& b, const flash::Place& p) override;
    bool on_live(const BlockId& b, const flash::Place& p) override;
    bool on_moved(const BlockId& b, const flash::Place& f, const flash::Place& t) override;
    void on_room_wanted(uint32_t target, uint32_t slice, uint32_t pages) override;
  };
  Loop loop_;
};

}  // namespace varve
