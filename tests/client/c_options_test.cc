// Goal: options by name are those by field, and what cannot be meant is refused and changes
// nothing. Method: a table of texts.
#include "client/c_options.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

class COptionsTest : public testing::Test {
 protected:
  COptionsTest() { VARVE_INIT(&options_); }
  varve_status set(const char* name, const char* text) {
    return varve_options_set(&options_, name, text);
  }
  ClientOptions read() {
    ClientOptions out;
    EXPECT_TRUE(client_options(options_, out, log_).ok());
    return out;
  }
  varve_options options_;
  LogLevel log_ = LogLevel::kDebug;
};

TEST_F(COptionsTest, NothingSetMeansTheDefaults) {
  const ClientOptions out = read();
  const ClientOptions defaults;
  EXPECT_EQ(out.address, defaults.address);
  EXPECT_EQ(out.name, "engine");
  EXPECT_EQ(out.pull_credit_bytes, defaults.pull_credit_bytes);
  EXPECT_EQ(out.hedge_percent, defaults.hedge_percent);
  EXPECT_EQ(out.breaker_failures, kBreakerFailuresDefault);
  EXPECT_FALSE(out.populate_scratch);
  EXPECT_EQ(log_, LogLevel::kWarn);
}

TEST_F(COptionsTest, EachIsSetByItsName) {
  EXPECT_EQ(set("address", "10.0.0.5:7440"), VARVE_OK);
  EXPECT_EQ(set("token", "secret"), VARVE_OK);
  EXPECT_EQ(set("name", "worker 3"), VARVE_OK);
  EXPECT_EQ(set("bulk_lanes", "3"), VARVE_OK);
  EXPECT_EQ(set("pull_credit_bytes", "128MiB"), VARVE_OK);
  EXPECT_EQ(set("parity_scratch_bytes", "1048576"), VARVE_OK);
  EXPECT_EQ(set("rebuild_scratch_bytes", "64MiB"), VARVE_OK);
  EXPECT_EQ(set("populate_scratch", "yes"), VARVE_OK);
  EXPECT_EQ(set("hedge_percent", "none"), VARVE_OK);
  EXPECT_EQ(set("ops_max", "1000"), VARVE_OK);
  EXPECT_EQ(set("breaker_failures", "9"), VARVE_OK);
  EXPECT_EQ(set("breaker_probe_ns", "250ms"), VARVE_OK);
  EXPECT_EQ(set("connect_ns_max", "3s"), VARVE_OK);
  EXPECT_EQ(set("reconnect_ns_min", "5us"), VARVE_OK);
  EXPECT_EQ(set("reconnect_ns_max", "700ns"), VARVE_OK);
  EXPECT_EQ(set("fence_ns_max", "1s"), VARVE_OK);
  EXPECT_EQ(set("ping_interval_ns", "20s"), VARVE_OK);
  EXPECT_EQ(set("log_level", "error"), VARVE_OK);
  EXPECT_EQ(set("bounce_bytes", "8MiB"), VARVE_OK);
  const ClientOptions out = read();
  EXPECT_EQ(out.address, "10.0.0.5:7440");
  EXPECT_EQ(out.token, "secret");
  EXPECT_EQ(out.name, "worker 3");
  EXPECT_EQ(out.bulk_lanes, 3u);
  EXPECT_EQ(out.pull_credit_bytes, 128 * kMiB);
  EXPECT_EQ(out.parity_scratch_bytes, kMiB);
  EXPECT_EQ(out.rebuild_scratch_bytes, 64 * kMiB);
  EXPECT_TRUE(out.populate_scratch);
  EXPECT_EQ(out.hedge_percent, 0u);
  EXPECT_EQ(out.ops_max, 1000u);
  EXPECT_EQ(out.breaker_failures, 9u);
  EXPECT_EQ(out.breaker_probe_ns, 250 * kMillisecond);
  EXPECT_EQ(out.connect_ns_max, 3 * kSecond);
  EXPECT_EQ(out.reconnect_ns_min, 5 * kMicrosecond);
  EXPECT_EQ(out.reconnect_ns_max, 700u);
  EXPECT_EQ(out.fence_ns_max, kSecond);
  EXPECT_EQ(out.ping_interval_ns, 20 * kSecond);
  EXPECT_EQ(log_, LogLevel::kError);
  EXPECT_EQ(out.bounce_bytes, 8 * kMiB);
}

TEST_F(COptionsTest, ACallerOfBeforeBouncesByDefaultAndCannotSayMore) {
  options_.struct_size = 888;
  EXPECT_EQ(set("bounce_bytes", "8MiB"), VARVE_UNSUPPORTED);
  EXPECT_EQ(read().bounce_bytes, ClientOptions().bounce_bytes);
}

TEST_F(COptionsTest, BouncingCanBeSwitchedOff) {
  EXPECT_EQ(set("bounce_bytes", "none"), VARVE_OK);
  EXPECT_EQ(read().bounce_bytes, 0u);
}

TEST_F(COptionsTest, ABreakerCanBeSwitchedOff) {
  EXPECT_EQ(set("breaker_failures", "none"), VARVE_OK);
  EXPECT_EQ(read().breaker_failures, 0u);
}

TEST_F(COptionsTest, WhatDoesNotParseChangesNothing) {
  const varve_options before = options_;
  const std::pair<const char*, const char*> wrong[] = {
      {"adress", "x"},           {"", "x"},
      {"bulk_lanes", ""},        {"bulk_lanes", "two"},
      {"bulk_lanes", "-1"},      {"bulk_lanes", "0"},
      {"bulk_lanes", "1 "},      {"bulk_lanes", "4294967296"},
      {"bulk_lanes", "1KiB"},    {"pull_credit_bytes", "64MB"},
      {"fence_ns_max", "100"},   {"pull_credit_bytes", "99999999999999999999"},
      {"fence_ns_max", "0s"},    {"pull_credit_bytes", "18446744073709551615GiB"},
      {"log_level", "loud"},     {"populate_scratch", "maybe"},
      {"struct_size", "4"},      {"reserved", "1"},
      {"hedge_percent", "some"}, {"ops_max", "none"}};
  for (const auto& [name, text] : wrong)
    EXPECT_EQ(set(name, text), VARVE_INVALID) << name << " " << text;
  EXPECT_EQ(set("name", std::string(264, 'x').c_str()), VARVE_INVALID);
  EXPECT_EQ(set(nullptr, "x"), VARVE_INVALID);
  EXPECT_EQ(set("name", nullptr), VARVE_INVALID);
  EXPECT_EQ(std::memcmp(&before, &options_, sizeof before), 0);
  EXPECT_EQ(varve_options_set(nullptr, "name", "x"), VARVE_INVALID);
}

TEST_F(COptionsTest, FieldsThatMakeNoSenseAreRefusedAtOpen) {
  ClientOptions out;
  std::memset(options_.name, 'x', sizeof options_.name);
  EXPECT_EQ(client_options(options_, out, log_).code(), Code::kInvalid);
  VARVE_INIT(&options_);
  options_.log_level = 5;
  EXPECT_EQ(client_options(options_, out, log_).code(), Code::kInvalid);
  VARVE_INIT(&options_);
  options_.populate_scratch = 2;
  EXPECT_EQ(client_options(options_, out, log_).code(), Code::kInvalid);
  VARVE_INIT(&options_);
  options_.reserved = 1;
  EXPECT_EQ(client_options(options_, out, log_).code(), Code::kUnsupported);
}

}  // namespace
}  // namespace varve
