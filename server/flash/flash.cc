// Flash: the parts of this room put together for one shard, and the door's calls handed to them.
// Order of a stop: reclaim ends with its victim, what is open is sealed, what changed is
// checkpointed, then one last flush.
#include "server/flash/flash.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <string>

#include "server/flash/flash_impl.h"

namespace varve::flash {

FlashImpl::FlashImpl(Reactor& reactor, FlashUser& user, const FlashOptions& options)
    : reactor_(reactor), user_(user), options_(options), failures_(reactor, user), kills_(reactor) {
  checkpoint_timer_.owner = this;
  checkpoint_timer_.on_fire = [](Timer& timer) {
    static_cast<FlashImpl*>(timer.owner)->on_checkpoint_timer();
  };
  scrub_timer_.owner = this;
  scrub_timer_.on_fire = [](Timer& timer) {
    static_cast<FlashImpl*>(timer.owner)->on_scrub_timer();
  };
}

FlashImpl::~FlashImpl() {
  reactor_.cancel(checkpoint_timer_);
  reactor_.cancel(scrub_timer_);
}

CheckpointOp::Work FlashImpl::checkpoint_work() {
  return {next_to_checkpoint,
          [](void* owner, Target& target) {
            auto& self = *static_cast<FlashImpl*>(owner);
            self.drain_step(self.engine(target.index()));
          },
          this};
}

FlashOptions FlashImpl::options_of(const TargetInfo& info) const {
  FlashOptions of_target = options_;
  of_target.discard_erased = options_.discard_erased || info.is_block_device;
  return of_target;
}

void FlashImpl::add_target(Entropy& entropy, TargetInfo info, const TargetGeometry& geometry,
                           std::unique_ptr<BlockDevice> device) {
  const FlashOptions of_target = options_of(info);
  engines_.push_back(std::make_unique<Engine>(*this, reactor_, entropy, user_, of_target,
                                              std::move(info), geometry, std::move(device),
                                              recover_work(), checkpoint_work()));
  Engine& engine = *engines_.back();
  kills_.add(engine.target, engine.writer, engine.reclaim);
  wire(engine);
  make_logs(engine);
  slice_left_.resize(geometry.slices);
  for (const auto& log : engine.target.logs) {
    if (log == nullptr) continue;
    ++slice_left_[log->slice()];
    ++recover_left_;
  }
}

void FlashImpl::wire(Engine& engine) {
  Target& target = engine.target;
  target.on_changed = changed;
  target.on_changed_owner = this;
  target.metrics.ok.set(target.ok() ? 1 : 0);
  engine.failures = &failures_;
  engine.kills = &kills_;
  engine.super.owner = &engine;
  engine.super.on_done = [](void* owner, Status status) {
    auto& written = *static_cast<Engine*>(owner);
    written.flash.super_written(written, status);
  };
  target.io.on_failed_set(
      [](void* owner, Status) {
        auto& failed = *static_cast<Engine*>(owner);
        failed.target.metrics.ok.set(0);
        failed.failures->note(failed.target.index());
        failed.kills->wake();
      },
      &engine);
  engine.last_flush.owner = &engine;
  engine.last_flush.on_done = [](FlushWaiter& waiter) {
    static_cast<Engine*>(waiter.owner)->drained = true;
  };
}

void FlashImpl::make_logs(Engine& engine) {
  Target& target = engine.target;
  const TargetGeometry& geometry = target.geometry;
  target.logs.resize(geometry.slices);
  for (uint32_t slice = 0; slice < geometry.slices; ++slice) {
    if (shard_of_slice(slice, geometry.slices, options_.shards) != options_.shard) continue;
    target.logs[slice] =
        std::make_unique<SliceLog>(geometry, target.index(), slice, options_.free_segments_min);
    ++engine.recover_left;
  }
}

SliceLog& FlashImpl::log(uint32_t target, uint32_t slice) const {
  const Engine& of = engine(target);
  VARVE_ASSERT(slice < of.target.logs.size(), slice);
  VARVE_ASSERT(of.target.logs[slice] != nullptr, slice);  // another shard's
  return *of.target.logs[slice];
}

void FlashImpl::recover() {
  VARVE_ASSERT(reactor_.on_owner_core());
  VARVE_ASSERT(!draining_ && !scrub_timer_.armed());
  recover_started_ns_ = reactor_.now_ns();
  for (const auto& engine : engines_) {
    for (const auto& op : engine->recover)
      op->start();
  }
  if (options_.scrub_interval_ns > 0) reactor_.arm(scrub_timer_, options_.scrub_interval_ns);
}

SliceLog* FlashImpl::next_to_recover(void* owner, Target& target) {
  auto& self = *static_cast<FlashImpl*>(owner);
  if (self.draining_) return nullptr;
  Engine& engine = self.engine(target.index());
  while (engine.recover_next < target.logs.size()) {
    SliceLog* log = target.logs[engine.recover_next++].get();
    if (log != nullptr) return log;
  }
  return nullptr;
}

void FlashImpl::slice_recovered(void* owner, Target& target, SliceLog& log) {
  auto& self = *static_cast<FlashImpl*>(owner);
  Engine& engine = self.engine(target.index());
  VARVE_ASSERT(engine.recover_left > 0);
  --engine.recover_left;
  if (engine.newcomer) {  // all else is served meanwhile
    self.settle_in(engine);
    return target.changed(log);
  }
  VARVE_ASSERT(self.recover_left_ > 0 && self.slice_left_[log.slice()] > 0);
  --self.recover_left_;
  if (self.recover_left_ == 0) {
    self.recover_ns_.set(static_cast<int64_t>(self.reactor_.now_ns() - self.recover_started_ns_));
  }
  --self.slice_left_[log.slice()];
  if (engine.recover_left == 0) self.say_recovered(engine);
  target.changed(log);
}

// What a start found, once for each target: the first question after every crash.
void FlashImpl::say_recovered(const Engine& engine) const {
  const TargetMetrics& m = engine.target.metrics;
  if (!engine.target.ok()) return;  // its failure was said, and its numbers mean nothing
  uint64_t fragments = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < 3; ++i) {
    fragments += m.recovered[i].value();
    bytes += m.recovered_bytes[i].value();
  }
  const auto ms = static_cast<uint64_t>(reactor_.now_ns() - recover_started_ns_) / kMillisecond;
  logf(LogLevel::kInfo, "flash",
       "target %u shard %u recovered: %" PRIu64 " fragments, %" PRIu64 " MiB in %" PRIu64
       ".%03" PRIu64 " s (checkpoint %" PRIu64 ", footer %" PRIu64 ", tail %" PRIu64
       "); not kept: refused %" PRIu64 ", old generation %" PRIu64 ", torn %" PRIu64
       ", rot %" PRIu64 ", segments that cannot be read %" PRIu64,
       engine.target.index(), options_.shard, fragments, bytes / kMiB, ms / 1000, ms % 1000,
       m.recovered[0].value(), m.recovered[1].value(), m.recovered[2].value(), m.refused.value(),
       m.dropped_generation.value(), m.dropped_torn.value(), m.dropped_rot.value(),
       m.unreadable_segments.value());
}

bool FlashImpl::slice_ready(uint32_t slice) const {
  VARVE_ASSERT(slice < slice_left_.size(), slice);
  return slice_left_[slice] == 0;
}

uint64_t FlashImpl::target_key(uint32_t target) const {
  uint64_t key = 0;
  std::memcpy(&key, engine(target).target.info.super.target_uuid, sizeof(key));
  return key;
}

void FlashImpl::opened() {
  uint32_t least = ~0u, least_of_all = ~0u;
  for (const auto& engine : engines_) {
    const uint32_t pages = engine->target.geometry.fragment_pages_max();
    const bool drains = (options_.draining_targets >> engine->target.index() & 1) != 0;
    least_of_all = std::min(least_of_all, pages);
    if (engine->target.ok() && !drains) least = std::min(least, pages);
  }
  fragment_pages_max_ = least != ~0u ? least : least_of_all;
}

bool FlashImpl::reserve(uint32_t target, uint32_t slice, uint32_t pages) {
  VARVE_ASSERT(reactor_.on_owner_core());
  Engine& of = engine(target);
  SliceLog& log = this->log(target, slice);
  if (draining_ || !target_ok(target) || !log.ready) return false;
  if (pages > of.target.geometry.fragment_pages_max()) return false;
  const bool granted = log.reserve(pages);
  if (!granted) {
    log.room_refused = true;
    log.room_refused_pages = pages;
  }
  changed(this, log);
  return granted;
}

bool FlashImpl::making_room(uint32_t target, uint32_t slice) const {
  const SliceLog& log = this->log(target, slice);
  return !log.stalled() || log.reserved_pages() > 0;
}

void FlashImpl::unreserve(uint32_t target, uint32_t slice, uint32_t pages) {
  VARVE_ASSERT(reactor_.on_owner_core());
  SliceLog& log = this->log(target, slice);
  log.unreserve(pages);
  changed(this, log);
}

void FlashImpl::append(Append& append) {
  VARVE_ASSERT(reactor_.on_owner_core());
  engine(append.target).writer.append(log(append.target, append.slice), append);
}

void FlashImpl::read(Read& read) {
  VARVE_ASSERT(reactor_.on_owner_core());
  engine(read.place.target).reader.read(log(read.place.target, read.place.slice), read);
}

void FlashImpl::release(const Place& place) {
  VARVE_ASSERT(reactor_.on_owner_core());
  SliceLog& log = this->log(place.target, place.slice);
  VARVE_ASSERT(place.segment < log.segment_count(), place.segment);
  log.live_drop(place.segment, place.pages);
  if (ReclaimOp::wants(engine(place.target).target, log)) engine(place.target).reclaim.wake();
}

void FlashImpl::kill(Kill& kill) {
  VARVE_ASSERT(reactor_.on_owner_core());
  kills_.push(log(kill.target, kill.slice), kill);
}

// On every target that works, at once: a raise that one of them misses is merged into it at the
// next start.
void FlashImpl::raise(Raise& raise) {
  VARVE_ASSERT(reactor_.on_owner_core());
  VARVE_ASSERT(raise_ == nullptr && raise.on_done != nullptr);
  VARVE_ASSERT(raise.rows.size() <= kGenerationsMax, raise.rows.size());
  raise_ = &raise;
  raises_ = true;
  raises_done_ = 0;
  raises_out_ = static_cast<uint32_t>(engines_.size());
  for (const auto& engine : engines_) {
    engine->raise_waits = engine->super_early;
    if (!engine->super_early) engine->super.write(raise.rows);
  }
}

// One that is away, or failed since, knows only what was raised before; and all may have failed
// since.
Generations FlashImpl::generations() const {
  if (!raised_rows_.empty()) return raised_rows_;
  for (const auto& engine : engines_) {
    if (engine->target.ok() && !engine->newcomer) return engine->target.generations;
  }
  return engines_.front()->target.generations;
}

void FlashImpl::raised(Status status) {
  VARVE_ASSERT(raise_ != nullptr && raises_out_ > 0);
  if (status.ok()) ++raises_done_;
  if (--raises_out_ > 0) return;
  Raise& raise = *raise_;
  raise_ = nullptr;
  raise.status = raises_done_ > 0 ? Status() : Status::unavailable("no target works");
  if (raise.status.ok()) raised_rows_ = raise.rows;
  raise.on_done(raise);
}

// Something about the segments of a slice is different: seal, reclaim, checkpoint, drain look at
// it.
void FlashImpl::changed(void* owner, SliceLog& log) {
  auto& self = *static_cast<FlashImpl*>(owner);
  Engine& engine = self.engine(log.target());
  // Reclaim's segment has to take the rest of its victim: sealed before, it would cost a free one.
  const bool all = self.draining_ && !engine.reclaim.running();
  engine.writer.seal_quiet(log, all ? SealScope::kAll : SealScope::kFull);
  if (engine.reclaim.running() || ReclaimOp::wants(engine.target, log)) engine.reclaim.wake();
  if (log.changed_segments > 0 || log.checkpoint_wanted) self.arm_checkpoint();
  self.kills_.changed(log);
  if (self.draining_) self.drain_step(engine);
}

void FlashImpl::arm_checkpoint() {
  if (options_.checkpoint_interval_ns == 0 || checkpoint_timer_.armed() || draining_) return;
  reactor_.arm(checkpoint_timer_, options_.checkpoint_interval_ns);
}

// A checkpoint reads the footers of its slice: it waits until an eighth of the segments changed.
void FlashImpl::on_checkpoint_timer() {
  for (const auto& engine : engines_) {
    bool wanted = false;
    for (const auto& log : engine->target.logs) {
      if (log == nullptr || !log->ready) continue;
      const bool much = log->changed_segments >= std::max(1u, log->segment_count() / 8);
      if (!much && !log->checkpoint_wanted) continue;
      log->checkpoint_wanted = wanted = true;
    }
    if (wanted) engine->checkpoint.wake();
  }
}

void FlashImpl::checkpoint_now() {
  for (const auto& engine : engines_) {
    bool wanted = false;
    for (const auto& log : engine->target.logs) {
      if (log == nullptr || !log->ready) continue;
      if (log->changed_segments == 0 && !log->checkpoint_wanted) continue;
      log->checkpoint_wanted = wanted = true;
    }
    if (wanted) engine->checkpoint.wake();
  }
}

SliceLog* FlashImpl::next_to_checkpoint(void*, Target& target) {
  for (const auto& log : target.logs) {
    if (log == nullptr || !log->checkpoint_wanted) continue;
    log->checkpoint_wanted = false;
    return log.get();
  }
  return nullptr;
}

void FlashImpl::drain() {
  VARVE_ASSERT(reactor_.on_owner_core());
  draining_ = true;
  kills_.wake();
  reactor_.cancel(checkpoint_timer_);
  reactor_.cancel(scrub_timer_);
  for (const auto& engine : engines_) {
    engine->target.draining = true;
    engine->scrub.stop();
    drain_step(*engine);
  }
}

// Reclaim ends with its victim; all sealed, then all checkpointed, then flushed once more: each
// step is taken when the one before is seen to be done, from whatever ended it.
void FlashImpl::drain_step(Engine& engine) {
  if (!draining_ || engine.last_flush_sent) return;
  if (!engine.target.ok()) {
    engine.last_flush_sent = engine.drained = true;
    return;
  }
  if (engine.reclaim.running()) return;
  for (const auto& log : engine.target.logs) {
    if (log != nullptr && log->ready) engine.writer.seal_quiet(*log, SealScope::kAll);
  }
  if (!engine.writer.idle() || engine.checkpoint.running()) return;
  bool wanted = false;
  for (const auto& log : engine.target.logs) {
    if (log == nullptr || !log->ready) continue;
    if (log->open_count() > 0) return;  // reservations are still out
    if (log->changed_segments > 0 || log->checkpoint_wanted) log->checkpoint_wanted = wanted = true;
  }
  if (wanted) return engine.checkpoint.wake();
  engine.last_flush_sent = true;
  engine.target.flusher.wait(engine.last_flush);
}

bool FlashImpl::idle() const {
  if (!kills_.idle()) return false;
  for (const auto& engine : engines_) {
    if (!engine->target.io.idle() || !engine->target.flusher.idle()) return false;
    if (!engine->writer.idle() || !engine->reader.idle() || !engine->super.idle()) return false;
    if (engine->reclaim.running() || engine->checkpoint.running() || engine->scrub.running()) {
      return false;
    }
    for (const auto& op : engine->recover) {
      if (op->running()) return false;
    }
    if (draining_ && !engine->drained) return false;
  }
  return true;
}

void FlashImpl::scrub_now() {
  for (const auto& engine : engines_)
    engine->scrub.start();
}

bool FlashImpl::scrub_start(uint32_t target) {
  VARVE_ASSERT(reactor_.on_owner_core());
  ScrubOp& scrub = engine(target).scrub;
  const bool ran = scrub.running();
  scrub.start();
  return !ran && scrub.running();
}

void FlashImpl::scrub_interval_set(Nanos interval_ns) {
  VARVE_ASSERT(reactor_.on_owner_core());
  options_.scrub_interval_ns = interval_ns;
  reactor_.cancel(scrub_timer_);
  if (interval_ns > 0 && !draining_) reactor_.arm(scrub_timer_, interval_ns);
}

void FlashImpl::fail_target(uint32_t target, Status cause) {
  VARVE_ASSERT(reactor_.on_owner_core());
  engine(target).target.io.fail_now(cause);
}

void FlashImpl::on_scrub_timer() {
  for (const auto& engine : engines_)
    engine->scrub.start_paced(options_.scrub_interval_ns / 2);
  reactor_.arm(scrub_timer_, options_.scrub_interval_ns);
}

Flash::Usage FlashImpl::usage(uint32_t target) const {
  Usage usage;
  usage.limbo = engine(target).target.io.limbo_count();
  usage.scrub_running = engine(target).scrub.running();
  usage.scrub_pass_pages = engine(target).scrub.pass_pages();
  usage.scrub_pass_done_pages = engine(target).scrub.pass_done_pages();
  for (const auto& other : engines_)
    usage.kills_missed = std::max(usage.kills_missed, other->target.kills_away[target]);
  for (const auto& log : engine(target).target.logs) {
    if (log == nullptr) continue;
    const TargetGeometry& geometry = log->geometry();
    usage.capacity_pages += uint64_t{geometry.segments} * geometry.segment_pages;
    usage.live_pages += log->live_pages();
    usage.reserved_pages += log->reserved_pages();
    usage.free_segments += log->free_count();
    usage.written_pages += log->written_pages;
  }
  return usage;
}

void FlashImpl::register_metrics(MetricSet& metrics) {
  metrics.add({"varve_flash_recover_nanoseconds", "", "duration of the last recovery"},
              &recover_ns_);
  for (const auto& engine : engines_) {
    const std::string labels = "target=\"" + std::to_string(engine->target.index()) + "\"";
    engine->target.metrics.register_in(metrics, labels);
    const Flusher& flusher = engine->target.flusher;
    metrics.add({"varve_flash_flushes_total", labels, "flushes of the device"}, &flusher.flushes);
    metrics.add({"varve_flash_flush_waiters_total", labels, "waits ended by flushes"},
                &flusher.flush_waiters);
    metrics.add({"varve_flash_flush_seconds", labels, "flush"}, &flusher.flush_seconds);
  }
}

Result<std::unique_ptr<Flash>> Flash::open(Reactor& reactor, const Clock&, Entropy& entropy,
                                           std::vector<TargetInfo> targets,
                                           std::vector<std::unique_ptr<BlockDevice>> devices,
                                           FlashUser& user, const FlashOptions& options) {
  if (targets.empty() || targets.size() > kTargetsMax || targets.size() != devices.size()) {
    return Status::invalid("flash: 1 .. 32 targets, each with its device");
  }
  if (options.shards == 0 || options.shard >= options.shards || options.reads_max == 0 ||
      options.writes_max == 0 || options.free_segments_min == 0 ||
      options.io_bytes_max < kPageBytes || options.io_bytes_max % kPageBytes != 0 ||
      options.io_ns_max == 0) {
    return Status::invalid("flash: an option is zero or out of range");
  }
  if (options.ack_before_flush_mutant) {
    logf(LogLevel::kError, "flash",
         "MUTANT: durable appends are acknowledged before their flush; for the ledger only");
  }
  if (options.purge_before_flush_mutant) {
    logf(LogLevel::kError, "flash",
         "MUTANT: purges are answered before the flush of their records; for the ledger only");
  }
  auto flash = std::make_unique<FlashImpl>(reactor, user, options);
  uint32_t slices = 0;
  for (uint32_t i = 0; i < targets.size(); ++i) {
    VARVE_TRY(const TargetGeometry geometry, geometry_of(targets[i].super));
    if (targets[i].super.target_index != i) return Status::invalid("flash: targets out of order");
    if (i > 0 && geometry.slices != slices) {
      return Status::invalid("flash: targets with different numbers of slices");
    }
    if (options.shards > geometry.slices) return Status::invalid("flash: more shards than slices");
    if (devices[i] == nullptr || devices[i]->capacity_bytes() < bytes_of(geometry.pages())) {
      return Status::invalid("flash: device smaller than its superblock says");
    }
    slices = geometry.slices;
    flash->add_target(entropy, std::move(targets[i]), geometry, std::move(devices[i]));
  }
  flash->opened();
  return std::unique_ptr<Flash>(std::move(flash));
}

}  // namespace varve::flash
