// varved: builds the daemon from its settings, one thread per shard, and takes it down again.
//
// The only file that knows every room. Main's thread reads the settings, locks the data folder,
// opens the targets, starts the shards, and then only waits: for signals, and once a second for the
// metrics of every shard, which come by mailbox. Everything that touches the system outside the
// common rooms stands here.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/device/fault_device.h"
#include "common/env/env.h"
#include "common/metrics/metrics.h"
#include "server/config/config.h"
#include "server/session/session.h"
#include "server/shard/shard.h"

namespace varve {
namespace {

constexpr uint32_t kSessionShard = 0;  // owns the listener and every lane
constexpr Nanos kMetricsInterval = kSecond;
constexpr Nanos kPollInterval =
    20 * kMillisecond;  // of main while it waits for a stage of the drain

// What went wrong before serving, and with which exit code.
struct Failure {
  int exit_code = 0;  // 0 = none
  std::string text;
};

Failure environment(std::string text) {
  return {kExitEnvironment, std::move(text)};
}
std::string errno_text() {
  return std::strerror(errno);
}

// ---- files of the data folder

std::string read_file(const std::string& path, bool* ok) {
  std::string content;
  *ok = false;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return content;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(fd, buffer, sizeof(buffer))) > 0 && content.size() < kMiB) {
    content.append(buffer, static_cast<size_t>(n));
  }
  *ok = n == 0;
  ::close(fd);
  return content;
}

// Whole or not at all, also after a power cut when `durable`.
bool replace_file(const std::string& path, std::string_view content, bool durable) {
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  bool ok = true;
  while (ok && !content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    ok = n > 0;
    if (ok) content.remove_prefix(static_cast<size_t>(n));
  }
  if (ok && durable) ok = ::fsync(fd) == 0;
  ok = ::close(fd) == 0 && ok;
  if (ok) ok = ::rename(temporary.c_str(), path.c_str()) == 0;
  if (ok && durable) {
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    const int folder_fd =
        ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok = folder_fd >= 0 && ::fsync(folder_fd) == 0;
    if (folder_fd >= 0) ::close(folder_fd);
  }
  return ok;
}

// The bytes in hex of a small file that is made of random bytes at the first start and then stays.
Failure load_or_create(const std::string& path, ByteSpan out, Entropy& entropy) {
  bool found = false;
  std::string content = read_file(path, &found);
  if (!found && errno != ENOENT) return environment(path + ": " + errno_text());
  if (found) {
    while (!content.empty() && content.back() == '\n')
      content.pop_back();
    if (from_hex(content, out)) return {};
    return environment(
        path + " is damaged: it must hold " + std::to_string(out.size() * 2) +
        " hex digits. Without the original, what the targets hold cannot be served.");
  }
  entropy.fill(out);
  if (replace_file(path, to_hex(out) + "\n", true)) return {};
  return environment(path + ": " + errno_text());
}

struct Identity {
  std::byte node_uuid[16] = {};
  Digest domain_salt;  // secret: base ids are unguessable and differ from domain to domain
};

// Held as long as the process lives: two daemons on one folder would destroy each other's targets.
Failure lock_folder(const ServerConfig& config) {
  if (::mkdir(config.data_dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return environment("--data " + config.data_dir + ": " + errno_text());
  }
  const std::string path = config.data_dir + "/lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return environment(path + ": " + errno_text());
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    bool ok = false;
    std::string pid = read_file(path, &ok);
    while (!pid.empty() && pid.back() == '\n')
      pid.pop_back();
    ::close(fd);
    return environment("--data " + config.data_dir + " is in use by another varved (pid " +
                       (pid.empty() ? "unknown" : pid) + "); stop it or give another folder");
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    return environment(path + ": " + errno_text());
  }
  return {};  // the descriptor stays open on purpose
}

Failure load_identity(const ServerConfig& config, Entropy& entropy, Identity& identity) {
  Failure failure = load_or_create(config.data_dir + "/node.id", identity.node_uuid, entropy);
  if (failure.exit_code != 0) return failure;
  return load_or_create(config.data_dir + "/domain.salt", identity.domain_salt.bytes, entropy);
}

Failure load_token(const ServerConfig& config, std::string& token) {
  if (config.token_file.empty()) return {};
  struct stat info = {};
  bool ok = false;
  const std::string content = read_file(config.token_file, &ok);
  if (!ok || ::stat(config.token_file.c_str(), &info) != 0) {
    return environment("--token-file " + config.token_file + ": " + errno_text());
  }
  const Result<std::string> parsed = token_of_file(content, info.st_mode);
  if (!parsed)
    return environment("--token-file " + config.token_file + ": " + parsed.error().what());
  token = *parsed;
  return {};
}

Machine read_machine() {
  Machine machine;
  cpu_set_t cpus;
  if (::sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
    machine.cores = static_cast<uint32_t>(CPU_COUNT(&cpus));
  }
  bool ok = false;
  const std::string text = read_file("/proc/meminfo", &ok);
  const size_t at = text.find("MemAvailable:");
  if (ok && at != std::string::npos) {
    machine.memory_available_bytes = std::strtoull(text.c_str() + at + 13, nullptr, 10) * kKiB;
  }
  return machine;
}

// ---- one shard on its thread

// Everybody waits until everybody is here.
class Gate {
 public:
  explicit Gate(uint32_t count) : missing_(count) {}
  void expect(uint32_t count) { missing_ = count; }  // before anybody arrives
  void arrive_and_wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (--missing_ == 0) changed_.notify_all();
    changed_.wait(lock, [this] { return missing_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t missing_;
};

// Work that main wants done on a shard's core: posted by mailbox, waited for with a bound. When the
// bound passes the call stays out and every later one answers false until the core has come round
// to it.
class ShardCall {
 public:
  using Work = void (*)(void*);
  bool run(Reactor& reactor, Work work, void* context, Nanos limit_ns) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (out_) return false;
    out_ = true;
    work_ = work;
    context_ = context;
    message_.owner = this;
    message_.deliver = [](Message& message) { static_cast<ShardCall*>(message.owner)->deliver(); };
    reactor.post(message_);
    return done_.wait_for(lock, std::chrono::nanoseconds(limit_ns), [this] { return !out_; });
  }

 private:
  void deliver() {
    work_(context_);
    const std::lock_guard<std::mutex> lock(mutex_);
    out_ = false;
    done_.notify_all();
  }
  Message message_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool out_ = false;
  Work work_ = nullptr;
  void* context_ = nullptr;
};

// The whole arena, mapped once and touched before serving: first touch is slow.
Result<ByteSpan> map_arena(uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return Status::no_space("the DRAM tier could not be mapped; lower --dram-bytes");
  (void)::madvise(memory, bytes, MADV_HUGEPAGE);  // an optimisation: refused is fine
  const ByteSpan span(static_cast<std::byte*>(memory), bytes);
#ifdef MADV_POPULATE_WRITE
  if (::madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return span;
#endif
  for (uint64_t at = 0; at < bytes; at += kPageBytes)
    span[at] = std::byte{0};
  return span;
}

struct Node;

struct ShardThread;

// What main waits for, asked on the shard's core.
struct Question {
  using Ask = bool (*)(ShardThread&);
  Ask ask = nullptr;
  bool yes = false;
};

struct ShardThread {
  ShardThread(Node& owner, uint32_t shard_index) : node(owner), index(shard_index) {}
  Node& node;
  const uint32_t index;
  std::thread thread;
  ByteSpan arena;
  std::unique_ptr<IoBackend> io;
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<Shard> shard;
  Failure failure;
  ShardCall call;
  Question question;
  MetricSnapshot snapshot;  // written on the shard's core inside a call, read by main after it
};

struct Node {
  explicit Node(const ServerConfig& settings)
      : config(settings),
        fabric(make_tcp_fabric()),
        built(settings.shards + 1),
        run(settings.shards + 1),
        stopped(settings.shards),
        env{clock, entropy, *fabric} {}
  ServerConfig config;  // fixed once the targets are known: they bound the number of shards
  SystemClock clock;
  SystemEntropy entropy;
  std::unique_ptr<Fabric> fabric;
  Gate built, run, stopped;
  Env env;
  Identity identity;
  std::string token;
  std::vector<flash::TargetInfo> targets;
  std::vector<std::unique_ptr<ShardThread>> threads;
  std::unique_ptr<SessionTable> sessions;  // built, used and destroyed on the session shard
  MetricSet session_metrics;
  bool go = false;  // set by main before the gate `run`
};

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

ShardOptions shard_options(const Node& node, uint32_t shard) {
  const ServerConfig& config = node.config;
  uint64_t flash_bytes = 0;
  for (const flash::TargetInfo& target : node.targets)
    flash_bytes += target.super.capacity_bytes;
  const ShardSizes sizes = shard_sizes(config, flash_bytes);
  ShardOptions options;
  options.shard = shard;
  options.shards = config.shards;
  options.fragments_max = sizes.fragments_max;
  options.tier.blocks_max = sizes.blocks_max;
  options.tier.limit_bytes[static_cast<uint8_t>(Budget::kPush)] = sizes.push_bytes;
  options.tier.limit_bytes[static_cast<uint8_t>(Budget::kPull)] = sizes.pull_bytes;
  options.tier.limit_bytes[static_cast<uint8_t>(Budget::kResident)] = sizes.resident_bytes;
  options.flash.shard = shard;
  options.flash.shards = config.shards;
  options.flash.scrub_interval_ns = Nanos{config.scrub_interval_s} * kSecond;
  options.flash.ack_before_flush_mutant = config.faults.ack_before_flush;
  return options;
}

Result<std::unique_ptr<BlockDevice>> open_device(const Node& node, ShardThread& thread,
                                                 uint32_t target) {
  const FaultSettings& faults = node.config.faults;
  VARVE_TRY(auto device, open_file_device(*thread.reactor, {node.targets[target].path, 0, 0}));
  if (!faults.volatile_cache) return device;
  FaultPlan plan;
  plan.volatile_cache = true;
  plan.spill_per_mille = faults.spill_per_mille;
  plan.seed = faults.seed * 1000003 + target * 101 + thread.index;
  std::unique_ptr<BlockDevice> wrapped =
      FaultDevice::wrap(*thread.reactor, std::move(device), plan);
  return wrapped;
}

Failure build_shard(Node& node, ShardThread& thread) {
  const std::string name = "shard " + std::to_string(thread.index);
  Result<IoBackendChoice> io = make_io_backend(preference(node.config.io), {});
  if (!io) {
    return environment(name + ": --io " + io_setting_name(node.config.io) +
                       " is refused here: " + io.error().what());
  }
  if (!io->reason.ok()) {
    logf(LogLevel::kWarn, "main",
         "%s: io_uring is refused (%s, errno %d): epoll and threads instead, slower", name.c_str(),
         io->reason.what(), io->reason.errno_value());
  }
  thread.io = std::move(io->backend);
  ReactorOptions reactor_options;
  reactor_options.shard = thread.index;
  thread.reactor = std::make_unique<Reactor>(node.clock, thread.io.get(), reactor_options);
  Result<ByteSpan> arena = map_arena(shard_sizes(node.config, 0).arena_bytes);
  if (!arena) return environment(name + ": " + arena.error().what());
  thread.arena = *arena;
  std::vector<std::unique_ptr<BlockDevice>> devices;
  for (uint32_t t = 0; t < node.targets.size(); ++t) {
    Result<std::unique_ptr<BlockDevice>> device = open_device(node, thread, t);
    if (!device) return {kExitTargetRefused, node.targets[t].path + ": " + device.error().what()};
    devices.push_back(std::move(*device));
  }
  Result<std::unique_ptr<Shard>> shard =
      Shard::open(node.env, *thread.reactor, thread.arena, node.targets, std::move(devices),
                  shard_options(node, thread.index));
  if (!shard) return environment(name + ": " + shard.error().what());
  thread.shard = std::move(*shard);
  return {};
}

SessionOptions session_options(Node& node) {
  SessionOptions options;
  options.token = node.token;
  options.domain_salt = node.identity.domain_salt;
  options.node = Sha256().update(node.identity.node_uuid).finish();
  while (options.boot_id == 0)
    options.boot_id = node.entropy.next64();
  options.drain_ms = node.config.drain_ms;
  options.slices = node.targets.front().super.slices;
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
  if (!table) return environment(std::string("sessions: ") + table.error().what());
  node.sessions = std::move(*table);
  node.sessions->register_metrics(node.session_metrics);
  if (Status listening = node.sessions->listen(node.config.listen, LinkOptions{});
      !listening.ok()) {
    return environment("--listen " + node.config.listen + ": " + listening.what() +
                       (listening.errno_value() != 0
                            ? std::string(": ") + std::strerror(listening.errno_value())
                            : ""));
  }
  return {};
}

void shard_main(Node& node, ShardThread& thread) {
  thread.failure = build_shard(node, thread);
  node.built.arrive_and_wait();
  node.run.arrive_and_wait();
  if (node.go) {
    if (thread.index == kSessionShard) thread.failure = open_sessions(node);
    thread.shard->start();
    thread.reactor->run();
  }
  node.stopped.arrive_and_wait();  // nobody's mailbox goes while another core may still post to it
  if (thread.index == kSessionShard) node.sessions.reset();
  thread.shard.reset();
}

// ---- what main asks of the shards

void collect(void* context) {
  auto& thread = *static_cast<ShardThread*>(context);
  MetricSnapshot snapshot = thread.shard->metrics();
  if (thread.index == kSessionShard) snapshot.merge(thread.node.session_metrics.snapshot());
  const Reactor::Counters& counters = thread.reactor->counters();
  const std::string label = "shard=\"" + std::to_string(thread.index) + "\"";
  const auto add = [&](const char* name, const char* help, MetricSnapshot::Value::Kind kind,
                       uint64_t number, const std::string& labels) {
    snapshot.append({{name, labels, help}, kind, static_cast<int64_t>(number), {}});
  };
  using Kind = MetricSnapshot::Value::Kind;
  add("varve_reactor_turns_total", "Turns of the core.", Kind::kCounter, counters.turns, label);
  add("varve_reactor_sleeps_total", "Turns that ended in a sleep.", Kind::kCounter, counters.sleeps,
      label);
  add("varve_reactor_messages_total", "Mailbox messages.", Kind::kCounter, counters.messages,
      label);
  add("varve_io_backend", "Shards on this kind of I/O.", Kind::kGauge, 1,
      std::string("kind=\"") + thread.io->name() + "\"");
  thread.snapshot = std::move(snapshot);
}

void write_metrics(Node& node) {
  MetricSnapshot sum;
  int64_t stalled = 0;
  for (const auto& thread : node.threads) {
    // A shard that does not answer within the bound keeps its last numbers and is counted.
    if (thread->call.run(*thread->reactor, collect, thread.get(), kMetricsInterval)) {
      sum.merge(thread->snapshot);
    } else {
      ++stalled;
    }
  }
  sum.values.push_back({{"varve_shards_stalled", "", "Shards that did not answer within a second."},
                        MetricSnapshot::Value::Kind::kGauge,
                        stalled,
                        {}});
  if (!replace_file(node.config.metrics_path(), sum.prometheus_text(), false)) {
    logf(LogLevel::kWarn, "main", "%s: %s", node.config.metrics_path().c_str(),
         errno_text().c_str());
  }
}

// Answers the signal that came within `limit_ns`, 0 when none did.
int wait_for_signal(const sigset_t& signals, Nanos limit_ns) {
  timespec limit = {static_cast<time_t>(limit_ns / kSecond), static_cast<long>(limit_ns % kSecond)};
  const int signal = ::sigtimedwait(&signals, nullptr, &limit);
  return signal > 0 ? signal : 0;
}

// Asks a shard again and again until it says yes or the bound passes.
bool wait_until(ShardThread& thread, Question::Ask ask, const sigset_t& signals, Nanos until_ns) {
  thread.question.ask = ask;
  while (true) {
    const auto work = [](void* context) {
      auto& asked = *static_cast<ShardThread*>(context);
      asked.question.yes = asked.question.ask(asked);
    };
    const Nanos now_ns = thread.node.clock.now_ns();
    if (now_ns >= until_ns) return false;
    if (!thread.call.run(*thread.reactor, work, &thread, until_ns - now_ns)) return false;
    if (thread.question.yes) return true;
    if (const int again = wait_for_signal(signals, kPollInterval); again != 0) {
      logf(LogLevel::kWarn, "main", "second signal: exit at once; committed blocks survive");
      ::_exit(128 + again);
    }
  }
}

// GOODBYE, then half of the time for clients to finish, then everything left is closed; the rest of
// the time for write-behind, seal and checkpoint. Whatever is not done by then is what recovery is
// for.
bool drain(Node& node, const sigset_t& signals) {
  const Nanos begin_ns = node.clock.now_ns();
  const Nanos limit_ns = node.config.drain_ms * kMillisecond;
  ShardThread& session_thread = *node.threads[kSessionShard];
  const auto begin = [](void* context) { static_cast<Node*>(context)->sessions->drain(); };
  const auto close = [](void* context) {
    static_cast<Node*>(context)->sessions->close_all(Status::unavailable("the daemon stops"));
  };
  if (!session_thread.call.run(*session_thread.reactor, begin, &node, limit_ns)) return false;
  const auto left = [](ShardThread& t) { return t.node.sessions->session_count() == 0; };
  (void)wait_until(session_thread, left, signals, begin_ns + limit_ns / 2);
  if (!session_thread.call.run(*session_thread.reactor, close, &node, limit_ns)) return false;
  const auto rest = [](ShardThread& t) { return t.node.sessions->at_rest(); };
  if (!wait_until(session_thread, rest, signals, begin_ns + limit_ns * 3 / 4)) return false;
  for (const auto& thread : node.threads) {
    const auto work = [](void* context) { static_cast<Shard*>(context)->drain(); };
    if (!thread->call.run(*thread->reactor, work, thread->shard.get(), limit_ns)) return false;
  }
  for (const auto& thread : node.threads) {
    const auto drained = [](ShardThread& t) { return t.shard->drained(); };
    if (!wait_until(*thread, drained, signals, begin_ns + limit_ns)) return false;
  }
  return true;
}

// ---- from settings to serving

Failure refused(const flash::TargetOptions& options, Status why) {
  return {kExitTargetRefused,
          "target " + std::to_string(options.index) + ", " + options.file.path + ": " + why.what() +
              " (" + code_name(why.code()) + ")" +
              (why.errno_value() != 0 ? std::string(": ") + std::strerror(why.errno_value()) : "")};
}

// A shard owns whole slices, so more of them than slices cannot be: slices stay as they were
// formatted, while the number of shards may follow the machine at any start.
void fit_shards(Node& node, uint32_t slices) {
  if (node.config.shards <= slices) return;
  logf(
      LogLevel::kWarn, "main",
      "the targets were formatted with %u slices, so %u shards run instead of %u; targets that are "
      "formatted anew with --shards %u have more slices",
      slices, slices, node.config.shards, node.config.shards);
  node.config.shards = slices;
  node.built.expect(slices + 1);
  node.run.expect(slices + 1);
  node.stopped.expect(slices);
}

// All are looked at before any is written, so that they count this start together.
Failure prepare_targets(Node& node) {
  const ServerConfig& config = node.config;
  std::vector<flash::TargetOptions> options(config.targets);
  std::vector<flash::TargetLook> looks;
  for (uint32_t t = 0; t < config.targets; ++t) {
    options[t].file = {config.target_path(t), config.target_bytes, config.free_floor_bytes};
    options[t].index = t;
    const auto look = flash::look_target(options[t], node.identity.node_uuid);
    if (!look) return refused(options[t], look.error());
    looks.push_back(*look);
  }
  const Result<flash::CommonStart> common = flash::common_start(looks, config.shards);
  if (!common) return {kExitTargetRefused, std::string("targets: ") + common.error().what()};
  for (uint32_t t = 0; t < config.targets; ++t) {
    options[t].geometry.slices = common->slices;
    options[t].boot_generation = common->boot_generation;
    Result<flash::TargetInfo> target =
        flash::prepare_target(options[t], node.identity.node_uuid, node.entropy);
    if (!target) return refused(options[t], target.error());
    node.targets.push_back(std::move(*target));
  }
  fit_shards(node, common->slices);
  return {};
}

Failure prepare(Node& node) {
  Failure failure = lock_folder(node.config);
  if (failure.exit_code == 0) failure = load_token(node.config, node.token);
  if (failure.exit_code == 0) failure = load_identity(node.config, node.entropy, node.identity);
  if (failure.exit_code == 0) failure = prepare_targets(node);
  return failure;
}

void join(Node& node) {
  for (const auto& thread : node.threads)
    thread->thread.join();
}

Failure start(Node& node) {
  for (uint32_t s = 0; s < node.config.shards; ++s) {
    node.threads.push_back(std::make_unique<ShardThread>(node, s));
  }
  for (const auto& thread : node.threads) {
    thread->thread = std::thread([&node, &thread] { shard_main(node, *thread); });
  }
  node.built.arrive_and_wait();
  Failure failure;
  for (const auto& thread : node.threads) {
    if (failure.exit_code == 0) failure = thread->failure;
  }
  node.go = failure.exit_code == 0;
  node.run.arrive_and_wait();
  if (!node.go) {
    join(node);
    return failure;
  }
  // The first call answers when the session shard has opened its listener, or could not.
  ShardThread& own = *node.threads[kSessionShard];
  (void)own.call.run(
      *own.reactor, [](void*) {}, nullptr, 60 * kSecond);
  if (own.failure.exit_code == 0) return {};
  for (const auto& thread : node.threads)
    thread->reactor->stop();
  join(node);
  return own.failure;
}

void say_faults(const ServerConfig& config) {
  if (!config.faults.any()) return;
  logf(LogLevel::kError, "main",
       "TESTING: THIS DAEMON BREAKS ITS PROMISES ON PURPOSE. volatile cache %s, spill %u per "
       "mille, seed %" PRIu64 ", ack before flush %s",
       config.faults.volatile_cache ? "ON" : "off", config.faults.spill_per_mille,
       config.faults.seed, config.faults.ack_before_flush ? "ON" : "off");
}

void say_largest(const Node& node) {
  const flash::Flash& flash = node.threads[kSessionShard]->shard->flash();
  logf(LogLevel::kInfo, "main", "largest block %" PRIu64 " MiB; %u slices of %u targets",
       bytes_of(flash.fragment_pages_max()) / kMiB, node.targets.front().super.slices,
       flash.target_count());
}

void say_ready(Node& node) {
  std::printf("varved ready: listening on %s, %u targets, %u shards, %s DRAM, io %s\n",
              node.sessions->address().c_str(), node.config.targets, node.config.shards,
              bytes_text(node.config.dram_bytes).c_str(), node.threads[kSessionShard]->io->name());
  std::fflush(stdout);
}

int serve(const ServerConfig& config, const sigset_t& signals) {
  Node node(config);
  say_faults(config);
  Failure failure = prepare(node);
  if (failure.exit_code == 0) failure = start(node);
  if (failure.exit_code != 0) {
    std::fprintf(stderr, "varved: %s\n", failure.text.c_str());
    if (!node.go) return failure.exit_code;
    std::fflush(nullptr);
    ::_exit(failure.exit_code);  // the shards run already and nothing was promised to anybody
  }
  write_metrics(node);
  say_largest(node);
  say_ready(node);
  int signal = 0;
  while ((signal = wait_for_signal(signals, kMetricsInterval)) == 0)
    write_metrics(node);
  logf(LogLevel::kInfo, "main", "signal %d: draining, at most %u ms", signal, config.drain_ms);
  if (!drain(node, signals)) {
    logf(LogLevel::kWarn, "main", "not drained within %u ms: leaving the rest to recovery",
         config.drain_ms);
    std::fflush(nullptr);
    ::_exit(0);
  }
  write_metrics(node);
  for (const auto& thread : node.threads)
    thread->reactor->stop();
  join(node);
  logf(LogLevel::kInfo, "main", "drained and stopped");
  return 0;
}

LogLevel log_level(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warn") return LogLevel::kWarn;
  if (name == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

int varved_main(int argc, const char* const* argv) {
  CommandLine line = parse_command_line(argc, argv);
  if (line.exit_code >= 0) {
    std::fputs(line.text.c_str(), line.exit_code == 0 ? stdout : stderr);
    return line.exit_code;
  }
  settle(line.config, read_machine());
  const std::vector<std::string> problems = line.config.problems();
  for (const std::string& problem : problems)
    std::fprintf(stderr, "varved: %s\n", problem.c_str());
  if (!problems.empty()) return kExitUsage;
  if (line.config.print_config) {
    std::fputs(line.config.print().c_str(), stdout);
    return 0;
  }
  log_level_set(log_level(line.config.log_level));
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread: they inherit it
  ::signal(SIGPIPE, SIG_IGN);
  return serve(line.config, signals);
}

}  // namespace
}  // namespace varve

int main(int argc, char** argv) {
  return varve::varved_main(argc, argv);
}
