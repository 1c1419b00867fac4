// Goal: a client is found by what is listed of it, and ended by the same word.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

TEST(Sessions, AreListedAndClosedByTheSameWord) {
  FakeNode node;
  EXPECT_EQ(node.kvctl({"sessions"}).out, "no client is there\n");
  v1::Session* session = node.ListSessions_answer().add_sessions();
  session->set_session(0xfedcba9876543210);
  session->set_client("prefill-3");
  session->set_peer("10.0.0.7:41234");
  const Said said = node.kvctl({"sessions"});
  EXPECT_NE(said.out.find("prefill-3"), std::string::npos) << said.out;
  const std::string word = node.kvctl({"--json", "sessions"}).json()["sessions"][0]["session"];
  EXPECT_NE(said.out.find(word), std::string::npos) << said.out;
  EXPECT_EQ(node.kvctl({"sessions", "close", word}).exit, Exit::kDone);
  EXPECT_EQ(node.CloseSession_request.session(), 0xfedcba9876543210);
  EXPECT_EQ(node.kvctl({"sessions", "close", "12"}).exit, Exit::kUsage);
}

}  // namespace
}  // namespace varve::kvctl
