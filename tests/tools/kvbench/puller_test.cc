// The puller says why when there is nobody to pull from.
#include "tools/kvbench/puller.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

TEST(Puller, ADaemonThatIsNotThereIsAnErrorInBoundedTime) {
  auto set = WorkingSet::make({.blocks = 1, .layers = 1, .layer_bytes = 256 * kKiB});
  ASSERT_TRUE(set.has_value());
  PullerOptions options;
  options.address = "127.0.0.1:1";  // nobody listens on the port of tcpmux
  options.ready_ns_max = 50 * kMillisecond;
  auto puller = Puller::open(options, **set);
  ASSERT_FALSE(puller.has_value());
  EXPECT_FALSE(puller.error().ok());
}

}  // namespace
}  // namespace varve::kvbench
