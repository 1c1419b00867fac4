// The threads of a node and what each builds on its own: backend, reactor, arena, devices, shard.
#include "server/node/node.h"

#include <algorithm>
#include <cinttypes>

#include "server/node/largest.h"

namespace varve {

namespace {

static_assert(kNodeDomainsMax == flash::kDomainsMax);

constexpr Nanos kListenWait = 60 * kSecond;
constexpr Nanos kStickWait = kSecond;

IoBackendPreference preference(IoSetting io) {
  switch (io) {
    case IoSetting::kUring:
      return IoBackendPreference::kUring;
    case IoSetting::kEpoll:
      return IoBackendPreference::kEpoll;
    case IoSetting::kAuto:
      break;
  }
  return IoBackendPreference::kProbe;
}

std::string described(Status status) {
  return status.what() + errno_suffix(status.errno_value());
}

uint64_t flash_bytes(const Node& node) {
  uint64_t bytes = 0;
  for (const NodeTarget& target : node.targets)
    bytes += target.info.super.capacity_bytes;
  return bytes;
}

ShardOptions shard_options(const Node& node, uint32_t shard) {
  const ServerConfig& config = node.config;
  const ShardSizes sizes = shard_sizes(config, flash_bytes(node));
  ShardOptions options;
  options.shard = shard;
  options.shards = config.shards;
  options.blocks_max = sizes.index_blocks_max;
  options.scheme = config.scheme;
  options.tier.blocks_max = sizes.dram_blocks_max;
  options.tier.limit_bytes[static_cast<uint8_t>(Budget::kPush)] = sizes.push_bytes;
  options.tier.limit_bytes[static_cast<uint8_t>(Budget::kPull)] = sizes.pull_bytes;
  options.tier.limit_bytes[static_cast<uint8_t>(Budget::kRepair)] = sizes.repair_bytes;
  options.tier.limit_bytes[static_cast<uint8_t>(Budget::kResident)] = sizes.resident_bytes;
  options.sibling_ms_max = config.sibling_ms_max;
  options.repair_bytes_per_s = uint64_t{config.repair_mb_per_s} * 1000000 / config.shards;
  for (uint32_t t = 0; t < node.targets.size(); ++t) {
    const NodeTarget& target = node.targets[t];
    if (target.drained) {
      options.drained_targets |= 1u << t;
    } else if (target.draining) {
      options.draining_targets |= 1u << t;
    }
  }
  options.absent_targets = node.absent_targets;
  options.domains = {node.identity.domain_ids, node.identity.domain_id_last,
                     node.identity.domain_starts};
  options.flash.shard = shard;
  options.flash.shards = config.shards;
  options.flash.scrub_interval_ns = Nanos{config.scrub_interval_s} * kSecond;
  options.flash.ack_before_flush_mutant = config.faults.ack_before_flush;
  options.flash.purge_before_flush_mutant = config.faults.purge_before_flush;
  return options;
}

// A device that was lost before the start, or is lost between its superblock and now (N1).
std::unique_ptr<BlockDevice> lost_device(ShardThread& thread, const NodeTarget& target,
                                         Status cause) {
  return make_failed_device(*thread.reactor, target.info.path, target.info.super.capacity_bytes,
                            cause);
}

Result<std::unique_ptr<BlockDevice>> first_device(const Node& node, ShardThread& thread,
                                                  uint32_t index) {
  const NodeTarget& target = node.targets[index];
  if (!target.lost.ok()) return lost_device(thread, target, target.lost);
  Result<std::unique_ptr<BlockDevice>> opened = open_device(node, thread, index);
  if (!opened && is_lost(opened.error())) return lost_device(thread, target, opened.error());
  return opened;
}

Failure build_shard(Node& node, ShardThread& thread) {
  const std::string name = "shard " + std::to_string(thread.index);
  Result<IoBackendChoice> io = make_io_backend(preference(node.config.io), {});
  if (!io) {
    return environment(name + ": --io " + io_setting_name(node.config.io) +
                       " is refused here: " + described(io.error()));
  }
  if (node.config.io == IoSetting::kAuto) thread.io_refusal = io->reason;
  thread.io = std::move(io->backend);
  ReactorOptions reactor_options;
  reactor_options.shard = thread.index;
  thread.reactor = std::make_unique<Reactor>(node.clock, thread.io.get(), reactor_options);
  Result<ByteSpan> arena = map_arena(shard_sizes(node.config, 0).arena_bytes);
  if (!arena) return environment(name + ": " + described(arena.error()));
  thread.arena = *arena;
  std::vector<std::unique_ptr<BlockDevice>> devices;
  std::vector<flash::TargetInfo> infos;
  for (uint32_t t = 0; t < node.targets.size(); ++t) {
    Result<std::unique_ptr<BlockDevice>> device = first_device(node, thread, t);
    if (!device) return refusal(t, node.targets[t].info.path, device.error());
    thread.devices.push_back(device->get());
    devices.push_back(std::move(*device));
    infos.push_back(node.targets[t].info);
  }
  Result<std::unique_ptr<Shard>> shard =
      Shard::open(node.env, *thread.reactor, thread.arena, std::move(infos), std::move(devices),
                  shard_options(node, thread.index));
  if (!shard) return environment(name + ": " + described(shard.error()));
  thread.shard = std::move(*shard);
  return {};
}

SessionOptions session_options(Node& node) {
  SessionOptions options;
  options.domains = node.domains.now();
  options.node = Sha256().update(node.identity.node_uuid).finish();
  while (node.boot_id == 0)
    node.boot_id = node.entropy.next64();
  options.boot_id = node.boot_id;
  options.drain_ms = node.config.drain_ms;
  options.slices = node.targets.front().info.super.slices;
  options.scheme = node.config.scheme;
  options.sessions_max = node.config.sessions;
  for (const auto& thread : node.threads) {  // values that never change after open
    Shard& shard = *thread->shard;
    options.fragment_pages_max =
        std::min(options.fragment_pages_max, shard.flash().fragment_pages_max());
    options.push_bytes_max =
        std::min(options.push_bytes_max, shard.tier().limit_bytes(Budget::kPush));
  }
  return options;
}

Failure open_sessions(Node& node) {
  std::vector<Shard*> shards;
  for (const auto& thread : node.threads)
    shards.push_back(thread->shard.get());
  ShardThread& own = *node.threads[kSessionShard];
  Result<std::unique_ptr<SessionTable>> table =
      SessionTable::open(node.env, *own.reactor, shards, session_options(node));
  if (!table) return environment("sessions: " + described(table.error()));
  node.sessions = std::move(*table);
  node.sessions->register_metrics(node.session_metrics);
  for (const Digest& fingerprint : node.book.fingerprints())
    node.sessions->format_known(fingerprint);
  if (Status listening = node.sessions->listen(node.config.listen, LinkOptions{});
      !listening.ok()) {
    return environment("--listen " + node.config.listen + ": " + described(listening));
  }
  return {};
}

void shard_main(Node& node, ShardThread& thread) {
  leave_stop_signals();
  thread.failure = build_shard(node, thread);
  node.built.arrive_and_wait();
  node.run.arrive_and_wait();
  if (node.go) {
    if (thread.index == kSessionShard) thread.failure = open_sessions(node);
    thread.shard->start();
    thread.reactor->run();
  }
  node.stopped.arrive_and_wait();  // N3
  if (thread.index == kSessionShard) node.sessions.reset();
  thread.shard.reset();
}

void join(Node& node) {
  for (const auto& thread : node.threads)
    thread->thread.join();
}

// More sessions than descriptors would be refused one by one and without a reason.
Failure take_descriptors(const ServerConfig& config) {
  const DescriptorNeed need = descriptor_need(config);
  const DescriptorLimit limit = raise_descriptors(need.full);
  if (limit.now >= need.full) return {};
  if (limit.now < need.least) {
    return environment("only " + std::to_string(limit.now) + " descriptors are allowed and " +
                       std::to_string(need.least) + " are needed for " +
                       std::to_string(config.shards) + " shards and " +
                       std::to_string(config.targets) +
                       " targets; raise ulimit -n (LimitNOFILE) to " + std::to_string(need.full));
  }
  logf(LogLevel::kWarn, "main",
       "%" PRIu64 " descriptors are allowed (hard limit %" PRIu64 "), all sessions need %" PRIu64
       ": connections beyond that are refused; raise ulimit -n (LimitNOFILE)",
       limit.now, limit.hard, need.full);
  return {};
}

// A setting that drains is refused beside a rate of 0; what the operator asked for stays asked for.
void say_kept_drains(const Node& node) {
  for (uint32_t t = 0; t < node.targets.size(); ++t) {
    const NodeTarget& target = node.targets[t];
    if (!target.drain_kept || target.drain_set) continue;
    if (target.drained || node.config.repair_mb_per_s > 0) continue;
    logf(LogLevel::kError, "main",
         "target %u %s is to be drained, as it was told, but --repair-mb-per-s is 0: nothing is "
         "moved; give it a rate",
         t, target.info.path.c_str());
  }
}

// A shard owns whole slices, so more of them than slices cannot be: slices stay as they were
// formatted, while the number of shards may follow the machine at any start.
void fit_shards(Node& node, uint32_t slices) {
  VARVE_ASSERT(slices > 0 && node.threads.empty());
  if (node.config.shards <= slices) return;
  logf(LogLevel::kWarn, "main",
       "the targets were formatted with %u slices, so %u shards run instead of %u; targets that "
       "are formatted anew with --shards %u have more slices",
       slices, slices, node.config.shards, node.config.shards);
  node.config.shards = slices;
  node.built.expect(slices + 1);
  node.run.expect(slices + 1);
  node.stopped.expect(slices);
}

}  // namespace

Result<std::unique_ptr<BlockDevice>> open_device(const Node& node, ShardThread& thread,
                                                 uint32_t index) {
  const NodeTarget& target = node.targets[index];
  Result<std::unique_ptr<BlockDevice>> opened =
      open_file_device(*thread.reactor, {target.info.path, 0, 0});
  if (!opened) return opened.error();
  const FaultSettings& faults = node.config.faults;
  const bool sticks = faults.stuck_target == index;
  if (!faults.volatile_cache && !sticks) return opened;
  FaultPlan plan;
  plan.volatile_cache = faults.volatile_cache;
  plan.spill_per_mille = faults.spill_per_mille;
  plan.seed = faults.seed * 1000003 + index * 101 + thread.index;
  std::unique_ptr<FaultDevice> wrapped =
      FaultDevice::wrap(*thread.reactor, *std::move(opened), plan);
  if (sticks) thread.sticking = wrapped.get();
  return std::unique_ptr<BlockDevice>(std::move(wrapped));
}

Node::Node(const ServerConfig& settings)
    : config(settings),
      fabric(make_tcp_fabric()),
      built(settings.shards + 1),
      run(settings.shards + 1),
      stopped(settings.shards),
      env{clock, entropy, *fabric} {
  VARVE_ASSERT(settings.shards > 0 && settings.targets > 0);
}

Failure prepare(Node& node) {
  Failure failure = take_descriptors(node.config);
  if (failure.ok()) failure = lock_folder(node.config.data_dir);
  if (failure.ok()) failure = check_metrics(node.config.metrics_path());
  if (failure.ok()) failure = load_token("--token-file", node.config.token_file, &node.token);
  if (failure.ok()) {
    failure =
        load_token("--control-token-file", node.config.control_token_file, &node.control_token);
  }
  if (failure.ok()) failure = node.book.load(node.config.data_dir);
  if (failure.ok()) failure = load_identity(node.config.data_dir, node.entropy, &node.identity);
  if (failure.ok()) {
    failure = node.domains.load(node.config.data_dir, node.token, &node.identity);
  }
  if (failure.ok()) {
    failure = prepare_targets(node.config, node.identity, node.entropy, &node.targets);
  }
  TargetList list;
  if (failure.ok()) failure = load_records(node.config.data_dir, &list);
  if (!failure.ok()) return failure;
  say_kept_drains(node);
  node.absent_targets = absent_targets(list, node.config.targets);
  fit_shards(node, node.targets.front().info.super.slices);
  const std::string problem = memory_problem(node.config, read_machine(""), flash_bytes(node));
  return problem.empty() ? Failure{} : environment(problem);
}

Failure build(Node& node) {
  VARVE_ASSERT(!node.targets.empty() && node.threads.empty());
  for (uint32_t s = 0; s < node.config.shards; ++s) {
    node.threads.push_back(std::make_unique<ShardThread>(node, s));
  }
  for (const auto& thread : node.threads) {
    thread->thread = std::thread([&node, &thread] { shard_main(node, *thread); });
  }
  node.built.arrive_and_wait();
  Failure failure;
  for (const auto& thread : node.threads) {
    if (failure.ok()) failure = thread->failure;
  }
  if (failure.ok()) return failure;
  node.run.arrive_and_wait();  // without node.go: they end
  join(node);
  return failure;
}

Failure start(Node& node) {
  VARVE_ASSERT(!node.go && !node.threads.empty());
  node.go = true;
  node.started_ns = node.clock.now_ns();
  node.run.arrive_and_wait();
  // The first call answers when the session shard has opened its listener, or could not.
  ShardThread& own = *node.threads[kSessionShard];
  if (!own.call.run(
          *own.reactor, [](void*) {}, nullptr, kListenWait)) {
    return environment("the session shard did not open its listener within 60 s; look at the load");
  }
  return own.failure;
}

void say_start(const Node& node) {
  const ServerConfig& c = node.config;
  uint32_t refused = 0;
  Status why;
  for (const auto& thread : node.threads) {
    if (thread->io_refusal.ok()) continue;
    ++refused;
    why = thread->io_refusal;
  }
  if (refused > 0) {
    logf(LogLevel::kWarn, "main", "%s; %u of %u shards use epoll and threads instead, slower",
         described(why).c_str(), refused, c.shards);
  }
  logf(LogLevel::kInfo, "main",
       "%s: node %s, data %s, %u targets, %u shards, %s DRAM, io %s, listening on %s",
       version_text(), to_hex(node.identity.node_uuid).c_str(), c.data_dir.c_str(), c.targets,
       c.shards, bytes_text(c.dram_bytes).c_str(), node.threads[kSessionShard]->io->name(),
       node.sessions->address().c_str());
  const flash::Flash& flash = node.threads[kSessionShard]->shard->flash();
  logf(LogLevel::kInfo, "main", "scheme %s, largest %s %" PRIu64 " MiB; %u slices of %u targets",
       c.scheme.text().c_str(), c.scheme.k == 1 ? "block" : "fragment",
       bytes_of(flash.fragment_pages_max()) / kMiB, node.targets.front().info.super.slices,
       flash.target_count());
  if (const std::string limiting = limiting_targets(node.targets); !limiting.empty()) {
    logf(LogLevel::kWarn, "main", "%s", limiting.c_str());
  }
  logf(LogLevel::kInfo, "main", "token %s, metrics %s, drain %u ms, log %s",
       c.token_file.empty() ? "none (loopback only)" : c.token_file.c_str(),
       c.metrics_path().c_str(), c.drain_ms, c.log_level.c_str());
  if (node.control == nullptr) return;
  logf(LogLevel::kInfo, "main", "control plane on %s, token %s", node.control->address().c_str(),
       c.control_token_file.empty() ? "none (loopback only)" : c.control_token_file.c_str());
  const size_t domains = node.domains.now().all().size();
  if (domains == 1 || !node.control_token.empty()) return;
  logf(LogLevel::kWarn, "main",
       "%zu DOMAINS AND NO TOKEN OF OPERATORS: whoever is on this machine may purge and drop each "
       "of them; start with --control-token-file",
       domains);
}

void stick(Node& node, Sticking sticking) {
  logf(LogLevel::kWarn, "main", "TESTING: target %u %s", node.config.faults.stuck_target,
       sticking == Sticking::kOn ? "IS STUCK from now on" : "answers again");
  for (const auto& thread : node.threads) {
    if (thread->sticking == nullptr) continue;  // it is lost
    const ShardCall::Work work =
        sticking == Sticking::kOn
            ? [](void* device) { static_cast<FaultDevice*>(device)->stuck_set(true); }
            : [](void* device) { static_cast<FaultDevice*>(device)->stuck_set(false); };
    if (!thread->call.run(*thread->reactor, work, thread->sticking, kStickWait)) {
      logf(LogLevel::kWarn, "main", "shard %u is slow to take the fault", thread->index);
    }
  }
}

std::string stop(Node& node, Nanos until_ns) {
  // Before the cores: its questions are to them.
  if (!close_listeners(node, until_ns)) return "--control or --http were not closed";
  for (const auto& thread : node.threads)
    thread->reactor->stop();
  join(node);
  if (!node.metrics_file.rest(0)) {
    return "--metrics-file " + node.config.metrics_path() + " was not written";
  }
  if (!node.lists.rest(0)) return "the lists of " + node.config.data_dir + " were not written";
  return {};
}

}  // namespace varve
