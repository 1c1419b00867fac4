// FakeFlash: the flash door over a map, for tests of the ops: it keeps whole fragments by place,
// completes in later turns, counts device reads, and can hold, fail, rot or fill on command.
//
// It checks what the real one would refuse: a read verifies header and checksum, a place that was
// released or never written is corrupt, a reservation that does not fit an append aborts.
#pragma once

#include <map>
#include <vector>

#include "common/reactor/reactor.h"
#include "server/flash/flash.h"

namespace varve {

class FakeFlash final : public flash::Flash {
 public:
  FakeFlash(Reactor& reactor, uint32_t targets, uint32_t slices);
  ~FakeFlash() override;

  // --- what a test commands
  uint32_t capacity_pages = 1u << 20;  // per target and slice
  std::vector<bool> ok;                // per target
  bool ready = true;                   // every slice ...
  uint32_t unready_slice = ~0u;        // ... but this one
  bool is_recovering = false;
  Status fail_reads;            // next reads end with this
  bool held_by_device = false;  // ... while the device keeps the pages (limbo)
  Status fail_appends;
  bool hold_reads = false;  // reads stay in flight until let_go()
  bool hold_appends = false;
  uint32_t hold_targets = ~0u;  // whose, as bits
  int suspect_target = -1;
  uint32_t making = 0;  // bit t: its reclaim has something to gain
  uint32_t pages_max = 32768;
  Nanos latency_ns = 100 * kMicrosecond;
  flash::FlashUser* user = nullptr;  // told of room wanted, when set
  void let_go();                     // finishes what is held
  void return_limbo();               // the device gives held pages back
  // Flips bits of the stored bytes, of one position's fragment or (-1) of all.
  void rot(const BlockId& block, int position = -1);
  // A fragment that was there before this start, for what recovery tells of.
  void adopt(const flash::Place& place, const BlockId& block);
  bool is_whole(const BlockId& block, uint32_t position) const;      // some fragment of it is there
  flash::Place copy_of(const flash::Place& place, uint32_t target);  // the same there, as by repair

  bool hold_kills = false;
  Status fail_raise, fail_kills;
  Usage shown;  // of every target

  // --- what a test looks at
  struct Killed {
    uint32_t target = 0, slice = 0, away = 0;
    BaseId base;
    Attempt limit;
    uint32_t domain = 0;
  };
  std::vector<Killed> killed;  // records that were flushed
  flash::Generations rows;     // as of the last raise that ended well
  uint64_t lead_reads = 0, extent_reads = 0, appends_done = 0, appends_now = 0, appends_soon = 0;
  uint64_t releases = 0;
  uint32_t reserved_pages = 0;
  std::vector<Nanos> read_wanted_ns;  // in the order in which reads arrived
  size_t fragments() const { return fragments_.size(); }
  bool holds(const flash::Place& place) const { return fragments_.contains(key_of(place)); }

  // flash::Flash
  void recover() override {}
  bool recovering() const override { return is_recovering; }
  bool slice_ready(uint32_t slice) const override { return ready && slice != unready_slice; }
  bool target_ok(uint32_t target) const override { return ok[target]; }
  bool target_suspect(uint32_t target) const override {
    return static_cast<int>(target) == suspect_target;
  }
  uint32_t target_count() const override { return static_cast<uint32_t>(ok.size()); }
  uint64_t target_key(uint32_t target) const override { return target * 77 + 5; }
  uint32_t boot_generation(uint32_t target) const override { return 10 + target; }
  uint32_t fragment_pages_max() const override { return pages_max; }
  bool reserve(uint32_t target, uint32_t slice, uint32_t pages) override;
  bool making_room(uint32_t target, uint32_t) const override { return (making >> target & 1) != 0; }
  void unreserve(uint32_t target, uint32_t slice, uint32_t pages) override;
  void append(flash::Append& append) override;
  void read(flash::Read& read) override;
  void release(const flash::Place& place) override;
  void kill(flash::Kill& kill) override;
  void raise(flash::Raise& raise) override;
  flash::Generations generations() const override { return rows; }
  void checkpoint_now() override {}
  void drain() override { drained = true; }
  bool idle() const override { return queue_.empty(); }
  void scrub_now() override {}
  bool scrub_start(uint32_t) override { return true; }
  void scrub_interval_set(Nanos) override {}
  void fail_target(uint32_t target, Status) override { ok[target] = false; }
  Status replaceable(uint32_t) const override { return {}; }
  Status replace(flash::TargetInfo, std::unique_ptr<BlockDevice>) override { return {}; }
  Usage usage(uint32_t) const override { return shown; }
  void register_metrics(MetricSet&) override {}
  bool drained = false;

 private:
  struct Fragment {
    std::vector<std::byte> bytes;
    BlockId block;
  };
  struct Work {  // one of the four
    flash::Append* append = nullptr;
    flash::Read* read = nullptr;
    flash::Kill* kill = nullptr;
    flash::Raise* raise = nullptr;
    Nanos due_ns = 0;
  };
  using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>;
  static Key key_of(const flash::Place& p) { return {p.target, p.slice, p.segment, p.page}; }
  bool is_held(const Work& work) const;
  void finish(const Work& work);
  void finish_append(flash::Append& append);
  Status read_now(flash::Read& read);
  void fire();
  void arm();

  Reactor& reactor_;
  uint32_t slices_;
  std::map<Key, Fragment> fragments_;
  std::vector<uint32_t> used_pages_;  // per target and slice: live and reserved
  std::vector<uint32_t> next_page_;
  std::vector<Work> queue_;
  std::vector<flash::Limbo> limbo_;
  Timer timer_;
};

}  // namespace varve
