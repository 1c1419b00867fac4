// PurgeOp: what must never be found again (I10): blocks by id, a lineage, or the domain.
//
// Taken out of index and DRAM at once, whoever leases or reads it; then what makes that last: KILL
// records on every target that works (blocks), or new generations in every superblock (written by
// one home before any home is told). The part goes back when that is flushed.
//
//   blocks            kDrop <-> kKill           per id: drop, then a record on each target
//   lineage, domain   kRaise                    the one home that writes superblocks
//                     kWalk                     every home, afterwards
#pragma once

#include <memory>
#include <vector>

#include "common/base/base.h"
#include "common/reactor/reactor.h"
#include "server/flash/flash.h"
#include "server/index/index.h"
#include "server/op/part.h"

namespace varve {

struct OpContext;
class PurgeOp;

// erased_ns where nobody can say when.
inline constexpr Nanos kErasedNever = ~Nanos{0};

// One KILL record on its way.
struct PurgeKill {
  flash::Kill kill;
  PurgeOp* op = nullptr;
};

class PurgeOp final : public Task {
 public:
  explicit PurgeOp(OpContext& context);
  void begin(PurgePart& part);
  void run() override;
  void killed(PurgeKill& record);
  bool raises() const { return part_ != nullptr && stage_ <= Stage::kRaised; }
  bool waits() const { return part_ != nullptr && stage_ == Stage::kKill; }
  const char* name() const override { return "purge"; }

 private:
  static constexpr uint32_t kIdsPerTurn = 32;
  static constexpr uint32_t kSlotsPerTurn = 256;
  enum class Stage : uint8_t { kRaise, kRaised, kDrop, kKill, kWalk };

  bool is_again(uint32_t i);  // whether an earlier id of the part equals id i
  bool drop_some();           // true: all are dropped
  bool kill_some();           // true: all records are flushed
  bool walk_some();           // true: the whole index was looked at
  void drop(const BlockId& block, const Located& located);
  void raise();
  void estimate();
  void finish(Status status);
  bool any_took_part() const;
  const BaseId& id(uint32_t i) const;
  uint32_t boot_generation() const;

  OpContext& context_;
  Stage stage_ = Stage::kDrop;
  PurgePart* part_ = nullptr;
  uint32_t cursor_ = 0;         // id; slot of the index
  std::vector<uint32_t> ids_;   // of the part, each once
  std::vector<uint16_t> seen_;  // by hash, as 1 + place in ids_; open addressing, twice the ids
  // Records: of ids_[kill_next_], the target `kill_target_` comes next.
  uint32_t kill_next_ = 0, kill_target_ = 0, kills_out_ = 0;
  uint32_t away_ = 0;             // bit t: target t takes no record
  std::vector<uint64_t> limits_;  // as ids_: the last attempt that was granted when it was dropped
  std::vector<std::pair<BlockId, Located>> found_;  // of one turn
  flash::Raise raise_;
  Status failure_;  // of a record that a target which works did not take
  Nanos began_ns_ = 0;
  const Nanos started_ns_;
};

class PurgeTable {
 public:
  static constexpr uint32_t kOpsMax = 4;
  static constexpr uint32_t kKillsMax = 512;  // records on their way, of all purges

  explicit PurgeTable(OpContext& context);
  void begin(PurgePart& part);
  uint32_t live() const { return ops_.used(); }

  PurgeKill* take_kill() { return kills_.take(); }
  void give_kill(PurgeKill& kill) { kills_.give(&kill); }
  void end(PurgeOp& op) { ops_.give(&op); }
  void wake_all();  // a record came free

 private:
  OpContext& context_;
  Pool<PurgeOp> ops_;
  Pool<PurgeKill> kills_;
};

}  // namespace varve
