// The coding bars on a small set: they have a number a round, say what it was made of, and cannot
// be had for less than reading the bytes.
#include "tools/kvbench/ec_bars.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

constexpr EcBarOptions kSmall{.scheme = {4, 2},
                              .data_bytes = 8 * kMiB,
                              .extent_bytes = 256 * kKiB,
                              .column_bytes = 64 * kKiB,
                              .rounds = 3};

bool has_fact(const Bar& bar, const std::string& key) {
  return std::any_of(bar.facts.begin(), bar.facts.end(),
                     [&](const auto& fact) { return fact.first == key; });
}

TEST(EcBars, EncodeAndDecodeHaveAShareOfACorePerRound) {
  for (const Bar& bar : {ec_encode_bar(kSmall), ec_decode_bar(kSmall)}) {
    ASSERT_TRUE(bar.has_value()) << bar.refused;
    EXPECT_EQ(bar.rounds.size(), 3u);
    EXPECT_GT(bar.value(), 0);
    EXPECT_GT(bar.verified_bytes, 0u);
    EXPECT_EQ(bar.sense, Sense::kAtMost);
    for (const char* fact : {"set", "coding", "coding_into_cold_memory", "reading_only"})
      EXPECT_TRUE(has_fact(bar, fact)) << bar.name << " " << fact;
  }
  EXPECT_EQ(ec_encode_bar(kSmall).name, "ec_encode_4+2");
}

TEST(EcBars, TheFusedBarIsWhatCodingAddsToTheDigests) {
  const Bar bar = ec_fused_bar(kSmall);
  ASSERT_TRUE(bar.has_value()) << bar.refused;
  EXPECT_EQ(bar.name, "ec_fused_4+2");
  EXPECT_GT(bar.verified_bytes, 0u);
  EXPECT_EQ(bar.rounds.size(), 3u);
  for (const char* fact : {"digests", "digests_and_coding", "digests_of_data"})
    EXPECT_TRUE(has_fact(bar, fact)) << fact;
}

TEST(EcBars, EveryOfferedSchemeWithParityCanBeMeasured) {
  EcBarOptions options = kSmall;
  options.rounds = 1;
  for (const Scheme scheme : kSchemes) {
    if (scheme.m == 0) continue;
    options.scheme = scheme;
    EXPECT_TRUE(ec_decode_bar(options).has_value()) << scheme.text();
  }
}

}  // namespace
}  // namespace varve::kvbench
