// The raw socket moves the right bytes to the right places, on one connection and on several.
#include "tools/kvbench/socket_ceiling.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

void moves_everything(uint32_t connections) {
  const WorkingSetShape shape{.blocks = 2, .layers = 2, .layer_bytes = 512 * kKiB};
  auto set = WorkingSet::make(shape);
  ASSERT_TRUE(set.has_value());
  (*set)->fill();
  auto ceiling = SocketCeiling::start({shape, connections, "cubic"});
  ASSERT_TRUE(ceiling.has_value()) << ceiling.error().what();
  for (int round = 0; round < 2; ++round) {
    (*set)->poison();
    auto took_ns = (*ceiling)->round(**set);
    ASSERT_TRUE(took_ns.has_value());
    EXPECT_GT(*took_ns, 0u);
    EXPECT_EQ((*set)->wrong_extents(), 0u);
  }
}

TEST(SocketCeiling, OneConnectionMovesTheWorkingSetAgainAndAgain) {
  moves_everything(1);
}

TEST(SocketCeiling, SeveralConnectionsMoveTheSameBytes) {
  moves_everything(3);
}

TEST(SocketCeiling, SomeOfTheBlocksAndExtentsSmallerThanAMessage) {
  const WorkingSetShape shape{.blocks = 3, .layers = 2, .layer_bytes = 64 * kKiB};
  auto set = WorkingSet::make({.blocks = 5, .layers = 2, .layer_bytes = 64 * kKiB});
  ASSERT_TRUE(set.has_value());
  auto ceiling = SocketCeiling::start({shape, 2, "cubic"});
  ASSERT_TRUE(ceiling.has_value()) << ceiling.error().what();
  ASSERT_TRUE((*ceiling)->round(**set, 2).has_value());
  EXPECT_TRUE((*set)->slot_is(0, 0));
  EXPECT_TRUE((*set)->slot_is(1, 1));
  EXPECT_FALSE((*set)->slot_is(2, 2)) << "was not asked for";
  ASSERT_TRUE((*ceiling)->round(**set, 3).has_value());
  EXPECT_TRUE((*set)->slot_is(2, 2));
}

TEST(SocketCeiling, WhatWasThereBeforeIsNotTakenForWhatWasMoved) {
  auto set = WorkingSet::make({.blocks = 2, .layers = 1, .layer_bytes = 64 * kKiB});
  ASSERT_TRUE(set.has_value());
  const auto nothing = []() -> Result<Nanos> { return Nanos{1}; };
  (*set)->fill();  // the right bytes lie there, as after the round before
  const auto compared = move_compared(**set, 2, nothing);
  ASSERT_FALSE(compared.has_value()) << "a sender that sends nothing";
  EXPECT_EQ(compared.error().code(), Code::kCorrupt);
  (*set)->fill();
  const auto half = [&]() -> Result<Nanos> {
    (*set)->fill_slot(0, 0);
    return Nanos{1};
  };
  EXPECT_FALSE(move_compared(**set, 2, half).has_value());
  EXPECT_TRUE(move_compared(**set, 1, half).has_value());
}

TEST(SocketCeiling, ASenderThatEndsBeforeItConnectsIsAnError) {
  // Expect: 4 TiB are no machine's that runs this, so the sender has no bytes to send.
  const WorkingSetShape shape{.blocks = 4096, .layers = 256, .layer_bytes = 4 * kMiB};
  EXPECT_FALSE(WorkingSet::make(shape).has_value());
  EXPECT_FALSE(SocketCeiling::start({shape, 1, "cubic"}).has_value());
}

TEST(SocketCeiling, AnUnknownCongestionControlIsRefused) {
  EXPECT_FALSE(SocketCeiling::start({WorkingSetShape{}, 1, "no-such-control"}).has_value());
}

}  // namespace
}  // namespace varve::kvbench
