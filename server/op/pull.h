// PullOp: one home's share of one pull, layer-major over its blocks; and the table of all pulls.
//
// The op walks pairs (extent, block) in layer-major order, or as the wants name them. For each it
// needs credit, then pages (only what DRAM does not have), then an ExtentOp that reads and sends. A
// few windows of credit are in progress, and each pair advances by itself, so that no pull ever
// holds pages while it waits for others. Blocks stay pinned between their extents (their headers
// are wanted again) unless DRAM is tight; then bytes go as soon as they are sent, and idle pins are
// shed when nothing else moves. What a lost extent is rebuilt from is as urgent as that one was
// (pull_lost.cc).
#pragma once

#include <optional>
#include <vector>

#include "common/base/base.h"
#include "common/reactor/reactor.h"
#include "server/index/index.h"
#include "server/op/extent_op.h"
#include "server/op/part.h"
#include "server/op/pull_cursor.h"

namespace varve {

struct OpContext;
class PullTable;

struct ActiveHook : ListHook {};  // in progress
struct RoomHook : ListHook {};    // waits for pages

class PullOp final : public Task, public ActiveHook, public RoomHook {
 public:
  explicit PullOp(OpContext& context);
  void begin(PullPart& part);
  void run() override;
  const char* name() const override { return "pull"; }

  // From its ExtentOps: over, `posted_bytes` of it as frames. `not_read`: nothing was read for it,
  // neither the header, which other fragments have too, nor the extent, which was left out.
  void extent_done(ExtentOp& op, PullPair pair, uint32_t bytes, uint32_t posted_bytes,
                   Status status, bool not_read);
  void ahead_done(ExtentOp& op, uint32_t item);
  // Its reader is told that it is lost, and will need the rest of its stripe.
  void lost(const ExtentOp& op);
  // Whether the reader has k of the extent's stripe without it too. What is slow is left out while
  // others are not; which those are changes, and of a stripe no more than m may be in all.
  bool may_leave_out(PullPair pair) const;
  bool is_readable(PullPair pair) const;         // slow or not
  bool held_back() const { return held_back_; }  // looks again when the poll wakes it
  // Nothing of this extent is sent from the time the part is back.
  void fence(FencePart& part);
  void fenced(ExtentOp& op);  // a fenced one that the session has nothing of any more
  // True once the pull was cancelled or is past its deadline: nothing more is sent.
  bool cut_short();
  uint32_t shed();  // unpins blocks that nothing of this pull is using now; how many
  Nanos wanted_ns() const { return cursor_.wanted_ns(); }
  const PullPart& part() const { return *part_; }
  const char* where() const;  // for the watchdog

 private:
  enum class Stage : uint8_t { kLease, kFlow, kDrain };
  enum class Began : uint8_t { kStarted, kNoRoom, kTargetBusy, kFailed };
  enum class As : uint8_t { kSent, kLost, kAhead };
  struct Item {
    uint32_t base_slot = ~0u;   // leased by this pull
    uint16_t extents_left = 0;  // to be sent, or told lost
    uint16_t busy = 0;          // ExtentOps now
    uint8_t again = 0;          // begun again with another fragment's header
    Code code = Code::kOk;
    bool read = false;  // bytes came from flash for this pull
    TierBlock* block = nullptr;
  };
  static constexpr uint32_t kAgainMax = 64;  // headers of one block
  struct LeftOut {                           // of one stripe of a block, as positions
    uint32_t item = 0, stripe = 0, positions = 0;
  };
  static constexpr uint32_t kLeftOutMax = 512;  // more stripes than are in progress

  Status locate();
  bool start_extents();
  bool may_start(uint32_t bytes);
  void ask_credit();
  void credit_back(CreditAsk& ask);
  Began start_extent(PullPair pair);
  TierBlock* find_in_dram(Item& item, uint32_t index, std::optional<Located>* located,
                          bool* foreign);
  bool is_outlived(const TierBlock& block, const Located& located) const;
  uint32_t lead_of(PullPair pair, uint16_t usable) const;
  uint32_t first_extent(const BlockId& block, uint32_t position) const;
  uint32_t holder_of(PullPair pair) const;
  bool fits(const BlockId& block, uint32_t position, const flash::Place& place) const;
  TierBlock* open_block(PullPair pair, const Located& located, uint32_t lead, bool lost);
  Began out_of_room(PullPair pair);
  void launch(PullPair pair, TierBlock& block, Fetch* fetch, bool lead_started, As as);
  void begun();
  void leave_out(PullPair pair);
  void read_ahead(PullPair lost);
  void read_one_ahead(PullPair pair, const Located& located);
  bool hold_back();
  void fail_item(uint32_t item, Code code);
  void detach(ExtentOp& op);
  void detach_readers();
  void detach_ahead();
  void finish();

  BlockId block_id(uint32_t item) const;
  uint64_t window_bytes() const;
  uint32_t extent_bytes(uint32_t extent) const;

  OpContext& context_;
  Stage stage_ = Stage::kLease;
  PullPart* part_ = nullptr;
  const ExtentTable* table_ = nullptr;
  std::vector<Item> items_;        // capacity wire::kIdsMax
  std::vector<LeftOut> left_out_;  // the last ones, oldest overwritten at left_out_next_
  uint32_t left_out_next_ = 0;
  uint32_t alive_ = 0;  // items that have not failed
  PullCursor cursor_;   // what is not begun yet, or to begin again
  uint64_t credit_bytes_ = 0;
  uint64_t busy_bytes_ = 0;  // of extents in progress
  uint32_t busy_ = 0;
  bool asking_ = false;
  CreditAsk ask_;
  Nanos asked_ns_ = 0;
  Nanos began_ns_ = 0;
  Nanos hold_until_ns_ = 0;  // later layers, at most; 0: its first layer has lost nothing
  bool held_back_ = false;
  Status end_;  // why the pull is cut short
  List<ExtentOp, PullHook> extents_;
};

class PullTable {
 public:
  explicit PullTable(OpContext& context);
  ~PullTable();

  void begin(PullPart& part);
  void end(PullOp& op);
  void fence(FencePart& part);

  // --- extents in progress: bounded in all and per session, so that a client that does not drain
  // its lane cannot hold what the others need.
  ExtentOp* take_extent() { return extents_.take(); }
  void give_extent(ExtentOp& op);
  bool has_extent() const { return extents_.available() > 0; }
  // A session may hold half of what is left by all, so that however many do not drain their lanes,
  // something is left for the next; what it has nothing of it may always begin. What it wants one
  // by one counts apart: it must not wait for the pull that it helps.
  bool has_share(const PullPart& part, uint32_t bytes);
  void share_add(const PullPart& part, uint32_t bytes);
  void share_drop(const PullPart& part, uint32_t bytes);

  // --- pages
  bool may_take_room(const PullOp& op) const;  // nobody with less slack is waiting
  void wait_for_room(PullOp& op);
  void leave_room_queue(PullOp& op);
  void room_given();       // pages, a Fetch or an ExtentOp came back: the first waiter looks
  bool is_tight() const;   // someone waits, or half of the pull budget is in use
  bool is_moving() const;  // an extent or a read is in progress, and will give room back
  bool is_stuck() const;   // most of the pull budget is pinned without being in progress
  void shed_all();
  void reading_add(uint32_t bytes) { reading_bytes_ += bytes; }
  void reading_drop(uint32_t bytes) { reading_bytes_ -= bytes; }

  void wake_all();

  uint32_t live() const { return pulls_.used(); }
  uint32_t extents_live() const { return extents_.used(); }
  uint32_t watch(Nanos now_ns);

 private:
  struct Share {
    uint64_t session = 0;
    bool wants = false;
    uint64_t bytes = 0;
    uint32_t frames = 0;  // that will carry them: many small extents need as many
    uint32_t extents = 0;
  };
  Share* share_of(const PullPart& part);
  void poll();

  OpContext& context_;
  Pool<PullOp> pulls_;
  Pool<ExtentOp> extents_;
  List<PullOp, ActiveHook> active_;
  List<PullOp, RoomHook> room_;    // least slack first
  std::vector<Share> shares_;      // of those with extents in progress
  std::vector<PullOp*> woken_;     // scratch of wake_all
  uint64_t reading_bytes_ = 0;     // of extents in progress whose pages a pull took
  uint64_t shared_bytes_max_ = 0;  // of extents in progress, all sessions together
  uint64_t shared_bytes_ = 0;
  uint32_t shared_frames_ = 0;
  bool share_wanted_ = false;  // a pull found its share full
  Timer poll_;
};

}  // namespace varve
