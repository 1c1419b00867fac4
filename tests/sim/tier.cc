// Where a pull says that its blocks were, against what the node counts of all that it sent.
#include "tests/sim/actor.h"

namespace varve::sim {

Actor::Sent Actor::sent() const {
  return {.boot = world_.boots(),
          .disconnects = core_->counters().disconnects,
          .dram = world_.metric("varve_pull_bytes_total", "tier=\"dram\""),
          .flash = world_.metric("varve_pull_bytes_total", "tier=\"flash\"")};
}

// A tier that nothing was sent from to anybody is none of this pull's; what came came from some.
void Actor::check_tiers(const Event& event) const {
  const Sent now = sent();
  if (!world_.alive() || now.boot != sent_before_.boot) return;
  const auto says = [&](wire::TierKind tier) {
    return (event.tier_mask & wire::tier_bit(tier)) != 0;
  };
  world_.expect(!says(wire::TierKind::kObject), "a pull came from a tier that there is not");
  world_.expect(!says(wire::TierKind::kDram) || now.dram > sent_before_.dram,
                "a pull came from DRAM, of which nothing was sent");
  world_.expect(!says(wire::TierKind::kFlash) || now.flash > sent_before_.flash,
                "a pull came from flash, of which nothing was sent");
  const bool told = event.status.ok() && now.disconnects == sent_before_.disconnects;
  world_.expect(!told || event.bytes == 0 || event.tier_mask != 0, "a pull came from nowhere");
}

}  // namespace varve::sim
