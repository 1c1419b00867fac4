// A shard: its parts in the order in which they need each other, and the wires between them.
//
// Flash reports upwards through FlashUser, which this class implements by handing everything to the
// catalog; parts come down by mailbox and go to Operations. A timer looks after what has no other
// clock: the end of recovery, the steps of a drain, ops past their deadline.
#include "server/shard/shard.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "server/op/op.h"
#include "server/policy/policy.h"

namespace varve {

namespace {

constexpr Nanos kWatchNanos = 1 * kSecond;
constexpr Nanos kDrainPollNanos = 1 * kMillisecond;
constexpr uint32_t kPinsPerLease = 256;  // on average, of all leases together
constexpr char kFlashAdmission[] = "every_commit";

struct UsageGauges {
  Gauge capacity, live, reserved, free_segments, ok, suspect, limbo, fragments, draining;
  Gauge kills_missed, scrub_running, scrub_pass, scrub_done;
};

struct Suspicion {  // of one target
  bool now = false;
  LogLimit log{60 * kSecond};
};

class ShardImpl final : public Shard, public flash::FlashUser {
 public:
  ShardImpl(Env& env, Reactor& reactor, ByteSpan arena, const ShardOptions& options,
            uint32_t slices, uint32_t targets, int32_t buffer_index)
      : reactor_(reactor),
        options_(options),
        slices_(slices),
        buffer_index_(buffer_index),
        arena_(arena),
        tier_(arena_, options.tier),
        hash_seed_(env.entropy.next64()),
        index_(IndexOptions{.blocks_max = options.blocks_max,
                            .scheme = options.scheme,
                            .slice_count = slices,
                            .hash_seed = hash_seed_}),
        eviction_(make_leaf_first_lru(index_.base_slots_max(), targets * slices)),
        admission_(make_admit_all()),
        usage_(targets),
        suspicions_(targets) {
    VARVE_ASSERT(slices > 0 && slices <= kSlicesMax, slices);
    VARVE_ASSERT(targets > 0 && targets <= kTargetsMax, targets);
    watch_.owner = this;
    watch_.on_fire = [](Timer& timer) { static_cast<ShardImpl*>(timer.owner)->watch(); };
  }
  ~ShardImpl() override { reactor_.cancel(watch_); }

  void adopt(std::unique_ptr<flash::Flash> flash);

  // Shard
  void start() override;
  void submit(Part& part) override;
  void drain() override;
  bool drained() const override { return draining_flash_ && flash_->idle(); }
  bool recovering() const override { return flash_->recovering(); }
  MetricSnapshot metrics() const override;
  std::vector<DomainUse> domain_use() const override;
  Reactor& reactor() override { return reactor_; }
  Index& index() override { return index_; }
  DramTier& tier() override { return tier_; }
  flash::Flash& flash() override { return *flash_; }
  bool at_rest() const override { return operations_->at_rest() && tier_.at_rest(); }
  BaseLook look(uint32_t domain, const BaseId& id) const override;
  void look_tiers(uint32_t domain, std::span<const BaseId> ids, uint32_t rank_count,
                  std::span<wire::TierKind> tiers) const override;
  ShardPolicy policy() const override;
  void policy_set(const ShardPolicy& policy) override;
  bool can_drain() const override { return operations_->repairs(); }
  TierPolicy dram_policy() const override {
    const bool keeps = options_.tier.limit_bytes[static_cast<uint8_t>(Budget::kResident)] > 0;
    return keeps ? TierPolicy{admission_->name(), DramTier::kEviction} : TierPolicy{"none", "none"};
  }
  TierPolicy flash_policy() const override { return {kFlashAdmission, eviction_->name()}; }
  void draining_set(uint32_t target, Draining draining) override;
  Status replaceable(uint32_t target) const override;
  Status replace(flash::TargetInfo info, std::unique_ptr<BlockDevice> device) override;

  // FlashUser
  bool on_recovered(const flash::FragmentInfo& fragment) override {
    return operations_->catalog().recovered(fragment);
  }
  void on_killed(uint32_t domain, const BaseId& base, const Attempt& limit) override {
    operations_->catalog().killed(domain, base, limit);
  }
  void on_recovery_ahead(uint32_t domain, const BaseId& base) override {
    index_.prefetch(domain, base);
  }
  void on_target_failed(uint32_t target) override { operations_->catalog().target_failed(target); }
  void on_target_replaced(uint32_t target) override { operations_->target_replaced(target); }
  void on_lost(const BlockId& block, const flash::Place& place, flash::DropReason reason) override {
    operations_->catalog().lost(block, place, reason);
  }
  Verdict on_reclaim(const BlockId& block, const flash::Place& place) override {
    return operations_->catalog().reclaim(block, place);
  }
  bool on_live(const BlockId& block, const flash::Place& place) override {
    return operations_->catalog().is_live(block, place);
  }
  bool on_moved(const BlockId& block, const flash::Place& from, const flash::Place& to) override {
    return operations_->catalog().moved(block, from, to);
  }
  void on_room_wanted(uint32_t target, uint32_t slice, uint32_t pages) override {
    operations_->room_wanted(target, slice, pages);
  }

 private:
  OpOptions op_options() const;
  void register_metrics();
  void watch();
  bool is_suspect(uint32_t target) const {  // one that has failed is more than that
    return flash_->target_ok(target) && flash_->target_suspect(target);
  }
  void say_suspects();

  Reactor& reactor_;
  ShardOptions options_;
  uint32_t slices_;
  int32_t buffer_index_;
  Arena arena_;
  DramTier tier_;
  const uint64_t hash_seed_;  // a secret of this process
  Index index_;
  std::unique_ptr<EvictionPolicy> eviction_;
  std::unique_ptr<AdmissionPolicy> admission_;
  std::unique_ptr<flash::Flash> flash_;
  std::unique_ptr<OpContext> context_;
  std::unique_ptr<Operations> operations_;
  bool recovered_ = false;
  bool draining_ = false;
  bool draining_flash_ = false;
  Timer watch_;
  MetricSet metrics_;
  mutable std::vector<UsageGauges> usage_;
  std::vector<Suspicion> suspicions_;
  Gauge index_limit_;
  mutable Gauge index_blocks_, index_thin_, index_away_, index_bases_, index_bytes_, recovering_;
  mutable Gauge domain_id_last_;
};

OpOptions ShardImpl::op_options() const {
  OpOptions o;
  o.shard = options_.shard;
  o.slices = slices_;
  o.pushes_max = options_.pushes_max;
  o.pulls_max = options_.pulls_max;
  o.extents_max = 2 * options_.data_sends_max;
  o.data_sends_max = options_.data_sends_max;
  o.pull_window_bytes = options_.pull_window_bytes;
  o.pull_windows_max = options_.pull_windows_max;
  o.leases_max = options_.leases_max;
  o.lease_pins_max = std::max(options_.leases_max * kPinsPerLease, 2 * wire::kIdsMax);
  o.lease_ms_max = options_.lease_ms_max;
  o.sibling_ns_max = Nanos{options_.sibling_ms_max} * kMillisecond;
  o.epoch = options_.epoch;
  o.hash_seed = hash_seed_;
  o.domains = options_.domains;
  o.scheme = options_.scheme;
  o.repair_bytes_per_s = options_.repair_bytes_per_s;
  o.draining_targets = options_.draining_targets;
  o.drained_targets = options_.drained_targets;
  o.absent_targets = options_.absent_targets;
  o.buffer_index = buffer_index_;
  return o;
}

void ShardImpl::adopt(std::unique_ptr<flash::Flash> flash) {
  VARVE_ASSERT(flash != nullptr && flash_ == nullptr);
  VARVE_ASSERT(flash->target_count() == usage_.size(), flash->target_count());
  flash_ = std::move(flash);
  context_ = std::make_unique<OpContext>(OpContext{.reactor = reactor_,
                                                   .index = index_,
                                                   .tier = tier_,
                                                   .flash = *flash_,
                                                   .eviction = *eviction_,
                                                   .admission = *admission_,
                                                   .options = op_options(),
                                                   .metrics = {},
                                                   .gathered = {}});
  operations_ = std::make_unique<Operations>(*context_);
  register_metrics();
}

void ShardImpl::start() {
  VARVE_ASSERT(!watch_.armed());
  VARVE_ASSERT(!draining_ && !recovered_);
  flash_->recover();
  reactor_.arm(watch_, kWatchNanos);
}

void ShardImpl::submit(Part& part) {
  VARVE_ASSERT(part.session_reactor != nullptr && part.on_back != nullptr);
  part.home = this;
  part.message.owner = &part;
  part.message.deliver = [](Message& message) {
    Part& arrived = *static_cast<Part*>(message.owner);
    VARVE_ASSERT(arrived.home != nullptr);
    static_cast<ShardImpl*>(arrived.home)->operations_->begin(arrived);
  };
  reactor_.post(part.message);
}

BaseLook ShardImpl::look(uint32_t domain, const BaseId& id) const {
  VARVE_ASSERT(reactor_.on_owner_core());
  return look_base(*context_, domain, id);
}

void ShardImpl::look_tiers(uint32_t domain, std::span<const BaseId> ids, uint32_t rank_count,
                           std::span<wire::TierKind> tiers) const {
  VARVE_ASSERT(reactor_.on_owner_core());
  VARVE_ASSERT(ids.size() == tiers.size(), ids.size(), tiers.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (home(ids[i], slices_, options_.shards) != options_.shard) continue;
    tiers[i] = look_tier(*context_, domain, ids[i], rank_count);
  }
}

ShardPolicy ShardImpl::policy() const {
  const OpOptions& ops = context_->options;
  return {ops.repair_bytes_per_s, static_cast<uint32_t>(ops.sibling_ns_max / kMillisecond),
          options_.flash.scrub_interval_ns};
}

void ShardImpl::policy_set(const ShardPolicy& policy) {
  VARVE_ASSERT(reactor_.on_owner_core());
  OpOptions& ops = context_->options;
  VARVE_ASSERT(policy.repair_bytes_per_s == 0 || options_.repair_bytes_per_s > 0);
  VARVE_ASSERT(policy.sibling_ms_max > 0);
  if (ops.repair_bytes_per_s != policy.repair_bytes_per_s) {
    operations_->repair_rate_set(policy.repair_bytes_per_s);
  }
  ops.sibling_ns_max = Nanos{policy.sibling_ms_max} * kMillisecond;
  if (options_.flash.scrub_interval_ns == policy.scrub_interval_ns) return;
  options_.flash.scrub_interval_ns = policy.scrub_interval_ns;
  flash_->scrub_interval_set(policy.scrub_interval_ns);
}

void ShardImpl::draining_set(uint32_t target, Draining draining) {
  VARVE_ASSERT(reactor_.on_owner_core());
  operations_->draining_set(target, draining);
}

Status ShardImpl::replaceable(uint32_t target) const {
  VARVE_ASSERT(reactor_.on_owner_core());
  VARVE_RETURN_IF_ERROR(flash_->replaceable(target));
  return operations_->replaceable(target);
}

Status ShardImpl::replace(flash::TargetInfo info, std::unique_ptr<BlockDevice> device) {
  VARVE_ASSERT(reactor_.on_owner_core());
  VARVE_RETURN_IF_ERROR(replaceable(info.super.target_index));
  const flash::Superblock& super = info.super;
  if (Scheme{super.k, super.m} != options_.scheme) {
    return Status::invalid("a target of another scheme");
  }
  return flash_->replace(std::move(info), std::move(device));
}

void ShardImpl::drain() {
  VARVE_ASSERT(watch_.armed());  // started
  if (draining_) return;
  draining_ = true;
  operations_->drain();
  watch();
}

void ShardImpl::watch() {
  if (!recovered_ && !flash_->recovering()) {
    recovered_ = true;
    operations_->catalog().recovery_done();
  }
  operations_->watch();
  say_suspects();
  if (draining_ && !draining_flash_ && operations_->pushes_done()) {
    VARVE_ASSERT(context_->draining);  // so that no push begins behind this
    draining_flash_ = true;
    flash_->drain();
  }
  reactor_.arm(watch_, draining_ && !draining_flash_ ? kDrainPollNanos : kWatchNanos);
}

// Once each time that it begins, as far as it is still so when this looks.
void ShardImpl::say_suspects() {
  const flash::FlashOptions& limits = options_.flash;
  for (uint32_t t = 0; t < suspicions_.size(); ++t) {
    Suspicion& suspicion = suspicions_[t];
    const bool was = suspicion.now;
    suspicion.now = is_suspect(t);
    uint64_t swallowed = 0;
    if (was || !suspicion.now || !suspicion.log.admit(reactor_.now_ns(), &swallowed)) continue;
    logf(LogLevel::kWarn, "shard",
         "target %u shard %u is suspect: its device has answered no read for %" PRIu64
         " ms, or keeps one for more than %" PRIu64
         " ms, or a write or flush for more than %" PRIu64
         " ms; reads and pushes go round it where other targets suffice; what is kept for %" PRIu64
         " ms fails it; check the drive (%" PRIu64 " more not said)",
         t, options_.shard, limits.suspect_silent_ns / kMillisecond,
         limits.suspect_ns / kMillisecond, limits.suspect_write_ns / kMillisecond,
         limits.io_ns_max / kMillisecond, swallowed);
  }
}

void ShardImpl::register_metrics() {
  operations_->register_metrics(metrics_);
  tier_.register_metrics(metrics_);
  flash_->register_metrics(metrics_);
  metrics_.add({"varve_index_blocks", "", "Blocks in the index."}, &index_blocks_);
  index_limit_.set(index_.blocks_max());
  metrics_.add(
      {"varve_index_blocks_limit", "",
       "How many it may have: what is found beyond is not kept, what is pushed is refused."},
      &index_limit_);
  metrics_.add({"varve_index_thin_blocks", "", "Of these, blocks that lack a fragment on flash."},
               &index_thin_);
  metrics_.add({"varve_index_away_blocks", "",
                "Of these, blocks that cannot be read because targets are away; they come back "
                "with them."},
               &index_away_);
  metrics_.add({"varve_index_bases", "", "Base ids in the index."}, &index_bases_);
  metrics_.add({"varve_index_bytes", "", "Memory of the index, all in."}, &index_bytes_);
  metrics_.add({"varve_domain_id_last", "",
                "The largest id of a domain that is known of, whether it is there or not."},
               &domain_id_last_, GaugeMerge::kMax);
  metrics_.add({"varve_recovering", "", "Shards that still rebuild their index."}, &recovering_);
  for (uint32_t t = 0; t < usage_.size(); ++t) {
    const std::string label = "target=\"" + std::to_string(t) + "\"";
    metrics_.add({"varve_target_capacity_bytes", label, "Of the slices of all shards."},
                 &usage_[t].capacity);
    metrics_.add({"varve_target_live_bytes", label, "In pages of what is live."}, &usage_[t].live);
    metrics_.add(
        {"varve_target_reserved_bytes", label, "Promised to pushes that have not written yet."},
        &usage_[t].reserved);
    metrics_.add({"varve_target_free_segments", label, "Erased, and open for nobody."},
                 &usage_[t].free_segments);
    metrics_.add({"varve_target_ok_shards", label, "Shards for which this target works."},
                 &usage_[t].ok);
    metrics_.add({"varve_target_fragments", label, "Of blocks in the index."},
                 &usage_[t].fragments);
    metrics_.add(
        {"varve_target_draining", label, "1: what it holds is moved to others, by every shard."},
        &usage_[t].draining, GaugeMerge::kMin);
    metrics_.add(
        {"varve_target_suspect", label,
         "Shards for which its device keeps a read or a write for long: it is gone round."},
        &usage_[t].suspect);
    metrics_.add({"varve_target_limbo", label,
                  "Transfers whose memory its device, which failed, has not given back."},
                 &usage_[t].limbo);
    metrics_.add({"varve_target_kills_missed", label,
                  "The latest start of which KILL records are kept on others because it was away; "
                  "0: none."},
                 &usage_[t].kills_missed, GaugeMerge::kMax);
    metrics_.add({"varve_target_scrubbing", label, "Shards that read and verify it all now."},
                 &usage_[t].scrub_running);
    metrics_.add({"varve_target_scrub_pass_bytes", label, "Of their passes: live when they began."},
                 &usage_[t].scrub_pass);
    metrics_.add({"varve_target_scrub_pass_done_bytes", label, "Of these, how much is verified."},
                 &usage_[t].scrub_done);
  }
}

MetricSnapshot ShardImpl::metrics() const {
  index_blocks_.set(index_.block_count());
  index_thin_.set(index_.thin_count());
  index_away_.set(recovered_ ? index_.away_count() : 0);  // before that it finds more every turn
  index_bases_.set(index_.base_count());
  index_bytes_.set(static_cast<int64_t>(index_.memory_bytes()));
  recovering_.set(flash_->recovering() ? 1 : 0);
  uint32_t domain_id_last = context_->options.domains.last;
  for (const auto& row : flash_->generations())
    domain_id_last = std::max(domain_id_last, row.domain);
  domain_id_last_.set(domain_id_last);
  for (uint32_t t = 0; t < usage_.size(); ++t) {
    const flash::Flash::Usage usage = flash_->usage(t);
    VARVE_ASSERT(usage.live_pages + usage.reserved_pages <= usage.capacity_pages, t,
                 usage.live_pages, usage.reserved_pages);  // I7
    usage_[t].capacity.set(static_cast<int64_t>(bytes_of(usage.capacity_pages)));
    usage_[t].live.set(static_cast<int64_t>(bytes_of(usage.live_pages)));
    usage_[t].reserved.set(static_cast<int64_t>(bytes_of(usage.reserved_pages)));
    usage_[t].free_segments.set(static_cast<int64_t>(usage.free_segments));
    usage_[t].ok.set(flash_->target_ok(t) ? 1 : 0);
    usage_[t].fragments.set(index_.fragments_on(t));
    usage_[t].draining.set(context_->options.draining_targets >> t & 1);
    usage_[t].suspect.set(is_suspect(t) ? 1 : 0);
    usage_[t].limbo.set(static_cast<int64_t>(usage.limbo));
    usage_[t].kills_missed.set(usage.kills_missed);
    usage_[t].scrub_running.set(usage.scrub_running ? 1 : 0);
    usage_[t].scrub_pass.set(static_cast<int64_t>(bytes_of(usage.scrub_pass_pages)));
    usage_[t].scrub_done.set(static_cast<int64_t>(bytes_of(usage.scrub_pass_done_pages)));
  }
  return metrics_.snapshot();
}

std::vector<DomainUse> ShardImpl::domain_use() const {
  VARVE_ASSERT(reactor_.on_owner_core());
  const DomainSums& blocks = index_.blocks_by_domain();
  const DomainSums& resident = tier_.resident_pages();
  std::vector<uint32_t> domains;  // what is resident may have left the index, and still be sent
  for (const DomainSums* sums : {&blocks, &resident}) {
    for (const DomainSums::Row& row : sums->rows())
      domains.push_back(row.domain);
  }
  std::sort(domains.begin(), domains.end());
  domains.erase(std::unique(domains.begin(), domains.end()), domains.end());
  std::vector<DomainUse> uses;
  for (const uint32_t domain : domains) {
    uses.push_back({.domain = domain,
                    .dram_bytes = bytes_of(resident.of(domain)),
                    .flash_bytes = bytes_of(index_.pages_by_domain().of(domain)),
                    .blocks = blocks.of(domain)});
  }
  return uses;
}

Status check(const ShardOptions& options, ByteSpan arena,
             const std::vector<flash::TargetInfo>& targets, size_t devices) {
  if (targets.empty() || targets.size() > kTargetsMax) return Status::invalid("target count");
  if (targets.size() != devices) return Status::invalid("one device per target");
  const uint32_t slices = targets[0].super.slices;
  if (slices == 0 || slices > kSlicesMax) return Status::invalid("slice count");
  for (const flash::TargetInfo& target : targets) {
    if (target.super.slices != slices) return Status::invalid("targets with different slices");
    if (Scheme{target.super.k, target.super.m} != options.scheme) {
      return Status::invalid("a target of another scheme");
    }
  }
  if (options.shards == 0 || options.shards > slices || options.shard >= options.shards) {
    return Status::invalid("shard count: 1 .. slices");
  }
  uint64_t pages = 0;
  for (const uint64_t bytes : options.tier.limit_bytes)
    pages += bytes / kPageBytes;
  if (pages > arena.size() / kPageBytes) return Status::invalid("budgets exceed the arena");
  if (options.blocks_max == 0 || options.tier.blocks_max == 0) {
    return Status::invalid("blocks_max of index and tier must not be 0");
  }
  if (targets.size() < options.scheme.k)
    return Status::invalid("fewer targets than the scheme's k");
  return Status();
}

}  // namespace

Result<std::unique_ptr<Shard>> Shard::open(Env& env, Reactor& reactor, ByteSpan arena_memory,
                                           std::vector<flash::TargetInfo> targets,
                                           std::vector<std::unique_ptr<BlockDevice>> devices,
                                           const ShardOptions& options) {
  VARVE_RETURN_IF_ERROR(check(options, arena_memory, targets, devices.size()));
  VARVE_ASSERT(reinterpret_cast<uintptr_t>(arena_memory.data()) % kPageBytes == 0);
  int32_t buffer_index = -1;
  if (reactor.has_io()) {
    VARVE_TRY(buffer_index, reactor.io().register_buffer(arena_memory));
  }
  auto shard =
      std::make_unique<ShardImpl>(env, reactor, arena_memory, options, targets[0].super.slices,
                                  static_cast<uint32_t>(targets.size()), buffer_index);
  flash::FlashOptions flash_options = options.flash;
  flash_options.shard = options.shard;
  flash_options.shards = options.shards;
  flash_options.draining_targets = options.draining_targets;
  VARVE_TRY(auto flash, flash::Flash::open(reactor, env.clock, env.entropy, std::move(targets),
                                           std::move(devices), *shard, flash_options));
  shard->adopt(std::move(flash));
  return std::unique_ptr<Shard>(std::move(shard));
}

}  // namespace varve
