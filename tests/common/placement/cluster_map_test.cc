// Goal: a map from a file or a peer is judged whole: every fault is named, none is an assertion,
// and a good map has none. Method: one fault at a time in a good map, then all of them.
#include "common/placement/cluster_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace varve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ClusterMap good() {
  ClusterMap map{7, {}, DomainLevel::kRack};
  for (uint32_t i = 0; i < 16; ++i)
    map.targets.push_back({100 + i, 1 + i, i / 2, i / 4, i / 8, TargetState::kUsable});
  map.targets[3].state = TargetState::kDraining;
  map.targets[4].state = TargetState::kLost;
  map.targets[5].weight = kTargetWeightMax;
  return map;
}

TEST(ClusterMap, IsGoodWhenItIsGood) {
  EXPECT_THAT(good().validate(), IsEmpty());
  EXPECT_THAT((ClusterMap{1, {TargetSpec{}}, DomainLevel::kDrive}.validate()), IsEmpty());
}

TEST(ClusterMap, NamesEachFault) {
  ClusterMap map = good();
  map.epoch = 0;
  EXPECT_THAT(map.validate(), ElementsAre(HasSubstr("epoch")));
  map = good();
  map.spread = static_cast<DomainLevel>(4);
  EXPECT_THAT(map.validate(), ElementsAre(HasSubstr("spread 4")));
  map = good();
  map.targets.clear();
  EXPECT_THAT(map.validate(), ElementsAre(HasSubstr("no targets")));
  map = good();
  map.targets[9].key = map.targets[2].key;
  EXPECT_THAT(map.validate(), ElementsAre(HasSubstr("target 9 has the key of target 2")));
  map = good();
  map.targets[1].weight = 0;
  EXPECT_THAT(map.validate(), ElementsAre(HasSubstr("target 1 has weight 0")));
  map = good();
  map.targets[1].weight = kTargetWeightMax + 1;
  EXPECT_THAT(map.validate(), ElementsAre(HasSubstr("target 1 has weight 16777216")));
  for (const int state : {0, 4}) {
    map = good();
    map.targets[8].state = static_cast<TargetState>(state);
    EXPECT_THAT(map.validate(), ElementsAre(HasSubstr("target 8 has the unknown state")));
  }
}

TEST(ClusterMap, RefusesDomainsThatDoNotNestOnceForEach) {
  ClusterMap map = good();
  map.targets[1].rack = 2;  // node 0 in racks 0 and 2; rack 2 in zones 1 and 0
  EXPECT_THAT(map.validate(), ElementsAre("node 0 is in rack 0 and in rack 2",
                                          "rack 2 is in zone 0 and in zone 1"));
  map = good();
  map.targets[15].zone = 0;
  map.targets[14].zone = 0;
  EXPECT_THAT(map.validate(), ElementsAre("rack 3 is in zone 1 and in zone 0"));
}

TEST(ClusterMap, BoundsTheNumberOfTargets) {
  ClusterMap map{1, {}, DomainLevel::kDrive};
  for (uint32_t i = 0; i < kMapTargetsMax; ++i)
    map.targets.push_back({i, 1, 0, 0, 0, TargetState::kUsable});
  EXPECT_THAT(map.validate(), IsEmpty());
  map.targets.push_back({kMapTargetsMax, 1, 0, 0, 0, TargetState::kUsable});
  EXPECT_THAT(map.validate(), ElementsAre(HasSubstr("4097 targets")));
}

TEST(ClusterMap, SaysEverythingAtOnce) {
  ClusterMap map = good();
  map.epoch = 0;
  map.targets[1].weight = 0;
  map.targets[2].key = map.targets[1].key;
  map.targets[6].state = static_cast<TargetState>(9);
  EXPECT_EQ(map.validate().size(), 4u);
}

TEST(DomainOf, IsTheTargetsNumberAtEachLevel) {
  const TargetSpec target{11, 1, 12, 13, 14, TargetState::kUsable};
  EXPECT_EQ(domain_of(target, DomainLevel::kDrive), 11u);
  EXPECT_EQ(domain_of(target, DomainLevel::kNode), 12u);
  EXPECT_EQ(domain_of(target, DomainLevel::kRack), 13u);
  EXPECT_EQ(domain_of(target, DomainLevel::kZone), 14u);
}

TEST(Names, AreThoseOfTheDocuments) {
  EXPECT_STREQ(domain_level_name(DomainLevel::kDrive), "drive");
  EXPECT_STREQ(domain_level_name(DomainLevel::kZone), "zone");
  EXPECT_STREQ(domain_level_name(static_cast<DomainLevel>(9)), "unknown");
  EXPECT_STREQ(target_state_name(TargetState::kDraining), "draining");
  EXPECT_STREQ(target_state_name(static_cast<TargetState>(0)), "unknown");
}

}  // namespace
}  // namespace varve
