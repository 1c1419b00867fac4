// PushOp: one attempt to write one block, from its grant to flash; and the table of live attempts.
//
// While an attempt is in kReceive its slabs are lent to the session, which ends the loan with a
// CommitPart or an AbortPart; the home never takes them back by itself. After the commit the block
// is visible and dirty until its fragments are on flash, each appended by itself.
#pragma once

#include <vector>

#include "common/base/base.h"
#include "common/reactor/op.h"
#include "server/flash/flash.h"
#include "server/op/part.h"
#include "server/op/placer.h"
#include "server/op/push_format.h"
#include "server/tenant/tenant.h"
#include "server/tier/tier.h"

namespace varve {

struct OpContext;
class PushOp;
class PushTable;

// The grants of one request, so that what they publish can be ordered leaf to root at the end.
struct PushGroup {
  static constexpr uint32_t kMax = 256;
  uint32_t live = 0;
  uint32_t count = 0;
  uint32_t domain = 0;  // of all of them
  uint32_t base_slots[kMax];
  BaseId ids[kMax];
};

// One fragment of a block on its way to flash.
struct FragmentWrite {
  PushOp* op = nullptr;
  uint32_t position = 0;
  uint32_t target = ~0u;          // ~0: the block is thin, this position is not written
  uint32_t pages = 0;             // reserved there; the append's from its start on
  FragmentWrite* next = nullptr;  // waits for an AppendSlot
};

// One fragment at flash. Kept by the device's limbo after its op ended, with the block's pin.
struct AppendSlot {
  flash::Append append;
  std::vector<iovec>
      runs;  // capacity for the largest fragment in single pages (not touched before)
  PushTable* table = nullptr;
  FragmentWrite* write = nullptr;
  TierBlock* block = nullptr;
  uint32_t dram_pages = 0;  // of the block, counted for its target
};

class PushOp final : public Op {
 public:
  explicit PushOp(OpContext& context);

  struct Grant {
    BlockId block;
    BaseId parent;
    Attempt attempt;
    const SessionFormat* format = nullptr;  // begin() makes it the core's own
    uint64_t epoch = 0;
    uint32_t slice = 0;
    uint32_t dram_pages = 0;  // of kPush
    Placer::Spots spots;
    uint32_t pages[kWidthMax] = {};  // reserved for each
    TierBlock* tier_block = nullptr;
    PushGroup* group = nullptr;
    uint32_t group_index = 0;
    uint64_t session = 0;
  };
  void begin(const Grant& grant);
  void commit(CommitPart& part);
  void abort(AbortPart& part);
  // What it writes was purged: the commit, made or still to come, is answered `cancelled`.
  void purge() { purged_ = true; }
  bool is_purged() const { return purged_ || grant_.tier_block->purged; }
  bool is_written() const { return stage_ == Stage::kWrite; }
  void run() override;
  const char* name() const override { return "push"; }

  const Grant& grant() const { return grant_; }
  // Committed, and for longer than `limit_ns` not on flash.
  bool is_overdue(Nanos now_ns, Nanos limit_ns) const {
    return stage_ >= Stage::kWrite && now_ns - since_ns_ > limit_ns;
  }
  // Of the table: this fragment may be appended now; it has ended; it was purged and is not wanted.
  void append(FragmentWrite& write, AppendSlot& slot);
  void appended(FragmentWrite& write, Status status);
  void passed_over() { completed(Status()); }

  PushOp* bucket_next = nullptr;  // the table's

 private:
  enum class Stage : uint8_t { kReceive, kCommit, kWrite };
  Status check();
  bool publish();
  void fill_headers();
  void start_appends();
  void written();
  void answer(Status status);
  void drop();
  void finish();

  OpContext& context_;
  Stage stage_ = Stage::kReceive;
  Grant grant_;
  CommitPart* part_ = nullptr;
  FragmentWrite writes_[kWidthMax];
  Status failure_;  // of the first append that failed
  bool purged_ = false;
  Nanos since_ns_ = 0;
};

class PushTable {
 public:
  explicit PushTable(OpContext& context);

  PushOp* find(const BlockId& block) const;
  PushOp* begin(const PushOp::Grant& grant);  // null: not available()
  void end(PushOp& op);
  void purge(uint32_t domain, const BaseId& base);  // every rank of it
  // Of a lineage, 0: of its domain. `visit(block)`: of those that are published already.
  template <class Visit>
  void purge(uint32_t domain, uint64_t lineage, Visit visit) {
    for (const auto& op : pool_.all()) {
      if (find(op->grant().block) != op.get()) continue;  // not live
      if (op->grant().block.domain != domain) continue;
      if (lineage != 0 && op->grant().format->lineage != lineage) continue;
      op->purge();
      if (op->is_written()) visit(op->grant().block);
    }
  }
  bool available(const SessionFormat& format) const {
    return pool_.available() > 0 && formats_.has_room(format);
  }
  uint32_t live() const { return pool_.used(); }
  uint32_t appends_live() const { return slots_.used(); }

  PushGroup* group_begin() { return groups_.take(); }
  void group_end(PushGroup& group);  // touches what it published, leaf to root

  uint32_t watch(Nanos now_ns) const;  // logs commits that flash does not take; how many

  // A target that takes nothing must leave the others what they need: it may hold half of the
  // attempts and of the push budget, where others can do without it, and its target_share() of the
  // append slots.
  bool has_share(uint32_t target, uint32_t dram_pages) const;
  void share_drop(uint32_t target, uint32_t dram_pages);  // its pages went back

  // One domain, with however many sessions, must leave the others their part of attempts and
  // memory, write-behind included; below its part it asks no other, and of nothing it may always
  // begin. One session that reserves and sends nothing must leave the others of its domain some:
  // what it has reserved and not committed may be half of what is left to them or half of the
  // domain's part; of nothing it may begin where its domain may.
  bool may_reserve(uint64_t session, uint32_t domain, uint32_t domains, uint32_t dram_pages) const;
  void session_committed(const PushOp& op);  // or gave it up

  void append(FragmentWrite& write);  // op.append() is called when there is a slot: maybe now

 private:
  struct Target {
    uint32_t attempts = 0;    // write-behind and limbo included
    uint32_t dram_pages = 0;  // of these
    uint32_t appends = 0;
    Queue<FragmentWrite, &FragmentWrite::next> waiting;  // for a slot
  };
  struct Reserver {  // a session with attempts in kReceive
    uint64_t session = 0;
    uint64_t dram_pages = 0;
    uint32_t attempts = 0;
  };
  struct DomainUse {  // of all its live attempts
    uint32_t domain = kDomainDefault;
    uint64_t dram_pages = 0;
    uint32_t attempts = 0;
  };
  DomainUse* find_use(uint32_t domain);
  void append_done(AppendSlot& slot);
  void append_returned(AppendSlot& slot);
  bool may_append(uint32_t target) const;
  void occupy(FragmentWrite& write);
  void give_slot(AppendSlot& slot);
  void pump();
  void waiting_changed(int64_t by);
  uint32_t bucket_of(const BlockId& block) const;

  OpContext& context_;
  Pool<PushOp> pool_;
  Pool<PushGroup> groups_;
  Pool<AppendSlot> slots_;
  std::vector<PushOp*> buckets_;
  std::vector<Target> targets_;
  PushFormats formats_;
  std::vector<Reserver> reservers_;
  std::vector<DomainUse> uses_;
  uint32_t turn_ = 0;  // the target that is asked first for a waiter
  int64_t waiting_ = 0;
};

}  // namespace varve
