// PurgeLog: the purges of one data folder: what each names, when it was asked and answered, and how
// long it may go on.
//
// Pure. Time is a count of what was asked and answered, so an op that began at a tick is before or
// after a purge, or meets it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/base.h"
#include "common/model/model.h"

namespace varve::ledger {

using Tick = uint64_t;
inline constexpr Tick kNow = ~Tick{0} - 1;  // an op that began after all that was answered

class PurgeLog {
 public:
  Tick now() const { return now_; }
  // `lineage`: all of one, by its generation, which the superblock of each target keeps.
  uint32_t ask(std::vector<BaseId> bases, bool lineage);
  // Not `done`: refused or not answered; nobody knows what it still does.
  void answer(uint32_t purge, bool done);
  // A new life, with all targets or without some. What the last one had begun stands as it stood;
  // but where a generation was raised on some targets only, it counts when one of them is there.
  void at_start(bool all_here);

  const std::vector<BaseId>& bases(uint32_t purge) const { return purges_.at(purge).bases; }
  // It was answered before an op that began at `since`.
  bool done(uint32_t purge, Tick since) const { return purges_.at(purge).answered <= since; }
  // A purge of it was under way at some time from then on.
  bool touches(const BaseId& base, Tick since) const;

 private:
  static constexpr Tick kNever = ~Tick{0};
  struct Purge {
    std::vector<BaseId> bases;
    bool lineage = false;
    Tick answered = kNever;
    Tick end = kNever;  // of what it may do
  };
  std::vector<Purge> purges_;
  std::map<BaseId, std::vector<uint32_t>> of_base_;
  Tick now_ = 0;
};

}  // namespace varve::ledger
