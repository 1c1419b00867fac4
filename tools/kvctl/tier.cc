// kvctl tiers: what each tier holds, what came from it, and who comes in and goes.
#include "tools/kvctl/call.h"
#include "tools/kvctl/table.h"

namespace varve::kvctl {

namespace {

std::string tiers_text(const v1::ListTiersResponse& list, const Paint& paint) {
  Table table({"TIER", ">CAPACITY", ">USED", ">", ">RESERVED", ">BLOCKS", ">HITS", ">PULLED",
               "ADMISSION", "EVICTION"});
  for (const v1::Tier& tier : list.tiers()) {
    table.row({printable(tier.name()), size_text(tier.capacity_bytes()),
               size_text(tier.used_bytes()), share_text(tier.used_bytes(), tier.capacity_bytes()),
               size_text(tier.reserved_bytes()), count_text(tier.blocks()), count_text(tier.hits()),
               size_text(tier.pulled_bytes()), printable(tier.admission()),
               printable(tier.eviction())});
  }
  return table.text(paint);
}

Outcome list_tiers(Call& call) {
  v1::ListTiersResponse list;
  Outcome outcome = call.node.ask(v1::ListTiersRequest(), &list);
  return outcome.ok() ? call.show(list, tiers_text(list, call.paint)) : outcome;
}

}  // namespace

Noun tier_noun() {
  return {"tiers",
          "tier",
          "The tiers: what each holds, hits and bytes since the start, and its policies",
          {{"list",
            "The tiers: what each holds, hits and bytes since the start, and its policies",
            {},
            {"tiers"},
            list_tiers}}};
}

}  // namespace varve::kvctl
