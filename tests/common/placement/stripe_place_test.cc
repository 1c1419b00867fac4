// Goal: P1, P3 and P4 of place_stripe on many maps, shares by weight, what thin and crowded places
// say, and golden values so that no release moves data by accident.
// Method: vectors that check_vectors.py recomputes independently; seeded random maps with uneven
// zones, racks and nodes; movement counted over all groups and over every target, so that its bound
// is not a matter of luck.
#include "common/placement/stripe_place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "common/placement/placement.h"
#include "tests/common/model/vector_file.h"

namespace varve {
namespace {

// `count` equal targets, `per_node` in each node.
ClusterMap even_map(uint32_t count, uint32_t per_node, uint64_t seed) {
  Random random(seed);
  ClusterMap map{1, {}, per_node > 1 ? DomainLevel::kNode : DomainLevel::kDrive};
  for (uint32_t i = 0; i < count; ++i)
    map.targets.push_back({random.next(), 10, i / per_node, 0, 0, TargetState::kUsable});
  return map;
}

ClusterMap random_map(Random& random) {
  ClusterMap map{random.between(1, 99), {}, static_cast<DomainLevel>(random.below(4))};
  uint32_t node = static_cast<uint32_t>(random.below(50)), rack = 5, zone = 9;
  const uint64_t count = random.between(1, random.chance(300) ? 60 : 16);
  const uint32_t more = static_cast<uint32_t>(random.between(100, 900));
  while (map.targets.size() < count) {
    map.targets.push_back({random.next(), static_cast<uint32_t>(random.between(1, 20)), node, rack,
                           zone, TargetState::kUsable});
    if (random.chance(more)) continue;
    ++node;
    if (random.chance(more)) continue;
    ++rack;
    if (!random.chance(more)) ++zone;
  }
  return map;
}

uint32_t domains_in(const ClusterMap& map, DomainLevel level, bool usable_only) {
  std::set<uint64_t> domains;
  for (const TargetSpec& target : map.targets) {
    if (!usable_only || target.usable()) domains.insert(domain_of(target, level));
  }
  return static_cast<uint32_t>(domains.size());
}

// Most positions on targets of one domain, of `at` (home or target).
uint32_t most_together(const ClusterMap& map, DomainLevel level, const StripePlace& place,
                       const std::array<uint16_t, kStripeWidthMax>& at) {
  std::map<uint64_t, uint32_t> count;
  uint32_t most = 0;
  for (uint32_t i = 0; i < place.width; ++i) {
    if (at[i] != kNoTarget) most = std::max(most, ++count[domain_of(map.targets[at[i]], level)]);
  }
  return most;
}

uint64_t key_at(const ClusterMap& map, uint16_t target) {
  return target == kNoTarget ? 0 : map.targets[target].key;
}

std::vector<StripePlace> all_groups(const ClusterMap& map, uint32_t width) {
  std::vector<StripePlace> places;
  for (uint32_t group = 0; group < kPlacementGroups; ++group)
    places.push_back(place_stripe(map, group, width));
  return places;
}

uint32_t pairs_moved(const ClusterMap& a, const std::vector<StripePlace>& of_a,
                     const ClusterMap& b) {
  const uint32_t width = of_a[0].width;
  uint32_t moved = 0;
  for (uint32_t group = 0; group < kPlacementGroups; ++group) {
    const StripePlace of_b = place_stripe(b, group, width);
    for (uint32_t i = 0; i < width; ++i) {
      if (key_at(a, of_a[group].target[i]) != key_at(b, of_b.target[i])) ++moved;
    }
  }
  return moved;
}

// Average over every target of the map, in n-ths of all pairs: 1.0 would be its share exactly.
double movement(const ClusterMap& map, uint32_t width) {
  const std::vector<StripePlace> places = all_groups(map, width);
  uint64_t moved = 0;
  for (size_t out = 0; out < map.targets.size(); ++out) {
    ClusterMap without = map;
    without.targets.erase(without.targets.begin() + static_cast<ptrdiff_t>(out));
    moved += pairs_moved(map, places, without);
  }
  return static_cast<double>(moved) / kPlacementGroups / width;
}

TEST(PlaceStripe, AddingOrRemovingATargetMovesAtMostATenthAboveItsShare) {  // P1
  struct Case {
    uint32_t count, per_node, width;
    double bound;
  };
  // Two domains a position and more: 1.1. Fewer: what FORMAT 10.5 says.
  for (const Case& c : {Case{6, 1, 1, 1.0001},
                        {4, 1, 2, 1.1},
                        {6, 1, 3, 1.1},
                        {12, 1, 3, 1.1},
                        {12, 1, 6, 1.1},
                        {24, 1, 6, 1.1},
                        {24, 1, 11, 1.1},
                        {24, 4, 3, 1.1},
                        {48, 4, 6, 1.1},
                        {4, 1, 3, 1.4},
                        {12, 4, 3, 1.4},
                        {7, 1, 6, 1.4},
                        {24, 4, 6, 1.4},
                        {12, 1, 11, 1.7},
                        {17, 1, 16, 1.8}}) {
    const double got = movement(even_map(c.count, c.per_node, 41), c.width);
    EXPECT_LE(got, c.bound) << c.count << " targets, " << c.per_node << " a node, " << c.width;
    EXPECT_GE(got, 0.999);  // less would mean that a target's pairs stayed on it after it left
  }
}

TEST(PlaceStripe, AddingTargetsOneByOneMovesAboutTheShareOfEach) {  // P1
  const ClusterMap all = even_map(40, 1, 42);
  ClusterMap map{1, {all.targets.begin(), all.targets.begin() + 12}, DomainLevel::kDrive};
  for (size_t next = 12; next < all.targets.size(); ++next) {
    ClusterMap after = map;
    after.epoch += 1;
    after.targets.push_back(all.targets[next]);
    const double pairs = kPlacementGroups * 4.0, n = static_cast<double>(next) + 1;
    // Of one target the share itself is a draw: 1.1/n and four standard deviations of it.
    EXPECT_LE(pairs_moved(map, all_groups(map, 4), after),
              pairs * 1.1 / n + 4 * std::sqrt(pairs / n))
        << n;
    map = after;
  }
}

TEST(PlaceStripe, AddingANodeMovesAboutItsShare) {  // P1, for a domain at once
  const ClusterMap after = even_map(52, 4, 43);
  ClusterMap before = after;
  before.targets.resize(48);
  EXPECT_LE(pairs_moved(before, all_groups(before, 6), after),
            kPlacementGroups * 6 * 1.1 / 13 + 200);
}

TEST(PlaceStripe, EqualTargetsHaveEqualShares) {
  for (const auto& [count, per_node, width] :
       {std::array<uint32_t, 3>{7, 1, 3}, {12, 1, 6}, {8, 1, 7}, {40, 4, 6}, {12, 4, 3}}) {
    const ClusterMap map = even_map(count, per_node, 44);
    std::vector<std::vector<uint32_t>> held(count, std::vector<uint32_t>(width));
    for (const StripePlace& place : all_groups(map, width)) {
      for (uint32_t i = 0; i < width; ++i)
        ++held[place.target[i]][i];
    }
    // Expect: every target holds every position alike, so data and parity are spread alike too.
    const double share = static_cast<double>(kPlacementGroups) / count;
    for (const auto& of_target : held) {
      double sum = 0;
      for (uint32_t n : of_target) {
        EXPECT_NEAR(n, share, 5 * std::sqrt(share));
        sum += n;
      }
      EXPECT_NEAR(sum, share * width, 5 * std::sqrt(share * width));
    }
  }
}

// Largest deviation of a target's part of all pairs from its part of all weight.
double deviation_max(const ClusterMap& map, uint32_t width) {
  std::map<uint32_t, std::pair<double, double>> by_weight;  // weight -> pairs held, weight in all
  double weight = 0;
  for (const TargetSpec& target : map.targets) {
    weight += target.weight;
    by_weight[target.weight].second += target.weight;
  }
  for (const StripePlace& place : all_groups(map, width)) {
    for (uint32_t i = 0; i < width; ++i)
      by_weight[map.targets[place.target[i]].weight].first += 1;
  }
  double most = 0;
  for (const auto& [w, held] : by_weight) {
    const double share = held.first / (kPlacementGroups * width), fair = held.second / weight;
    most = std::max(most, std::abs(share / fair - 1));
  }
  return most;
}

TEST(PlaceStripe, SharesFollowWeights) {
  for (const auto& [per_position, bound] : {std::pair{8, 0.2}, {16, 0.1}}) {
    for (uint32_t width : {1u, 3u, 6u}) {
      ClusterMap map = even_map(static_cast<uint32_t>(per_position) * width, 1, 45);
      for (size_t i = 0; i < map.targets.size(); ++i)
        map.targets[i].weight = 100u << (i % 3);  // 100, 200, 400
      EXPECT_LE(deviation_max(map, width), bound) << per_position << " a position, " << width;
    }
  }
  // Expect: the same over nodes of different sizes, whose weight is that of their drives.
  ClusterMap nodes{1, {}, DomainLevel::kNode};
  Random random(46);
  for (uint32_t node = 0; node < 24; ++node) {
    for (uint32_t i = 0; i < 1 + node % 3; ++i)
      nodes.targets.push_back({random.next(), 1 + node % 3, node, 0, 0, TargetState::kUsable});
  }
  EXPECT_LE(deviation_max(nodes, 1), 0.2);  // the lightest third is 290 draws
}

// P3 for homes (`usable_only` false) and, while nothing is out, for the targets.
void check_spread(const ClusterMap& map, const StripePlace& place) {
  std::set<uint16_t> seen;
  for (uint32_t i = 0; i < place.width; ++i) {
    if (place.target[i] == kNoTarget) continue;
    ASSERT_TRUE(seen.insert(place.target[i]).second) << "two positions on one target";
    ASSERT_TRUE(map.targets[place.target[i]].usable());
  }
  ASSERT_EQ(place.count, seen.size());
  const uint32_t homes = std::min<uint32_t>(place.width, map.targets.size());
  for (DomainLevel l = DomainLevel::kDrive; l <= map.spread;
       l = static_cast<DomainLevel>(static_cast<int>(l) + 1)) {
    if (domains_in(map, l, false) < homes) continue;
    ASSERT_EQ(most_together(map, l, place, place.home), 1u) << domain_level_name(l);
  }
  // Expect: what it says of itself is so.
  ASSERT_EQ(place.domain_positions_max, most_together(map, map.spread, place, place.target));
  ASSERT_LE(most_together(map, place.domain_level_used, place, place.target), 1u);
  if (place.domain_level_used < map.spread) {
    const auto above = static_cast<DomainLevel>(static_cast<int>(place.domain_level_used) + 1);
    ASSERT_GT(most_together(map, above, place, place.target), 1u);
  }
}

TEST(PlaceStripe, KeepsPositionsApartWhileThereAreEnoughDomains) {  // P3
  Random random(47);
  uint32_t crowded = 0, apart = 0;
  for (uint32_t i = 0; i < 3000; ++i) {
    const ClusterMap map = random_map(random);
    ASSERT_TRUE(map.validate().empty());
    const auto width = static_cast<uint32_t>(random.between(1, kStripeWidthMax));
    const auto group = static_cast<uint32_t>(random.below(kPlacementGroups));
    const StripePlace place = place_stripe(map, group, width);
    ASSERT_EQ(place.target, place.home);
    ASSERT_EQ(place.count, std::min<size_t>(width, map.targets.size()));
    ASSERT_EQ(place.thin(), map.targets.size() < width);
    check_spread(map, place);
    // Expect: it falls back exactly when there are fewer domains than positions.
    const bool enough = domains_in(map, map.spread, false) >= place.count;
    ASSERT_EQ(place.domain_level_used == map.spread, enough);
    ++(enough ? apart : crowded);
  }
  EXPECT_GT(crowded, 500u);
  EXPECT_GT(apart, 500u);
}

TEST(PlaceStripe, SharesTooFewDomainsEvenly) {
  // 4+2 on three nodes of four: two a node, so the loss of a node costs m and no more.
  for (const StripePlace& place : all_groups(even_map(12, 4, 48), 6)) {
    EXPECT_EQ(place.domain_level_used, DomainLevel::kDrive);
    EXPECT_EQ(place.domain_positions_max, 2u);
  }
  // Expect: two racks of two nodes; three positions a rack, and in it never three on one node.
  ClusterMap map = even_map(16, 4, 49);
  map.spread = DomainLevel::kRack;
  for (TargetSpec& target : map.targets)
    target.rack = target.node / 2;
  for (const StripePlace& place : all_groups(map, 6)) {
    EXPECT_EQ(place.domain_positions_max, 3u);
    EXPECT_LE(most_together(map, DomainLevel::kNode, place, place.target), 2u);
  }
}

TEST(PlaceStripe, AnUnusableTargetCostsOnlyItsOwnPositions) {  // P4
  Random random(50);
  uint32_t replaced = 0, empty = 0;
  for (uint32_t i = 0; i < 3000; ++i) {
    ClusterMap map = random_map(random);
    const auto width = static_cast<uint32_t>(random.between(1, 11));
    const auto group = static_cast<uint32_t>(random.below(kPlacementGroups));
    const StripePlace healthy = place_stripe(map, group, width);
    const auto chance = static_cast<uint32_t>(random.between(0, 600));
    for (TargetSpec& target : map.targets) {
      if (random.chance(chance))
        target.state = random.chance(500) ? TargetState::kLost : TargetState::kDraining;
    }
    const StripePlace place = place_stripe(map, group, width);
    ASSERT_EQ(place.home, healthy.home);
    check_spread(map, place);
    const auto usable = std::count_if(map.targets.begin(), map.targets.end(),
                                      [](const TargetSpec& t) { return t.usable(); });
    for (uint32_t p = 0; p < width; ++p) {
      if (place.home[p] == kNoTarget) {
        ASSERT_EQ(place.target[p], kNoTarget);
      } else if (map.targets[place.home[p]].usable()) {
        ASSERT_EQ(place.target[p], place.home[p]);
      } else {
        // Expect: a position stays empty only when every usable target has one.
        ++(place.target[p] == kNoTarget ? empty : replaced);
        if (place.target[p] == kNoTarget) {
          ASSERT_EQ(place.count, usable);
        }
      }
    }
  }
  EXPECT_GT(replaced, 1000u);
  EXPECT_GT(empty, 1000u);
}

TEST(PlaceStripe, AReplacementIsApartFromTheOthersWhereItCanBe) {
  ClusterMap map = even_map(28, 4, 51);  // seven nodes, six positions: one node is spare
  for (uint32_t lost = 0; lost < map.targets.size(); ++lost) {
    map.targets[lost].state = TargetState::kLost;
    for (uint32_t group = 0; group < 64; ++group) {
      const StripePlace place = place_stripe(map, group, 6);
      ASSERT_EQ(place.count, 6u);
      ASSERT_EQ(place.domain_level_used, DomainLevel::kNode);
    }
    map.targets[lost].state = TargetState::kUsable;
  }
  // Expect: when two whole nodes are lost, five are left, and the sixth position says so.
  for (uint32_t lost = 0; lost < 8; ++lost)
    map.targets[lost].state = TargetState::kLost;
  uint32_t crowded = 0;
  for (const StripePlace& place : all_groups(map, 6)) {
    ASSERT_EQ(place.count, 6u);
    ASSERT_EQ(place.domain_positions_max, 2u);
    if (place.domain_level_used == DomainLevel::kDrive) ++crowded;
  }
  EXPECT_EQ(crowded, kPlacementGroups);
}

TEST(PlaceStripe, SpreadsTheReplacementsOfALostTarget) {
  ClusterMap map = even_map(12, 1, 52);
  map.targets[4].state = TargetState::kLost;
  std::vector<uint32_t> got(12);
  uint32_t lost = 0;
  for (const StripePlace& place : all_groups(map, 3)) {
    for (uint32_t i = 0; i < 3; ++i) {
      if (place.home[i] != 4) continue;
      ++lost;
      ++got[place.target[i]];
    }
  }
  EXPECT_NEAR(lost, kPlacementGroups * 3 / 12.0, 5 * 32);
  for (uint32_t t = 0; t < 12; ++t)
    EXPECT_NEAR(got[t], t == 4 ? 0 : lost / 11.0, t == 4 ? 0 : 5 * std::sqrt(lost / 11.0));
}

TEST(PlaceStripe, DoesNotDependOnTheOrderInWhichTargetsAreListedNorOnTheEpoch) {
  Random random(53);
  for (uint32_t i = 0; i < 500; ++i) {
    ClusterMap map = random_map(random);
    for (TargetSpec& target : map.targets) {
      if (random.chance(150)) target.state = TargetState::kLost;
    }
    ClusterMap shuffled = map;
    shuffled.epoch += 1;
    for (size_t j = shuffled.targets.size(); j > 1; --j)
      std::swap(shuffled.targets[j - 1], shuffled.targets[random.below(j)]);
    const auto group = static_cast<uint32_t>(random.below(kPlacementGroups));
    const StripePlace a = place_stripe(map, group, 6), b = place_stripe(shuffled, group, 6);
    for (uint32_t p = 0; p < 6; ++p) {
      ASSERT_EQ(key_at(map, a.home[p]), key_at(shuffled, b.home[p]));
      ASSERT_EQ(key_at(map, a.target[p]), key_at(shuffled, b.target[p]));
    }
  }
}

TEST(ThinPlace, GivesDataPositionsWhatParityCanSpare) {
  ClusterMap map = even_map(6, 1, 54);
  for (uint32_t out = 0; out < 64; ++out) {  // every set of lost targets
    for (uint32_t t = 0; t < 6; ++t)
      map.targets[t].state = out >> t & 1 ? TargetState::kLost : TargetState::kUsable;
    for (uint32_t group = 0; group < 50; ++group) {
      const StripePlace place = place_stripe(map, group, 6), thin = thin_place(place, 4);
      ASSERT_EQ(thin.count, place.count);
      std::multiset<uint16_t> before(place.target.begin(), place.target.begin() + 6);
      std::multiset<uint16_t> after(thin.target.begin(), thin.target.begin() + 6);
      ASSERT_EQ(before, after);
      uint32_t data = 0;
      for (uint32_t i = 0; i < 6; ++i) {
        if (i < 4 && thin.target[i] != kNoTarget) ++data;
        // Expect: a data position that had its target keeps it.
        if (i < 4 && place.target[i] != kNoTarget) {
          ASSERT_EQ(thin.target[i], place.target[i]);
        }
      }
      ASSERT_EQ(data, std::min(place.count, 4u));
    }
  }
}

std::string places_text(const std::array<uint16_t, kStripeWidthMax>& at, uint32_t width) {
  std::string text;
  for (uint32_t i = 0; i < width; ++i)
    text += (i > 0 ? " " : "") + (at[i] == kNoTarget ? "-" : std::to_string(at[i]));
  return text;
}

ClusterMap map_of(const vectors::Record& r) {
  ClusterMap map{1, {}, DomainLevel::kDrive};
  for (uint8_t l = 0; l < kDomainLevels; ++l) {
    if (r.text("spread") == domain_level_name(static_cast<DomainLevel>(l)))
      map.spread = static_cast<DomainLevel>(l);
  }
  for (const std::string& line : r.all("target")) {
    std::istringstream in(line);
    TargetSpec target;
    std::string state;
    in >> std::hex >> target.key >> std::dec >> target.weight >> target.node >> target.rack >>
        target.zone >> state;
    target.state = vectors::named(state, &target_state_name, TargetState::kLost);
    map.targets.push_back(target);
  }
  return map;
}

TEST(PlaceStripe, EqualsTheGoldenVectors) {
  uint32_t checked = 0;
  for (const vectors::Record& r : vectors::read("tests/vectors/placement_1.txt")) {
    if (!r.has("spread")) continue;
    const ClusterMap map = map_of(r);
    const auto k = static_cast<uint32_t>(r.number("k"));
    const uint32_t width = k + static_cast<uint32_t>(r.number("m"));
    const std::vector<std::string> wanted = r.all("place");
    std::istringstream groups(r.text("groups"));
    size_t at = 0;
    for (uint32_t group = 0; groups >> group; ++at) {
      const StripePlace place = place_stripe(map, group, width);
      const std::string text =
          places_text(place.home, width) + " | " + places_text(place.target, width) + " | " +
          places_text(thin_place(place, k).target, width) + " | " + std::to_string(place.count) +
          " " + domain_level_name(place.domain_level_used) + " " +
          std::to_string(place.domain_positions_max);
      ASSERT_LT(at, wanted.size());
      EXPECT_EQ(text, wanted[at]) << r.text("case") << " group " << group;
      ++checked;
    }
    EXPECT_EQ(at, wanted.size());
  }
  EXPECT_GE(checked, 80u);
}

}  // namespace
}  // namespace varve
