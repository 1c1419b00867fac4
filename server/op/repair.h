// RepairTable: gives thin blocks back the fragments that they lack, and empties targets that are
// being drained, in the background.
//
// What is to be done is not remembered anywhere: the index knows how many blocks are thin and what
// lies on each target, and walks over it find them, at the start as after a fault, so that repair
// survives every restart. A pass walks once for blocks that can lose nothing more, once for the
// other thin ones, and only then for what is to be moved. Whoever makes a block thin wakes it. A
// pass that could do nothing (no target, no space) is followed by a pause, so that a target or room
// that comes back is found. A few blocks are rebuilt at once, at a bounded rate of bytes written;
// reads of demand go first.
// Invariants:
//   R1 nothing is written that does not verify against its row of the table (I1).
//   R2 a position gets a fragment only while it has none, or one on a target that is being drained,
//      which is given up then and not before; of the attempt that the others are of.
//   R3 memory is that of Budget::kRepair, where there is no parity borrowed of kResident while it
//      is used; who finds none gives back all it has and waits.
#pragma once

#include <vector>

#include "common/base/base.h"
#include "common/reactor/reactor.h"
#include "server/index/index.h"
#include "server/op/metric.h"
#include "server/op/repair_op.h"

namespace varve {

struct OpContext;

class RepairTable final : public Task {
 public:
  explicit RepairTable(OpContext& context);
  ~RepairTable();
  RepairTable(const RepairTable&) = delete;
  RepairTable& operator=(const RepairTable&) = delete;

  // There may be thin blocks, or room for what they lack.
  // Not hopeful: nothing is known to be there that was not at the last pass, and a pause is kept.
  void wake(bool hopeful = true);
  // 0: it pauses, and what is under way ends. Where it was 0 at the start it has no ops (able()).
  void rate_set(uint64_t bytes_per_s);
  // This block is gone, leased or not: whoever rebuilds it stops.
  void forget(const BlockId& block);
  void run() override;
  const char* name() const override { return "repair"; }
  uint32_t live() const { return ops_.used(); }
  bool able() const { return ops_.capacity() > 0; }
  bool at_rest() const { return ops_.used() == 0 && pages_.used() == 0; }
  // Gauges, also where nothing happens.
  void watch();

  // --- of its ops
  RepairPages* take_pages(uint32_t count);  // null: no room
  void give_pages(RepairPages& pages);
  void pace(uint64_t bytes);  // about to be written
  void no_space(uint32_t slice);
  void ended(RepairOp& op, RepairOutcome outcome, uint64_t bytes);
  // A block is not what its writer named. Said once a minute: every pass comes to it again.
  void say_corrupt(const BlockId& block, const char* why);

 private:
  // The walks of a pass, in their order.
  enum class Walk : uint8_t { kEndangered, kThin, kDrain, kOver };
  static constexpr uint32_t kWalks = 3;
  struct Found {
    BlockId block;
    RepairKind kind;
  };
  static constexpr uint32_t kSlotsPerTurn = 256;
  static constexpr Nanos kPauseMin = 1 * kSecond, kPauseMax = 60 * kSecond;
  // Where a drive is full: what was asked for is made room for meanwhile, a segment at a time.
  static constexpr Nanos kPauseFullMax = 4 * kSecond;
  static constexpr Nanos kWakeDelay = 100 * kMillisecond;
  static constexpr Nanos kRateWindow = 10 * kSecond;
  struct Pass {
    bool begun = false;
    Walk walk = Walk::kEndangered;
    bool turns = false;  // to this walk, when the ops of the one before have ended
    uint32_t cursors[kWalks] = {};
    uint64_t done = 0;         // blocks
    uint64_t full_slices = 0;  // that had no space in this pass
    uint64_t left[kRepairOutcomes] = {};
  };
  struct Window {
    Nanos begun_ns = 0;
    uint64_t blocks = 0;
  };

  void borrow(uint32_t count);
  void pay_back();
  bool find_more();
  void begin_pass();
  void turn_to(Walk walk);
  Walk after(Walk walk) const;
  bool is_due(const Located& located, Walk walk) const;
  bool is_busy(const BlockId& block) const;
  uint32_t moves_left() const;
  void launch(const Found& found);
  void count(RepairOutcome outcome, uint64_t bytes);
  void end_pass();
  void say_begin();
  void say_end();

  OpContext& context_;
  Pool<RepairOp> ops_;
  Pool<RepairPages> pages_;
  const uint64_t own_bytes_;  // of Budget::kRepair, whatever it borrowed
  std::vector<Found> found_;  // of one step of a walk
  Pass pass_;
  bool thin_again_ = false;  // blocks became thin behind a walk; they go before what is moved
  bool crowded_ = false;     // an op had no room: no further one before another ends
  Nanos paced_until_ns_ = 0, paused_until_ns_ = 0, pause_ns_ = 0;
  Timer timer_;
  Window windows_[2];  // the one before and this one
  // What the log says of a run: from the first fragment written to the pass that finds nothing.
  bool said_begin_ = false;
  Nanos run_begun_ns_ = 0;
  uint64_t run_blocks_ = 0, run_bytes_ = 0;
  uint32_t said_left_ = 0;
  LogLimit corrupt_log_{60 * kSecond}, idle_log_{60 * kSecond};
};

}  // namespace varve
