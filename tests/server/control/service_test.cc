// Goal: who is not allowed learns nothing, and no call is without bound: in number, size, time.
// Method: an in-process channel, and callers made by hand where a channel could not be so.
#include "server/control/service.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/server/control/control_rig.h"

namespace varve::control {
namespace {

using Stub = v1::Control::Stub;

Options with_token(const std::string& token) {
  Options options;
  options.token = token;
  return options;
}

TEST(ControlService, KnowsLoopbackPeers) {
  for (const char* peer : {"ipv4:127.0.0.1:80", "ipv4:127.9.9.9:80", "ipv6:%5B::1%5D:80",
                           "ipv6:[::1]:80", "ipv6:%5B::ffff:127.0.0.1%5D:80"}) {
    EXPECT_TRUE(is_loopback_peer(peer)) << peer;
  }
  for (const char* peer :
       {"", "ipv4:10.0.0.1:80", "ipv4:128.0.0.1:80", "ipv6:%5Bfe80::1%5D:80",
        "ipv6:%5B127::1%5D:80", "ipv6:%5B::ffff:10.0.0.1%5D:80", "dns:127.0.0.1:1", "ipv4:"}) {
    EXPECT_FALSE(is_loopback_peer(peer)) << peer;
  }
}

TEST(ControlService, WithoutATokenOnlyThisMachineIsServed) {
  ControlRig rig(with_token(""));
  v1::GetStatusResponse out;
  const auto ask = [&](const std::string& peer) {
    return rig.service().call<v1::GetStatusRequest, v1::GetStatusResponse>(
        Rpc::kGetStatus, {peer, "", kNever}, get_status, {}, &out);
  };
  EXPECT_TRUE(ask("ipv4:127.0.0.1:1").ok());
  EXPECT_EQ(ask("ipv4:10.1.1.1:1").error_code(), grpc::UNAUTHENTICATED);
  EXPECT_EQ(rig.node.asked.size(), 1u);
}

TEST(ControlService, WithATokenEveryCallNeedsIt) {
  ControlRig rig(with_token("0123456789abcdef"));
  rig.token.clear();
  v1::GetStatusResponse out;
  const auto ask = [&] { return rig.call(&Stub::GetStatus, v1::GetStatusRequest(), &out); };
  const grpc::Status none = ask();
  EXPECT_EQ(none.error_code(), grpc::UNAUTHENTICATED);
  rig.token = "0123456789abcdeF";
  const grpc::Status wrong = ask();
  EXPECT_EQ(wrong.error_code(), grpc::UNAUTHENTICATED);
  EXPECT_EQ(wrong.error_message(), none.error_message());
  EXPECT_EQ(wrong.error_message().find("0123456789"), std::string::npos);
  EXPECT_TRUE(rig.node.asked.empty());
  rig.token = "0123456789abcdef";
  EXPECT_TRUE(ask().ok());
  // Expect: the word Bearer is a part of it, and loopback helps nobody.
  const auto raw = [&](const std::string& authorization) {
    return rig.service().call<v1::GetStatusRequest, v1::GetStatusResponse>(
        Rpc::kGetStatus, {"ipv4:127.0.0.1:1", authorization, kNever}, get_status, {}, &out);
  };
  EXPECT_EQ(raw("0123456789abcdef").error_code(), grpc::UNAUTHENTICATED);
  EXPECT_EQ(raw("Basic 0123456789abcdef").error_code(), grpc::UNAUTHENTICATED);
  EXPECT_EQ(raw("Bearer ").error_code(), grpc::UNAUTHENTICATED);
  EXPECT_TRUE(raw("Bearer 0123456789abcdef").ok());
}

TEST(ControlService, UnknownFieldsEndACallBeforeItBegins) {
  ControlRig rig;
  v1::PurgeRequest in;
  in.set_kind(v1::PURGE_KIND_DOMAIN);
  in.GetReflection()->MutableUnknownFields(&in)->AddLengthDelimited(77, "only these");
  v1::PurgeResponse out;
  const grpc::Status status = rig.call(&Stub::Purge, in, &out);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("field 77 of PurgeRequest"), std::string::npos);
  EXPECT_TRUE(rig.node.asked.empty());
}

TEST(ControlService, MessagesOverTheLimitAreRefused) {
  ControlRig rig;
  v1::RegisterFormatRequest in;
  in.set_canonical(std::string(1100 * 1024, 'x'));
  v1::RegisterFormatResponse out;
  EXPECT_EQ(rig.call(&Stub::RegisterFormat, in, &out).error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(rig.node.asked.empty());
}

TEST(ControlService, LimitIsTheShorterOfBothSides) {
  ControlRig rig(with_token(""));
  v1::FindBlockRequest in;
  in.set_base_id(bytes32(1));
  v1::FindBlockResponse out;
  const auto ask = [&](Nanos left_ns) {
    return rig.service().call<v1::FindBlockRequest, v1::FindBlockResponse>(
        Rpc::kFindBlock, {"ipv4:127.0.0.1:1", "", left_ns}, find_block, in, &out);
  };
  ASSERT_TRUE(ask(kNever).ok());
  EXPECT_EQ(rig.node.limit_ns, 30 * kSecond);
  ASSERT_TRUE(ask(3 * kSecond).ok());
  EXPECT_EQ(rig.node.limit_ns, 3 * kSecond);
  rig.node.hold();
  EXPECT_EQ(ask(0).error_code(), grpc::DEADLINE_EXCEEDED);
}

TEST(ControlService, DeadlineOfTheClientArrives) {
  ControlRig rig;
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + rig.token);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1::FindBlockRequest in;
  in.set_base_id(bytes32(1));
  v1::FindBlockResponse out;
  ASSERT_TRUE(rig.stub->FindBlock(&context, in, &out).ok());
  EXPECT_LT(rig.node.limit_ns, 25 * kSecond);  // gRPC counts by its own clock
  EXPECT_GT(rig.node.limit_ns, 0u);
}

// Two calls wait in the node; the third is one too many, and others are served again afterwards.
TEST(ControlService, CallsInProgressAreBounded) {
  Options options = with_token("a token of sixteen");
  options.calls_max = 2;
  ControlRig rig(options);
  rig.node.hold();
  v1::FindBlockRequest in;
  in.set_base_id(bytes32(1));
  const auto wait = [&] {
    v1::FindBlockResponse out;
    EXPECT_TRUE(rig.call(&Stub::FindBlock, in, &out).ok());
  };
  std::thread one(wait), two(wait);
  rig.node.wait_for_waiting(2);
  v1::GetStatusResponse out;
  const grpc::Status status = rig.call(&Stub::GetStatus, v1::GetStatusRequest(), &out);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("2 calls"), std::string::npos);
  rig.node.let_go();
  one.join();
  two.join();
  EXPECT_TRUE(rig.call(&Stub::GetStatus, v1::GetStatusRequest(), &out).ok());
}

// Expect: its place is free again, it is told by its kind, and it is counted like any other.
TEST(ControlService, WhatIsThrownInACallEndsTheCallOnly) {
  Options options = with_token("a token of sixteen");
  options.calls_max = 1;
  ControlRig rig(options);
  v1::GetStatusResponse out;
  const auto ask = [&] { return rig.call(&Stub::GetStatus, v1::GetStatusRequest(), &out); };
  rig.node.breaks = [] { throw std::bad_alloc(); };
  for (uint32_t i = 0; i < 2; ++i) {
    const grpc::Status status = ask();
    EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(status.error_message(), kNoMemory);
  }
  rig.node.breaks = [] { throw std::runtime_error("a bug"); };
  EXPECT_EQ(ask().error_code(), grpc::INTERNAL);
  rig.node.breaks = nullptr;
  EXPECT_TRUE(ask().ok());
  EXPECT_TRUE(rig.service().close(0));
  EXPECT_EQ(rig.service().metrics().number("varve_control_in_progress"), 0);
}

// Expect: the daemon's handler lets it be thrown in a look, and ends what would change half.
TEST(ControlService, WithoutMemoryALookEndsAndAChangeIsNotLeftHalf) {
  ControlRig rig;
  static bool throws = false;
  rig.node.breaks = [] { throws = AllocationsThrow::now(); };
  v1::GetStatusResponse out;
  ASSERT_TRUE(rig.call(&Stub::GetStatus, v1::GetStatusRequest(), &out).ok());
  EXPECT_TRUE(throws);
  for (const Rpc rpc : {Rpc::kDrain, Rpc::kSetPolicy, Rpc::kDrainTarget, Rpc::kCreateDomain,
                        Rpc::kRegisterFormat, Rpc::kPurge, Rpc::kCloseSession})
    EXPECT_FALSE(only_looks(rpc)) << rpc_name(rpc);
  for (const Rpc rpc : {Rpc::kListFormats, Rpc::kListSessions, Rpc::kMatchPrefix})
    EXPECT_TRUE(only_looks(rpc)) << rpc_name(rpc);
}

TEST(ControlService, CountsWhatCameOfEachCall) {
  ControlRig rig;
  v1::GetStatusResponse out;
  ASSERT_TRUE(rig.call(&Stub::GetStatus, v1::GetStatusRequest(), &out).ok());
  ASSERT_TRUE(rig.call(&Stub::GetStatus, v1::GetStatusRequest(), &out).ok());
  v1::FindBlockResponse found;
  EXPECT_FALSE(rig.call(&Stub::FindBlock, v1::FindBlockRequest(), &found).ok());
  const MetricSnapshot numbers = rig.service().metrics();
  EXPECT_EQ(numbers.number("varve_control_requests_total", "rpc=\"GetStatus\",code=\"ok\""), 2);
  EXPECT_EQ(
      numbers.number("varve_control_requests_total", "rpc=\"FindBlock\",code=\"invalid_argument\""),
      1);
  EXPECT_EQ(numbers.number("varve_control_in_progress"), 0);
  const auto seconds = std::find_if(numbers.values.begin(), numbers.values.end(),
                                    [](const MetricSnapshot::Value& value) {
                                      return value.name.name == "varve_control_seconds" &&
                                             value.name.labels == "rpc=\"GetStatus\"";
                                    });
  ASSERT_NE(seconds, numbers.values.end());
  EXPECT_EQ(seconds->histogram.count(), 2u);
}

TEST(ControlService, CloseRefusesWhatComesAndWaitsForWhatIsThere) {
  ControlRig rig;
  rig.node.hold();
  v1::FindBlockRequest in;
  in.set_base_id(bytes32(1));
  grpc::Status ended;
  std::thread waits([&] {
    v1::FindBlockResponse out;
    ended = rig.call(&Stub::FindBlock, in, &out);
  });
  rig.node.wait_for_waiting(1);
  EXPECT_FALSE(rig.service().close(0));
  v1::GetStatusResponse out;
  EXPECT_EQ(rig.call(&Stub::GetStatus, v1::GetStatusRequest(), &out).error_code(),
            grpc::UNAVAILABLE);
  rig.node.close();
  EXPECT_TRUE(rig.service().close(10 * kSecond));
  waits.join();
  EXPECT_EQ(ended.error_code(), grpc::UNAVAILABLE);
}

}  // namespace
}  // namespace varve::control
