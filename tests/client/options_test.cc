// Goal: what a client cannot work with is refused when it is opened, by name. Method: one option at
// a time, each just beyond its limit.
#include <gtest/gtest.h>

#include <functional>

#include "client/core.h"
#include "tests/client/client_rig.h"

namespace varve {
namespace {

TEST(OptionsTest, OptionsThatCannotWorkAreRefused) {
  ManualClock clock;
  SimFabric fabric(1);
  SeededEntropy entropy(1);
  Env env{clock, entropy, fabric};
  Reactor reactor(clock, nullptr, ReactorOptions{});
  const auto refused = [&](const std::function<void(ClientOptions&)>& change) {
    ClientOptions options;
    change(options);
    auto core = ClientCore::open(env, reactor, options);
    return !core.has_value() && core.error().code() == Code::kInvalid;
  };
  EXPECT_TRUE(refused([](auto& o) { o.bulk_lanes = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.bulk_lanes = 5; }));
  EXPECT_TRUE(refused([](auto& o) { o.token = std::string(257, 'x'); }));
  EXPECT_TRUE(refused([](auto& o) { o.name = std::string(257, 'x'); }));
  EXPECT_TRUE(refused([](auto& o) { o.pull_credit_bytes = 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.parity_scratch_bytes = kParityScratchBytesMin - 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.rebuild_scratch_bytes = kRebuildScratchBytesMin - 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.rebuild_scratch_bytes = kRebuildScratchBytesMax + 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.bounce_bytes = kBounceBytesMin - 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.bounce_bytes = kBounceBytesMax + 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.hedge_percent = 101; }));
  EXPECT_TRUE(refused([](auto& o) { o.ops_max = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.reconnect_ns_min = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.reconnect_ns_max = 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.ping_interval_ns = 0; }));
}

// A lookup would stop the reactor that the core runs on.
TEST(OptionsTest, OverTcpANameIsRefused) {
  ManualClock clock;
  SeededEntropy entropy{1};
  const auto fabric = make_tcp_fabric();
  Env env{clock, entropy, *fabric};
  Reactor reactor{clock, nullptr, ReactorOptions{}};
  ClientOptions options;
  options.address = "some.host:7440";
  const auto opened = ClientCore::open(env, reactor, options);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code(), Code::kInvalid);
}

}  // namespace
}  // namespace varve
