// local_target: the targets of the varved that is to start on this machine, as it would find them.
// Each is opened as varved opens it and its first MiB read by flash's own reader; nothing is
// written, and nothing made. A varved that starts meanwhile finds its folder in use, which ends
// that start as one to try again, and not a target, which would end it as one that is wrong.
#pragma once

#include <string>
#include <vector>

#include "server/config/config.h"

namespace varve::kvctl {

// What a start would do with it.
enum class TargetFate : uint8_t {
  kUsed,       // it is this node's
  kFormatted,  // it is blank
  kMade,       // a file that is not there yet
  kLeftOut,    // it was drained, and nobody misses it
  kLost,       // the node starts without it
  kRefused,    // the node does not start
  kUnseen,     // not known: nobody looked, or this user may not
};

struct LocalTarget {
  uint32_t index = 0;
  std::string path = {};
  TargetFate fate = TargetFate::kUnseen;
  bool there = false;    // whatever it is
  uint64_t bytes = 0;    // that it has, or would be made with; 0 = not known
  std::string why = {};  // "cause; remedy", of one that is lost or refused
};

struct LocalTargets {
  bool unseen = false;  // this user may not read what the data folder says of them
  bool in_use = false;  // a varved runs in the data folder, or starts
  std::string problem;  // "cause; remedy" of what it says: then no target was looked at
  std::vector<LocalTarget> list;
};

enum class Looking : uint8_t { kAtSizes, kInside };

// `config` is settled; `root` is where /sys begins, so that tests can give a folder of their own.
LocalTargets look_at_targets(const std::string& root, const ServerConfig& config, Looking looking);

// Of all of them, as memory_problem() wants it. One that is away or not known counts as the first
// whose size is: varved reckons so, too.
uint64_t flash_bytes(const std::vector<LocalTarget>& targets);

}  // namespace varve::kvctl
