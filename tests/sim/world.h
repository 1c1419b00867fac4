// World: one node, its shards, its platters and the clients, in one thread and in virtual time.
//
// Owns: the clock, the order of turns (earliest work first, ties by the seed), the node's lives
// (boot, kill), the trace hash. A run is a function of (seed, commit). A killed node's objects are
// never turned again and are left as they stood, as a killed process leaves them; each run is a
// process of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/varve.h"
#include "common/device/device.h"
#include "common/device/fault_device.h"
#include "common/env/env.h"
#include "server/flash/flash.h"
#include "server/session/session.h"
#include "server/shard/shard.h"
#include "tests/doubles/sim_fabric.h"

namespace varve::sim {

inline constexpr Nanos kLeaseMax = 2 * kSecond;      // of the node
inline constexpr uint32_t kSiblingsForGood = 60000;  // longer than a life

struct NodeOptions {  // drawn per seed: mostly tiny, so that limits are hit
  uint32_t domains = 1;
  uint32_t shards = 1;
  uint32_t targets = 2;
  uint32_t slices = kSlicesDefault;
  uint64_t target_bytes = 64 * kMiB;
  Scheme scheme;
  uint64_t arena_bytes = 4 * kMiB;  // per shard
  uint64_t repair_bytes = 0;        // per shard, besides
  uint32_t blocks_max = 4096;
  uint32_t sibling_ms_max = kSiblingsForGood;
  FaultPlan faults;
  bool tight = false;          // what is pushed does not fit
  bool target_faults = false;  // whole targets fail too, and are given up soon
  bool drains = false;         // one after the other is emptied and taken out
  Nanos device_latency_min_ns = 20 * kMicrosecond, device_latency_max_ns = 400 * kMicrosecond;
  bool ack_before_flush_mutant = false;
};

// Of each domain, in all lives.
Digest salt_of(uint32_t domain);
std::string token_of(uint32_t domain);  // the default one has none

// What befalls a whole target in one life, or one sector of it; gone with the next boot.
enum class TargetFault : uint8_t { kStuck, kStuckForAWhile, kVanished, kFull, kBadSector };
inline constexpr uint32_t kTargetFaults = 5;

// What happens to a target while the node is down.
enum class StartFault : uint8_t {
  kAbsent,   // not there in the next life, back in the one after
  kBlanked,  // a new drive in its place
  kWiped,    // the same, by its first MiB only: what lies behind it is a stranger's
  kRotted,   // one page of one fragment
  kSwapped,  // with another, until the node has refused both
};
inline constexpr uint32_t kStartFaults = 5;

// One fragment of a block, as the index of its home says.
struct Sighting {
  BlockId block;
  uint32_t position = 0;
  flash::Place place;
  bool settled = false;  // the block is read from flash
  bool away = false;     // nobody sees it: too few of its fragments are in reach
};

class World {
 public:
  World(uint64_t seed, const NodeOptions& options);

  Env& env() { return env_; }
  Random& random() { return random_; }
  Nanos now_ns() const { return clock_.now_ns(); }
  SimFabric& fabric() { return *fabric_; }

  // A client's reactor; the world turns it from now on.
  Reactor& add_reactor();
  // Fails the run when a target is refused that should not be, or taken that should not be.
  void boot();
  void kill();  // power cut: devices lose or keep by coin, links break
  bool alive() const { return life_ != nullptr; }
  void drain();           // asks for a graceful stop; see drained()
  void close_sessions();  // of clients that stay in spite of it
  bool drained() const;
  void stop_drained();  // ends a drained node without a power cut

  // Turns the reactor with the earliest work; false when nothing is left to do before `until_ns`.
  bool step(Nanos until_ns);
  void run_for(Nanos duration_ns);

  void note(uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001B3ull; }
  uint64_t hash() const { return hash_; }
  [[noreturn]] void fail(const std::string& what) const;
  void expect(bool ok, const std::string& what) const {
    if (!ok) fail(what);
  }

  // Checks that hold at any time: I6 bounds, I7 limits.
  void check_limits() const;
  void check_at_rest() const;
  // What each domain has in each tier, counted again; at rest nothing is on its way.
  enum class Rest : uint8_t { kNo, kYes };
  void check_use(Rest rest) const;
  bool recovering() const;
  int64_t metric(const std::string& name, const std::string& labels = "") const;
  // Sum over all labels.
  int64_t metric_sum(const std::string& name) const;
  uint64_t evicted() const;  // blocks of this life, those that reclaim dropped included
  // Injects a fault at one target of this life, for all its shards; kBadSector: bad_sector().
  void fault(uint32_t target, TargetFault fault);
  // One page of this fragment cannot be read any more in this life.
  void bad_sector(const Sighting& fragment);
  void unstick(uint32_t target);
  // While the node is down; kSwapped names two, kRotted needs rot().
  void start_fault(uint32_t target, StartFault fault);
  // Only such come back that missed purges, where they would be refused.
  void only_stale();
  void swap_targets(uint32_t one, uint32_t other) { swapped_ = {one, other}; }
  void rot(const Sighting& fragment);  // one bit of one page
  // As bits, for the next lives: targets that are being drained, and that were.
  void drain_targets(uint32_t draining, uint32_t drained) {
    draining_ = draining;
    drained_ = drained;
  }
  // What an operator does while the node runs. A drain goes on in the next lives.
  bool can_drain() const;  // it has memory for what is moved
  void drain_now(uint32_t target);
  void undrain_now(uint32_t target);
  void give_up(uint32_t target);  // declares it failed, for all shards
  // A blank drive in the place of one that has failed, when every shard is through with it; of some
  // only the first MiB is blank.
  bool can_replace(uint32_t target) const;
  void replace_now(uint32_t target);
  void scrub_now(uint32_t target);  // one of them
  void look(const BlockId& block) const;
  // What the daemon would say: it works, nothing lies there for any shard, and no other needs it.
  bool is_empty(uint32_t target) const;
  bool is_needed(uint32_t target) const;
  // Its blocks are out of reach in this life, as far as the fault is known.
  bool faulted(uint32_t target) const { return alive() && life_->faulted[target]; }
  bool any_fault() const;  // in this life, replaced since or not

  // Everything the indexes hold, in an order that is a function of the run; whether a block is
  // seen at all.
  std::vector<Sighting> sightings() const;
  bool is_published(const BlockId& block) const;
  bool is_on_flash(const BlockId& block) const;
  uint32_t thin_count() const;
  void scrub();  // begins everywhere
  // The header of a fragment as its platter has it, power cut or not, when it is one of this life
  // of its segment.
  std::optional<flash::FragmentHeader> header_at(const flash::Place& place) const;
  // False: what the platter has there is not this fragment, whole and verified.
  bool verifies(const Sighting& fragment) const;
  const NodeOptions& options() const { return options_; }
  uint32_t boots() const { return boots_; }
  Nanos booted_ns() const { return booted_ns_; }
  uint32_t present() const;      // bits of targets: they are there in this life, sound or not
  uint32_t present_old() const;  // those that were not formatted in this start
  uint32_t works_all() const;    // ... and work now, for all shards
  uint32_t drained_targets() const { return drained_; }
  uint64_t refused_starts() const { return refused_starts_; }  // stale ones

 private:
  struct Life {
    std::vector<std::unique_ptr<Reactor>> reactors;
    std::vector<std::vector<std::byte>> arenas;
    std::vector<std::unique_ptr<Shard>> shards;
    std::vector<FaultDevice*> devices;  // [shard * targets + target]
    std::vector<bool> faulted;          // per target
    bool replaced = false;              // one that was faulted
    uint32_t drained_late = 0;          // bits: their drain began in this life
    std::unique_ptr<SessionTable> sessions;
  };
  void abandon(SimFabric::Death death);
  void crash_devices();
  void check_live(Shard& shard, const uint64_t* pages) const;
  flash::TargetOptions target_options(uint32_t target) const;
  void expect_refusal();
  Domains domains() const;
  flash::DomainIds domain_ids() const;
  std::vector<flash::TargetLook> look_at_all() const;
  void bring_back(std::vector<flash::TargetLook>* looks);
  void see_missed();
  std::vector<flash::TargetInfo> prepare_targets();
  std::unique_ptr<FaultDevice> make_device(Reactor& reactor, uint32_t target);
  Status boot_shard(Life& life, uint32_t shard, const std::vector<flash::TargetInfo>& targets);
  uint64_t page_of(const flash::Place& place) const;
  uint64_t pick_page(const Sighting& fragment) {
    return page_of(fragment.place) + random_.below(fragment.place.pages);
  }

  uint64_t seed_;
  NodeOptions options_;
  Random random_;
  ManualClock clock_;
  SeededEntropy entropy_;
  std::unique_ptr<SimFabric> fabric_;
  Env env_;
  std::vector<std::unique_ptr<MemoryPlatter>> platters_;
  std::vector<bool> absent_;  // in the next life
  bool only_stale_ = false;   // ... all that know of every purge
  uint32_t draining_ = 0, drained_ = 0;
  std::pair<uint32_t, uint32_t> swapped_{0, 0};  // before the next life; equal: none
  flash::TargetLook list_;   // what the node keeps beside its targets: the last start, or one more
  uint32_t generation_ = 0;  // of this start
  std::vector<flash::Witness> witnesses_;
  bool replaced_any_ = false;              // a drained one, too: what only it knew is gone
  std::vector<flash::Superblock> supers_;  // as of the last start
  std::vector<std::unique_ptr<Reactor>> client_reactors_;
  std::unique_ptr<Life> life_;
  std::byte node_uuid_[16];
  uint32_t boots_ = 0;
  Nanos booted_ns_ = 0;
  uint64_t refused_starts_ = 0;
  uint64_t hash_ = 0xCBF29CE484222325ull;
};

}  // namespace varve::sim
