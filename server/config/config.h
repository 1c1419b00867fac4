// config: every setting of a daemon, in one struct, from command line and file to checked values.
//
// Owns: ServerConfig, the table of its settings (setting.h: section, option, unit, limits, reason),
// what the command line and a file say of them, their checks (all problems at once), the defaults
// that depend on the machine, and the text of --print-config. The command line wins over the file,
// the file over the default. Called by main, which alone touches the system: what config needs to
// know of it comes in as values (Machine, the text of the file). Pure. Invariants:
//   G1 an unknown option, section, key or value is refused with a text that says where it stands
//      and what is known (I12).
//   G2 a config without problems() needs no further check of its values by anybody.
//   G3 what breaks promises on purpose (faults, the mutant) needs --i-am-testing and is loud.
//   G4 what --print-config prints is a file with which the same daemon starts.
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

inline constexpr std::string_view kNoListener = "none";
// Open at once, whoever opens them; their descriptors are counted beside those of sessions.
inline constexpr uint32_t kControlConnectionsMax = 32;
inline constexpr uint32_t kHttpThreads = 8;   // each is one connection's
inline constexpr uint32_t kHttpWaiting = 16;  // accepted, and no thread has taken them yet
inline constexpr uint32_t kHttpConnectionsMax = kHttpThreads + kHttpWaiting + 1;

// Whence a value comes when it is not the default.
struct Origin {
  enum class Kind : uint8_t { kMachine, kTargetList, kFile, kCommandLine };
  std::string option;
  Kind kind = Kind::kCommandLine;
  uint32_t line =
      0;  // of the file; with kCommandLine that of the value which is overruled, 0: none
};

// What each field is, its limits and the reason of its default: the table in table.cc.
struct ServerConfig {
  std::string data_dir = "./varve-data";
  std::string listen = "127.0.0.1:7440";
  std::string token_file;                  // empty = loopback peers only
  std::string control = "127.0.0.1:7441";  // kNoListener = off
  std::string control_token_file;
  std::string http = "127.0.0.1:7442";  // kNoListener = off
  uint32_t targets = 4;
  std::vector<std::string> target_paths;  // instead of files in data_dir
  uint64_t target_bytes = kGiB;
  Scheme scheme;
  bool create_targets = false;
  bool accept_stale = false;
  uint64_t free_floor_bytes = 2 * kGiB;
  uint64_t dram_bytes = 0;  // 0 = by the machine
  bool storage_only = false;
  uint32_t shards = 0;  // 0 = by the machine
  IoSetting io = IoSetting::kAuto;
  uint32_t sessions = 256;
  std::string metrics_file;  // empty = DATA/metrics.prom
  uint32_t drain_ms = 10000;
  uint32_t scrub_interval_s = 24 * 3600;  // 0 = never
  uint32_t repair_mb_per_s = 200;         // MB are millions; 0 = never
  std::vector<std::string> drain_targets;
  uint32_t sibling_ms_max = 60000;
  std::string log_level = "info";
  FaultSettings faults;
  bool testing = false;
  bool print_config = false;

  std::string config_file;          // of --config; empty = none
  std::vector<Origin> origins;      // of what was given or derived, each setting at most once
  std::vector<std::string> unread;  // options whose value could not be read, and was said so

  // All of them, each a sentence that names the setting; empty = good.
  std::vector<std::string> problems() const;
  // The effective values as a file (G4), each with its origin. existing_bytes[i] is what target i
  // has already, 0 = it would be created: its size counts then, whatever --target-bytes says.
  std::string print(const std::vector<uint64_t>& existing_bytes = {}) const;
  std::string target_path(uint32_t index) const;
  // Whether --drain-target names it.
  bool drains(uint32_t index) const;
  std::string metrics_path() const;
  const Origin* origin(std::string_view option) const;  // null: it is the default
  bool is_given(std::string_view option) const;         // by command line or file
  // How to speak of it: "--shards", or "FILE:3: shards" where the file has it.
  std::string name_of(std::string_view option) const;
};

// What this process may use of the machine it runs on, containers included.
struct Machine {
  uint32_t cores = 1;
  uint64_t memory_available_bytes = 0;  // 0 = unknown
  uint64_t memory_limit_bytes = 0;      // the smallest of the cgroups above us; 0 = none
};
// Replaces the zeros that mean "depends on the machine", and counts the targets that are named.
void settle(ServerConfig& config, const Machine& machine);
// What varved takes with these settings, the DRAM tier and what it needs beside that; `flash_bytes`
// as below.
uint64_t memory_need(const ServerConfig& config, uint64_t flash_bytes);
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
  // Where blocks have parity: any that a push may bring can be rebuilt. Else what a drain moves
  // borrows of the resident ones.
  uint64_t repair_bytes = 0;
  uint64_t resident_bytes = 0;
  uint32_t dram_blocks_max = 0;
  uint32_t index_blocks_max = 0;
};
ShardSizes shard_sizes(const ServerConfig& config, uint64_t flash_bytes);

// exit_code >= 0: print `text` and exit with it. Else `config` has what could be read, and
// `problems` says of each argument that could not what is wrong with it.
struct CommandLine {
  ServerConfig config;
  int exit_code = -1;
  std::string text;
  std::vector<std::string> problems;
};
// `version` is what --version prints.
CommandLine parse_command_line(int argc, const char* const* argv, const std::string& version);
// Takes from the text of config.config_file (TOML) what the command line does not say already.
void read_config(std::string_view text, ServerConfig& config, std::vector<std::string>& problems);
const char* version_text();  // "varved 0.1 (wire 1, format 1)"

// "64MiB", "1GiB", "4096" (bytes), "16KiB". kInvalid for anything else.
Result<uint64_t> parse_bytes(std::string_view text);
std::string bytes_text(uint64_t bytes);
// "127.0.0.1:7440", "[::1]:7440", "localhost:7440"
bool is_loopback(std::string_view address);
// The token in a file's content.
Result<std::string> token_of_file(std::string_view content);

}  // namespace varve
