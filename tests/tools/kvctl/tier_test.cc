// Goal: what each tier holds stands in one row.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

TEST(Tiers, AreOneRowEach) {
  FakeNode node;
  v1::Tier* tier = node.ListTiers_answer().add_tiers();
  tier->set_name("dram");
  tier->set_capacity_bytes(1ull << 30);
  tier->set_used_bytes(1ull << 29);
  tier->set_hits(12345);
  const Said said = node.kvctl({"tiers"});
  EXPECT_EQ(said.exit, Exit::kDone);
  EXPECT_NE(said.out.find("dram"), std::string::npos);
  EXPECT_NE(said.out.find("512.0 MiB  50.0 %"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("12,345"), std::string::npos);
  EXPECT_EQ(node.kvctl({"--json", "tiers"}).json()["tiers"][0]["used_bytes"], 1 << 29);
}

}  // namespace
}  // namespace varve::kvctl
