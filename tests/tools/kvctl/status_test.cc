// Goal: one look says whether a node is well, and if not, why and what to do.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/time/time.h"
#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

v1::GetStatusResponse healthy() {
  v1::GetStatusResponse status;
  status.set_version("varved 0.1 (wire 1, format 1)");
  status.set_node_uuid(std::string(16, '\x11'));
  status.set_boot_id(0xfe);
  status.set_boot_generation(4);
  status.set_uptime_ns(200 * kSecond);
  status.set_state(v1::NODE_STATE_SERVING);
  status.set_ready(true);
  status.set_data_dir("/var/lib/varve");
  status.set_k(2);
  status.set_m(1);
  status.set_sessions(3);
  status.set_sessions_max(256);
  v1::Shard* shard = status.add_shards();
  shard->set_io("uring");
  shard->set_answers(true);
  v1::Counts* counts = status.mutable_counts();
  counts->set_match_ids(1000);
  counts->set_hits_dram(800);
  counts->set_hits_flash(100);
  counts->set_misses(100);
  counts->set_pulled_bytes(3ull << 30);
  return status;
}

TEST(Status, SaysWhatTheNodeDid) {
  FakeNode node;
  node.GetStatus_answer() = healthy();
  const std::string out = node.kvctl({"status"}).out;
  for (const char* mark : {"serving, ready; up 3 min 20 s, start 4", "scheme 2+1", "3 of 256",
                           "1,000 ids: 80.0 % hits in DRAM, 10.0 % on flash, 10.0 % misses",
                           "3.0 GiB pulled", "1 of 1 answer, io by uring", "nothing to do"})
    EXPECT_NE(out.find(mark), std::string::npos) << mark << "\n" << out;
  EXPECT_EQ(out.find("degraded"), std::string::npos);
}

// A limit, a core that fails, a deadline and a client that goes have one thing in common: no
// answer.
TEST(Status, SaysHowLookupsEndedThatWereNotAnswered) {
  FakeNode node;
  node.GetStatus_answer() = healthy();
  v1::Counts* counts = node.GetStatus_answer().mutable_counts();
  counts->set_misses(0);
  counts->set_refused(40);
  counts->set_errors(30);
  counts->set_timeouts(20);
  counts->set_cancelled(10);
  const std::string out = node.kvctl({"status"}).out;
  for (const char* mark :
       {"0.0 % misses, 4.0 % refused, 3.0 % failed, 2.0", "% timed out", "1.0 % cancelled"})
    EXPECT_NE(out.find(mark), std::string::npos) << mark << "\n" << out;
}

TEST(Status, SaysWhatIsWrong) {
  FakeNode node;
  node.GetStatus_answer() = healthy();
  v1::GetStatusResponse& status = node.GetStatus_answer();
  status.set_ready(false);
  status.set_ready_why_not("a shard does not answer");
  v1::Degradation* degradation = status.add_degraded();
  degradation->set_reason("thin");
  degradation->set_remedy("bring targets back");
  status.mutable_shards(0)->set_answers(false);
  status.mutable_shards(0)->set_io_refusal("forbidden; allow it");
  status.mutable_repair()->set_blocks_left(12);
  status.mutable_repair()->set_eta_ns(60 * kSecond);
  const std::string out = node.kvctl({"status"}).out;
  for (const char* mark :
       {"NOT READY: a shard does not answer", "thin: bring targets back", "0 of 1 answer",
        "forbidden; allow it", "12 blocks left, done in about 1 min", "OFF"})
    EXPECT_NE(out.find(mark), std::string::npos) << mark << "\n" << out;
}

TEST(Status, IsTheWholeMessageInJson) {
  FakeNode node;
  node.GetStatus_answer() = healthy();
  const auto json = node.kvctl({"--json", "status"}).json();
  EXPECT_EQ(json["ready"], true);
  EXPECT_EQ(json["state"], "NODE_STATE_SERVING");
  EXPECT_EQ(json["node_uuid"], std::string(32, '1'));
  EXPECT_EQ(json["boot_id"], "00000000000000fe");
  EXPECT_EQ(json["counts"]["hits_dram"], 800);
}

TEST(Drain, StopsTheNodeAndSaysHowLongItMayTake) {
  FakeNode node;
  node.Drain_answer().set_bound_ns(10 * kSecond);
  const Said said = node.kvctl({"drain"}, "y\n");
  EXPECT_EQ(said.exit, Exit::kDone);
  EXPECT_NE(said.out.find("in 10 s at the latest"), std::string::npos) << said.out;
}

}  // namespace
}  // namespace varve::kvctl
