// Goal: a target that alone keeps the largest block of the node small is named, with what the
// others would take; one that takes nothing new limits nothing. Method: targets by hand.
#include "server/node/largest.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

std::vector<NodeTarget> targets_of(const std::vector<uint64_t>& segment_mib) {
  std::vector<NodeTarget> targets(segment_mib.size());
  for (size_t t = 0; t < targets.size(); ++t) {
    targets[t].info.path = "/dev/t" + std::to_string(t);
    targets[t].info.super.segment_pages = static_cast<uint32_t>(segment_mib[t] * kMiB / kPageBytes);
  }
  return targets;
}

TEST(Largest, NamesTheSmallOneAndWhatTheOthersTake) {
  const std::string text = limiting_targets(targets_of({64, 64, 64, 4}));
  EXPECT_NE(text.find("target 3 /dev/t3 LIMITS"), std::string::npos) << text;
  EXPECT_NE(text.find("TO 3 MiB, without it that is 63 MiB"), std::string::npos) << text;
}

TEST(Largest, NamesAllThatDo) {
  const std::string text = limiting_targets(targets_of({4, 64, 4}));
  EXPECT_NE(text.find("target 0 /dev/t0, target 2 /dev/t2 LIMITS"), std::string::npos) << text;
}

TEST(Largest, SaysNothingOfALittle) {
  EXPECT_EQ(limiting_targets(targets_of({64, 64})), "");
  EXPECT_EQ(limiting_targets(targets_of({64})), "");
  EXPECT_NE(limiting_targets(targets_of({64, 32})), "");
}

TEST(Largest, OneThatTakesNothingNewLimitsNothing) {
  std::vector<NodeTarget> targets = targets_of({64, 64, 4});
  targets[2].draining = true;
  EXPECT_EQ(limiting_targets(targets), "");
  targets[2].draining = false;
  targets[2].lost = Status::unavailable("gone");
  EXPECT_EQ(limiting_targets(targets), "");
}

}  // namespace
}  // namespace varve
