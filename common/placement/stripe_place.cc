// StripePlace: homes by weighted rendezvous from the map's spread level down to the drives, then
// replacements one by one. The steps have the numbers of docs/FORMAT.md 10.4.
#include "common/placement/stripe_place.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <vector>

#include "common/base/base.h"
#include "common/placement/cost.h"

namespace varve {

namespace {

// Whole numbers of digits of pi, as in placement.cc: keep small numbers from mixing alike.
constexpr uint64_t kGroupSalt = 0xA4093822299F31D0ull;
constexpr uint64_t kCostSalt = 0x13198A2E03707344ull;
constexpr uint64_t kPositionSalt = 0x082EFA98EC4E6C89ull;
constexpr uint64_t kDomainSalt[kDomainLevels] = {0x452821E638D01377ull, 0xBE5466CF34E90C6Cull,
                                                 0xC0AC29B7C97C50DDull, 0x3F84D5B5B5470917ull};

DomainLevel below(DomainLevel level) {
  VARVE_ASSERT(level != DomainLevel::kDrive);
  return static_cast<DomainLevel>(static_cast<uint8_t>(level) - 1);
}

uint64_t group_word(uint32_t group) {
  return mix(group ^ kGroupSalt);
}

uint64_t position_word(uint32_t group, uint32_t position) {
  return mix((uint64_t{group} << 32 | position) ^ kPositionSalt);
}

uint64_t domain_word(const TargetSpec& target, DomainLevel level) {
  return mix(domain_of(target, level) ^ kDomainSalt[static_cast<uint8_t>(level)]);
}

// One domain of a level, or one target: what positions are given to.
struct Domain {
  uint64_t word = 0;
  Cost cost;                      // the least of its targets: so its weight is the sum of theirs
  std::vector<uint16_t> targets;  // in it
  std::vector<uint8_t> positions;

  // Domains of a lower level in it.
  uint32_t count_of(const ClusterMap& map, DomainLevel level) const {
    std::vector<uint64_t> seen;
    seen.reserve(targets.size());
    for (uint16_t t : targets)
      seen.push_back(domain_of(map.targets[t], level));
    std::sort(seen.begin(), seen.end());
    const auto end = std::unique(seen.begin(), seen.end());
    return static_cast<uint32_t>(end - seen.begin());
  }
};

// The domains of `level` that the targets are in, in the order of their words, so that the order in
// which a map lists its targets means nothing. `costs` is by target.
std::vector<Domain> domains_of(const ClusterMap& map, DomainLevel level,
                               std::span<const uint16_t> targets, std::span<const Cost> costs) {
  std::vector<std::pair<uint64_t, uint16_t>> sorted;
  sorted.reserve(targets.size());
  for (uint16_t t : targets)
    sorted.emplace_back(domain_word(map.targets[t], level), t);
  std::sort(sorted.begin(), sorted.end());
  std::vector<Domain> domains;
  for (const auto& [word, target] : sorted) {
    const bool first = domains.empty() || domains.back().word != word;
    if (first) domains.push_back({word, costs[target], {}, {}});
    Domain& domain = domains.back();
    if (costs[target].less_than(domain.cost)) domain.cost = costs[target];
    domain.targets.push_back(target);
  }
  VARVE_ASSERT(domains.size() <= targets.size(), domains.size(), targets.size());
  return domains;
}

// Steps 3 and 4: gives each of `domains` at most one of `positions`, until one of them runs out.
// Those given leave `positions`.
//
// First every domain tries for one position only, its own of this group, and the least cost has it.
// A target that joins can then push out no more than one other, which tries nowhere else: that is
// why so little moves (P1). What is left is paired without looking at costs, which would let a
// change inside one domain move others.
void run_round(uint32_t group, std::vector<Domain*> domains, std::vector<uint8_t>* positions) {
  VARVE_ASSERT(!domains.empty() && !positions->empty());
  const size_t count = positions->size();
  std::array<Domain*, kStripeWidthMax> winner{};
  for (Domain* domain : domains) {
    Domain*& best = winner[mix(group_word(group) ^ domain->word) % count];
    if (best == nullptr || domain->cost.less_than(best->cost)) best = domain;
  }
  struct Pair {
    uint64_t x;
    uint8_t position;
    Domain* domain;
  };
  std::vector<Pair> pairs;
  std::vector<uint8_t> left;
  for (size_t i = 0; i < count; ++i) {
    if (winner[i] == nullptr) {
      left.push_back((*positions)[i]);
      continue;
    }
    winner[i]->positions.push_back((*positions)[i]);
    domains.erase(std::find(domains.begin(), domains.end(), winner[i]));
  }
  for (uint8_t position : left) {
    for (Domain* domain : domains)
      pairs.push_back({mix(position_word(group, position) ^ domain->word), position, domain});
  }
  // Words of one level differ, so equal hashes are of two positions: the order is total.
  std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
    return a.x != b.x ? a.x > b.x : a.position < b.position;
  });
  for (const Pair& pair : pairs) {
    const auto at = std::find(left.begin(), left.end(), pair.position);
    const auto domain = std::find(domains.begin(), domains.end(), pair.domain);
    if (at == left.end() || domain == domains.end()) continue;
    pair.domain->positions.push_back(pair.position);
    left.erase(at);
    domains.erase(domain);
  }
  VARVE_ASSERT(left.empty() || domains.empty(), left.size(), domains.size());
  *positions = std::move(left);
}

// Steps 2 to 5: gives each of `positions` one of `targets`, as far apart as `level` and the levels
// below it allow.
struct Homes {
  const ClusterMap& map;
  uint32_t group;
  std::span<const Cost> costs;
  std::array<uint16_t, kStripeWidthMax>* home;

  void place(DomainLevel level, std::span<const uint16_t> targets, std::vector<uint8_t> positions) {
    VARVE_ASSERT(positions.size() <= targets.size(), positions.size(), targets.size());
    std::vector<Domain> domains = domains_of(map, level, targets, costs);
    // How much of a domain may be filled, so that a level is shared only when it must be: a
    // position for each of its domains of the level below; when that is used up, of the next.
    DomainLevel room = level == DomainLevel::kDrive ? level : below(level);
    while (!positions.empty()) {
      std::vector<Domain*> open;
      for (Domain& domain : domains) {
        if (domain.positions.empty() || domain.positions.size() < domain.count_of(map, room))
          open.push_back(&domain);
      }
      if (open.empty()) {
        room = below(room);
        continue;
      }
      run_round(group, std::move(open), &positions);
    }
    for (Domain& domain : domains) {
      if (domain.positions.empty()) continue;
      if (level != DomainLevel::kDrive) {
        std::sort(domain.positions.begin(), domain.positions.end());
        place(below(level), domain.targets, domain.positions);
        continue;
      }
      VARVE_ASSERT(domain.targets.size() == 1, domain.targets.size());
      VARVE_ASSERT((*home)[domain.positions[0]] == kNoTarget, domain.positions[0]);
      (*home)[domain.positions[0]] = domain.targets[0];
    }
  }
};

// How many positions are now on targets of the same domain as `target`.
uint32_t positions_beside(const ClusterMap& map, const StripePlace& place, DomainLevel level,
                          const TargetSpec& target) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < place.width; ++i) {
    if (place.target[i] == kNoTarget) continue;
    if (domain_of(map.targets[place.target[i]], level) == domain_of(target, level)) ++count;
  }
  return count;
}

// Step 7: the usable target without a position that has company at the fewest levels, then the
// fewest positions beside it at the map's spread, then level by level below; of equals the one of
// least cost.
uint16_t replacement_of(const ClusterMap& map, const StripePlace& place, uint32_t group,
                        uint32_t position) {
  using Crowd = std::array<uint32_t, kDomainLevels>;
  uint16_t best = kNoTarget;
  Crowd best_crowd{};
  Cost best_cost;
  for (size_t t = 0; t < map.targets.size(); ++t) {
    const TargetSpec& target = map.targets[t];
    const auto end = place.target.begin() + place.width;
    if (!target.usable() || std::find(place.target.begin(), end, t) != end) continue;
    Crowd crowd{};
    uint32_t filled = 1;  // crowd[0] counts the levels with company
    for (DomainLevel l = map.spread; l != DomainLevel::kDrive; l = below(l)) {
      crowd[filled] = positions_beside(map, place, l, target);
      if (crowd[filled++] > 0) ++crowd[0];
    }
    const uint64_t x =
        mix(position_word(group, position) ^ domain_word(target, DomainLevel::kDrive));
    const Cost cost = Cost::of(x, target.weight);
    if (best != kNoTarget && crowd > best_crowd) continue;
    if (best != kNoTarget && crowd == best_crowd && !cost.less_than(best_cost)) continue;
    best = static_cast<uint16_t>(t);
    best_crowd = crowd;
    best_cost = cost;
  }
  return best;
}

// What the caller must be told of how far apart the positions are.
void judge(const ClusterMap& map, StripePlace* place) {
  place->count = 0;
  place->domain_positions_max = 0;
  std::array<uint32_t, kDomainLevels> most{};
  for (uint32_t i = 0; i < place->width; ++i) {
    if (place->target[i] == kNoTarget) continue;
    ++place->count;
    for (uint32_t l = 0; l < kDomainLevels; ++l) {
      const TargetSpec& target = map.targets[place->target[i]];
      most[l] =
          std::max(most[l], positions_beside(map, *place, static_cast<DomainLevel>(l), target));
    }
  }
  VARVE_ASSERT(most[0] <= 1, most[0]);  // P3
  const auto spread = static_cast<uint8_t>(map.spread);
  place->domain_positions_max = most[spread];
  uint8_t level = spread;
  while (most[level] > 1)
    --level;
  place->domain_level_used = static_cast<DomainLevel>(level);
}

}  // namespace

StripePlace place_stripe(const ClusterMap& map, uint32_t group, uint32_t width) {
  VARVE_ASSERT(group < kPlacementGroups, group);
  VARVE_ASSERT(width >= 1 && width <= kStripeWidthMax, width);
  VARVE_ASSERT(!map.targets.empty() && map.targets.size() <= kMapTargetsMax, map.targets.size());
  StripePlace place;
  place.home.fill(kNoTarget);
  place.target.fill(kNoTarget);
  place.width = width;
  std::vector<uint16_t> targets(map.targets.size());
  std::vector<Cost> costs(map.targets.size());
  for (size_t t = 0; t < targets.size(); ++t) {
    const uint64_t word = domain_word(map.targets[t], DomainLevel::kDrive);
    targets[t] = static_cast<uint16_t>(t);
    costs[t] = Cost::of(mix(group_word(group) ^ word ^ kCostSalt), map.targets[t].weight);
  }
  std::vector<uint8_t> positions;  // step 1: the first ones, when there are fewer targets
  for (uint32_t i = 0; i < width && i < targets.size(); ++i)
    positions.push_back(static_cast<uint8_t>(i));
  Homes{map, group, costs, &place.home}.place(map.spread, targets, std::move(positions));
  for (uint32_t i = 0; i < width; ++i) {  // step 6, P4
    if (place.home[i] != kNoTarget && map.targets[place.home[i]].usable())
      place.target[i] = place.home[i];
  }
  for (uint32_t i = 0; i < width; ++i) {
    if (place.target[i] == kNoTarget && place.home[i] != kNoTarget)
      place.target[i] = replacement_of(map, place, group, i);
  }
  judge(map, &place);
  return place;
}

StripePlace thin_place(const StripePlace& place, uint32_t k) {
  VARVE_ASSERT(k >= 1 && k <= place.width, k, place.width);
  StripePlace thin = place;
  uint32_t from = place.width;
  for (uint32_t i = 0; i < k; ++i) {
    if (thin.target[i] != kNoTarget) continue;
    while (from > k && thin.target[from - 1] == kNoTarget)
      --from;
    if (from == k) break;  // fewer than k targets in all: nothing can be stored
    std::swap(thin.target[i], thin.target[from - 1]);
  }
  VARVE_ASSERT(thin.count == place.count);
  return thin;
}

}  // namespace varve
