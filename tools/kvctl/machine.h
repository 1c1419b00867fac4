// machine: what a varved would find on this machine, as facts; and what of them is wrong.
#pragma once

#include <string>
#include <vector>

#include "server/config/config.h"
#include "tools/kvctl/finding.h"
#include "tools/kvctl/local_target.h"

namespace varve::kvctl {

inline constexpr uint64_t kNoLimitBytes = ~uint64_t{0};

// Whether a node runs here already: then its ports are taken, its memory is in use, rightly, and
// what it may do (limits, io_uring, its folder) is its own, and not that of who runs this tool.
enum class NodeHere { kNo, kYes };

struct FolderFacts {
  std::string check = "data folder";  // or "targets": those that lie in it
  std::string path;                   // empty = none was looked at
  // What was looked at: it, or its parent where it is not there; empty = neither.
  std::string place;
  int look_errno = 0;          // why neither could be looked at; 0 = it could
  std::string filesystem;      // "ext4", "tmpfs", or a number in hex
  std::string write_refusal;   // why no file could be made and written there; empty = it could
  std::string full_refusal;    // why nothing more may be written there; empty = something may
  std::string direct_refusal;  // why O_DIRECT in whole pages does not work; empty = it does
  uint64_t free_bytes = 0;
  uint64_t first_bytes = 0;  // that a start would make there
  bool tried = false;        // whether a file was made there; else nothing is known of it
};

struct PortFacts {
  std::string address;
  std::string refusal;  // why nobody could listen there now; empty = somebody could
};

struct TokenFacts {
  std::string path;
  std::string problem;  // cause and remedy; empty = it is right
};

struct MachineFacts {
  std::string kernel;  // "6.1.0-18-amd64"
  uint32_t kernel_major = 0, kernel_minor = 0;
  std::string uring_refusal;  // cause and remedy; empty = it works
  uint64_t memlock_bytes = kNoLimitBytes;
  bool may_lock = false;  // CAP_IPC_LOCK: the limit does not count
  uint64_t descriptors_hard = 0;
  Machine machine;
  std::string clock_source;  // empty = not known
  bool clock_steady = true;
  std::string huge_pages;  // "always", "madvise", "never"; empty = not known
  std::vector<FolderFacts> folders;
  LocalTargets targets;
  std::vector<PortFacts> ports;
  std::vector<TokenFacts> tokens;
};

// `root` is where /proc and /sys begin, so that tests can give a folder of their own. `config` is
// of the varved that is to start here, or runs here; its data_dir may be empty: not known. Its
// folders are written to where no node runs: a file is made in each, and removed again. Only there
// are its targets opened, too.
MachineFacts look_at_machine(const std::string& root, const ServerConfig& config, NodeHere node);

std::vector<Finding> check_machine(const MachineFacts& facts, ServerConfig config, NodeHere node);

}  // namespace varve::kvctl
