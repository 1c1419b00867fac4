// Goal: the first admission policy takes everything, as an interface that others can replace.
// Method: questions of every shape through the interface.
#include <gtest/gtest.h>

#include "server/policy/policy.h"

namespace varve {
namespace {

TEST(AdmitAll, TakesBlocksOfAnySizeAndDepth) {
  const std::unique_ptr<AdmissionPolicy> policy = make_admit_all();
  EXPECT_STREQ(policy->name(), "admit_all");
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, 256 * kMiB, ~uint64_t{0}}) {
    for (const uint32_t depth_known : {0u, 1u}) {
      EXPECT_EQ(policy->admit({.bytes = bytes, .depth_known = depth_known}), Admit::kYes);
    }
  }
}

}  // namespace
}  // namespace varve
