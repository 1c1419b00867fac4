// Goal: a listener may be stopped and destroyed at any moment and leaves nothing behind; many
// connections at once are all handed out. Method: loopback, both backends.
#include "common/fabric/tcp_listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <list>

#include "tests/common/fabric/link_harness.h"

namespace varve {
namespace {

class ManyUsers final : public ListenerUser {
 public:
  std::list<RecordingUser> users;
  Listener* stop_after_first = nullptr;
  void on_accepted(std::unique_ptr<Link> link) override {
    users.emplace_back();
    users.back().take(std::move(link));
    if (stop_after_first != nullptr) stop_after_first->stop();
  }
};

class TcpListenerTest : public testing::TestWithParam<FabricKind> {
 protected:
  void SetUp() override {
    world_ = std::make_unique<LinkWorld>(GetParam());
    if (!world_->has_backend()) GTEST_SKIP() << "io_uring is refused on this machine";
    auto listener = world().fabric().listen(world().server(), world().any_address(), {});
    ASSERT_TRUE(listener.has_value());
    listener_ = std::move(*listener);
  }
  void connect(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      auto link = world().fabric().connect(world().client(), listener_->address(), {});
      ASSERT_TRUE(link.has_value());
      clients_.emplace_back();
      clients_.back().take(std::move(*link));
    }
  }
  void close_all() {
    for (auto* users : {&clients_, &server_.users}) {
      for (RecordingUser& user : *users) {
        if (user.link() != nullptr) user.link()->close(Status::cancelled("end of test"));
      }
    }
    ASSERT_TRUE(world().until([&] {
      for (auto* users : {&clients_, &server_.users}) {
        for (RecordingUser& user : *users) {
          if (user.link() != nullptr) return false;
        }
      }
      return true;
    }));
  }
  LinkWorld& world() { return *world_; }

  std::unique_ptr<LinkWorld> world_;
  ManyUsers server_;
  std::list<RecordingUser> clients_;
  std::unique_ptr<Listener> listener_;
};

INSTANTIATE_TEST_SUITE_P(Backends, TcpListenerTest,
                         testing::Values(FabricKind::kTcpUring, FabricKind::kTcpEpoll),
                         [](const auto& kind) { return fabric_kind_name(kind.param); });

TEST_P(TcpListenerTest, ManyConnectionsAreAllHandedOut) {
  listener_->start(server_);
  connect(100);
  ASSERT_TRUE(world().until([&] { return server_.users.size() == 100; }));
  close_all();
}

TEST_P(TcpListenerTest, ConnectionsMadeBeforeStartAreAcceptedAtStart) {
  connect(3);
  world().settle();
  EXPECT_TRUE(server_.users.empty());
  listener_->start(server_);
  ASSERT_TRUE(world().until([&] { return server_.users.size() == 3; }));
  close_all();
}

TEST_P(TcpListenerTest, StopInsideAnAcceptedUpcallIsTheLast) {
  server_.stop_after_first = listener_.get();
  listener_->start(server_);
  connect(10);
  ASSERT_TRUE(world().until([&] { return server_.users.size() == 1; }));
  world().settle();
  EXPECT_EQ(server_.users.size(), 1u);
  close_all();
}

uint64_t open_descriptors() {
  uint64_t count = 0;
  for (int fd = 0; fd < 1024; ++fd)
    count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

TEST_P(TcpListenerTest, DestroyedWithAnAcceptInFlightItGivesEverythingBack) {
  const uint64_t descriptors = open_descriptors();
  listener_->start(server_);
  world().turn();
  listener_.reset();
  ASSERT_TRUE(world().until([&] { return world().server().idle(); }));
  EXPECT_EQ(open_descriptors(), descriptors - 1);
}

TEST_P(TcpListenerTest, ItsPortIsFreeAgainAtOnce) {
  listener_->start(server_);
  connect(1);
  ASSERT_TRUE(world().until([&] { return server_.users.size() == 1; }));
  const std::string address = listener_->address();
  listener_.reset();
  ASSERT_TRUE(world().until(
      [&] { return world().fabric().listen(world().server(), address, {}).has_value(); }));
  close_all();
}

TEST_P(TcpListenerTest, NeverStartedItHoldsNoIo) {
  listener_.reset();
  EXPECT_TRUE(world().server().idle());
}

}  // namespace
}  // namespace varve
