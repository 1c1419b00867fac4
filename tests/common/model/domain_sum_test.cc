// Goal: what was added for a domain is what it has, until it is taken. Method: against a map, over
// more domains than there are rows at first.
#include <gtest/gtest.h>

#include <map>

#include "common/base/random.h"
#include "common/model/model.h"

namespace varve {
namespace {

TEST(DomainSums, ADomainWithoutAnythingHasNoRow) {
  DomainSums sums;
  EXPECT_EQ(sums.of(7), 0u);
  sums.add(7, 3);
  sums.add(9, 1);
  sums.add(8, 0);
  EXPECT_EQ(sums.rows().size(), 2u);
  sums.take(7, 3);
  ASSERT_EQ(sums.rows().size(), 1u);
  EXPECT_EQ(sums.rows()[0].domain, 9u);
  EXPECT_EQ(sums.of(7), 0u);
  EXPECT_EQ(sums.of(9), 1u);
  EXPECT_EQ(sums.total(), 1u);
}

TEST(DomainSums, SayWhatAMapSays) {
  Random random(3);
  DomainSums sums;
  std::map<uint32_t, uint64_t> model;
  for (uint32_t step = 0; step < 20000; ++step) {
    const auto domain = static_cast<uint32_t>(random.between(1, 2 * DomainSums::kRows));
    uint64_t& has = model[domain];
    if (random.chance(500)) {
      const uint64_t count = random.below(5);
      sums.add(domain, count);
      has += count;
    } else {
      const uint64_t count = random.below(has + 1);
      sums.take(domain, count);
      has -= count;
    }
    ASSERT_EQ(sums.of(domain), has);
  }
  uint64_t total = 0;
  size_t rows = 0;
  for (const auto& [domain, has] : model) {
    EXPECT_EQ(sums.of(domain), has) << domain;
    total += has;
    rows += has > 0 ? 1 : 0;
  }
  EXPECT_EQ(sums.total(), total);
  EXPECT_EQ(sums.rows().size(), rows);
}

}  // namespace
}  // namespace varve
