// The targets of a node at start: which are made, which are adopted, which are lost, which refused.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/config/config.h"
#include "server/flash/flash.h"
#include "server/host/host.h"

namespace varve {

struct NodeTarget {
  flash::TargetInfo info;   // of a lost one: its place and geometry, so that others keep theirs
  Status lost;              // not ok: it starts as failed (N1)
  bool draining = false;    // it works and is to be taken out: it takes nothing new, and is emptied
  bool drain_kept = false;  // ... because the operator said so: it stands in the list
  bool drain_set = false;   // ... because a setting says so
  bool drain_late = false;  // it began in this run: pushes of before may still bring fragments
  uint64_t drain_round = 0;  // ... when main had begun this round of its looks (Node::round)
  bool failed_now = false;   // the operator declared it failed: the cores know, or will soon
  bool drained = false;  // it was emptied: it may be taken out or is not there, nobody misses it
  // Another drive has been formatted for its place in this run, and does not work for all cores
  // yet.
  std::optional<flash::TargetInfo> coming = {};
  uint64_t replaced = 0;   // times, in this run
  flash::Witness witness;  // as it stands in the list
};

using flash::is_lost;

// What the list says of a target's purges.
void note_witness(const flash::Witness& witness, TargetRecord* record);

// One sentence with path, cause, numbers and remedy, and the exit code that belongs to it.
Failure refusal(uint32_t index, const std::string& path, Status why);

// Opens or makes every target, says one line for each, and keeps their list in the data folder.
Failure prepare_targets(const ServerConfig& config, const Identity& identity, Entropy& entropy,
                        std::vector<NodeTarget>* targets);

// Bit t: the list has target t beyond those that are used now, and nobody took it out for good. It
// may be used again, so purges count it as away.
uint32_t absent_targets(const TargetList& list, uint32_t used);

}  // namespace varve
