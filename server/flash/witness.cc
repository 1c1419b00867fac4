// Who may speak for whom at a start, so that no purge is undone by a target that was away.
#include <algorithm>

#include "server/flash/flash.h"

namespace varve::flash {

bool speaks_for(const Witness& one, const Witness& other) {
  return other.missed == 0 || (one.missed == 0 && one.from <= other.missed);
}

const TargetLook* stale_one(std::span<const TargetLook> looks) {
  for (const TargetLook& one : looks) {
    const bool safe = one.blank || one.witness.missed == 0 ||
                      std::any_of(looks.begin(), looks.end(), [&](const TargetLook& other) {
                        return !other.blank && speaks_for(other.witness, one.witness);
                      });
    if (!safe) return &one;
  }
  return nullptr;
}

void witness_now(std::span<WitnessNow> targets, uint32_t boot_generation, bool recovering) {
  VARVE_ASSERT(boot_generation > 0 && targets.size() <= kTargetsMax, targets.size());
  const std::vector<WitnessNow> before(targets.begin(), targets.end());
  const auto works = [](const WitnessNow& one) { return one.works && !one.drained; };
  if (std::none_of(before.begin(), before.end(), works)) return;
  for (WitnessNow& one : targets) {
    if (one.drained) continue;
    if (!one.works) {
      if (one.witness.missed == 0) one.witness.missed = boot_generation;
      continue;
    }
    if (one.witness.missed == 0 || recovering || one.owed) continue;
    const bool taught = std::any_of(before.begin(), before.end(), [&](const WitnessNow& other) {
      return works(other) && speaks_for(other.witness, one.witness);
    });
    if (taught) one.witness.missed = 0;
  }
}

}  // namespace varve::flash
