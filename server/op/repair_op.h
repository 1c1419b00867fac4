// RepairOp: one thin block on its way back to k + m fragments, or one fragment on its way from a
// target that is being drained.
//
//   kLead    the header of a fragment that can be read
//   kPlan    what is missing or moves, DRAM for it, a target and space for each
//   kRead    stripe by stripe: the k extents that it takes; of what moves, the extent itself
//   kCode    the missing ones, column by column, checked against their rows
//   kWrite   the fragments, whole
//   kDone    published by the appends' completions
//
// What moves and cannot be read any more is rebuilt like what is missing. The fragment at the
// drained target is given up when the other one is durable, not before.
// It pins the base in the index, so that the block is not evicted meanwhile; it holds pages of
// Budget::kRepair and space at the targets, never of anybody else.
#pragma once

#include <optional>
#include <vector>

#include "common/base/base.h"
#include "common/erasure/erasure.h"
#include "common/reactor/op.h"
#include "server/flash/flash.h"
#include "server/index/index.h"
#include "server/op/metric.h"
#include "server/op/repair_plan.h"
#include "server/tier/tier.h"

namespace varve {

struct OpContext;
class RepairTable;
class RepairOp;

// Pages of one read or append. They stay taken while a device has them, longer than their op.
struct RepairPages {
  Slab slab;
  RepairTable* table = nullptr;
};

// What a visit is for.
enum class RepairKind : uint8_t {
  kComplete,  // the positions that have no fragment
  kMove,      // one of those whose target is being drained
};

class RepairOp final : public Op {
 public:
  explicit RepairOp(OpContext& context);

  // Pins the block's base; the op tells the table when it has ended.
  void begin(const BlockId& block, uint32_t base_slot, RepairKind kind);
  // The block went: what comes again under this id is another attempt.
  void forget() { gone_ = true; }
  const BlockId& block() const { return block_; }
  RepairKind kind() const { return kind_; }
  bool live() const { return base_slot_ != ~0u; }
  void run() override;
  const char* name() const override { return "repair"; }

 private:
  enum class Stage : uint8_t { kLead, kPlan, kRead, kCode, kWrite, kDone };
  struct Source {  // an extent, or the lead, being read
    flash::Read read;
    std::vector<iovec> runs;  // capacity for header and extent in single pages
    RepairPages* pages = nullptr;
    RepairOp* op = nullptr;
    uint64_t bytes_left = 0;  // to be coded
    PieceCursor at;
  };
  struct Output {  // a fragment being rebuilt
    flash::Append append;
    std::vector<iovec> runs;  // capacity for the largest fragment in single pages
    RepairPages* pages = nullptr;
    RepairOp* op = nullptr;
    uint32_t position = 0;
    uint32_t reserved_pages = 0;  // until it is appended
    uint32_t extent = 0;          // being coded
    uint64_t bytes_left = 0;      // of it
    PieceCursor at;
  };

  bool look();
  uint32_t readable() const;
  uint32_t output_positions() const;
  uint32_t wanted() const;
  std::optional<RepairOutcome> start_lead();
  void aim(Source& source);
  void start_read(Source& source, const flash::Place& place, RepairPages* pages);
  void read_done(Source& source);
  bool read_failed();
  std::optional<RepairOutcome> plan();
  bool take_output(uint32_t position, uint32_t target);
  void give_output();
  bool sources_fit() const;
  bool next_stripe();
  std::optional<RepairOutcome> start_reads();
  void start_copy();
  void end_copy();
  void pad(Output& output, uint32_t stored_bytes);
  bool code_some();
  size_t column_bytes() const;
  void code_column(size_t bytes);
  bool verify();
  void start_appends();
  void append_done(Output& output);
  void give_sources();
  void finish(RepairOutcome outcome);

  OpContext& context_;
  Stage stage_ = Stage::kLead;
  RepairKind kind_ = RepairKind::kComplete;
  BlockId block_;
  uint32_t base_slot_ = ~0u;
  bool gone_ = false;
  Located located_;  // of this turn
  uint32_t lead_position_ = 0;
  RepairPlan plan_;
  uint32_t slice_ = 0;
  uint32_t stripe_ = 0;
  uint32_t reads_ = 0;     // of this stripe
  uint32_t failures_ = 0;  // of reads, so far
  bool copying_ = false;   // the extent being read goes to its place in the output
  std::optional<Coder> coder_;
  Source sources_[kDataMax];  // in the order of the coder's
  Output outputs_[kParityMax];
  uint32_t output_count_ = 0;
  Output* coded_[kParityMax] = {};  // in the order of the coder's
  std::vector<ExtentDigest> digests_;
  uint32_t written_ = 0;  // fragments that are published
  uint64_t written_bytes_ = 0, planned_bytes_ = 0;
};

// The targets that have a fragment of this block, as bits.
uint32_t targets_used(const OpContext& context, const Located& located);
// The positions whose fragment can be moved from a target that is being drained, as bits.
uint32_t positions_leaving(const OpContext& context, const Located& located);

}  // namespace varve
