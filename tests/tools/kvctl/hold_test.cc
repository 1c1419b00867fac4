// Goal: who keeps what from being evicted, and for how long, is one row each.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/time/time.h"
#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

TEST(Leases, AreOneRowEach) {
  FakeNode node;
  EXPECT_EQ(node.kvctl({"leases"}).out, "nothing is held\n");
  v1::Hold* hold = node.ListHolds_answer().add_holds();
  hold->set_hold(9);
  hold->set_kind(v1::HOLD_KIND_LEASE);
  hold->set_session(0xab);
  hold->set_client("one\x1b");
  hold->set_age_ns(12 * kSecond);
  hold->set_bytes(2 << 20);
  hold->set_domain("team-a");
  const Said said = node.kvctl({"leases"});
  for (const char* mark :
       {"lease", "one?", "team-a", "00000000000000ab", "2.0 MiB", "12 s", "ending"})
    EXPECT_NE(said.out.find(mark), std::string::npos) << mark << "\n" << said.out;
  EXPECT_EQ(node.kvctl({"--json", "holds"}).json()["holds"][0]["hold"], 9);
}

}  // namespace
}  // namespace varve::kvctl
