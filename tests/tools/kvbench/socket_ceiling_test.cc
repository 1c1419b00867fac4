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

TEST(SocketCeiling, AnUnknownCongestionControlIsRefused) {
  EXPECT_FALSE(SocketCeiling::start({WorkingSetShape{}, 1, "no-such-control"}).has_value());
}

}  // namespace
}  // namespace varve::kvbench
