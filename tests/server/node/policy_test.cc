// Goal: each shard is told of a policy, whichever is late, and the late ones are named. Method:
// cores on threads, and one that nobody turns until the call has ended. What a shard makes of it:
// tests/server/shard; the calls: tests/e2e/control_test.cc.
#include <gtest/gtest.h>

#include <thread>

#include "server/node/ingress.h"

namespace varve {
namespace {

class ToldShard final : public Shard {
 public:
  explicit ToldShard(Reactor& reactor) : reactor_(reactor) {}
  void start() override {}
  void submit(Part&) override { std::abort(); }
  void drain() override {}
  bool drained() const override { return true; }
  bool recovering() const override { return false; }
  MetricSnapshot metrics() const override { return {}; }
  Reactor& reactor() override { return reactor_; }
  Index& index() override { std::abort(); }
  DramTier& tier() override { std::abort(); }
  flash::Flash& flash() override { std::abort(); }
  bool at_rest() const override { return true; }
  void policy_set(const ShardPolicy& policy) override { told.push_back(policy); }
  std::vector<ShardPolicy> told;

 private:
  Reactor& reactor_;
};

class Policies : public testing::Test {
 protected:
  static constexpr uint32_t kShards = 3;
  void SetUp() override {
    ServerConfig config;
    config.shards = kShards;
    node_ = std::make_unique<Node>(config);
    for (uint32_t s = 0; s < kShards; ++s) {
      auto thread = std::make_unique<ShardThread>(*node_, s);
      io_.push_back(*make_io_backend(IoBackendPreference::kEpoll, {}));
      thread->reactor =
          std::make_unique<Reactor>(node_->clock, io_[s].backend.get(), ReactorOptions{.shard = s});
      auto shard = std::make_unique<ToldShard>(*thread->reactor);
      shards_.push_back(shard.get());
      thread->shard = std::move(shard);
      node_->threads.push_back(std::move(thread));
    }
    ingress_ = std::make_unique<NodeIngress>(*node_);
  }
  void TearDown() override {
    for (uint32_t s = 0; s < cores_.size(); ++s) {
      if (!cores_[s].joinable()) continue;
      node_->threads[s]->reactor->stop();
      cores_[s].join();
    }
    ingress_.reset();
    node_.reset();
  }
  void run(uint32_t shard) {
    Reactor& reactor = *node_->threads[shard]->reactor;
    cores_[shard] = std::thread([&reactor] { reactor.run(); });
  }

  std::vector<IoBackendChoice> io_;
  std::unique_ptr<Node> node_;
  std::vector<ToldShard*> shards_;
  std::unique_ptr<NodeIngress> ingress_;
  std::vector<std::thread> cores_{kShards};
};

TEST_F(Policies, ALateShardIsNamedAndKeepsNoOtherFromBeingTold) {
  run(1);
  run(2);
  auto late = ingress_->policy_set("repair_mb_per_s", "0", 12 * kSecond);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.refusal().code, Code::kTimedOut);
  EXPECT_NE(late.refusal().text.find("not known yet to shards 0:"), std::string::npos)
      << late.refusal().text;
  EXPECT_EQ(ingress_->policies()[0].value, "0") << "it is set";
  // Expect: when it comes to it, it takes it; and the next change is answered.
  run(0);
  auto set = ingress_->policy_set("repair_mb_per_s", "300", 60 * kSecond);
  ASSERT_TRUE(set) << set.refusal().text;
  EXPECT_EQ(set->before, "0");
  EXPECT_EQ(set->policy.value, "300");
  for (const ToldShard* shard : shards_) {
    ASSERT_EQ(shard->told.size(), 2u);
    EXPECT_EQ(shard->told[0].repair_bytes_per_s, 0u);
    EXPECT_EQ(shard->told[1].repair_bytes_per_s, 100u * 1000 * 1000);
  }
}

TEST_F(Policies, WhatCannotBeChangesNothing) {
  EXPECT_EQ(ingress_->policy_set("shards", "3", kSecond).refusal().kind,
            control::Refusal::Kind::kNotFound);
  for (const char* value : {"", "-1", "100001", "1.5"})
    EXPECT_FALSE(ingress_->policy_set("repair_mb_per_s", value, kSecond)) << value;
  node_->config.repair_mb_per_s = 0;
  EXPECT_EQ(ingress_->policy_set("repair_mb_per_s", "100", kSecond).refusal().kind,
            control::Refusal::Kind::kState);
  for (const ToldShard* shard : shards_)
    EXPECT_TRUE(shard->told.empty());
}

}  // namespace
}  // namespace varve
