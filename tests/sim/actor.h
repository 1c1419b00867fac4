// Actor: one client of the small world: matches prefixes, pulls what hits, pushes what is new,
// layer by layer, and sometimes cancels, waits, or is cut off in the middle. Now and then it
// follows what another pushes (follow.cc), renews a lease and lists what is held (lease.cc), or
// purges (purge.cc).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "client/varve.h"
#include "tests/sim/board.h"
#include "tests/sim/oracle.h"
#include "tests/sim/truth.h"
#include "tests/sim/world.h"

namespace varve::sim {

// What all actors share: formats, documents (chains of base ids), what was promised and what is so.
struct Library {
  std::vector<Format> formats;
  uint32_t documents = 6;        // per format; they share their first block pairwise
  uint32_t blocks_max = 5;       // per document
  uint32_t domains = 1;          // of the actors, in turn; all name their blocks by the same ids
  uint32_t purge_per_mille = 0;  // of what actors begin
  uint32_t domain_of(uint32_t actor) const { return kDomainDefault + actor % domains; }
  Board board;
  Oracle oracle;
  Truth* truth = nullptr;
  uint64_t last_salt = 0;
};
std::vector<Format> draw_formats(Random& random);
std::vector<uint32_t> document_tokens(const Library& library, uint32_t format, uint32_t document);
// As of the default domain, whoever asks: ids that are known by heart.
std::vector<BaseId> document_ids(const Library& library, uint32_t format, uint32_t document);

struct ActorStats {
  uint64_t matches = 0, hit_blocks = 0, pulled_blocks = 0, missed_blocks = 0, pushed_blocks = 0;
  uint64_t failed_pushes = 0, cancels = 0, rebuilt_extents = 0, corrupt_extents = 0,
           disconnects = 0;
  uint64_t followed_blocks = 0;  // to the end, committed
  uint64_t denied_blocks = 0;    // followed, and not committed
  uint64_t foreign_follows = 0;  // of another domain's push
  uint64_t hedged_extents = 0;
  uint64_t renewed = 0, lapsed = 0, holds = 0;
  uint64_t existing = 0;  // of ids that were asked for each by itself
};

class Actor {
 public:
  Actor(World& world, Library& library, uint32_t number);
  // Looks at events, and starts the next thing when idle. Called after every step of the world.
  void poke();
  void stop_working() { working_ = false; }  // finishes what runs, starts nothing
  bool idle() const { return step_ == Step::kIdle; }
  void close();
  bool closed() const;
  ActorStats stats() const;

  // A direct pull of one block, for the final audit; answered by audit_code() once audit_done().
  void audit(uint32_t format, const BlockId& block);
  bool audit_done() const { return step_ == Step::kIdle; }
  Code audit_code() const { return audit_code_; }
  // Asks what is held, at rest: nothing, by nobody. True once that was answered.
  void ask_holds();
  bool held_nothing() const { return step_ == Step::kIdle && held_nothing_; }
  uint32_t format_of(const BlockId& block) const;
  bool ready() const { return core_->state() == SessionState::kReady; }
  uint32_t domain() const { return domain_; }

 private:
  enum class Step : uint8_t {
    kIdle,
    kMatch,
    kExists,
    kForeign,
    kRenew,
    kLinger,  // under a lease, before the pull
    kPull,
    kPush,
    kFollow,
    kHolds,
    kPurge,
    kAudit,
  };
  void begin(Result<OpId> op, Step step, Nanos deadline_ns);
  void push_layer();
  void start();
  bool start_other();  // than a match
  void start_exists();
  void on_exists(const Event& event);
  void start_follow();
  void check_followed_layer(const Event& event) const;
  void on_followed(const Event& event);
  void check_committed(uint32_t i);
  void start_renew();
  void on_renewed(const Event& event);
  void on_holds(const Event& event);
  void start_purge();
  void on_purged(const Event& event);
  BlockId followed(uint32_t i) const;
  bool is_foreign(uint32_t i) const;
  BlockId block_of(const BaseId& id, uint32_t rank) const { return {id, rank, domain_}; }
  void start_foreign();
  void on_foreign(const Event& event);
  // What nothing may cost in this moment, to be compared with when the answer is here.
  struct Moment {
    std::vector<bool> safe;    // by block
    std::vector<bool> stored;  // on flash, safe or not
    uint64_t evicted = 0;
    uint32_t boot = 0;
    Nanos at_ns = 0;
    bool recovering = false;
  };
  // Bytes that this life of the node has sent to pulls, of anybody's.
  struct Sent {
    uint32_t boot = 0;
    uint64_t disconnects = 0;  // of this client
    int64_t dram = 0, flash = 0;
  };
  Sent sent() const;
  void check_tiers(const Event& event) const;
  Moment this_moment(uint32_t rank_count) const;
  void check_hits(bool recovering) const;
  // Whether a fault that was injected may cost this block of the pull.
  bool may_fail(uint32_t i) const;
  void start_pull();
  void start_push();
  void on_event(const Event& event);
  void on_matched(const Event& event);
  void on_granted(const Event& event);
  void on_layer(const Event& event);
  void on_pulled(const Event& event);
  void on_pushed(const Event& event);
  void check_push_end(const BlockId& block, Code code, const Status& status);
  void check_leased(const Event& event) const;
  void check_pulled(const std::vector<Code>& codes, bool audit);
  void poison();
  void check_poison();
  void next_rank();
  void let_go();
  std::vector<ConstByteSpan> layers_of(uint32_t slot) const;
  ByteSpan layer_bytes(uint32_t slot, uint32_t layer) const;
  const std::vector<LayerSpec>& layers() const { return library_.formats[format_].ranks[rank_]; }

  World& world_;
  Library& library_;
  uint32_t domain_;
  Random random_;
  Reactor& reactor_;
  std::unique_ptr<ClientCore> core_;
  std::vector<std::byte> memory_;
  RegionId region_ = 0;
  std::vector<FormatId> format_ids_;
  std::vector<std::vector<Layout>> layouts_;           // [format][rank]
  std::vector<std::vector<std::vector<BaseId>>> ids_;  // [format][document], once connected

  Step step_ = Step::kIdle;
  bool working_ = true, closing_ = false;
  OpId op_ = 0;
  uint32_t format_ = 0, document_ = 0, rank_ = 0;
  uint32_t n_blocks_ = 0;
  Moment before_;     // the match or pull
  Sent sent_before_;  // when the pull began
  uint64_t lease_ = 0;
  uint32_t lease_boot_ = 0;
  Nanos matched_ns_ = 0;  // when it was asked
  Nanos began_ns_ = 0;    // the op
  uint32_t next_layer_ = 0;
  uint64_t salt_ = 0;
  wire::AckKind ack_ = wire::AckKind::kCached;
  uint32_t push_first_ = 0;
  bool gives_up_ = false;
  uint32_t cancel_layer_ = 0;       // a push that is given up before this one; or none
  std::vector<FollowTag> granted_;  // of the push
  std::vector<Posted> follows_;     // of the follow, by slot
  Moment follow_began_;             // its evicted, boot
  uint32_t purge_ = 0;              // in the log
  bool held_nothing_ = false;
  bool cancelled_ = false, poisoned_ = false;
  Nanos op_deadline_ns_ = 0;
  Nanos wait_until_ns_ = 0;
  Code audit_code_ = Code::kOk;
  BlockId audit_block_;
  ActorStats stats_;
};

}  // namespace varve::sim
