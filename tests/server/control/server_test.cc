// Goal: the server as a process has it: its port, its health, its end with calls in progress.
// Method: a port of the kernel's choice on loopback, a client beside it.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <varve/v1/control.grpc.pb.h>

#include <thread>

#include "common/fabric/tcp_socket.h"
#include "server/control/control.h"
#include "tests/server/control/fake_ingress.h"

namespace varve::control {
namespace {

Options any_port() {
  Options options;
  options.address = "127.0.0.1:0";
  return options;
}

std::shared_ptr<grpc::Channel> channel_to(const Server& server) {
  return grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials());
}

// grpc.health.v1 without its generated code: field 1 of the request is the name, field 1 of the
// answer the status, 1 = SERVING, 2 = NOT_SERVING. -1: an error.
int health_of(const Server& server, const std::string& name) {
  auto channel = channel_to(server);
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(channel);
  std::string request;
  if (!name.empty()) request = std::string("\x0a") + static_cast<char>(name.size()) + name;
  const grpc::Slice slice(request);
  const grpc::ByteBuffer in(&slice, 1);
  grpc::ByteBuffer out;
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", in, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&out, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return -1;
  std::vector<grpc::Slice> slices;
  if (!out.Dump(&slices).ok() || slices.empty()) return 0;
  const grpc::Slice& answer = slices.front();
  return answer.size() == 2 && answer.begin()[0] == 0x08 ? answer.begin()[1] : 0;
}

TEST(ControlServer, ServesOnThePortThatItNames) {
  FakeIngress node;
  const SystemClock clock;
  node.node.version = "varved 7";
  auto server = Server::open(any_port(), node, clock);
  ASSERT_TRUE(server);
  EXPECT_NE((*server)->address(), "127.0.0.1:0");
  auto stub = v1::Control::NewStub(channel_to(**server));
  grpc::ClientContext context;
  v1::GetStatusResponse out;
  ASSERT_TRUE(stub->GetStatus(&context, {}, &out).ok());
  EXPECT_EQ(out.version(), "varved 7");
  EXPECT_EQ(
      (*server)->metrics().number("varve_control_requests_total", "rpc=\"GetStatus\",code=\"ok\""),
      1);
  (*server)->stop(kSecond);
}

TEST(ControlServer, TakenAddressIsRefusedByName) {
  FakeIngress node;
  const SystemClock clock;
  auto server = Server::open(any_port(), node, clock);
  ASSERT_TRUE(server);
  Options same;
  same.address = (*server)->address();
  auto second = Server::open(same, node, clock);
  ASSERT_FALSE(second);
  EXPECT_NE(second.refusal().text.find("--control " + same.address), std::string::npos);
  Options nowhere;
  nowhere.address = "192.0.2.1:7441";
  EXPECT_FALSE(Server::open(nowhere, node, clock));
}

// Goal: a probe needs no token, where every call does.
TEST(ControlServer, HealthNeedsNoToken) {
  FakeIngress node;
  const SystemClock clock;
  Options guarded = any_port();
  guarded.token = "a token of operators";
  auto server = Server::open(guarded, node, clock);
  ASSERT_TRUE(server);
  EXPECT_EQ(health_of(**server, ""), 2);
  auto stub = v1::Control::NewStub(channel_to(**server));
  grpc::ClientContext context;
  v1::GetStatusResponse out;
  EXPECT_EQ(stub->GetStatus(&context, {}, &out).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST(ControlServer, HealthFollowsWhatItIsTold) {
  FakeIngress node;
  const SystemClock clock;
  auto server = Server::open(any_port(), node, clock);
  ASSERT_TRUE(server);
  EXPECT_EQ(health_of(**server, ""), 2);
  (*server)->readiness_set(Readiness::kReady);
  EXPECT_EQ(health_of(**server, ""), 1);
  EXPECT_EQ(health_of(**server, "varve.v1.Control"), 1);
  EXPECT_EQ(health_of(**server, "unknown"), -1);
  (*server)->readiness_set(Readiness::kNotReady);
  EXPECT_EQ(health_of(**server, "varve.v1.Control"), 2);
}

// A peer that says nothing, as a port scan or a stuck proxy does.
Socket silent_peer(const std::string& address) {
  const Result<SocketAddress> to = resolve(address);
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.fd(), to->get(), to->bytes), 0);
  return socket;
}

// Until the other side ends it; what it says before is of no interest.
void wait_for_the_end(const Socket& socket) {
  char bytes[256];
  while (::recv(socket.fd(), bytes, sizeof(bytes), 0) > 0) {
  }
}

TEST(ControlServer, APeerThatSaysNothingIsCutOff) {
  FakeIngress node;
  const SystemClock clock;
  Options options = any_port();
  options.hello_ms_max = 200;
  auto server = Server::open(options, node, clock);
  ASSERT_TRUE(server);
  const Socket silent = silent_peer((*server)->address());
  wait_for_the_end(silent);
  while ((*server)->metrics().number("varve_control_connections") != 0)
    std::this_thread::yield();
}

// Expect: as many as may be are kept, whoever is one too many is told at once, and a place that is
// free again is given to the next.
TEST(ControlServer, ConnectionsAreBounded) {
  FakeIngress node;
  const SystemClock clock;
  Options options = any_port();
  options.connections_max = 3;
  options.hello_ms_max = 600000;
  auto server = Server::open(options, node, clock);
  ASSERT_TRUE(server);
  const auto number = [&](const char* name) { return (*server)->metrics().number(name); };
  const auto ask = [&] {
    // A channel of its own: equal ones share a connection.
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    auto stub = v1::Control::NewStub(
        grpc::CreateCustomChannel((*server)->address(), grpc::InsecureChannelCredentials(), own));
    grpc::ClientContext context;
    v1::GetStatusResponse out;
    return stub->GetStatus(&context, {}, &out).error_code();
  };
  std::vector<Socket> silent;
  for (uint32_t i = 0; i < 3; ++i)
    silent.push_back(silent_peer((*server)->address()));
  while (number("varve_control_connections") != 3)
    std::this_thread::yield();
  wait_for_the_end(silent_peer((*server)->address()));
  EXPECT_EQ(number("varve_control_connections_refused_total"), 1);
  EXPECT_EQ(ask(), grpc::UNAVAILABLE);
  silent.pop_back();
  while (number("varve_control_connections") != 2)
    std::this_thread::yield();
  EXPECT_EQ(ask(), grpc::OK);
}

TEST(ControlServer, StopEndsWhatIsInProgress) {
  FakeIngress node;
  const SystemClock clock;
  auto server = Server::open(any_port(), node, clock);
  ASSERT_TRUE(server);
  node.hold();
  auto stub = v1::Control::NewStub(channel_to(**server));
  grpc::Status ended;
  std::thread waits([&] {
    grpc::ClientContext context;
    v1::FindBlockRequest in;
    in.set_base_id(std::string(32, 'x'));
    v1::FindBlockResponse out;
    ended = stub->FindBlock(&context, in, &out);
  });
  node.wait_for_waiting(1);
  (*server)->stop(2 * kSecond);  // the half of it is for calls to end by themselves
  waits.join();
  EXPECT_EQ(ended.error_code(), grpc::UNAVAILABLE);
  (*server)->stop(0);  // again: nothing
}

}  // namespace
}  // namespace varve::control
