// Goal: what is pulled, and what a lease keeps, is of the domain that asks.
// Method: domains that write other bytes under the same ids. What else must not meet is tested
// where it is done: match, reserve, purge, catalog, lineage, siblings, look.
#include <gtest/gtest.h>

#include "tests/server/op/rig.h"

namespace varve {
namespace {

// Goal: the bytes are those of the domain that asks, from DRAM and from flash; what it has not is
// not found, whatever others have. Method: each domain writes other bytes under one id.
TEST(Domain, BytesAreThoseOfTheDomainThatAsks) {
  Rig rig;
  for (const uint32_t domain : {1u, 2u}) {
    rig.domain = domain;
    rig.push({1});
  }
  for (const bool dram : {true, false}) {
    for (const uint32_t domain : {1u, 2u}) {
      rig.domain = domain;
      if (!dram) rig.drop_from_dram(1);
      auto pull = rig.make_pull({1});
      rig.start(*pull);
      rig.finish(*pull);
      EXPECT_EQ(pull->code(0), Code::kOk);
      rig.expect_bytes(*pull, {1});
    }
  }
  rig.domain = 3;
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kUnavailable);
  EXPECT_TRUE(pull->got.empty());
  rig.expect_at_rest();
}

// A lease of one domain keeps nothing of another from being evicted, nor does its pull.
TEST(Domain, ALeaseKeepsWhatIsOfItsDomain) {
  Rig rig;
  for (const uint32_t domain : {1u, 2u}) {
    rig.domain = domain;
    rig.push({1});
  }
  const Rig::Matched leased = rig.match({1}, 1000);  // of domain 2
  Catalog& catalog = rig.operations->catalog();
  EXPECT_EQ(catalog.evict(*rig.index.base_slot(2, rig.id(1))), 0u);
  EXPECT_GT(catalog.evict(*rig.index.base_slot(1, rig.id(1))), 0u);
  EXPECT_EQ(rig.match({1}).found(), 1u);
  rig.release(leased.lease);
  rig.expect_at_rest();
}

}  // namespace
}  // namespace varve
