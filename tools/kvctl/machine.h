// machine: what a varved would find on this machine, as facts; and what of them is wrong.
#pragma once

#include <string>
#include <vector>

#include "server/config/config.h"
#include "tools/kvctl/finding.h"

namespace varve::kvctl {

inline constexpr uint64_t kNoLimitBytes = ~uint64_t{0};

struct FolderFacts {
  std::string path;  // empty = none was looked at
  std::string
      place;  // what was looked at: it, or its parent where it is not there; empty = neither
  std::string filesystem;      // "ext4", "tmpfs", or a number in hex
  std::string write_refusal;   // why no file could be made there; empty = it could
  std::string direct_refusal;  // why O_DIRECT in whole pages does not work; empty = it does
  uint64_t free_bytes = 0;
  bool has_node = false;  // a varved was here: its targets are made
};

struct PortFacts {
  std::string address;
  std::string refusal;  // why nobody could listen there now; empty = somebody could
};

struct TokenFacts {
  std::string variable, path;
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
  FolderFacts folder;
  std::vector<PortFacts> ports;
  std::vector<TokenFacts> tokens;
};

// `root` is where /proc and /sys begin, so that tests can give a folder of their own. `folder` is
// written to: a file is made in it, and removed again.
MachineFacts look_at_machine(const std::string& root, const std::string& folder);

// Whether a node runs here already: then its ports are taken, and its memory is in use, rightly.
enum class NodeHere { kNo, kYes };
std::vector<Finding> check_machine(const MachineFacts& facts, NodeHere node);

}  // namespace varve::kvctl
