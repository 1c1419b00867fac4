// RepairRig: the ops of one shard over real flash on platters, for tests of repair: blocks are put
// there fragment by fragment, with any of them left out, and whole blocks are read back and
// compared byte by byte. Time is manual; drives can be stuck, rotten, away or cut off.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "common/device/fault_device.h"
#include "server/op/op.h"
#include "server/op/repair.h"

namespace varve {

struct RepairRigOptions {
  Scheme scheme{.k = 2, .m = 1};
  uint32_t targets = 4;
  uint32_t repair_pages = 2048;
  uint64_t target_bytes = 16 * kMiB;
  uint32_t slices = 2;
  uint32_t segment_pages = 256;
  std::vector<uint32_t> layer_bytes = {70000, 70000, 200000, 70000, 66000};
  uint64_t bytes_per_s = 1000 * 1000 * 1000;
  uint32_t repairs_max = 4;
  uint32_t draining_targets = 0;  // as of the next boot
};

class RepairRig : flash::FlashUser {
 public:
  explicit RepairRig(const RepairRigOptions& options);
  ~RepairRig();

  void boot();       // recovered, and told so
  void power_cut();  // everything of this start is as a killed process leaves it
  // Drained as a shard is, then gone.
  void stop();

  template <class Done>
  bool run_until(Done done, Nanos for_ns = 100 * kSecond) {
    const Nanos end_ns = clock.now_ns() + for_ns;
    while (!done()) {
      if (reactor->turn()) continue;
      const Nanos due_ns = reactor->next_work_ns();
      if (due_ns > end_ns) {
        clock.advance_to(end_ns);
        reactor->turn();
        return done();
      }
      clock.advance_to(std::max(due_ns, clock.now_ns()));
    }
    return true;
  }
  void run_for(Nanos ns) {
    run_until([] { return false; }, ns);
  }
  bool run_until_whole(Nanos for_ns = 100 * kSecond) {
    return run_until([this] { return index->thin_count() == 0 && context->repair->at_rest(); },
                     for_ns);
  }

  BlockId block(uint32_t n) const;
  uint32_t all() const { return (1u << options.scheme.width()) - 1; }
  // Fragments of block n on flash and in the index, but for the positions in `missing`. A block may
  // be put there again, by another attempt. Lies: bit e, extent e is not what its stripe gives,
  // under checksums that hold; `digest_lies`: its second checksum is not that of its bytes.
  void put(uint32_t n, uint32_t missing, uint32_t lies = 0, uint32_t digest_lies = 0);
  Located locate(uint32_t n) const;
  // Every position of block n has a fragment on a target of its own, whose header and extents are
  // what they must be.
  void expect_whole(uint32_t n);
  void expect_at_rest();
  // The drive is unplugged, and flash has noticed.
  void unplug(uint32_t target);
  // One bit of an extent on its drive.
  void rot(uint32_t n, uint32_t extent);
  uint64_t visits(RepairOutcome outcome) const {
    return context->metrics.repair_blocks[static_cast<uint32_t>(outcome)].value();
  }
  void wake() { context->repair->wake(); }
  Status read_extent(const Located& located, const BlockId& id, uint32_t extent,
                     const flash::FragmentHeader& header, const ExtentEntry& row,
                     std::vector<std::byte>* bytes);
  flash::FragmentHeader read_lead(const Located& located, const BlockId& id, uint32_t position,
                                  std::vector<ExtentEntry>* rows);

  std::function<void()> on_recovery;  // called when it has begun
  RepairRigOptions options;
  ManualClock clock;
  ExtentTable table;
  std::vector<std::unique_ptr<MemoryPlatter>> platters;
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<DramTier> tier;
  std::unique_ptr<Index> index;
  std::vector<FaultDevice*> devices;
  std::unique_ptr<flash::Flash> flash;
  std::unique_ptr<OpContext> context;
  std::unique_ptr<Operations> operations;
  std::vector<flash::TargetInfo> infos;

 private:
  // The bytes of one attempt at one block, and their rows.
  struct Written {
    Attempt attempt;
    std::vector<std::vector<std::byte>> extents;
    std::vector<ExtentEntry> rows;
  };
  Written& make(uint32_t n, uint32_t lies, uint32_t digest_lies);
  flash::Place append(const Written& written, const BlockId& id, uint32_t position,
                      uint32_t target);
  bool on_recovered(const flash::FragmentInfo& f) override;
  void on_target_failed(uint32_t target) override;
  void on_lost(const BlockId& b, const flash::Place& p, flash::DropReason r) override;
  Verdict on_reclaim(const BlockId& b, const flash::Place& p) override;
  bool on_live(const BlockId& b, const flash::Place& p) override;
  bool on_moved(const BlockId& b, const flash::Place& f, const flash::Place& t) override;
  void on_room_wanted(uint32_t target, uint32_t slice, uint32_t pages) override;

  SeededEntropy entropy_{7};
  std::byte uuid_[16] = {std::byte{1}};
  std::vector<std::byte> memory_;
  std::unique_ptr<EvictionPolicy> eviction_;
  std::unique_ptr<AdmissionPolicy> admission_;
  std::vector<std::unique_ptr<Written>> written_;  // by block, the last attempt
  uint64_t attempts_ = 0;
  uint64_t seed_ = 0;
};

}  // namespace varve
