// config: every setting of a daemon, in one struct, from the command line to checked values.
//
// Owns: ServerConfig (fields with unit, default, reason), its command line, its checks (all
// problems at once), its defaults that depend on the machine, and the text of --print-config.
// Called by main, which alone touches the system: what config needs to know of it comes in as
// values (Machine). Pure. Invariants:
//   G1 an unknown option or value is refused with a text that says what is known (I12).
//   G2 a config without problems() needs no further check of its values by anybody.
//   G3 what breaks promises on purpose (faults, the mutant) needs --i-am-testing and is loud.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/base.h"
#include "common/model/model.h"

namespace varve {

inline constexpr int kExitUsage = 2;
inline constexpr int kExitEnvironment = 3;
inline constexpr int kExitTargetRefused = 4;
inline constexpr int kExitNotDrained = 5;

enum class IoSetting : uint8_t { kAuto, kUring, kEpoll };
const char* io_setting_name(IoSetting io);

// Faults of targets, for the crash ledger and the benchmark: see FaultPlan in common/device.
struct FaultSettings {
  bool volatile_cache = false;      // acknowledged writes live in this process until flushed
  uint32_t spill_per_mille = 0;     // chance that an unflushed page leaks to the medium early
  uint64_t seed = 1;                // of all coins
  bool ack_before_flush = false;    // the planted mutant: durable is answered before its flush
  bool purge_before_flush = false;  // another: a purge is answered before its records' flush
  // This one swallows its requests from SIGUSR1 until SIGUSR2, when it answers them all.
  static constexpr uint32_t kNoTarget = ~0u;
  uint32_t stuck_target = kNoTarget;
  bool sticks() const { return stuck_target != kNoTarget; }
  bool any() const {
    return volatile_cache || spill_per_mille > 0 || ack_before_flush || purge_before_flush ||
           sticks();
  }
};

struct ServerConfig {
  // Everything the daemon owns lies here unless a path says otherwise; created when absent.
  std::string data_dir = "./varve-data";
  // Loopback, because without a token the network border is the only authority.
  std::string listen = "127.0.0.1:7440";
  std::string token_file;  // bearer token; empty = loopback peers only
  // File-backed targets in data_dir, so that a first start needs no drive of its own.
  uint32_t targets = 4;
  std::vector<std::string> target_paths;  // instead: files or block devices
  uint64_t target_bytes = kGiB;           // of a target file that is created
  // How blocks are coded over the targets; fixed when they are formatted. No redundancy by default:
  // a cache may lose a drive, and a first start should not need three of them.
  Scheme scheme;
  // A known node whose target is missing starts without it: a file made anew in its place would
  // hide the loss. This says that it is to be made.
  bool create_targets = false;
  // Targets that missed purges bring purged blocks back where none is there that saw them; nobody
  // but the operator may take that.
  bool accept_stale = false;
  uint64_t free_floor_bytes =
      2 * kGiB;  // a file system is never filled below this by creating targets
  // 0 = a quarter of the available memory, at most 1 GiB: it is touched at start, and a first start
  // should take seconds, not a minute.
  uint64_t dram_bytes = 0;
  // 0 = half of the cores, at least 1: the other half is for the engines on the same machine.
  uint32_t shards = 0;
  IoSetting io =
      IoSetting::kAuto;  // io_uring where the kernel lets us, else epoll, said in the log
  // Clients at once; an engine has one per worker process. What one costs: docs/OPERATIONS.md.
  uint32_t sessions = 256;
  std::string metrics_file;   // empty = DATA/metrics.prom, rewritten every second
  uint32_t drain_ms = 10000;  // bound of a graceful stop
  // Every live fragment is read and verified once in this time; 0 = never. A day, because rot that
  // is found while a copy exists elsewhere is cheap, and a drive does not notice a day's pace.
  uint32_t scrub_interval_s = 24 * 3600;
  // Fragments that blocks lack are rebuilt at this rate of bytes written, of the whole node and on
  // average; 0 = never. MB are millions. A fifth of what one drive of today takes: a lost TB is
  // back in an hour and a half, and readers, who go first, hardly notice.
  uint32_t repair_mb_per_s = 200;
  // Targets, by their paths, that are to be taken out though they work: they get no new fragment,
  // and repair copies what they hold to the others. None by default.
  std::vector<std::string> drain_targets;
  // The ranks of a run come together or not at all: one that lacks a rank for longer is dropped,
  // within twice this time.
  uint32_t sibling_ms_max = 60000;
  std::string log_level = "info";  // debug, info, warn, error
  FaultSettings faults;
  bool testing = false;  // --i-am-testing
  bool print_config = false;

  std::vector<std::string> from_command_line;  // names of the options that were given

  // All of them, each a sentence that names the option; empty = good.
  std::vector<std::string> problems() const;
  // One line per setting: name = value (origin). existing_bytes[i] is what target i has already,
  // 0 = it would be created: its size counts then, whatever --target-bytes says.
  std::string print(const std::vector<uint64_t>& existing_bytes = {}) const;
  std::string target_path(uint32_t index) const;
  // Whether --drain-target names it.
  bool drains(uint32_t index) const;
  std::string metrics_path() const;
};

// What this process may use of the machine it runs on, containers included.
struct Machine {
  uint32_t cores = 1;
  uint64_t memory_available_bytes = 0;  // 0 = unknown
  uint64_t memory_limit_bytes = 0;      // the smallest of the cgroups above us; 0 = none
};
// Replaces the zeros that mean "depends on the machine".
void settle(ServerConfig& config, const Machine& machine);
// Why the settings do not fit this machine, one sentence with numbers and remedy; empty = they do.
// Memory that is promised and not there ends in a kill without a word. `flash_bytes`: of all
// targets together, as they are where they are known, else as --target-bytes would make them.
std::string memory_problem(const ServerConfig& config, const Machine& machine,
                           uint64_t flash_bytes);
// Descriptors that these settings use at most: `least` to serve at all, `full` with every session.
struct DescriptorNeed {
  uint64_t least = 0, full = 0;
};
DescriptorNeed descriptor_need(const ServerConfig& config);

// How one shard divides its part of the memory, and how much it can name.
struct ShardSizes {
  uint64_t arena_bytes = 0;  // of DRAM, whole pages
  uint64_t push_bytes = 0;   // limits of the tier's budgets; their sum is at most the arena
  uint64_t pull_bytes = 0;
  // Where blocks have parity or a target is drained: any that a push may bring can be rebuilt, or
  // moved.
  uint64_t repair_bytes = 0;
  uint64_t resident_bytes = 0;
  uint32_t dram_blocks_max = 0;
  uint32_t index_blocks_max = 0;
};
ShardSizes shard_sizes(const ServerConfig& config, uint64_t flash_bytes);

// exit_code >= 0: print `text` (to stdout when 0, else stderr) and exit with it. Else: serve
// `config`.
struct CommandLine {
  ServerConfig config;
  int exit_code = -1;
  std::string text;
};
CommandLine parse_command_line(int argc, const char* const* argv);
const char* version_text();  // "varved 0.1 (wire 1, format 1)"

// "64MiB", "1GiB", "4096" (bytes), "16KiB". kInvalid for anything else.
Result<uint64_t> parse_bytes(std::string_view text);
std::string bytes_text(uint64_t bytes);
// "127.0.0.1:7440", "[::1]:7440", "localhost:7440"
bool is_loopback(std::string_view address);
// The token in a file's content; `mode` as of stat. Refuses files that others may read or write.
Result<std::string> token_of_file(std::string_view content, uint32_t mode);

}  // namespace varve
