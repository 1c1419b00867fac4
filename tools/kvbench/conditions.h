// Conditions: what kvbench knows of both ends of a run, as fields of its declaration.
//
// What it started itself it knows; of a server that was there before, the data plane tells nothing,
// and the fields are omitted with that reason, the label is "unknown". Where no server takes part,
// who did the I/O are the ceilings, and what only a store has is omitted. The schema says which
// fields may not be omitted by whom.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/scheme.h"
#include "common/time/time.h"
#include "tools/kvbench/declaration.h"
#include "tools/kvbench/process.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

// Known before anything is measured.
struct RunStart {
  std::vector<std::string> arguments;  // of the program, its name first
  std::string run_id;
  std::string timestamp;
  Nanos began_ns = 0;
  std::string commit;  // which sources this program is made of, see cmake/commit.cmake
  double load_average = 0;
  static RunStart now(int argc, char** argv, std::string commit);
};

enum class Server : uint8_t {
  kNone,       // ceilings only
  kInProcess,  // rooms of the server, called by kvbench itself: no daemon, no client
  kOwn,
  kOthers,
};

// What a hit may come from. The two are never one number: a server of kStorageOnly keeps no block
// in DRAM (varved --storage-only).
enum class Mode : uint8_t { kStoragePlusMemory, kStorageOnly };
const char* mode_name(Mode mode);  // as in results.mode

inline constexpr const char* kNotTold =
    "a server that was there before does not tell it over the data "
    "plane; its operator knows (varved --print-config, kvctl)";

struct Conditions {
  RunStart start;
  Server server = Server::kNone;
  Mode mode = Mode::kStoragePlusMemory;       // kOwn
  std::string address;                        // of the server
  std::string folder;                         // of its targets, or of the ceilings' files
  std::string token;                          // never shown
  uint64_t dram_bytes = 0, target_bytes = 0;  // kOwn
  uint32_t targets = 0;
  Scheme scheme;
  std::vector<std::string> faults;  // injected on purpose
  std::string server_commit;        // kOwn: as varved says; empty: it could not be asked
  DaemonSeen seen;                  // kOwn: of the daemon that is declared
  uint32_t drive_depth = 0;         // kNone: requests in flight of the ceilings of the drive
  uint32_t layers = 0, layer_bytes = 0, block_tokens = 0;
  uint32_t lanes = 1;
  uint32_t concurrency = 1;
  uint64_t pushed_bytes = 0;  // of different blocks
  uint64_t client_memory_bytes = 0;
  uint64_t verified_bytes = 0;
  std::string content;        // how the bytes are made and compared
  std::string hardware_path;  // a system description to embed; may be empty
};

inline constexpr uint64_t kHardwareBytesMax = 1 * kMiB;
// A system description to embed: a regular file of at most kHardwareBytesMax, a JSON object.
Result<Json> read_hardware(const std::string& path);

// The warning that the cache of a build makes necessary; empty: a release build. A program that
// stands outside of its build has no cache, and does not know. Pure.
std::string build_warning(const std::string& cache);

// The head and every field that does not depend on the workload; what the subcommand declares or
// omits itself: cache_state(_proof), engine.pd_disaggregated and .kv_transfer_protocol, workload.*,
// persistence, results. Fails when the hardware description cannot be read.
Status declare_conditions(const Conditions& conditions, Declaration& out);

// What a run did that does not count, before or between what does; how long that took which does.
struct RunTimes {
  Nanos warmup_ns = 0, measured_ns = 0;
};
void declare_duration(const RunTimes& times, uint32_t repetitions, Declaration& out);

// Omits, with one reason, every field of the schema that `out` neither declares nor omits and whose
// name begins with one of `prefixes`.
void omit_rest(const std::vector<std::string>& prefixes, const std::string& reason,
               Declaration& out);

}  // namespace varve::kvbench
