// A domain has its part whatever others ask for, and alone it has all of it.
#include "server/session/domain_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "common/base/random.h"

namespace varve {
namespace {

constexpr uint32_t kA = kDomainDefault;

Domains domains(uint32_t count) {
  Domains all;
  for (uint32_t i = 1; i < count; ++i) {
    Digest salt;
    salt.bytes[0] = static_cast<std::byte>(i);
    const Status added = all.add("team-" + std::to_string(i), {salt, "t" + std::to_string(i)}, 1);
    EXPECT_TRUE(added.ok()) << added.what();
  }
  return all;
}

uint32_t take_all(DomainShares& shares, uint32_t domain) {
  uint32_t taken = 0;
  while (shares.has_room(domain)) {
    shares.take(domain);
    ++taken;
  }
  return taken;
}

TEST(DomainShares, OneDomainHasAllOfIt) {
  DomainShares shares(10);
  EXPECT_EQ(take_all(shares, kA), 10u);
  shares.give(kA);
  EXPECT_EQ(take_all(shares, kA), 1u);
}

TEST(DomainShares, WhatIsSetAsideIsThereWhoeverComesFirst) {
  DomainShares shares(100);
  const Domains four = domains(4);
  shares.domains_set(four);
  EXPECT_EQ(shares.part(), 12u);
  EXPECT_EQ(take_all(shares, kA), 100u - 3 * 12u);
  for (uint32_t i = 1; i < 4; ++i)
    EXPECT_EQ(take_all(shares, four.all()[i].id), 12u);
  for (const Domain& domain : four.all())
    EXPECT_FALSE(shares.has_room(domain.id));
}

TEST(DomainShares, WhatOneHasBeyondItsPartIsNobodysRefusal) {
  DomainShares shares(8);
  EXPECT_EQ(take_all(shares, kA), 8u);
  const Domains two = domains(2);
  const uint32_t b = two.all()[1].id;
  shares.domains_set(two);  // made when all was taken
  EXPECT_FALSE(shares.has_room(b));
  shares.give(kA);
  EXPECT_FALSE(shares.has_room(kA)) << "it is for the other one";
  EXPECT_TRUE(shares.has_room(b));
}

TEST(DomainShares, ADroppedDomainGetsNothingAndKeepsNothing) {
  DomainShares shares(8);
  const Domains two = domains(2);
  const uint32_t b = two.all()[1].id;
  shares.domains_set(two);
  shares.take(b);
  shares.domains_set(Domains());
  EXPECT_FALSE(shares.has_room(b));
  EXPECT_EQ(take_all(shares, kA), 7u);
  shares.give(b);  // its session has ended
  EXPECT_EQ(take_all(shares, kA), 1u);
  EXPECT_FALSE(shares.has_room(b));
}

TEST(DomainShares, FewPlacesForManyAreOneEach) {
  DomainShares shares(kNodeDomainsMax);
  const Domains all = domains(kNodeDomainsMax);
  shares.domains_set(all);
  for (const Domain& domain : all.all())
    EXPECT_EQ(take_all(shares, domain.id), 1u);
}

// Whatever the order: the sum holds, and nobody below its part is refused once all that was taken
// was taken under the same domains.
TEST(DomainShares, NobodyIsRefusedBelowItsPart) {
  Random random(7);
  for (uint32_t round = 0; round < 200; ++round) {
    const auto count = static_cast<uint32_t>(1 + random.below(8));
    const auto limit = static_cast<uint32_t>(2 * count + random.below(60));
    DomainShares shares(limit);
    const Domains all = domains(count);
    shares.domains_set(all);
    std::map<uint32_t, uint32_t> used;
    uint32_t sum = 0;
    for (uint32_t step = 0; step < 300; ++step) {
      const uint32_t domain = all.all()[random.below(count)].id;
      if (random.below(3) == 0 && used[domain] > 0) {
        shares.give(domain);
        --used[domain];
        --sum;
      } else if (shares.has_room(domain)) {
        shares.take(domain);
        ++used[domain];
        ++sum;
      } else {
        ASSERT_GE(used[domain], shares.part()) << "round " << round;
      }
      ASSERT_LE(sum, limit);
    }
  }
}

TEST(DomainPool, GivesObjectsWithinTheShares) {
  DomainPool<int> pool(4);
  const Domains two = domains(2);
  const uint32_t b = two.all()[1].id;
  pool.domains_set(two);
  int* first = pool.take(kA);
  ASSERT_NE(first, nullptr);
  EXPECT_NE(pool.take(kA), nullptr);
  EXPECT_NE(pool.take(kA), nullptr);
  EXPECT_EQ(pool.take(kA), nullptr);
  EXPECT_EQ(pool.available(), 1u);
  EXPECT_NE(pool.take(b), nullptr);
  EXPECT_EQ(pool.take(b), nullptr);
  pool.give(first, kA);
  EXPECT_EQ(pool.used(), 3u);
}

}  // namespace
}  // namespace varve
