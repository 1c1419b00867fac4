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
  tier->set_admission("admit_all");
  tier->set_eviction("lru");
  const Said said = node.kvctl({"tiers"});
  EXPECT_EQ(said.exit, Exit::kDone);
  EXPECT_NE(said.out.find("dram"), std::string::npos);
  EXPECT_NE(said.out.find("512.0 MiB  50.0 %"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("12,345"), std::string::npos);
  EXPECT_NE(said.out.find("ADMISSION  EVICTION"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("admit_all  lru"), std::string::npos) << said.out;
  const auto row = node.kvctl({"--json", "tiers"}).json()["tiers"][0];
  EXPECT_EQ(row["used_bytes"], 1 << 29);
  EXPECT_EQ(row["admission"], "admit_all");
  EXPECT_EQ(row["eviction"], "lru");
}

}  // namespace
}  // namespace varve::kvctl
