// Goal: the session connects, is refused, loses its daemon, comes back, and lets no foreign frame
// through. Method: ClientSession under a fake user against a scripted daemon over the simulated
// fabric.
#include "client/session.h"

#include <gtest/gtest.h>

#include "tests/client/client_rig.h"

namespace varve {
namespace {

struct User final : SessionUser {
  void on_connecting() override { ++connecting; }
  void on_ready() override { ++ready; }
  void on_lost(Status cause) override { lost.push_back(cause); }
  void on_urgent(const wire::Frame& frame) override { urgent.push_back(frame.header.type); }
  void place_data(const wire::DataView&, uint64_t, uint32_t payload_bytes, ByteSpan bounce,
                  Placement& where) override {
    if (take) where.add(bounce.data(), payload_bytes);
  }
  void on_data(const wire::DataView&, uint64_t, uint32_t payload_bytes, const Placement&) override {
    data_bytes += payload_bytes;
  }
  void on_tick() override { ++ticks; }
  uint32_t connecting = 0, ready = 0, ticks = 0;
  std::vector<Status> lost;
  std::vector<Type> urgent;
  bool take = true;
  uint64_t data_bytes = 0;
};

class SessionTest : public testing::Test {
 protected:
  SessionTest() { options_.address = "daemon"; }
  ~SessionTest() override {
    if (session_ != nullptr) {
      session_->close();
      EXPECT_TRUE(run_until([&] { return session_->quiet(); }));
      EXPECT_EQ(session_->state(), SessionState::kClosed);
      session_.reset();
    }
    if (daemon_ == nullptr) return;
    daemon_->stop();
    EXPECT_TRUE(run_until([&] { return daemon_->lanes_open() == 0; }));
  }
  void start_daemon() {
    daemon_ = std::make_unique<ScriptedDaemon>(fabric_, daemon_reactor_, daemon_options_);
  }
  void start() {
    if (daemon_ == nullptr) start_daemon();
    session_ = std::make_unique<ClientSession>(env_, client_reactor_, options_, user_, names_);
    session_->start();
  }
  void start_named() {
    names_ = Names::kLookedUp;
    options_.address = "name";
    start();
  }
  void step() {
    bool did = client_reactor_.turn();
    did |= daemon_reactor_.turn();
    if (did) return;
    const Nanos next = std::min(client_reactor_.next_work_ns(), daemon_reactor_.next_work_ns());
    clock_.advance_to(next == kNever ? clock_.now_ns() + kMillisecond
                                     : std::max(next, clock_.now_ns()));
  }
  bool run_until(const std::function<bool()>& done, Nanos limit_ns = 100 * kSecond) {
    const Nanos end = clock_.now_ns() + limit_ns;
    while (!done() && clock_.now_ns() <= end)
      step();
    return done();
  }
  void run_for(Nanos duration) {
    const Nanos end = clock_.now_ns() + duration;
    while (clock_.now_ns() < end)
      step();
  }
  bool until_ready() {
    return run_until([&] { return session_->state() == SessionState::kReady; }, 5 * kSecond);
  }
  bool until_asked() {
    bool asked = false;
    return run_until([&] { return asked || (asked = session_->take_lookup()); });
  }
  bool until_lost(size_t times = 1) {
    return run_until([&] { return user_.lost.size() >= times; });
  }

  ManualClock clock_;
  SimFabric fabric_{1};
  SeededEntropy entropy_{1};
  Env env_{clock_, entropy_, fabric_};
  Reactor client_reactor_{clock_, nullptr, ReactorOptions{}};
  Reactor daemon_reactor_{clock_, nullptr, ReactorOptions{}};
  ScriptedDaemon::Options daemon_options_;
  std::unique_ptr<ScriptedDaemon> daemon_;
  ClientOptions options_;
  Names names_ = Names::kAsGiven;
  User user_;
  std::unique_ptr<ClientSession> session_;
};

TEST_F(SessionTest, IsReadyWhenEveryLaneIsWelcomed) {
  options_.bulk_lanes = 4;
  options_.token = "secret";
  options_.name = "decode-0";
  start();
  EXPECT_EQ(session_->state(), SessionState::kConnecting);
  ASSERT_TRUE(until_ready());
  EXPECT_EQ(user_.ready, 1u);
  EXPECT_EQ(user_.connecting, 1u);
  EXPECT_EQ(session_->lanes(), 4u);
  EXPECT_EQ(daemon_->count(Type::kHello), 5u);
  for (const auto& received : daemon_->log()) {
    const auto frame = received.frame();
    const auto& hello = std::get<wire::HelloView>(frame.body);
    EXPECT_EQ(hello.name, "decode-0");
    EXPECT_EQ(hello.token.size(), 6u);
    const bool urgent = hello.body.lane == wire::LaneKind::kUrgent;
    EXPECT_EQ(hello.body.pull_credit_bytes, urgent ? options_.pull_credit_bytes : 0u);
    EXPECT_EQ(hello.body.session, urgent ? 0u : session_->hello().session);
    EXPECT_EQ(hello.body.session_secret, urgent ? 0u : session_->hello().session_secret);
  }
  EXPECT_EQ(session_->connects(), 1u);
}

// Expect: a field that was not agreed to is reserved, and a daemon that sets it is not one of ours.
TEST_F(SessionTest, TiersThatWereNotAgreedToEndTheSession) {
  wire::Pulled pulled;
  pulled.tiers = wire::tier_bit(wire::TierKind::kFlash);
  const uint8_t codes[] = {0};
  start();
  ASSERT_TRUE(until_ready());
  daemon_->send(0, daemon_->encoder().pulled(1, pulled, codes));
  ASSERT_TRUE(run_until([&] { return !user_.urgent.empty(); }));
  EXPECT_EQ(session_->state(), SessionState::kReady);
  daemon_->options().features = wire::kFeatureCore;
  daemon_->close_lane(0);
  ASSERT_TRUE(until_lost());
  ASSERT_TRUE(until_ready());
  daemon_->send(0, daemon_->encoder().pulled(1, pulled, codes));
  ASSERT_TRUE(until_lost(2));
  EXPECT_EQ(session_->last_error().code(), Code::kInvalid);
}

TEST_F(SessionTest, TakesFewerLanesWhenTheDaemonOffersFewer) {
  options_.bulk_lanes = 4;
  daemon_options_.bulk_lanes_max = 2;
  start();
  ASSERT_TRUE(until_ready());
  EXPECT_EQ(session_->lanes(), 2u);
  EXPECT_EQ(daemon_->lanes_open(), 3u);
  // Expect: a later daemon that offers more is taken at its word again.
  daemon_->options().bulk_lanes_max = 4;
  daemon_->close_lane(0);
  ASSERT_TRUE(until_lost());
  ASSERT_TRUE(until_ready());
  EXPECT_EQ(session_->lanes(), 4u);
}

TEST_F(SessionTest, ARefusalIsToldByItsCodeAndTriedAgain) {
  daemon_options_.refuse = Code::kUnauthorized;
  start();
  ASSERT_TRUE(until_lost());
  EXPECT_EQ(user_.lost[0].code(), Code::kUnauthorized);
  EXPECT_EQ(session_->last_error().code(), Code::kUnauthorized);
  EXPECT_EQ(user_.ready, 0u);
  EXPECT_EQ(session_->disconnects(), 0u);
  EXPECT_EQ(session_->last_error_text(),
            "daemon: the daemon refused the session (unauthorized): by script");
  daemon_->options().refuse = Code::kOk;
  EXPECT_TRUE(until_ready());
  EXPECT_EQ(session_->last_error_text(), "");
}

TEST_F(SessionTest, ANameIsLookedUpBeforeItIsConnectedTo) {
  start_named();
  EXPECT_EQ(session_->state(), SessionState::kConnecting);
  EXPECT_TRUE(session_->take_lookup());
  EXPECT_FALSE(session_->take_lookup()) << "once";
  run_for(options_.connect_ns_max / 2);
  EXPECT_TRUE(user_.lost.empty()) << "it waits for the answer";
  session_->looked_up(std::vector<std::string>{"daemon"});
  ASSERT_TRUE(until_ready());
  // Expect: after a loss the name is asked for again, but not too often.
  daemon_->close_lane(0);
  ASSERT_TRUE(until_lost());
  ASSERT_TRUE(until_ready());
  EXPECT_FALSE(session_->take_lookup());
  run_for(options_.lookup_ns_min);
  daemon_->close_lane(0);
  ASSERT_TRUE(until_lost(2));
  ASSERT_TRUE(until_asked());
  EXPECT_EQ(session_->state(), SessionState::kConnecting);
  session_->looked_up(std::vector<std::string>{"daemon"});
  EXPECT_TRUE(until_ready());
}

TEST_F(SessionTest, ANameWithoutAnAddressIsWaitedForAndSaid) {
  start_named();
  ASSERT_TRUE(session_->take_lookup());
  session_->looked_up(Status::unavailable("the name cannot be resolved: it has no address"));
  ASSERT_TRUE(until_lost());
  EXPECT_EQ(user_.lost[0].code(), Code::kUnavailable);
  EXPECT_EQ(session_->last_error_text(),
            "name: the name cannot be resolved: it has no address (unavailable)");
  const Nanos from = clock_.now_ns();
  ASSERT_TRUE(until_asked());
  EXPECT_GE(clock_.now_ns() - from, options_.lookup_ns_min);
  session_->looked_up(std::vector<std::string>{"daemon"});
  EXPECT_TRUE(until_ready());
  EXPECT_EQ(session_->last_error_text(), "");
}

// Expect: the session is not held up for longer than a connect may take, nor again before there is
// an answer; one that comes late is used at once.
TEST_F(SessionTest, AResolverThatStandsStillIsWaitedForOnce) {
  start_named();
  ASSERT_TRUE(session_->take_lookup());
  const Nanos from = clock_.now_ns();
  ASSERT_TRUE(until_lost());
  EXPECT_GE(clock_.now_ns() - from, options_.connect_ns_max);
  EXPECT_EQ(session_->last_error_text(),
            "name: the name cannot be resolved: the resolver does not answer (unavailable)");
  run_for(3 * options_.lookup_ns_min);
  EXPECT_FALSE(session_->take_lookup()) << "one is under way";
  EXPECT_GT(user_.lost.size(), 10u);
  ASSERT_TRUE(run_until([&] { return session_->state() == SessionState::kWaiting; }));
  session_->looked_up(std::vector<std::string>{"daemon"});
  EXPECT_EQ(session_->state(), SessionState::kConnecting);
  EXPECT_FALSE(session_->take_lookup()) << "the answer is fresh";
  EXPECT_TRUE(until_ready());
}

TEST_F(SessionTest, WhatIsKnownIsUsedWhileTheResolverFails) {
  start_named();
  ASSERT_TRUE(session_->take_lookup());
  session_->looked_up(std::vector<std::string>{"daemon"});
  ASSERT_TRUE(until_ready());
  run_for(options_.lookup_ns_min);
  daemon_->close_lane(0);
  ASSERT_TRUE(until_lost());
  ASSERT_TRUE(until_asked());
  session_->looked_up(Status::unavailable("by script"));
  ASSERT_TRUE(until_ready());
  // Expect: the same where it says nothing at all, a connect's time later.
  run_for(options_.lookup_ns_min);
  daemon_->close_lane(0);
  ASSERT_TRUE(until_lost(2));
  ASSERT_TRUE(until_asked());
  EXPECT_TRUE(until_ready());
}

TEST_F(SessionTest, EachNumberIsTriedBeforeTheSessionIsGivenUp) {
  start_named();
  ASSERT_TRUE(session_->take_lookup());
  session_->looked_up(std::vector<std::string>{"nobody", "nowhere", "daemon"});
  ASSERT_TRUE(until_ready());
  EXPECT_TRUE(user_.lost.empty()) << "it was connecting all the time";
  EXPECT_EQ(user_.connecting, 1u);
  // Expect: after a loss the one that worked is the first.
  daemon_->close_lane(0);
  ASSERT_TRUE(until_lost());
  const Nanos from = clock_.now_ns();
  ASSERT_TRUE(until_ready());
  EXPECT_LT(clock_.now_ns() - from, options_.reconnect_ns_min + options_.connect_ns_max / 2);
  // Expect: of none that is there, the last one is named.
  daemon_->stop();
  ASSERT_TRUE(run_until([&] { return daemon_->lanes_open() == 0; }));
  daemon_.reset();
  ASSERT_TRUE(until_lost(3));
  EXPECT_EQ(session_->last_error_text().rfind("name at nowhere: ", 0), 0u)
      << session_->last_error_text();
}

TEST_F(SessionTest, MayBeClosedWhileItWaitsForAnAnswer) {
  start_named();
  ASSERT_TRUE(session_->take_lookup());
  run_for(100 * kMillisecond);
  session_->close();
  EXPECT_EQ(session_->state(), SessionState::kClosed);
  session_->looked_up(std::vector<std::string>{"daemon"});
  run_for(kSecond);
  EXPECT_EQ(session_->state(), SessionState::kClosed);
  EXPECT_EQ(daemon_->count(Type::kHello), 0u);
}

// The link knows why it could not be made; that reason is the session's (not "does not answer").
TEST_F(SessionTest, AConnectionThatFailsKeepsItsCause) {
  session_ = std::make_unique<ClientSession>(env_, client_reactor_, options_, user_);
  session_->start();
  ASSERT_TRUE(until_lost());
  EXPECT_NE(user_.lost[0].code(), Code::kOk);
  EXPECT_STRNE(user_.lost[0].what(), "the daemon does not answer");
  EXPECT_EQ(session_->last_error_text().rfind("daemon: ", 0), 0u);
}

TEST_F(SessionTest, ASchemeThatNobodyTestedIsRefusedByName) {
  daemon_options_.k = 7;
  daemon_options_.m = 2;
  start();
  ASSERT_TRUE(until_lost());
  EXPECT_EQ(user_.lost[0].code(), Code::kUnsupported);
  EXPECT_NE(session_->last_error_text().find("scheme 7+2"), std::string::npos);
}

TEST_F(SessionTest, EveryOfferedSchemeIsWelcome) {
  for (const Scheme scheme : kSchemes) {
    daemon_options_.k = scheme.k;
    daemon_options_.m = scheme.m;
    if (session_ == nullptr) {
      start();
    } else {
      daemon_->options() = daemon_options_;
      daemon_->close_lane(0);
      ASSERT_TRUE(until_lost(user_.lost.size() + 1));
    }
    ASSERT_TRUE(until_ready()) << scheme.text();
    EXPECT_EQ(session_->hello().k, scheme.k);
    EXPECT_EQ(session_->hello().m, scheme.m);
  }
}

TEST_F(SessionTest, AMissingDaemonIsTriedWithABackoffThatDoubles) {
  start_daemon();
  daemon_->stop();
  start();
  std::vector<Nanos> at;
  for (size_t i = 1; i <= 8; ++i) {
    ASSERT_TRUE(until_lost(i));
    EXPECT_EQ(user_.lost[i - 1].code(), Code::kUnavailable);
    EXPECT_EQ(session_->state(), SessionState::kWaiting);
    at.push_back(clock_.now_ns());
  }
  for (size_t i = 1; i < at.size(); ++i) {
    const Nanos backoff = std::min(options_.reconnect_ns_min << (i - 1), options_.reconnect_ns_max);
    EXPECT_GE(at[i] - at[i - 1], backoff) << i;
    EXPECT_LE(at[i] - at[i - 1], backoff + 20 * kMillisecond) << i;
  }
}

TEST_F(SessionTest, ADaemonThatSaysNothingIsGivenUpAfterConnectNsMax) {
  daemon_options_.greet = false;
  start();
  ASSERT_TRUE(until_lost());
  EXPECT_EQ(user_.lost[0].code(), Code::kTimedOut);
  EXPECT_GE(clock_.now_ns(), options_.connect_ns_max);
  EXPECT_LE(clock_.now_ns(), options_.connect_ns_max + 100 * kMillisecond);
}

TEST_F(SessionTest, OneClosedLaneTakesTheSessionAndItComesBack) {
  options_.bulk_lanes = 2;
  start();
  for (const uint32_t lane : {0u, 1u, 2u}) {
    ASSERT_TRUE(until_ready());
    daemon_->hook = nullptr;
    daemon_->close_lane(lane);
    ASSERT_TRUE(until_lost(lane + 1));
    EXPECT_TRUE(session_->quiet());
  }
  EXPECT_TRUE(until_ready());
  EXPECT_EQ(session_->connects(), 4u);
  EXPECT_EQ(session_->disconnects(), 3u);
}

TEST_F(SessionTest, ASilentDaemonIsPingedAndThenLost) {
  start();
  ASSERT_TRUE(until_ready());
  // Expect: pings keep an idle session.
  run_for(10 * options_.ping_interval_ns);
  EXPECT_GE(daemon_->count(Type::kPing), 3u);
  EXPECT_TRUE(user_.lost.empty());
  daemon_->hook = [](const auto&) { return true; };
  const Nanos from = clock_.now_ns();
  ASSERT_TRUE(until_lost());
  EXPECT_EQ(user_.lost[0].code(), Code::kTimedOut);
  EXPECT_LE(clock_.now_ns() - from, 3 * options_.ping_interval_ns);
}

TEST_F(SessionTest, APingOfTheDaemonIsAnsweredWithItsValue) {
  start();
  ASSERT_TRUE(until_ready());
  daemon_->send(0, daemon_->encoder().ping(0, wire::Ping{4711}));
  ASSERT_TRUE(run_until([&] { return daemon_->count(Type::kPong) > 0; }));
  const auto frame = daemon_->last(Type::kPong)->frame();
  EXPECT_EQ(std::get<wire::PongView>(frame.body).body.value, 4711u);
}

wire::Data some_data() {
  wire::Data data;
  data.entry.stored_bytes = data.entry.decoded_bytes = 1 << 20;
  data.attempt = Attempt{1, 0, 1};
  return data;
}

TEST_F(SessionTest, CreditComesBackForEveryByteWantedOrNot) {
  options_.pull_credit_bytes = 16 * kMiB;
  start();
  ASSERT_TRUE(until_ready());
  const std::vector<std::byte> payload(200000);
  uint64_t sent = 0;
  for (uint32_t i = 0; i < 100; ++i) {
    user_.take = i % 2 == 0;
    daemon_->send_data(1, 1, some_data(), payload);
    sent += payload.size();
    ASSERT_TRUE(run_until([&] { return user_.data_bytes + session_->discarded_bytes() == sent; }));
  }
  run_for(100 * kMillisecond);  // the trickle
  EXPECT_EQ(daemon_->credit_returned(), sent);
  EXPECT_EQ(user_.data_bytes, sent / 2);
  // Expect: not a frame of credit for each frame of data.
  EXPECT_LT(daemon_->count(Type::kCredit), 40u);
}

// Frames that no daemon may send, each on a lane of its own session.
TEST_F(SessionTest, AForeignFrameEndsTheSession) {
  std::vector<std::byte> buffer(kHeadBytesMax);
  wire::Encoder e{buffer};
  const auto ids = ids_of(0, 1);
  struct Case {
    const char* what;
    uint32_t lane;
    std::function<ConstByteSpan()> head;
    uint32_t payload;
  };
  const Case cases[] = {
      {"a client's MATCH", 0, [&] { return e.match(1, {}, ids); }, 0},
      {"a client's CREDIT", 0, [&] { return e.credit(1, {1}); }, 0},
      {"a client's HELLO", 0, [&] { return e.hello(1, {}, {}, "x"); }, 0},
      {"DATA on the urgent lane", 0, [&] { return e.data(1, some_data()); }, 100},
      {"DATA without a payload", 1, [&] { return e.data(1, some_data()); }, 0},
      {"MATCHED on a bulk lane", 1, [&] { return e.matched(1, {}, {}); }, 0},
      {"PING on a bulk lane", 1, [&] { return e.ping(1, {1}); }, 0},
      {"PULLED with a payload", 1, [&] { return e.pulled(1, {}, {}); }, 10},
      {"MATCHED with a payload", 0, [&] { return e.matched(1, {}, {}); }, 10},
      {"a client's EXTENT with its payload", 1,
       [&] {
         wire::Extent extent;
         extent.extent_bytes = 100;
         return e.extent(1, extent);
       },
       100},
      {"a second HELLO_OK", 0,
       [&] {
         auto ok = session_->hello();
         return e.hello_ok(1, ok);
       },
       0},
  };
  start();
  size_t lost = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    ASSERT_TRUE(until_ready());
    const std::vector<std::byte> payload(c.payload);
    daemon_->send(c.lane, c.head(), payload);
    ASSERT_TRUE(until_lost(++lost));
    EXPECT_EQ(user_.lost.back().code(), Code::kInvalid);
    EXPECT_EQ(user_.data_bytes, 0u);
    EXPECT_TRUE(user_.urgent.empty());
  }
}

TEST_F(SessionTest, GarbageEndsTheSession) {
  start();
  Random random(5);
  for (size_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(until_ready());
    std::vector<std::byte> head(1 + random.below(300));
    for (auto& b : head)
      b = static_cast<std::byte>(random.below(256));
    daemon_->send(static_cast<uint32_t>(i % 2), head, std::vector<std::byte>(random.below(2) * 9));
    ASSERT_TRUE(until_lost(i)) << i;
  }
}

TEST_F(SessionTest, AnythingBeforeTheWelcomeEndsTheAttempt) {
  daemon_options_.greet = false;
  start_daemon();
  daemon_->hook = [&](const auto& r) {
    if (r.lane == 0) daemon_->send(0, daemon_->encoder().format_ok(1, {}));
    return true;
  };
  start();
  ASSERT_TRUE(until_lost());
  EXPECT_EQ(user_.lost[0].code(), Code::kInvalid);
  EXPECT_TRUE(user_.urgent.empty());
}

TEST_F(SessionTest, DataOnABulkLaneBeforeItsWelcomeIsNotPlaced) {
  start_daemon();
  daemon_->hook = [&](const auto& r) {
    if (r.lane == 0) return false;
    daemon_->send_data(1, 1, some_data(), std::vector<std::byte>(100));
    return true;
  };
  start();
  ASSERT_TRUE(until_lost());
  EXPECT_EQ(user_.data_bytes, 0u);
  EXPECT_EQ(user_.lost[0].code(), Code::kInvalid);
}

TEST_F(SessionTest, ABulkLaneWelcomedIntoAnotherSessionIsRefused) {
  start_daemon();
  daemon_->hook = [&](const auto& r) {
    if (r.lane == 0) return false;
    wire::HelloOk ok;
    ok.session = 999;
    daemon_->send(1, daemon_->encoder().hello_ok(r.op, ok));
    return true;
  };
  start();
  ASSERT_TRUE(until_lost());
  EXPECT_EQ(user_.lost[0].code(), Code::kInvalid);
  EXPECT_EQ(user_.ready, 0u);
}

TEST_F(SessionTest, CloseIsFinalInEveryState) {
  start();
  session_->close();  // connecting
  ASSERT_TRUE(run_until([&] { return session_->quiet(); }));
  EXPECT_EQ(session_->state(), SessionState::kClosed);
  run_for(10 * kSecond);
  EXPECT_EQ(session_->state(), SessionState::kClosed);
  EXPECT_EQ(daemon_->lanes_open(), 0u);

  session_ = std::make_unique<ClientSession>(env_, client_reactor_, options_, user_);
  session_->start();
  ASSERT_TRUE(until_ready());
  session_->close();
  EXPECT_FALSE(session_->usable());
  ASSERT_TRUE(run_until([&] { return session_->quiet(); }));

  daemon_->stop();
  session_ = std::make_unique<ClientSession>(env_, client_reactor_, options_, user_);
  session_->start();
  ASSERT_TRUE(run_until([&] { return session_->state() == SessionState::kWaiting; }));
  session_->close();
  EXPECT_EQ(session_->state(), SessionState::kClosed);
  run_for(10 * kSecond);
  EXPECT_EQ(session_->state(), SessionState::kClosed);
}

}  // namespace
}  // namespace varve
