// A node's flash in one thread: platters that outlive it, simulated drives with a volatile cache,
// virtual time, a user that is a map. Power cuts at any moment; what was acknowledged is checked
// byte by byte.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "common/device/fault_device.h"
#include "server/flash/catalog.h"
#include "server/flash/flash.h"
#include "server/flash/fragment.h"

namespace varve::flash {

// One fragment with content that follows from its seed, in pages of its own, in pieces.
struct TestFragment {
  TestFragment(uint64_t seed, uint32_t extents, uint32_t extent_bytes, const Attempt& attempt);
  BlockId block;
  Digest fingerprint;
  Attempt attempt;
  uint32_t pages = 0;
  uint32_t header_pages = 0;
  std::vector<ExtentEntry> table;
  std::unique_ptr<PageMemory> memory;
  std::vector<iovec> header_runs;
  std::vector<iovec> runs;
  Append append;
  bool done = false;
  Status status;
  ConstByteSpan extent(uint32_t i) const;
};
BlockId test_block(uint64_t seed);

class FakeUser final : public FlashUser {
 public:
  struct Known {
    Place place;
    Attempt attempt;
    uint64_t age = 0;
  };
  bool on_recovered(const FragmentInfo& fragment) override;
  void on_killed(uint32_t domain, const BaseId& base, const Attempt& limit) override;
  void on_target_failed(uint32_t target) override { failed.push_back(target); }
  void on_target_replaced(uint32_t target) override { replaced.push_back(target); }
  void on_lost(const BlockId& block, const Place& place, DropReason reason) override;
  Verdict on_reclaim(const BlockId& block, const Place& place) override;
  bool on_live(const BlockId& block, const Place& place) override;
  bool on_moved(const BlockId& block, const Place& from, const Place& to) override;
  void on_room_wanted(uint32_t target, uint32_t slice, uint32_t pages) override;

  void know(const BlockId& block, const Place& place, const Attempt& attempt);
  void evict(BlockId block);  // by value: it may be the key that goes
  const Known* find(const BlockId& block) const;

  Flash* flash = nullptr;
  std::map<BlockId, Known> known;
  std::set<BlockId> evicted, lost, pinned;
  std::set<DropReason> reasons;            // of lost
  std::vector<uint32_t> failed, replaced;  // targets, in the order told
  std::vector<FragmentInfo> told;
  std::map<BlockId, Attempt> killed;  // the limits of records, those of this start included
  uint64_t age = 0;
  uint32_t room_asks = 0, room_pages = 0, moves = 0;
  bool may_evict = true;         // on_room_wanted evicts the oldest unpinned
  bool drop_in_reclaim = false;  // reclaim's victims are not worth copying
};

struct RigOptions {
  uint32_t targets = 1;
  uint32_t slices = 2;
  uint32_t shards = 1;
  uint32_t segment_pages = 32;
  uint32_t segments = 12;  // about
  uint64_t seed = 1;
  FaultPlan plan;
  FlashOptions flash;
  uint32_t last_segment_pages = 0;  // of the last target; 0: as the others
};

class Rig {
 public:
  explicit Rig(const RigOptions& options);
  ~Rig();

  // A start: superblocks, devices, Flash, recovery begun. Another number of shards if not zero.
  void start(uint32_t shards = 0);
  void recover() {
    run_until([this] { return !recovering(); });
  }
  void start_and_recover(uint32_t shards = 0) {
    start(shards);
    recover();
  }
  void power_cut();
  void stop();  // drains and ends cleanly
  // A blank drive, or one that is blank in its first MiB only, in the place of one that failed.
  enum class Blank : uint8_t { kWhole, kFirstMib };
  Status replace(uint32_t target, Blank blank = Blank::kWhole, uint32_t shard = 0);
  std::optional<Generations> formatted_with;  // what replace() knew when it formatted; else all
  bool running() const { return !shards_.empty(); }

  bool step();  // one turn of each shard, or time moves on; false: nothing left to happen
  template <class Until>
  bool run_until(Until until, uint32_t steps_max = 2000000) {
    for (uint32_t i = 0; i < steps_max; ++i) {
      if (until()) return true;
      if (!step()) return until();
    }
    return false;
  }
  void settle(Nanos duration_ns);  // runs until nothing is due within this time

  uint32_t slice_of_block(const BlockId& block) const;
  uint32_t shard_of_block(const BlockId& block) const;
  Flash& flash(uint32_t shard = 0) { return *shards_[shard]->flash; }
  FakeUser& user(uint32_t shard = 0) { return shards_[shard]->user; }
  FaultDevice& device(uint32_t target, uint32_t shard = 0) {
    return *shards_[shard]->devices[target];
  }
  Reactor& reactor(uint32_t shard = 0) { return *shards_[shard]->reactor; }
  MemoryPlatter& platter(uint32_t target) { return *platters_[target]; }
  const Superblock& super(uint32_t target) const { return infos_[target].super; }
  bool recovering() const;
  uint64_t device_requests() const;
  int64_t metric(const std::string& name, uint32_t target = 0, const std::string& more = "");

  // Reserves and appends; null when there is no room. The user knows the place when it is done.
  TestFragment* append(uint64_t seed, uint32_t extents = 2, uint32_t extent_bytes = 6000,
                       FlushBy flush = FlushBy::kNow, uint32_t target = 0);
  // Appends from this seed on until nothing can be reserved, whatever is waited for; how many.
  uint32_t fill(uint64_t first_seed);
  // A purge of the block's base id on one target: the user forgets it, the record is appended.
  // `limit`: of what was granted so far.
  Status kill(const BlockId& block, uint32_t target = 0, uint32_t away = 0, uint32_t domains = 1);
  // Seals the footer of a segment of slice 0 anew, without its last entry.
  void cut_footer(uint32_t target, uint32_t segment);
  // Reads the whole block, as pulls do: lead, then every other extent; compares every byte.
  Status read_back(const BlockId& block, const TestFragment& expected);
  TestFragment* fragment(const BlockId& block);  // the last one appended
  Attempt next_attempt(uint32_t target) {
    return {super(target).boot_generation, target, ++counter_};
  }

  ManualClock clock;
  LineageMark mark{.domain = kDomainDefault};  // of appends from now on
  Limbo append_limbo;                          // of appends from now on
  uint32_t absent = 0;  // bit t: target t is not there at the next start (its device has failed)
  RigOptions options;
  std::vector<std::unique_ptr<TestFragment>> appended;  // every one, of all starts

 private:
  struct Shard {
    std::unique_ptr<Reactor> reactor;
    FakeUser user;
    std::vector<FaultDevice*> devices;
    std::unique_ptr<Flash> flash;
    MetricSet metrics;
  };
  void end();
  SeededEntropy entropy_;
  std::byte node_uuid_[16] = {};
  std::vector<std::unique_ptr<MemoryPlatter>> platters_;
  std::vector<TargetInfo> infos_;
  std::vector<std::unique_ptr<Shard>> shards_;
  uint32_t starts_ = 0;
  uint64_t counter_ = 0;
};

}  // namespace varve::flash
