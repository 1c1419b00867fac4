// Checks of the settings, and what depends on the machine.
#include <algorithm>
#include <optional>

#include "server/config/setting.h"

namespace varve {

namespace {

constexpr uint64_t kDramDefaultMax = kGiB;
constexpr uint64_t kBlocksFloor = 512, kBlocksCeiling = 1 << 14;
// Of a shard. The ceiling is what an index can name; memory that is not there refuses the start
// before, so that the node has as much room with fewer shards.
constexpr uint64_t kFragmentsFloor = 1 << 14, kFragmentsCeiling = uint64_t{1} << 31;
// Beside the DRAM tier, as measured: code, sessions and their pools; ops and index of a shard; what
// a shard keeps for a target.
constexpr uint64_t kBesideProcess = 128 * kMiB, kBesideShard = 12 * kMiB, kBesideTarget = 10 * kMiB;
constexpr uint64_t kBesideBlock = 80, kBesideFragment = 16, kFragmentEvery = 32 * kKiB;
// During recovery, for each KILL record: an eighth of the pages of a target, at most 64 Ki a slice.
constexpr uint64_t kBesideKill = 80, kKillsMax = 64 * 1024 * 16;
constexpr uint32_t kLanesPerSession = 5;        // one urgent, at most four bulk
constexpr uint32_t kUnnamedLanes = 64;          // accepted, no HELLO yet
constexpr uint32_t kDescriptorsOfProcess = 64;  // standard streams, lock, files being replaced
constexpr uint32_t kDescriptorsOfShard = 8;     // ring or epoll, event, mailbox
constexpr uint32_t kTokenBytesMin = 16, kTokenBytesMax = 256;

// The index has room for a fragment for every 32 KiB of flash: they are larger, the rest is
// headroom for its load.
uint64_t fragments_of(uint64_t flash_bytes) {
  return flash_bytes / kFragmentEvery;
}

// None: it is not HOST:PORT. A host with colons of its own stands in brackets, or nobody could tell
// its port.
std::optional<uint32_t> port_of(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == address.size() || colon == 0)
    return std::nullopt;
  const std::string_view host = address.substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']';
  if (host.find(':') != std::string_view::npos && !bracketed) return std::nullopt;
  uint32_t port = 0;
  for (const char c : address.substr(colon + 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    port = port * 10 + static_cast<uint32_t>(c - '0');
    if (port > 65535) return std::nullopt;
  }
  return port;
}

// Numbers and sizes against the limits of the table.
void check_limits(std::vector<std::string>& problems, const ServerConfig& config) {
  for (const Setting& setting : settings()) {
    const Field field = setting.field(const_cast<ServerConfig&>(config));  // it is only read
    uint64_t value = 0;
    const bool size = std::holds_alternative<SizeField>(field);
    if (size) {
      value = *std::get<SizeField>(field).bytes;
    } else if (std::holds_alternative<uint32_t*>(field)) {
      value = *std::get<uint32_t*>(field);
    } else if (std::holds_alternative<uint64_t*>(field)) {
      value = *std::get<uint64_t*>(field);
    } else {
      continue;
    }
    const bool relaxed = config.testing && setting.low_testing != kNoLimit;
    const uint64_t low = relaxed ? setting.low_testing : setting.low;
    if (value == 0 && setting.zero != nullptr && setting.derived == nullptr) continue;
    if (value >= low && value <= setting.high) continue;
    const auto text = [size](uint64_t v) { return size ? bytes_text(v) : std::to_string(v); };
    problems.push_back(config.name_of(setting.option) + " is " + text(value) + "; it must be " +
                       text(low) + " to " + text(setting.high));
  }
}

// What rebuilding a fragment of the largest block that a push may bring takes: the fragment, at
// most half of the block, because each of its extents has one as long in another, and the extents
// of a stripe. Several smaller ones at once share it. Moving one takes the fragment alone. Without
// parity nothing is rebuilt, and what moves borrows (server/op/repair.h, R3).
uint64_t repair_bytes_of(Scheme scheme, uint64_t push_bytes) {
  if (scheme.m == 0) return 0;
  const uint64_t stripe_bytes = scheme.k * uint64_t{kExtentBytesMax};
  const uint64_t largest_bytes = kBlockBytesMax + kExtentsMax * uint64_t{kPageBytes} + kMiB;
  const uint64_t bytes = std::min(push_bytes / 2, largest_bytes) + stripe_bytes;
  return round_down(std::min(push_bytes, bytes), kPageBytes);
}

// A text that stands there twice; empty: none does.
std::string twin_of(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  const auto twin = std::adjacent_find(texts.begin(), texts.end());
  return twin == texts.end() ? std::string() : *twin;
}

// A path stands on a line of its own in targets.list and in the log, so it must leave both
// readable.
void check_path(std::vector<std::string>& problems, const std::string& name,
                const std::string& path) {
  const bool control = std::any_of(path.begin(), path.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (control) {
    problems.push_back(name + " has a control character; rename the path");
  } else if (path.starts_with(' ')) {
    problems.push_back(name + " \"" + path + "\" begins with a blank; begin it with ./ or /");
  }
}

// Of targets that are to be taken out: they must be there, and the others must be enough.
void check_drains(std::vector<std::string>& problems, const ServerConfig& config) {
  if (config.drain_targets.empty() || config.targets > kTargetsMaxSetting) return;
  const std::string name = config.name_of("--drain-target");
  std::string known;
  uint32_t left = 0;
  std::vector<std::string> unknown = config.drain_targets;
  for (uint32_t t = 0; t < config.targets; ++t) {
    const std::string path = config.target_path(t);
    known += (t == 0 ? "" : ", ") + path;
    left += config.drains(t) ? 0 : 1;
    std::erase(unknown, path);
  }
  for (const std::string& path : unknown)
    problems.push_back(name + " " + path + " is no target of this node; it has " + known);
  if (const std::string twin = twin_of(config.drain_targets); !twin.empty())
    problems.push_back(name + " " + twin + " is given twice");
  const uint32_t width = config.scheme.width();
  if (unknown.empty() && left < width) {
    problems.push_back(name + " leaves " + std::to_string(left) + " targets, but scheme " +
                       config.scheme.text() + " puts a block on " + std::to_string(width) +
                       ", so nothing could be moved; give " + std::to_string(width - left) +
                       " targets more");
  }
  if (config.repair_mb_per_s == 0) {
    problems.push_back(name + " is the work of repair, and " + config.name_of("--repair-mb-per-s") +
                       " is 0; give it a rate");
  }
}

// How many targets there are, what they are called and how blocks lie on them.
void check_targets(std::vector<std::string>& problems, const ServerConfig& config) {
  // What follows from a value that could not be read is no problem of its own.
  for (const char* option : {"--targets", "--target", "--scheme", "--drain-target"}) {
    if (std::find(config.unread.begin(), config.unread.end(), option) != config.unread.end()) {
      return;
    }
  }
  const uint32_t targets = config.targets;
  const size_t named = config.target_paths.size();
  if (named > 0 && named != targets) {
    problems.push_back(config.name_of("--target") + " is given " + std::to_string(named) +
                       " times but " + config.name_of("--targets") + " is " +
                       std::to_string(targets) + "; leave --targets out or make them equal");
  }
  const Scheme& scheme = config.scheme;
  VARVE_ASSERT(scheme.valid(), scheme.k, scheme.m);  // no other can be read
  if (targets > 0 && targets < scheme.k) {
    problems.push_back(config.name_of("--scheme") + " " + scheme.text() +
                       " stores every block on at least " + std::to_string(scheme.k) +
                       " targets, but there are " + std::to_string(targets) + "; give " +
                       std::to_string(scheme.width()) + " or more, or another --scheme");
  }
  if (const std::string twin = twin_of(config.target_paths); !twin.empty())
    problems.push_back(config.name_of("--target") + " " + twin + " is given twice");
  if (named == 0 || named == targets) check_drains(problems, config);
  if (config.faults.sticks() && config.faults.stuck_target >= targets) {
    problems.push_back(config.name_of("--fault-stuck-target") + " is " +
                       std::to_string(config.faults.stuck_target) +
                       ", but targets are numbered from 0 and there are " +
                       std::to_string(targets));
  }
}

// Folder, files and devices.
void check_paths(std::vector<std::string>& problems, const ServerConfig& config) {
  const std::string data = config.name_of("--data"), target = config.name_of("--target");
  if (config.data_dir.empty()) problems.push_back(data + " is empty; name a folder");
  check_path(problems, data, config.data_dir);
  for (const std::string& path : config.target_paths) {
    if (path.empty()) problems.push_back(target + " is empty; name a file or a block device");
    check_path(problems, target, path);
  }
  check_path(problems, "--config", config.config_file);
  // An empty one that is given may be a variable that is not set: it must not switch a token off.
  const struct {
    const char* option;
    const std::string& value;
    const char* without;
  } files[] = {{"--token-file", config.token_file, " for no token"},
               {"--control-token-file", config.control_token_file, " for no token"},
               {"--metrics-file", config.metrics_file, ""},
               {"--config", config.config_file, ""}};
  for (const auto& file : files) {
    if (!file.value.empty() || !config.is_given(file.option)) continue;
    problems.push_back(config.name_of(file.option) + " is empty; name a file, or leave it out" +
                       file.without);
  }
}

void check_listeners(std::vector<std::string>& problems, const ServerConfig& config) {
  constexpr const char* kNeedsNone = nullptr;
  const struct {
    const char* option;
    const std::string& address;
    const char* token_option;
    const std::string& token_file;
    bool may_be_off;
  } listeners[] = {
      {"--listen", config.listen, "--token-file", config.token_file, false},
      {"--control", config.control, "--control-token-file", config.control_token_file, true},
      {"--http", config.http, kNeedsNone, config.token_file, true},
  };
  std::vector<uint32_t> taken;  // by the listeners before
  for (const auto& one : listeners) {
    const std::string name = config.name_of(one.option);
    if (one.may_be_off && one.address == kNoListener) continue;
    const std::optional<uint32_t> port = port_of(one.address);
    if (!port) {
      problems.push_back(name + " is \"" + one.address +
                         "\"; it must be HOST:PORT, like 127.0.0.1:7440 or [::1]:7440" +
                         (one.may_be_off ? ", or none" : ""));
      continue;
    }
    if (one.token_option != kNeedsNone && !is_loopback(one.address) && one.token_file.empty()) {
      problems.push_back(name + " " + one.address +
                         " is not loopback, so a token is needed: give " + one.token_option +
                         ", or listen on 127.0.0.1");
    }
    if (*port == 0) continue;  // whichever is free
    if (std::find(taken.begin(), taken.end(), *port) != taken.end()) {
      problems.push_back(name + " " + one.address +
                         " has the port of another listener; give each "
                         "of --listen, --control and --http its own");
    }
    taken.push_back(*port);
  }
}

}  // namespace

const char* io_setting_name(IoSetting io) {
  switch (io) {
    case IoSetting::kAuto:
      return "auto";
    case IoSetting::kUring:
      return "uring";
    case IoSetting::kEpoll:
      return "epoll";
  }
  return "?";
}

std::vector<std::string> ServerConfig::problems() const {
  std::vector<std::string> out;
  check_paths(out, *this);
  check_listeners(out, *this);
  check_limits(out, *this);
  check_targets(out, *this);
  if (target_bytes % kPageBytes != 0) {
    out.push_back(name_of("--target-bytes") + " is " + bytes_text(target_bytes) +
                  "; it must be a multiple of 4KiB");
  }
  if (faults.spill_per_mille > 0 && !faults.volatile_cache) {
    out.push_back(name_of("--fault-spill-per-mille") +
                  " needs --fault-volatile-cache: there is nothing to spill");
  }
  if (log_level != "debug" && log_level != "info" && log_level != "warn" && log_level != "error") {
    out.push_back(name_of("--log-level") + " is \"" + log_level +
                  "\"; it must be debug, info, warn or error");
  }
  if (faults.any() && !testing) {
    out.push_back("--fault-* options break promises on purpose; they need --i-am-testing as well");
  }
  return out;
}

std::string ServerConfig::target_path(uint32_t index) const {
  VARVE_ASSERT(index < targets, index, targets);
  if (!target_paths.empty()) return target_paths[index];
  return data_dir + "/target-" + std::to_string(index) + ".dat";
}

bool ServerConfig::drains(uint32_t index) const {
  return std::find(drain_targets.begin(), drain_targets.end(), target_path(index)) !=
         drain_targets.end();
}

std::string ServerConfig::metrics_path() const {
  return metrics_file.empty() ? data_dir + "/metrics.prom" : metrics_file;
}

const Origin* ServerConfig::origin(std::string_view option) const {
  const auto found = std::find_if(origins.begin(), origins.end(),
                                  [option](const Origin& o) { return o.option == option; });
  return found == origins.end() ? nullptr : &*found;
}

bool ServerConfig::is_given(std::string_view option) const {
  const Origin* from = origin(option);
  return from != nullptr &&
         (from->kind == Origin::Kind::kFile || from->kind == Origin::Kind::kCommandLine);
}

std::string ServerConfig::name_of(std::string_view option) const {
  const Setting* setting = find_setting(option);
  VARVE_ASSERT(setting != nullptr);
  const Origin* from = origin(option);
  if (from == nullptr || from->kind != Origin::Kind::kFile) return setting->option;
  return config_file + ":" + std::to_string(from->line) + ": " + key_of(*setting);
}

void settle(ServerConfig& config, const Machine& machine) {
  const auto derive = [&config](const char* option, Origin::Kind kind) {
    std::erase_if(config.origins, [option](const Origin& o) { return o.option == option; });
    config.origins.push_back({option, kind, 0});
  };
  if (config.shards == 0) {
    config.shards = std::clamp(machine.cores / 2, 1u, kShardsMax);
    derive("--shards", Origin::Kind::kMachine);
  }
  if (config.dram_bytes == 0) {
    config.dram_bytes = std::clamp(round_down(machine.memory_available_bytes / 4, kMiB), kDramFloor,
                                   kDramDefaultMax);
    derive("--dram-bytes", Origin::Kind::kMachine);
  }
  if (!config.target_paths.empty() && !config.is_given("--targets")) {
    config.targets = static_cast<uint32_t>(config.target_paths.size());
    derive("--targets", Origin::Kind::kTargetList);
  }
}

uint64_t memory_need(const ServerConfig& config, uint64_t flash_bytes) {
  const uint64_t fragments = fragments_of(flash_bytes);
  const uint64_t kills =
      std::min(flash_bytes / std::max(1u, config.targets) / kPageBytes / 8, kKillsMax);
  const uint64_t beside = kills * kBesideKill + kBesideProcess +
                          config.shards * (kBesideShard + config.targets * kBesideTarget) +
                          fragments * kBesideFragment +
                          fragments / config.scheme.width() * kBesideBlock;
  return config.dram_bytes + beside;
}

std::string memory_problem(const ServerConfig& config, const Machine& machine,
                           uint64_t flash_bytes) {
  if (machine.memory_available_bytes == 0) return {};
  const uint64_t need = memory_need(config, flash_bytes);
  if (need <= machine.memory_available_bytes) return {};
  const auto mib = [](uint64_t bytes) { return std::to_string(bytes / kMiB) + " MiB"; };
  std::string text = "--dram-bytes is " + bytes_text(config.dram_bytes) +
                     " and varved needs about " + mib(need - config.dram_bytes) +
                     " beside it (targets: " + mib(flash_bytes) + "), but only " +
                     mib(machine.memory_available_bytes) + " of memory are available";
  if (machine.memory_limit_bytes > 0) {
    text += " (this container may use " + mib(machine.memory_limit_bytes) + ")";
  }
  return text + "; lower --dram-bytes (at least " + bytes_text(kDramFloor) +
         ") or give this process more memory";
}

DescriptorNeed descriptor_need(const ServerConfig& config) {
  DescriptorNeed need;
  need.least = kDescriptorsOfProcess +
               uint64_t{config.shards} * (config.targets + kDescriptorsOfShard) + kLanesPerSession;
  // What others may open here must not be taken from the data plane.
  if (config.control != kNoListener) need.least += kControlConnectionsMax;
  if (config.http != kNoListener) need.least += kHttpConnectionsMax;
  need.full = need.least + uint64_t{config.sessions} * kLanesPerSession + kUnnamedLanes;
  VARVE_ASSERT(need.least <= need.full);
  return need;
}

ShardSizes shard_sizes(const ServerConfig& config, uint64_t flash_bytes) {
  VARVE_ASSERT(config.shards > 0);
  ShardSizes sizes;
  sizes.arena_bytes = round_down(config.dram_bytes / config.shards, kPageBytes);
  // A quarter each for pushes and pulls in flight, so that neither starves the other (I11), and
  // half to stay as cache, less what repair takes where there is something to repair with, and it
  // has a rate. Follow joins with its op.
  sizes.push_bytes = round_down(sizes.arena_bytes / 4, kPageBytes);
  sizes.pull_bytes = sizes.push_bytes;
  const bool repairs = config.repair_mb_per_s > 0;
  sizes.repair_bytes = repairs ? repair_bytes_of(config.scheme, sizes.push_bytes) : 0;
  sizes.resident_bytes =
      sizes.arena_bytes - sizes.push_bytes - sizes.pull_bytes - sizes.repair_bytes;
  // What is at work has as much room as ever: what differs is the cache and nothing else. Without
  // it nobody lends to a drain, so that is set aside.
  if (config.storage_only) {
    if (repairs && config.scheme.m == 0) sizes.repair_bytes = sizes.push_bytes;
    sizes.resident_bytes = 0;
  }
  sizes.dram_blocks_max = static_cast<uint32_t>(
      std::clamp<uint64_t>(sizes.arena_bytes / (256 * kKiB), kBlocksFloor, kBlocksCeiling));
  const uint64_t fragments =
      std::clamp(fragments_of(flash_bytes) / config.shards, kFragmentsFloor, kFragmentsCeiling);
  sizes.index_blocks_max = static_cast<uint32_t>(fragments / config.scheme.width());
  return sizes;
}

Result<uint64_t> parse_bytes(std::string_view text) {
  uint64_t value = 0;
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    if (value > (~uint64_t{0} - 9) / 10) return Status::invalid("a size over 2^64 bytes");
    value = value * 10 + static_cast<uint64_t>(text[digits] - '0');
    ++digits;
  }
  if (digits == 0) return Status::invalid("a size begins with a number");
  const std::string_view unit = text.substr(digits);
  uint64_t factor = 0;
  if (unit.empty() || unit == "B") factor = 1;
  if (unit == "KiB") factor = kKiB;
  if (unit == "MiB") factor = kMiB;
  if (unit == "GiB") factor = kGiB;
  if (unit == "TiB") factor = 1024 * kGiB;
  if (factor == 0) return Status::invalid("the unit of a size is KiB, MiB, GiB or TiB");
  if (value > ~uint64_t{0} / factor) return Status::invalid("a size over 2^64 bytes");
  return value * factor;
}

std::string bytes_text(uint64_t bytes) {
  struct Unit {
    uint64_t bytes;
    const char* name;
  };
  for (const Unit unit :
       {Unit{1024 * kGiB, "TiB"}, Unit{kGiB, "GiB"}, Unit{kMiB, "MiB"}, Unit{kKiB, "KiB"}}) {
    if (bytes >= unit.bytes && bytes % unit.bytes == 0) {
      return std::to_string(bytes / unit.bytes) + unit.name;
    }
  }
  return std::to_string(bytes) + "B";
}

bool is_loopback(std::string_view address) {
  const size_t colon = address.rfind(':');
  std::string_view host = colon == std::string_view::npos ? address : address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "localhost" || host == "::1") return true;
  // 127.0.0.0/8, written as four numbers and nothing else: "127.evil.example" is a host name.
  if (host.substr(0, 4) != "127.") return false;
  return std::all_of(host.begin(), host.end(),
                     [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

Result<std::string> token_of_file(std::string_view content) {
  while (!content.empty() && (content.back() == '\n' || content.back() == '\r'))
    content.remove_suffix(1);
  if (content.size() < kTokenBytesMin)
    return Status::invalid("the token has less than 16 characters");
  if (content.size() > kTokenBytesMax)
    return Status::invalid("the token has more than 256 characters");
  for (const char c : content) {
    if (c <= 0x20 || c > 0x7e)
      return Status::invalid("the token has a character that is not printable ASCII");
  }
  return std::string(content);
}

}  // namespace varve
