// Heal: tells from a daemon's file of metrics when everything that was hurt is whole again.
//
// Repair says itself how many blocks lack a fragment. Rot that nobody read is not among them:
// where bytes changed, scrub must have read the target from end to end and found nothing more.
#pragma once

#include <map>
#include <string>

#include "common/base/base.h"
#include "common/time/time.h"

namespace varve::ledger {

class Daemon;

class HealWatch {
 public:
  // `rotten`: targets, as bits, that scrub must have read.
  HealWatch(uint32_t rotten, uint32_t shards) : rotten_(rotten), shards_(shards) {}
  // The next text of metrics, all of them later than the damage. True: all is whole.
  bool see(const std::string& metrics);
  uint64_t thin_blocks() const { return thin_blocks_; }  // by the last text
  // Repair finds no room for what is left, text after text: only evictions can help.
  bool no_room() const { return roomless_ >= kRoomlessTexts; }

 private:
  bool scrubbed(const std::string& metrics);

  static constexpr uint32_t kRoomlessTexts = 5;
  const uint32_t rotten_, shards_;
  uint32_t roomless_ = 0;  // texts in which nothing was repaired for want of room
  double done_before_ = 0;
  uint64_t thin_blocks_ = 0;
  std::map<std::string, double> passes_before_;  // by target
  double rot_before_ = -1;
};

struct HealResult {
  bool whole = false;
  bool no_room = false;
  uint64_t thin_blocks = 0;
};
// Reads the file each time that the daemon writes it, for so long at most.
HealResult wait_whole(const std::string& metrics_path, Daemon& daemon, HealWatch watch,
                      Nanos timeout_ns);

}  // namespace varve::ledger
