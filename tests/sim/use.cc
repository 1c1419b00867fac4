// What each domain has in each tier, from the index and from what is resident, against what the
// shards count as it comes and goes.
#include <map>
#include <utility>

#include "tests/sim/world.h"

namespace varve::sim {

namespace {

struct Recount {
  Shard* shard;
  std::map<uint32_t, DomainUse> uses;
  uint64_t pages[kTargetsMax] = {};

  static void visit(void* context, const BlockId& block, const Located& located) {
    auto& self = *static_cast<Recount*>(context);
    DomainUse& use = self.uses[block.domain];
    ++use.blocks;
    for (uint32_t p = 0; p < kWidthMax; ++p) {
      if (!located.has(p)) continue;
      const flash::Place place = self.shard->index().place_of(located, p);
      use.flash_bytes += bytes_of(place.pages);
      self.pages[place.target] += place.pages;
    }
    const TierBlock* there = self.shard->tier().peek(located.block_slot);
    if (there == nullptr || there->budget != Budget::kResident) return;
    use.dram_bytes += bytes_of(there->charged_pages);
  }
};

}  // namespace

void World::check_use(Rest rest) const {
  if (!alive()) return;
  for (const auto& shard : life_->shards) {
    Recount recount{shard.get(), {}};
    uint32_t cursor = 0;
    do {
      cursor = shard->index().scan(cursor, 1024, Recount::visit, &recount);
    } while (cursor != 0);
    uint64_t resident = 0;
    for (const DomainUse& use : shard->domain_use()) {
      const DomainUse is = std::exchange(recount.uses[use.domain], {});
      const std::string whose = " of domain " + std::to_string(use.domain);
      expect(use.blocks == is.blocks, "blocks are miscounted" + whose);
      expect(use.flash_bytes == is.flash_bytes, "bytes on flash are miscounted" + whose);
      // What has left the index may still be read, and is no more than before.
      expect(
          use.dram_bytes == is.dram_bytes || (rest == Rest::kNo && use.dram_bytes > is.dram_bytes),
          "bytes in DRAM are miscounted" + whose);
      resident += use.dram_bytes;
    }
    for (const auto& [domain, use] : recount.uses)
      expect(use.blocks == 0, "a domain that has blocks is not counted");
    expect(resident == shard->tier().used_bytes(Budget::kResident),
           "what is resident is not that of all domains");
    if (rest == Rest::kYes) check_live(*shard, recount.pages);
  }
}

// Beside what the index has there, a target has its records only.
void World::check_live(Shard& shard, const uint64_t* pages) const {
  if (shard.recovering()) return;
  for (uint32_t t = 0; t < options_.targets; ++t) {
    if (!shard.flash().target_ok(t)) continue;
    const std::string label = "target=\"" + std::to_string(t) + "\"";
    const auto records =
        static_cast<uint64_t>(shard.metrics().number("varve_flash_kills_live", label));
    expect(shard.flash().usage(t).live_pages == pages[t] + records,
           "what lives on a target is not what the index has there");
  }
}

}  // namespace varve::sim
