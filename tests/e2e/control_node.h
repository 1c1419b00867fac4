// ControlOfANode: the varved of this build with its control plane, and the generated client of
// that.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <varve/v1/control.grpc.pb.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/engine.h"
#include "tests/tools/ledger/real_daemon.h"

namespace varve {

using Stub = v1::Control::Stub;

inline std::string text_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

class ControlOfANode : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ledger::RealDaemon::available()) GTEST_SKIP() << "varved is not built beside this test";
    real.control = "127.0.0.1:0";
    shape("2+1", 3);
  }
  void shape(const std::string& scheme, uint32_t targets) {
    real.shape = {"--scheme",           scheme,   "--targets",  std::to_string(targets),
                  "--target-bytes",     "400MiB", "--shards",   "2",
                  "--dram-bytes",       "128MiB", "--drain-ms", "2000",
                  "--free-floor-bytes", "0"};
  }
  void start() {
    const size_t before = real.log().size();
    ASSERT_TRUE(real.start().ok()) << real.log();
    const std::string log = real.log().substr(before);
    const std::string mark = "control plane on ";
    const size_t at = log.find(mark);
    ASSERT_NE(at, std::string::npos) << log;
    address = log.substr(at + mark.size(), log.find(',', at) - at - mark.size());
    stub = v1::Control::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    v1::GetStatusResponse status;
    for (Nanos waited = 0; !status.ready() && waited < kPatience; waited += 50 * kMillisecond) {
      if (!ask(&Stub::GetStatus, v1::GetStatusRequest(), &status).ok()) return;  // not for us
      pause(50 * kMillisecond);
    }
    ASSERT_TRUE(status.ready()) << status.ready_why_not();
  }
  void stop() { ASSERT_TRUE(real.daemon().stop(60 * kSecond).ok()) << real.log(); }

  template <class Request, class Response>
  grpc::Status ask(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                   const Request& request, Response* response) {
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    return ((*stub).*method)(&context, request, response);
  }
  v1::Target target(uint32_t index) {
    v1::ListTargetsResponse out;
    EXPECT_TRUE(ask(&Stub::ListTargets, v1::ListTargetsRequest(), &out).ok());
    EXPECT_LT(static_cast<int>(index), out.targets_size());
    return out.targets(static_cast<int>(index));
  }
  bool wait_for_state(uint32_t index, v1::TargetState state) {
    for (Nanos waited = 0; waited < 60 * kSecond; waited += 100 * kMillisecond) {
      if (target(index).state() == state) return true;
      pause(100 * kMillisecond);
    }
    return false;
  }
  v1::MatchPrefixResponse match(const std::vector<BaseId>& ids, const std::string& domain = "") {
    v1::MatchPrefixRequest in;
    in.set_domain(domain);
    for (const BaseId& id : ids)
      in.add_base_ids(text_of(id));
    in.set_rank_count(1);
    v1::MatchPrefixResponse out;
    EXPECT_TRUE(ask(&Stub::MatchPrefix, in, &out).ok());
    return out;
  }
  v1::FindBlockResponse find(const BaseId& id, const std::string& domain = "") {
    v1::FindBlockRequest in;
    in.set_domain(domain);
    in.set_base_id(text_of(id));
    v1::FindBlockResponse out;
    EXPECT_TRUE(ask(&Stub::FindBlock, in, &out).ok());
    return out;
  }

  ledger::RealDaemon real{"control"};
  std::string address, token;
  std::unique_ptr<Stub> stub;
};

}  // namespace varve
