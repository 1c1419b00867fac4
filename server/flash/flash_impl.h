// FlashImpl: the parts of this room put together for one shard, an Engine for each target.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "server/flash/checkpoint.h"
#include "server/flash/failure_teller.h"
#include "server/flash/flash.h"
#include "server/flash/kill_pump.h"
#include "server/flash/raise.h"
#include "server/flash/reclaim.h"
#include "server/flash/recover.h"
#include "server/flash/scrub.h"
#include "server/flash/segment_reader.h"
#include "server/flash/segment_writer.h"

namespace varve::flash {

class FlashImpl;

// Everything of one target; the order of the members is the order in which they need each other.
struct Engine {
  Engine(FlashImpl& of_flash, Reactor& reactor, Entropy& entropy, FlashUser& user,
         const FlashOptions& options, TargetInfo info, const TargetGeometry& geometry,
         std::unique_ptr<BlockDevice> device, const RecoverOp::Work& recover_work,
         const CheckpointOp::Work& checkpoint_work)
      : flash(of_flash),
        target(reactor, entropy, user, options, std::move(info), geometry, std::move(device)),
        writer(target),
        reader(target),
        reclaim(target, writer),
        checkpoint(target, checkpoint_work),
        scrub(target),
        super(target) {
    for (auto& op : recover)
      op = std::make_unique<RecoverOp>(target, writer, recover_work);
  }
  FlashImpl& flash;
  Target target;
  SegmentWriter writer;
  SegmentReader reader;
  ReclaimOp reclaim;
  CheckpointOp checkpoint;
  ScrubOp scrub;
  SuperWriter super;
  KillPump* kills = nullptr;
  FailureTeller* failures = nullptr;
  bool newcomer = false;     // it has another one's place, and is not ready yet:
  bool super_early = false;  // ... its superblock learns of what was raised since it was formatted
  bool raise_waits = false;  // ... and of what is raised meanwhile
  // Nothing of it is anywhere but here: neither at the device nor in a queue of the core.
  bool quiet() const {
    const bool tasks_rest = !target.io.ready && !target.flusher.ready && !reader.ready &&
                            !reclaim.ready && !checkpoint.ready && !scrub.ready;
    const bool ops_rest = !reclaim.running() && !checkpoint.running() && !scrub.running();
    const bool recovery_rests =
        std::none_of(std::begin(recover), std::end(recover),
                     [](const auto& op) { return op->ready || op->running(); });
    return tasks_rest && ops_rest && recovery_rests && target.io.idle() &&
           target.io.limbo_count() == 0 && target.device->in_flight() == 0 &&
           target.flusher.idle() && writer.idle() && reader.idle() && super.idle();
  }
  std::unique_ptr<RecoverOp> recover[kRecoverOps];
  uint32_t recover_next = 0;  // slice
  uint32_t recover_left = 0;  // logs
  FlushWaiter last_flush;
  bool last_flush_sent = false;
  bool drained = false;
};

class FlashImpl final : public Flash {
 public:
  FlashImpl(Reactor& reactor, FlashUser& user, const FlashOptions& options);
  ~FlashImpl() override;
  void add_target(Entropy& entropy, TargetInfo info, const TargetGeometry& geometry,
                  std::unique_ptr<BlockDevice> device);
  void opened();  // all targets were added

  void recover() override;
  bool recovering() const override { return recover_left_ > 0; }
  bool slice_ready(uint32_t slice) const override;
  bool target_ok(uint32_t target) const override {
    return engine(target).target.ok() && !engine(target).newcomer;
  }
  bool target_suspect(uint32_t target) const override {
    const IoQueue& io = engine(target).target.io;
    return io.silent(options_.suspect_silent_ns) ||
           io.keeps_longer(options_.suspect_ns, options_.suspect_write_ns);
  }
  uint32_t target_count() const override { return static_cast<uint32_t>(engines_.size()); }
  uint64_t target_key(uint32_t target) const override;
  uint32_t boot_generation(uint32_t target) const override {
    return engine(target).target.info.super.boot_generation;
  }
  uint32_t fragment_pages_max() const override { return fragment_pages_max_; }
  bool reserve(uint32_t target, uint32_t slice, uint32_t pages) override;
  bool making_room(uint32_t target, uint32_t slice) const override;
  void unreserve(uint32_t target, uint32_t slice, uint32_t pages) override;
  void append(Append& append) override;
  void read(Read& read) override;
  void release(const Place& place) override;
  void kill(Kill& kill) override;
  void raise(Raise& raise) override;
  Generations generations() const override;
  void checkpoint_now() override;
  void drain() override;
  bool idle() const override;
  void scrub_now() override;
  bool scrub_start(uint32_t target) override;
  void scrub_interval_set(Nanos interval_ns) override;
  void fail_target(uint32_t target, Status cause) override;
  Status replaceable(uint32_t target) const override;
  Status replace(TargetInfo info, std::unique_ptr<BlockDevice> device) override;
  Usage usage(uint32_t target) const override;
  void register_metrics(MetricSet& metrics) override;

 private:
  Engine& engine(uint32_t target) const {
    VARVE_ASSERT(target < engines_.size(), target);
    return *engines_[target];
  }
  SliceLog& log(uint32_t target, uint32_t slice) const;
  RecoverOp::Work recover_work() { return {next_to_recover, slice_recovered, this}; }
  CheckpointOp::Work checkpoint_work();
  FlashOptions options_of(const TargetInfo& info) const;
  void wire(Engine& engine);
  void make_logs(Engine& engine);
  void super_written(Engine& engine, Status status);
  void settle_in(Engine& engine);
  static SliceLog* next_to_recover(void* owner, Target& target);
  static void slice_recovered(void* owner, Target& target, SliceLog& log);
  static SliceLog* next_to_checkpoint(void* owner, Target& target);
  static void changed(void* owner, SliceLog& log);
  void drain_step(Engine& engine);
  void raised(Status status);
  void say_recovered(const Engine& engine) const;
  void arm_checkpoint();
  void on_checkpoint_timer();
  void on_scrub_timer();

  Reactor& reactor_;
  FlashUser& user_;
  FlashOptions options_;
  FailureTeller failures_;
  KillPump kills_;
  Raise* raise_ = nullptr;
  bool raises_ = false;       // this is the shard whose superblock writers are used (see Raise)
  uint32_t raises_out_ = 0;   // targets that write
  uint32_t raises_done_ = 0;  // that have
  Generations raised_rows_;   // of the last that came to be; empty before the first
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<uint32_t> slice_left_;  // targets that have not recovered this slice
  uint32_t recover_left_ = 0;         // logs
  uint32_t fragment_pages_max_ = 0;
  bool draining_ = false;
  Nanos recover_started_ns_ = 0;
  Gauge recover_ns_;
  Timer checkpoint_timer_;
  Timer scrub_timer_;
};

}  // namespace varve::flash
