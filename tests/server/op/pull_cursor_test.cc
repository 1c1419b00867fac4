// Goal: extents come layer by layer or as the wants name them, what begins again comes first and in
// order, and what was fenced before it began does not come.
// Method: cursors over parts made by hand.
#include "server/op/pull_cursor.h"

#include <gtest/gtest.h>

#include <memory>

namespace varve {
namespace {

// A part of the blocks at positions 2, 5 and 9 of a request, of a format with four layers.
struct Walk {
  Walk() : request(std::make_unique<RequestIds>()) {
    std::vector<LayerSpec> layers(4, {LayerKind::kFull, 70000});
    format.format.ranks.push_back(layers);
    format.tables.push_back(*ExtentTable::of(layers, Scheme{2, 1}));
    request->count = 12;
    const uint16_t positions[] = {0, 2, 5, 9, 11};
    std::copy(std::begin(positions), std::end(positions), request->positions);
    part.request = request.get();
    part.format = &format;
    part.begin = 1;
    part.end = 4;
    part.extent_first = 1;
    part.extent_end = 3;
    part.first_wanted_ns = 1000;
    part.layer_ns = 10;
  }
  std::vector<PullPair> rest() {
    std::vector<PullPair> all;
    cursor.for_each([&](PullPair pair) {
      all.push_back(pair);
      return true;
    });
    std::vector<PullPair> popped;
    for (PullPair pair; cursor.next(&pair); cursor.pop())
      popped.push_back(pair);
    EXPECT_EQ(all, popped);
    return popped;
  }
  SessionFormat format;
  std::unique_ptr<RequestIds> request;
  PullPart part;
  PullCursor cursor;
};

TEST(PullCursor, GoesLayerByLayerOverTheBlocks) {
  Walk walk;
  walk.cursor.begin(walk.part);
  EXPECT_EQ(walk.cursor.wanted_ns(), 1000u);
  EXPECT_EQ(walk.rest(), (std::vector<PullPair>{{0, 1}, {1, 1}, {2, 1}, {0, 2}, {1, 2}, {2, 2}}));
  EXPECT_EQ(walk.cursor.wanted_ns(), 1011u);
  PullPair none;
  EXPECT_FALSE(walk.cursor.next(&none));
}

TEST(PullCursor, KnowsItemsByTheirPosition) {
  Walk walk;
  walk.cursor.begin(walk.part);
  EXPECT_EQ(walk.cursor.items(), 3u);
  EXPECT_EQ(walk.cursor.position(1), 5u);
  EXPECT_EQ(walk.cursor.item_at(9), 2u);
  for (const uint32_t foreign : {0u, 3u, 11u})
    EXPECT_EQ(walk.cursor.item_at(foreign), 3u) << foreign;
}

TEST(PullCursor, GoesByTheWantsInTheirOrder) {
  Walk walk;
  const wire::Want wants[] = {{9, 5}, {2, 0}, {9, 1}};
  walk.part.wants = wants;
  walk.part.want_count = 3;
  walk.cursor.begin(walk.part);
  EXPECT_EQ(walk.cursor.fence({0, 0}), PullCursor::Fence::kAhead);
  EXPECT_EQ(walk.cursor.fence({1, 0}), PullCursor::Fence::kPast) << "no want of it";
  EXPECT_EQ(walk.rest(), (std::vector<PullPair>{{2, 5}, {0, 0}, {2, 1}}));
  EXPECT_EQ(walk.cursor.wanted_ns(), 1000u) << "all at once";
}

TEST(PullCursor, WhatBeginsAgainComesFirstAndLayerByLayer) {
  Walk walk;
  walk.cursor.begin(walk.part);
  for (uint32_t i = 0; i < 5; ++i)
    walk.cursor.pop();
  for (const PullPair pair : {PullPair{1, 1}, {0, 2}, {0, 1}, {2, 1}})
    walk.cursor.begin_again(pair);
  EXPECT_EQ(walk.cursor.wanted_ns(), 1000u) << "that of the first of them";
  EXPECT_EQ(walk.rest(), (std::vector<PullPair>{{0, 1}, {1, 1}, {2, 1}, {0, 2}, {2, 2}}));
}

TEST(PullCursor, AFencedOneIsToldOnceWhereItIsAheadAndGoneWhereItWasBegun) {
  Walk walk;
  walk.cursor.begin(walk.part);
  walk.cursor.pop();
  walk.cursor.begin_again({0, 1});
  EXPECT_EQ(walk.cursor.fence({0, 1}), PullCursor::Fence::kDropped);
  EXPECT_EQ(walk.cursor.fence({0, 1}), PullCursor::Fence::kPast);
  EXPECT_EQ(walk.cursor.fence({0, 2}), PullCursor::Fence::kAhead);
  EXPECT_EQ(walk.cursor.fence({3, 2}), PullCursor::Fence::kPast) << "no such block";
  EXPECT_EQ(walk.cursor.fence({0, 3}), PullCursor::Fence::kPast) << "no extent of it";
  EXPECT_FALSE(walk.cursor.take_fence({1, 2}));
  EXPECT_TRUE(walk.cursor.take_fence({0, 2}));
  EXPECT_FALSE(walk.cursor.take_fence({0, 2}));
}

// All four layers of the three blocks, in stripes of two.
struct WholeWalk : Walk {
  WholeWalk() {
    part.extent_first = 0;
    part.extent_end = 4;
    cursor.begin(part);
  }
  void pop(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i)
      cursor.pop();
  }
};

TEST(PullCursor, BehindALostOneComesTheRestOfItsStripeAsUrgent) {
  WholeWalk walk;
  walk.pop(2);
  walk.cursor.bring_forward({1, 0});
  EXPECT_TRUE(walk.cursor.is_forward());
  EXPECT_EQ(walk.cursor.wanted_ns(), 1000u) << "when the lost one was wanted";
  EXPECT_EQ(walk.rest(),
            (std::vector<PullPair>{
                {1, 1}, {2, 0}, {0, 1}, {2, 1}, {0, 2}, {1, 2}, {2, 2}, {0, 3}, {1, 3}, {2, 3}}));
  EXPECT_EQ(walk.cursor.wanted_ns(), 1033u);
}

TEST(PullCursor, WhatIsBroughtForwardMayBeWhereTheWalkIs) {
  WholeWalk walk;
  walk.pop(9);  // (0, 3) is next
  walk.cursor.bring_forward({0, 2});
  EXPECT_EQ(walk.cursor.wanted_ns(), 1022u);
  walk.cursor.pop();
  EXPECT_FALSE(walk.cursor.is_forward());
  EXPECT_EQ(walk.cursor.wanted_ns(), 1033u) << "again of the walk's own";
  walk.cursor.bring_forward({2, 2});
  EXPECT_EQ(walk.rest(), (std::vector<PullPair>{{2, 3}, {1, 3}}));
  PullPair none;
  walk.cursor.bring_forward({1, 2});
  EXPECT_FALSE(walk.cursor.next(&none)) << "all of it was begun";
}

TEST(PullCursor, BringsForwardOnlyWhatIsOfThePullAndWasNotBegun) {
  Walk walk;  // extents 1 and 2, each the only one of its stripe that is asked for
  walk.cursor.begin(walk.part);
  walk.cursor.pop();
  walk.cursor.bring_forward({0, 1});
  EXPECT_FALSE(walk.cursor.is_forward());
  WholeWalk whole;
  whole.pop(4);  // (0, 1) too
  whole.cursor.bring_forward({0, 0});
  EXPECT_FALSE(whole.cursor.is_forward());
  whole.cursor.bring_forward({1, 0});
  whole.cursor.bring_forward({2, 0});
  EXPECT_EQ(whole.rest().size(), 8u) << "one at a time: the second is not lost from the walk";
  const wire::Want wants[] = {{2, 0}, {2, 1}};
  walk.part.wants = wants;
  walk.part.want_count = 2;
  walk.cursor.begin(walk.part);
  walk.cursor.pop();
  walk.cursor.bring_forward({0, 0});
  EXPECT_FALSE(walk.cursor.is_forward());
  EXPECT_EQ(walk.rest(), (std::vector<PullPair>{{0, 1}}));
}

TEST(PullCursor, WhatWasBroughtForwardIsFencedLikeTheRest) {
  WholeWalk walk;
  walk.pop(1);
  walk.cursor.bring_forward({0, 0});
  EXPECT_EQ(walk.cursor.fence({0, 1}), PullCursor::Fence::kAhead);
  EXPECT_TRUE(walk.cursor.take_fence({0, 1}));
  walk.cursor.pop();
  EXPECT_EQ(walk.cursor.fence({0, 1}), PullCursor::Fence::kPast) << "begun, though not by the walk";
  EXPECT_EQ(walk.cursor.fence({0, 2}), PullCursor::Fence::kAhead);
  walk.cursor.begin_again({0, 1});
  EXPECT_EQ(walk.cursor.fence({0, 1}), PullCursor::Fence::kDropped);
  walk.cursor.begin(walk.part);
  EXPECT_EQ(walk.cursor.fence({0, 1}), PullCursor::Fence::kAhead) << "of another walk";
}

TEST(PullCursor, WhatWasBroughtForwardComesBeforeWhatBeginsAgain) {
  WholeWalk walk;
  walk.pop(3);
  walk.cursor.bring_forward({2, 0});
  walk.cursor.begin_again({0, 0});
  walk.cursor.begin_again({1, 0});
  const std::vector<PullPair> rest = walk.rest();
  ASSERT_EQ(rest.size(), 11u);
  EXPECT_EQ(std::vector(rest.begin(), rest.begin() + 5),
            (std::vector<PullPair>{{2, 1}, {0, 0}, {1, 0}, {0, 1}, {1, 1}}));
}

TEST(PullCursor, KnowsTheExtentsOfTheFirstLayerAskedFor) {
  Walk walk;
  walk.format.tables[0] = *ExtentTable::of(
      std::vector<LayerSpec>{{LayerKind::kFull, 70000}, {LayerKind::kFull, 9 << 20}}, Scheme{2, 1});
  walk.part.extent_end = walk.format.tables[0].data_count();
  walk.cursor.begin(walk.part);
  EXPECT_FALSE(walk.cursor.in_first_layer(0));
  for (uint32_t e = 1; e < walk.part.extent_end; ++e)
    EXPECT_TRUE(walk.cursor.in_first_layer(e)) << e << " is a cut of it";
  walk.part.extent_first = 0;
  walk.cursor.begin(walk.part);
  EXPECT_TRUE(walk.cursor.in_first_layer(0));
  EXPECT_FALSE(walk.cursor.in_first_layer(1));
}

TEST(PullCursor, RemembersABoundedNumberOfFences) {
  Walk walk;
  std::vector<LayerSpec> layers(300, {LayerKind::kFull, 70000});
  walk.format.tables[0] = *ExtentTable::of(layers, Scheme{2, 1});
  walk.part.extent_end = 300;
  walk.cursor.begin(walk.part);
  for (uint32_t i = 0; i < PullCursor::kFencedMax; ++i)
    EXPECT_EQ(walk.cursor.fence({1, 2 + i}), PullCursor::Fence::kAhead);
  EXPECT_EQ(walk.cursor.fence({2, 4}), PullCursor::Fence::kFull);
  EXPECT_TRUE(walk.cursor.take_fence({1, 2}));
  EXPECT_EQ(walk.cursor.fence({2, 4}), PullCursor::Fence::kAhead);
  walk.cursor.begin(walk.part);
  EXPECT_FALSE(walk.cursor.take_fence({2, 4})) << "of another walk";
}

}  // namespace
}  // namespace varve
