// Goal: each way in which a call fails has its exit code and a sentence with a remedy; and no call
// of the proto is missing here.
#include "tools/kvctl/node_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

NodeAddress address_of(const FakeNode& node) {
  NodeAddress address;
  address.control = node.address;
  return address;
}

TEST(NodeClient, KnowsEveryCallOfTheProto) {
  const google::protobuf::ServiceDescriptor* service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName("varve.v1.Control");
  ASSERT_NE(service, nullptr);
  std::vector<std::string> known, there;
#define X(Name) known.push_back(#Name);
  VARVE_KVCTL_RPCS(X)
#undef X
  for (int m = 0; m < service->method_count(); ++m)
    there.push_back(service->method(m)->name());
  EXPECT_EQ(known, there);
}

TEST(NodeClient, BringsTheAnswer) {
  FakeNode node;
  node.GetStatus_answer().set_data_dir("/d");
  NodeClient client(address_of(node));
  v1::GetStatusResponse status;
  EXPECT_TRUE(client.ask(v1::GetStatusRequest(), &status).ok());
  EXPECT_EQ(status.data_dir(), "/d");
  EXPECT_EQ(node.authorization, "") << "there is no token to be sent";
}

TEST(NodeClient, GathersAllPages) {
  FakeNode node;
  for (uint64_t page = 0; page < 3; ++page) {
    v1::ListSessionsResponse& rows = node.ListSessions_pages.emplace_back();
    rows.add_sessions()->set_session(page);
    rows.set_next_cursor(page < 2 ? page + 1 : 0);
  }
  NodeClient client(address_of(node));
  v1::ListSessionsResponse all;
  ASSERT_TRUE(client.ask_all(v1::ListSessionsRequest(), &all).ok());
  ASSERT_EQ(all.sessions_size(), 3);
  EXPECT_EQ(all.sessions(2).session(), 2u);
  EXPECT_EQ(all.next_cursor(), 0u);
}

TEST(NodeClient, StopsAtAListWithoutEnd) {
  FakeNode node;
  node.ListSessions_answer().set_next_cursor(0);
  v1::ListSessionsResponse& rows = node.ListSessions_answer();
  rows.set_next_cursor(1);
  node.ListSessions_pages.resize(2);
  node.ListSessions_pages[1].set_next_cursor(1);
  NodeClient client(address_of(node));
  v1::ListSessionsResponse all;
  const Outcome outcome = client.ask_all(v1::ListSessionsRequest(), &all);
  EXPECT_EQ(outcome.exit, Exit::kFailed);
  EXPECT_EQ(outcome.code, "RESOURCE_EXHAUSTED");
}

TEST(NodeClient, SaysThatNobodyIsThere) {
  NodeAddress address;
  {
    FakeNode gone;
    address.control = gone.address;
  }
  NodeClient client(address);
  v1::GetStatusResponse status;
  const Outcome outcome = client.ask(v1::GetStatusRequest(), &status);
  EXPECT_EQ(outcome.exit, Exit::kUnreached);
  EXPECT_EQ(outcome.code, "UNAVAILABLE");
  EXPECT_NE(outcome.text.find(address.control), std::string::npos);
  EXPECT_NE(outcome.text.find("--control"), std::string::npos);
}

// Goal: who reads the exit code does not take a purge that began for one that nobody was asked for.
TEST(NodeClient, SaysThatWhatWasBegunMayBeDone) {
  FakeNode node;
  node.cut("Purge");
  NodeClient client(address_of(node));
  v1::PurgeResponse purged;
  const Outcome outcome = client.ask(v1::PurgeRequest(), &purged);
  ASSERT_EQ(node.asked, std::vector<std::string>{"Purge"});
  EXPECT_EQ(outcome.exit, Exit::kTimedOut) << outcome.text;
  EXPECT_NE(outcome.text.find("may be done in part"), std::string::npos) << outcome.text;
  EXPECT_EQ(outcome.text.find("start varved"), std::string::npos) << outcome.text;
  EXPECT_TRUE(client.reached());
}

// A port of this machine that the kernel answers for.
struct Listening {
  Listening() {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(at);
    EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&at), bytes), 0);
    EXPECT_EQ(::listen(fd, 8), 0);
    EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &bytes), 0);
    address.control = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  ~Listening() { ::close(fd); }
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  NodeAddress address;
};

// Goal: a varved that is stopped (the kernel still takes connections) is not said to be absent.
TEST(NodeClient, SaysThatNobodySpeaksThere) {
  Listening port;
  port.address.timeout_ns = 200 * kMillisecond;
  NodeClient client(port.address);
  v1::PurgeResponse purged;
  const Outcome outcome = client.ask(v1::PurgeRequest(), &purged);
  EXPECT_EQ(outcome.exit, Exit::kUnreached) << outcome.text;
  EXPECT_NE(outcome.text.find("no answer in 200 ms"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("see its log where it runs"), std::string::npos) << outcome.text;
  EXPECT_FALSE(client.reached());
}

// Goal: nobody is led to start or stop a sound node that has as many operators as may be.
TEST(NodeClient, SaysThatConnectionsAreEndedAtOnce) {
  Listening port;
  std::thread closing([fd = port.fd] {
    for (int peer = 0; peer >= 0;) {
      peer = ::accept(fd, nullptr, nullptr);
      if (peer >= 0) ::close(peer);
    }
  });
  NodeClient client(port.address);
  v1::GetStatusResponse status;
  const Outcome outcome = client.ask(v1::GetStatusRequest(), &status);
  ::shutdown(port.fd, SHUT_RDWR);
  closing.join();
  EXPECT_EQ(outcome.exit, Exit::kUnreached) << outcome.text;
  EXPECT_NE(outcome.text.find("ends each connection at once"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("try again"), std::string::npos) << outcome.text;
  EXPECT_EQ(outcome.text.find("start varved"), std::string::npos) << outcome.text;
  EXPECT_TRUE(client.reached()) << "doctor takes it for a node that is there";
}

TEST(NodeClient, TellsRefusalsApart) {
  FakeNode node;
  NodeClient client(address_of(node));
  v1::GetStatusResponse status;
  const auto refused = [&](const std::string& code) {
    node.refuse("GetStatus", code, "the cause");
    return client.ask(v1::GetStatusRequest(), &status);
  };
  Outcome outcome = refused("UNAUTHENTICATED");
  EXPECT_EQ(outcome.exit, Exit::kDenied);
  EXPECT_NE(outcome.text.find("--token-file"), std::string::npos);
  outcome = refused("UNAVAILABLE");
  EXPECT_EQ(outcome.exit, Exit::kUnreached);
  EXPECT_EQ(outcome.text, "the cause");
  outcome = refused("NOT_FOUND");
  EXPECT_EQ(outcome.exit, Exit::kFailed);
  EXPECT_EQ(outcome.code, "NOT_FOUND");
  outcome = refused("DEADLINE_EXCEEDED");
  EXPECT_EQ(outcome.exit, Exit::kTimedOut);
  EXPECT_NE(outcome.text.find("may go on"), std::string::npos);
  // A purge that no drive took may be done in part, whatever its code says.
  node.refuse("Purge", "UNAVAILABLE", "no target took it");
  v1::PurgeResponse purged;
  outcome = client.ask(v1::PurgeRequest(), &purged);
  EXPECT_EQ(outcome.exit, Exit::kTimedOut);
  EXPECT_EQ(outcome.code, "UNAVAILABLE");
  EXPECT_EQ(outcome.text, "no target took it; what was begun may be done in part: look again");
  node.refuse("GetStatus", "INTERNAL", "");
  EXPECT_NE(client.ask(v1::GetStatusRequest(), &status).text, "");
}

}  // namespace
}  // namespace varve::kvctl
