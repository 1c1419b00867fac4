// Goal: nobody is refused below its part of what all share, one domain alone has all of it, and
// what was dropped keeps nothing aside. Method: single questions, and a walk in which domains take
// and give what the rule lets them.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/random.h"
#include "server/tenant/tenant.h"

namespace varve {
namespace {

using Share = DomainLimit::Share;

TEST(DomainLimit, OneDomainHasAllOfIt) {
  const DomainLimit limit(100, 1);
  EXPECT_EQ(limit.part(), 50u);
  EXPECT_EQ(limit.share(50), Share::kPart);
  EXPECT_EQ(limit.share(51), Share::kCommon);
  EXPECT_EQ(limit.share(100), Share::kCommon);
  EXPECT_EQ(limit.share(101), Share::kNone);
}

// Expect: of whoever is not named the whole part is set aside, of others what they have not taken.
TEST(DomainLimit, PartsOfOthersAreSetAsideAsFarAsTheyHaveLess) {
  DomainLimit limit(100, 4);
  EXPECT_EQ(limit.part(), 12u);
  EXPECT_EQ(limit.share(64), Share::kCommon);
  EXPECT_EQ(limit.share(65), Share::kNone);
  limit.other(5);  // 7 of its part are left
  EXPECT_EQ(limit.share(64), Share::kCommon);
  EXPECT_EQ(limit.share(65), Share::kNone);
  limit.other(30);  // more than its part: that comes out of what is common
  EXPECT_EQ(limit.share(46), Share::kCommon);
  EXPECT_EQ(limit.share(47), Share::kNone);
  EXPECT_EQ(limit.share(12), Share::kPart);
}

TEST(DomainLimit, MostIsWhatTheOthersLeaveAndThePartAtLeast) {
  DomainLimit limit(100, 2);  // parts of 25
  EXPECT_EQ(limit.most(), 75u);
  limit.other(60);
  EXPECT_EQ(limit.most(), 40u);
  limit.other(40);
  EXPECT_EQ(limit.most(), 25u);
}

TEST(DomainLimit, NothingIsSetAsideForWhatIsEnding) {
  DomainLimit limit(100, 2);
  limit.ending(10);
  EXPECT_EQ(limit.share(65), Share::kCommon);
  EXPECT_EQ(limit.share(66), Share::kNone);
}

TEST(DomainLimit, APartIsOneAtLeast) {
  const DomainLimit limit(8, 32);
  EXPECT_EQ(limit.part(), 1u);
  EXPECT_EQ(limit.share(1), Share::kPart);
  EXPECT_EQ(limit.share(2), Share::kNone);
}

// Method: random domains take one more where they are let, and give some back. Expect: the limit
// holds, and whoever is within its part is never told no; without the limit's half set aside the
// others' greed would refuse it.
TEST(DomainLimit, WhoeverIsBelowItsPartFindsItThere) {
  Random random(7);
  for (uint32_t round = 0; round < 50; ++round) {
    const auto domains = static_cast<uint32_t>(random.between(1, 8));
    const uint64_t limit = random.between(2 * domains, 200);
    std::vector<uint64_t> used(domains);
    for (uint32_t step = 0; step < 2000; ++step) {
      const size_t who = random.below(domains);
      if (random.chance(300)) {
        used[who] -= std::min<uint64_t>(used[who], 3);
        continue;
      }
      DomainLimit question(limit, domains);
      uint64_t sum = 0;
      for (size_t d = 0; d < domains; ++d) {
        sum += used[d];
        if (d != who && random.chance(used[d] > 0 ? 1000 : 500)) question.other(used[d]);
      }
      const Share share = question.share(used[who] + 1);
      if (used[who] < question.part()) {
        ASSERT_EQ(share, Share::kPart);
        ASSERT_LT(sum, limit);  // it is there
      }
      if (share != Share::kNone) ++used[who];
    }
  }
}

}  // namespace
}  // namespace varve
