// Goal: as many connections are handed on as may be open, and one that was closed, by whoever it
// was given to, makes room. Method: a taker that only keeps descriptors, and clients on loopback.
#include "server/control/acceptor.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <condition_variable>

namespace varve::control {
namespace {

class Taker final : public Acceptor::Taker {
 public:
  explicit Taker(std::vector<Socket>& taken, std::mutex& mutex, std::condition_variable& changed)
      : taken_(taken), mutex_(mutex), changed_(changed) {}
  void HandleNewConnection(NewConnectionParameters* connection) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_.emplace_back(connection->fd);
    changed_.notify_all();
  }

 private:
  std::vector<Socket>& taken_;
  std::mutex& mutex_;
  std::condition_variable& changed_;
};

class ControlAcceptor : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(acceptor_.listen("127.0.0.1:0").ok());
    acceptor_.start(std::make_unique<Taker>(taken_, mutex_, changed_));
  }
  Socket connect() {
    const Result<SocketAddress> to = resolve(acceptor_.address());
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.fd(), to->get(), to->bytes), 0);
    return socket;
  }
  void wait_for_taken(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return taken_.size() == count; });
  }

  SystemClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Socket> taken_;
  Acceptor acceptor_{2, clock_};
};

TEST_F(ControlAcceptor, WhoIsOneTooManyIsClosedAtOnce) {
  const Socket one = connect(), two = connect();
  wait_for_taken(2);
  EXPECT_EQ(acceptor_.numbers().open, 2u);
  const Socket three = connect();
  char byte = 0;
  EXPECT_EQ(::recv(three.fd(), &byte, 1, 0), 0);
  EXPECT_EQ(acceptor_.numbers().refused, 1u);
  EXPECT_EQ(::recv(one.fd(), &byte, 1, MSG_DONTWAIT), -1) << "it is open";
}

// Goal: who reads nothing is cut off, whatever gRPC waits for. Method: the kernel does it.
TEST_F(ControlAcceptor, WhoTakesNothingIsCutOffByTheKernel) {
  const Socket one = connect();
  wait_for_taken(1);
  int stall_ms = 0;
  socklen_t bytes = sizeof(stall_ms);
  ASSERT_EQ(::getsockopt(taken_[0].fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, &stall_ms, &bytes), 0);
  EXPECT_EQ(stall_ms, Acceptor::kStallMs);
}

// A number of a descriptor that is another connection's now is not the one that was there.
TEST_F(ControlAcceptor, WhatWasClosedMakesRoomThoughItsNumberIsUsedAgain) {
  Socket one = connect();
  wait_for_taken(1);
  const int number = taken_.front().fd();
  taken_.front().reset();
  const Socket other(::dup2(one.fd(), number));
  ASSERT_EQ(other.fd(), number);
  EXPECT_EQ(acceptor_.numbers().open, 0u);
}

TEST_F(ControlAcceptor, ATakenAddressIsSaid) {
  Acceptor second(2, clock_);
  const Status status = second.listen(acceptor_.address());
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.what();
  EXPECT_FALSE(Acceptor(2, clock_).listen("127.0.0.1").ok());
}

TEST_F(ControlAcceptor, NobodyIsTakenAfterTheStop) {
  acceptor_.stop();
  acceptor_.stop();
  const Result<SocketAddress> to = resolve(acceptor_.address());
  const Socket late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_NE(::connect(late.fd(), to->get(), to->bytes), 0);
  EXPECT_TRUE(taken_.empty());
}

}  // namespace
}  // namespace varve::control
