// Goal: the client with its own thread keeps its promises to callers on any thread: one descriptor
// for all events, blocking only where it says so, nothing left behind. Method: a scripted daemon in
// a second thread, over TCP on a free loopback port.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "client/varve.h"
#include "tests/client/client_rig.h"
#include "tests/client/daemon_thread.h"
#include "tests/client/resolver_script.h"

namespace varve {
namespace {

class ClientTest : public testing::Test {
 protected:
  static constexpr uint32_t kLayerBytes = 70000;
  static constexpr uint32_t kLayerCount = 3;
  static constexpr uint32_t kSlots = 16;

  ClientTest() : format_(format_of(std::vector<uint32_t>(kLayerCount, kLayerBytes))) {
    table_ = *ExtentTable::of(format_.ranks[0], Scheme{});
    memory_.resize(size_t{kLayerBytes} * kLayerCount * kSlots);
  }
  void open(const std::string& address, std::unique_ptr<Resolver> resolver = nullptr) {
    options_.address = address;
    options_.reconnect_ns_min = 5 * kMillisecond;
    options_.reconnect_ns_max = 20 * kMillisecond;
    options_.lookup_ns_min = 20 * kMillisecond;
    auto client = Client::open(options_, nullptr, std::move(resolver));
    ASSERT_TRUE(client.has_value()) << client.error().what();
    client_ = std::move(*client);
    region_ = *client_->register_memory(memory_.data(), memory_.size());
    format_id_ = *client_->format(format_);
    layout_.layers.clear();
    for (uint32_t l = 0; l < kLayerCount; ++l) {
      LayerLayout layer;
      layer.region = region_;
      layer.offset = uint64_t{l} * kLayerBytes;
      layer.stride = uint64_t{kLayerCount} * kLayerBytes;
      layout_.layers.push_back(layer);
    }
  }
  void open_ready(const DaemonThread& daemon) {
    open(daemon.address());
    ASSERT_TRUE(client_->wait_ready(kLong).ok());
  }
  PullRequest pull_of(uint32_t first, uint32_t count) {
    PullRequest request;
    request.format = format_id_;
    request.ids = ids_of(first, count);
    for (uint32_t i = 0; i < count; ++i)
      request.slots.push_back(i);
    request.layout = &layout_;
    return request;
  }
  PushRequest push_of(uint32_t first, uint32_t count) {
    PushRequest request;
    request.format = format_id_;
    request.ids = ids_of(first, count);
    for (uint32_t i = 0; i < count; ++i)
      request.slots.push_back(i);
    request.layout = &layout_;
    return request;
  }
  MatchRequest match_of(uint32_t first, uint32_t count) {
    MatchRequest request;
    request.format = format_id_;
    request.ids = ids_of(first, count);
    request.deadline_ns = kLong;
    return request;
  }
  void put(DaemonThread& daemon, uint32_t count) {
    daemon.call([&](ScriptedDaemon& d) {
      for (const BaseId& id : ids_of(0, count))
        d.put(BlockId{id, 0}, table_);
    });
  }
  bool slot_holds(uint32_t slot, uint32_t n) const {
    for (uint32_t l = 0; l < kLayerCount; ++l) {
      const auto expected = ScriptedDaemon::content(BlockId{id_of(n), 0}, l, kLayerBytes);
      const std::byte* at = memory_.data() + size_t{slot * kLayerCount + l} * kLayerBytes;
      if (std::memcmp(at, expected.data(), kLayerBytes) != 0) return false;
    }
    return true;
  }
  bool readable() const {
    pollfd p{client_->event_fd(), POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
  }
  bool wait_readable() const {
    pollfd p{client_->event_fd(), POLLIN, 0};
    return ::poll(&p, 1, static_cast<int>(kLong / kMillisecond)) == 1;
  }

  Format format_;
  ExtentTable table_;
  Layout layout_;
  std::vector<std::byte> memory_;
  ClientOptions options_;
  std::unique_ptr<Client> client_;  // before the memory and the layout go
  RegionId region_ = 0;
  FormatId format_id_ = 0;
};

TEST_F(ClientTest, WhatIsPushedIsMatchedAndPulled) {
  DaemonThread daemon;
  options_.bulk_lanes = 2;
  open_ready(daemon);
  Random random(3);
  for (auto& b : memory_)
    b = static_cast<std::byte>(random.next());
  const auto pushed = memory_;
  const OpId push = *client_->push(push_of(0, 8));
  for (uint32_t l = 0; l < kLayerCount; ++l)
    EXPECT_TRUE(client_->push_layer(push, l).ok());
  auto event = client_->wait(push, kLong);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->op, push);
  EXPECT_EQ(event->codes, std::vector<Code>(8, Code::kOk));
  event = client_->wait(*client_->match(match_of(0, 9)), kLong);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->n_blocks, 8u);
  std::fill(memory_.begin(), memory_.end(), std::byte{0});
  event = client_->wait(*client_->pull(pull_of(0, 8)), kLong);
  ASSERT_TRUE(event.has_value());
  EXPECT_TRUE(event->status.ok());
  const size_t bytes = size_t{8} * kLayerCount * kLayerBytes;
  EXPECT_EQ(std::memcmp(memory_.data(), pushed.data(), bytes), 0);
  const ClientCounters counters = client_->counters();
  EXPECT_EQ(counters.pushed_blocks, 8u);
  EXPECT_EQ(counters.pulled_blocks, 8u);
  EXPECT_EQ(counters.connects, 1u);
}

// The calls of the thread's client reach the core's: each once, with its own terminal event.
TEST_F(ClientTest, WhatIsPushedIsFollowedRenewedAndListed) {
  DaemonThread daemon;
  open_ready(daemon);
  const OpId push = *client_->push(push_of(0, 2));
  Event event;
  do {
    ASSERT_TRUE(wait_readable());
  } while (!client_->poll(event));
  ASSERT_EQ(event.granted.size(), 2u);
  FollowRequest follow;
  follow.format = format_id_;
  follow.blocks = event.granted;
  follow.slots = {2, 3};
  follow.layout = &layout_;
  const OpId op = *client_->follow(follow);
  EXPECT_TRUE(client_->push_layer(push, ClientCore::kEveryLayer).ok());
  auto ended = client_->wait(op, kLong);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->kind, Event::Kind::kFollowed);
  EXPECT_EQ(ended->codes, std::vector<Code>(2, Code::kOk));
  ASSERT_TRUE(client_->wait(push, kLong).has_value());
  MatchRequest match = match_of(0, 2);
  match.lease_ms = 20000;
  ended = client_->wait(*client_->match(match), kLong);
  ASSERT_TRUE(ended.has_value() && ended->lease != 0);
  const uint64_t lease = ended->lease;
  ended = client_->wait(*client_->renew({lease, 40000, kLong, 0}), kLong);
  ASSERT_TRUE(ended.has_value());
  EXPECT_TRUE(ended->status.ok());
  EXPECT_GT(client_->lease_left_ns(lease), 20 * kSecond);
  daemon.call([](ScriptedDaemon& d) { d.holds.resize(1, wire::Hold{.hold = 1}); });
  ended = client_->wait(*client_->holds({kLong, 0}), kLong);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->holds.size(), 1u);
  EXPECT_EQ(client_->counters().followed_blocks, 2u);
}

TEST_F(ClientTest, TheDescriptorIsReadableExactlyWhilePollAnswers) {
  DaemonThread daemon;
  put(daemon, 4);
  open_ready(daemon);
  EXPECT_FALSE(readable());
  Event event;
  EXPECT_FALSE(client_->poll(event));
  const OpId op = *client_->pull(pull_of(0, 4));
  uint32_t layers = 0;
  for (bool ended = false; !ended;) {
    ASSERT_TRUE(wait_readable());
    ASSERT_TRUE(client_->poll(event));  // readable: there is one
    EXPECT_EQ(event.op, op);
    if (event.kind == Event::Kind::kLayer) {
      EXPECT_EQ(event.layer, layers++);
    }
    ended = event.kind == Event::Kind::kPulled;
  }
  EXPECT_EQ(layers, kLayerCount);
  EXPECT_FALSE(readable());
  EXPECT_FALSE(client_->poll(event));
  // Expect: the same when wait() takes what was there.
  ASSERT_TRUE(client_->wait(*client_->pull(pull_of(0, 4)), kLong).has_value());
  EXPECT_FALSE(readable());
  EXPECT_FALSE(client_->poll(event));
}

TEST_F(ClientTest, WaitTakesItsOpAndLeavesTheOthers) {
  DaemonThread daemon;
  put(daemon, 4);
  open_ready(daemon);
  const OpId first = *client_->pull(pull_of(0, 2));
  const OpId second = *client_->match(match_of(0, 4));
  ASSERT_TRUE(client_->wait(first, kLong).has_value());
  auto event = client_->wait(second, kLong);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->n_blocks, 4u);
  const OpId third = *client_->match(match_of(0, 4));
  const OpId fourth = *client_->match(match_of(1, 3));
  ASSERT_TRUE(client_->wait(fourth, kLong).has_value());
  Event left;
  ASSERT_TRUE(client_->poll(left));
  EXPECT_EQ(left.op, third);
}

TEST_F(ClientTest, WaitSaysWhenThereIsNothingToWaitFor) {
  DaemonThread daemon;
  open_ready(daemon);
  EXPECT_EQ(client_->wait(4711, kLong).error().code(), Code::kInvalid);
  const OpId op = *client_->match(match_of(0, 1));
  ASSERT_TRUE(client_->wait(op, kLong).has_value());
  EXPECT_EQ(client_->wait(op, kNever).error().code(), Code::kInvalid);
}

TEST_F(ClientTest, WaitAndQuiesceTimeOut) {
  DaemonThread daemon;
  daemon.call([](ScriptedDaemon& d) {
    d.hook = [](const auto& r) { return r.type == Type::kMatch || r.type == Type::kPull; };
  });
  open_ready(daemon);
  const OpId match = *client_->match(match_of(0, 1));
  EXPECT_EQ(client_->wait(match, kMillisecond).error().code(), Code::kTimedOut);
  EXPECT_TRUE(client_->quiesce(match, kLong).ok());
  const OpId pull = *client_->pull(pull_of(0, 2));
  for (bool asked = false; !asked;) {
    daemon.call([&](ScriptedDaemon& d) { asked = d.count(Type::kPull) == 1; });
  }
  EXPECT_TRUE(client_->quiesce(pull, kLong).ok());  // by CANCEL and FENCED
  auto event = client_->wait(pull, 0);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->status.code(), Code::kCancelled);
  EXPECT_TRUE(client_->quiesce(4711, kLong).ok());
  daemon.call([](ScriptedDaemon& d) { EXPECT_EQ(d.count(Type::kCancel), 1u); });
}

TEST_F(ClientTest, AfterQuiesceNothingTouchesTheMemory) {
  DaemonThread daemon;
  put(daemon, kSlots);
  options_.bulk_lanes = 3;
  open_ready(daemon);
  for (uint32_t round = 0; round < 30; ++round) {
    const OpId op = *client_->pull(pull_of(0, kSlots));
    // Rounds end at different places: in the queue, in the middle, done.
    for (uint32_t i = 0; i < round % 3; ++i) {
      ASSERT_TRUE(wait_readable());
      Event event;
      ASSERT_TRUE(client_->poll(event));
    }
    ASSERT_TRUE(client_->quiesce(op, kLong).ok());
    std::fill(memory_.begin(), memory_.end(), std::byte{0x5A});
    // A match behind it: whatever was under way for the pull has come by then, on the urgent lane
    // at least.
    ASSERT_TRUE(client_->wait(*client_->match(match_of(0, 1)), kLong).has_value());
    for (const std::byte b : memory_)
      ASSERT_EQ(b, std::byte{0x5A});
    Event event;
    while (client_->poll(event)) {
    }
  }
}

TEST_F(ClientTest, ARequestThatIsWrongEndsInItsEvent) {
  DaemonThread daemon;
  open_ready(daemon);
  PullRequest pull = pull_of(0, 2);
  pull.slots[0] = kSlots;
  pull.tag = 8;
  auto event = client_->wait(*client_->pull(pull), kLong);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, Event::Kind::kPulled);
  EXPECT_EQ(event->status.code(), Code::kInvalid);
  EXPECT_EQ(event->tag, 8u);
  PushRequest push = push_of(0, 1);
  push.rank = 9;
  event = client_->wait(*client_->push(push), kLong);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, Event::Kind::kPushed);
  EXPECT_EQ(event->status.code(), Code::kInvalid);
  const OpId op = *client_->push(push_of(0, 1));
  EXPECT_EQ(client_->push_layer(op, 99).code(), Code::kInvalid);
  EXPECT_EQ(client_->push_layer(op + 1, 0).code(), Code::kInvalid);
  EXPECT_TRUE(client_->push_layer(op, ClientCore::kEveryLayer).ok()) << "it went on";
  event = client_->wait(op, kLong);
  ASSERT_TRUE(event.has_value());
  EXPECT_TRUE(event->status.ok()) << event->status.what();
  EXPECT_TRUE(client_->push_layer(op, 0).ok()) << "it has ended, and said how";
}

// Goal: an op that is no push is refused, and goes on. Method: nobody answers it.
TEST_F(ClientTest, OnlyAPushHasLayersToPush) {
  DaemonThread daemon;
  daemon.call(
      [](ScriptedDaemon& d) { d.hook = [](const auto& r) { return r.type == Type::kMatch; }; });
  open_ready(daemon);
  const OpId op = *client_->match(match_of(0, 1));
  EXPECT_EQ(client_->push_layer(op, 0).code(), Code::kInvalid);
  EXPECT_FALSE(client_->wait(op, 10 * kMillisecond).has_value());
  client_->cancel(op);
  EXPECT_TRUE(client_->wait(op, kLong).has_value());
}

// Goal: who embeds the client is told what it cannot have, and lives on.
TEST_F(ClientTest, WhatMemoryThereIsNotForIsSaid) {
  ClientOptions options = options_;
  for (const uint64_t bytes : {uint64_t{4} * kGiB + 1, uint64_t{1} << 38, ~uint64_t{0}}) {
    options.parity_scratch_bytes = bytes;
    EXPECT_EQ(Client::open(options).error().code(), Code::kInvalid) << bytes;
  }
}

TEST_F(ClientTest, OptionsThatCannotWorkAreRefusedAtOpen) {
  ClientOptions options;
  options.bulk_lanes = 9;
  EXPECT_EQ(Client::open(options).error().code(), Code::kInvalid);
  options = ClientOptions();
  for (const char* address :
       {"no-port", "varve.test:70000", "varve test:7440", "10.1.2.300:7440"}) {
    options.address = address;
    EXPECT_EQ(Client::open(options).error().code(), Code::kInvalid) << address;
  }
}

TEST_F(ClientTest, TheDestructorEndsWhatIsInFlight) {
  DaemonThread daemon;
  daemon.call([](ScriptedDaemon& d) {
    d.hook = [](const auto& r) { return r.type != Type::kHello && r.type != Type::kFormat; };
  });
  open_ready(daemon);
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(client_->match(match_of(0, 1)).has_value());
    ASSERT_TRUE(client_->pull(pull_of(0, 2)).has_value());
    ASSERT_TRUE(client_->push(push_of(0, 2)).has_value());
  }
  SystemClock clock;
  const Nanos from = clock.now_ns();
  client_.reset();
  EXPECT_LT(clock.now_ns() - from, options_.fence_ns_max + kSecond);
}

TEST_F(ClientTest, ADaemonThatIsDownIsAnErrorOfTheOpAndComesBackLater) {
  std::string address;
  { address = DaemonThread().address(); }
  open(address);
  auto event = client_->wait(*client_->match(match_of(0, 1)), kLong);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->status.code(), Code::kUnavailable) << event->status.what();
  EXPECT_EQ(event->n_blocks, 0u);
  event = client_->wait(*client_->pull(pull_of(0, 1)), kLong);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->status.code(), Code::kUnavailable) << event->status.what();
  const Status refused = client_->wait_ready(kMillisecond);
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_EQ(refused.errno_value(), ECONNREFUSED);
  EXPECT_NE(client_->last_error_text().find("errno 111"), std::string::npos);
  DaemonThread daemon(address);
  EXPECT_TRUE(client_->wait_ready(kLong).ok());
  EXPECT_EQ(client_->state(), SessionState::kReady);
}

TEST_F(ClientTest, ARestartedDaemonIsFoundAgain) {
  auto daemon = std::make_unique<DaemonThread>();
  put(*daemon, 2);
  open_ready(*daemon);
  const std::string address = daemon->address();
  ASSERT_TRUE(client_->wait(*client_->pull(pull_of(0, 2)), kLong).has_value());
  daemon.reset();
  daemon = std::make_unique<DaemonThread>(address);
  put(*daemon, 2);
  Event event;
  do {
    auto pulled = client_->wait(*client_->pull(pull_of(0, 2)), kLong);
    ASSERT_TRUE(pulled.has_value());
    event = *pulled;
    EXPECT_TRUE(event.status.ok() || event.status.code() == Code::kUnavailable);
  } while (!event.status.ok());
  EXPECT_TRUE(slot_holds(0, 0) && slot_holds(1, 1));
  EXPECT_EQ(client_->counters().disconnects, 1u);
}

TEST_F(ClientTest, ANumberIsUsedAsItIs) {
  DaemonThread daemon;
  ResolverScript script;
  open(daemon.address(), script.resolver());
  EXPECT_TRUE(client_->wait_ready(kLong).ok());
  client_.reset();
  EXPECT_EQ(script.asked(), 0u);
}

// Goal: a daemon whose name has another address after its restart is found there. Method: two
// daemons, one after the other.
TEST_F(ClientTest, ADaemonThatMovesIsFoundByItsName) {
  auto first = std::make_unique<DaemonThread>();
  ResolverScript script;
  script.say(ResolverScript::Numbers{first->address()});
  open("varve.test:7440", script.resolver());
  ASSERT_TRUE(client_->wait_ready(kLong).ok());
  EXPECT_EQ(script.last_address(), "varve.test:7440");
  DaemonThread second;
  put(second, 2);
  script.say(ResolverScript::Numbers{second.address()});
  first.reset();
  Event event;
  do {
    auto pulled = client_->wait(*client_->pull(pull_of(0, 2)), kLong);
    ASSERT_TRUE(pulled.has_value());
    event = *pulled;
    EXPECT_TRUE(event.status.ok() || event.status.code() == Code::kUnavailable);
  } while (!event.status.ok());
  EXPECT_TRUE(slot_holds(0, 0) && slot_holds(1, 1));
  EXPECT_GE(script.asked(), 2u);
  client_.reset();
}

TEST_F(ClientTest, ANameThatHasNoAddressYetIsWaitedFor) {
  DaemonThread daemon;
  ResolverScript script;
  open("varve.test:7440", script.resolver());
  auto event = client_->wait(*client_->match(match_of(0, 1)), kLong);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->status.code(), Code::kUnavailable) << event->status.what();
  EXPECT_STREQ(event->status.what(), "the name cannot be resolved: by script");
  EXPECT_EQ(event->n_blocks, 0u);
  const Status why = client_->wait_ready(kMillisecond);
  EXPECT_EQ(why.code(), Code::kUnavailable);
  EXPECT_NE(client_->last_error_text().find("varve.test:7440: the name cannot be resolved"),
            std::string::npos)
      << client_->last_error_text();
  script.say(ResolverScript::Numbers{daemon.address()});
  EXPECT_TRUE(client_->wait_ready(kLong).ok());
  client_.reset();
}

TEST_F(ClientTest, EachAddressOfANameIsTried) {
  DaemonThread daemon;
  std::string nobody;
  { nobody = DaemonThread().address(); }
  ResolverScript script;
  script.say(ResolverScript::Numbers{nobody, daemon.address()});
  open("varve.test:7440", script.resolver());
  EXPECT_TRUE(client_->wait_ready(kLong).ok());
  client_.reset();
}

// Expect: ops end with the reason, the end of the client waits for nobody, and what it leaves
// behind goes when the resolver answers at last.
TEST_F(ClientTest, AResolverThatStandsStillHoldsNobodyUp) {
  ResolverScript script;
  script.hold();
  options_.connect_ns_max = 20 * kMillisecond;
  open("varve.test:7440", script.resolver());
  script.wait_asked(1);
  auto event = client_->wait(*client_->match(match_of(0, 1)), kLong);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->status.code(), Code::kUnavailable);
  EXPECT_STREQ(event->status.what(), "the name cannot be resolved: the resolver does not answer");
  ASSERT_TRUE(client_->match(match_of(0, 1)).has_value());
  client_.reset();
  EXPECT_EQ(script.asked(), 1u);
  script.let_go();
  script.wait_freed();
}

TEST_F(ClientTest, ManyThreadsShareOneClient) {
  DaemonThread daemon;
  put(daemon, kSlots);
  options_.bulk_lanes = 2;
  open_ready(daemon);
  std::atomic<uint32_t> good{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 20; ++i) {
        PullRequest request = pull_of(t, 1);
        request.slots = {t};
        auto op = client_->pull(request);
        if (!op.has_value()) continue;
        auto event = client_->wait(*op, kLong);
        if (event.has_value() && event->op == *op && event->status.ok()) ++good;
      }
    });
  }
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(good.load(), 80u);
  for (uint32_t t = 0; t < 4; ++t)
    EXPECT_TRUE(slot_holds(t, t));
}

// After fork the child has no client thread; letting go of the client there must neither hang nor
// touch the parent's.
TEST_F(ClientTest, AForkedChildMayDropItsCopy) {
  DaemonThread daemon;
  put(daemon, 1);
  open_ready(daemon);
  ResolverScript script;  // and the same of a client that is just looking its name up
  script.hold();
  ClientOptions options = options_;
  options.address = "varve.test:7440";
  auto named = *Client::open(options, nullptr, script.resolver());
  script.wait_asked(1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    client_.reset();
    named.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  auto event = client_->wait(*client_->pull(pull_of(0, 1)), kLong);
  ASSERT_TRUE(event.has_value());
  EXPECT_TRUE(event->status.ok());
}

TEST_F(ClientTest, AWatchSeesEveryEventAndSaysWhichAreQueued) {
  struct Watch final : EventWatch {
    Queue on_event(const Event& event) override {
      ++(event.kind == Event::Kind::kLayer ? layers : ended);
      return event.kind == Event::Kind::kMatched ? Queue::kNo : Queue::kYes;
    }
    std::atomic<uint32_t> layers{0}, ended{0};
  };
  DaemonThread daemon;
  put(daemon, 2);
  Watch watch;  // outlives the client
  options_.address = daemon.address();
  client_ = std::move(*Client::open(options_, &watch));
  ASSERT_TRUE(client_->wait_ready(kLong).ok());
  region_ = *client_->register_memory(memory_.data(), memory_.size());
  format_id_ = *client_->format(format_);
  for (uint32_t l = 0; l < kLayerCount; ++l) {
    layout_.layers.push_back({region_, uint64_t{l} * kLayerBytes, uint64_t{3} * kLayerBytes, 1, 0});
  }
  const OpId match = *client_->match(match_of(0, 2));
  EXPECT_EQ(client_->wait(match, kLong).error().code(), Code::kInvalid);  // it ended unqueued
  const OpId pull = *client_->pull(pull_of(0, 2));
  ASSERT_TRUE(client_->wait(pull, kLong).has_value());
  EXPECT_EQ(watch.layers.load(), kLayerCount);
  EXPECT_EQ(watch.ended.load(), 2u);
  client_.reset();
}

}  // namespace
}  // namespace varve
