// What was played is summed up apart by kind, declared completely, and refused when nothing hit.
#include "tools/kvbench/replay_results.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

class ReplayResults : public testing::Test {
 protected:
  ReplayResults() {
    trace_ = trace::generate_trace(3, 1);
    plan_ = plan_of(trace_, 16, 1);
    all_.resize(3);
    for (size_t i = 0; i < 3; ++i)
      all_[i].blocks = static_cast<uint32_t>(plan_.prompts[i].content.size());
    all_[0].misses = 1;
    all_[0].decode = decoded(30, 4, 0);
    all_[1].hit_blocks = 2;
    all_[1].prefill = decoded(10, 2, 0);
    all_[1].decode = decoded(50, 0, 4);
    all_[2].decode = decoded(70, 1, 3);
    all_[2].decode.failed_blocks = 1;
    all_[2].pulls.count(Code::kTimedOut);
    all_[2].pushes.count(Code::kOverloaded);
    run_.times = {{0, 5, 100 * kMillisecond}, {0, 0, 1}, {0, 0, 1}};
    run_.rounds = {{2.0, 4000, 1000, kSecond, 1, 2, 8.0},
                   {4.0, 4000, 2000, kSecond, 2, 0, 0},
                   {4.0, 0, 0, kSecond, 3, 0, 0}};
    run_.server_pid = 1;
    conditions_.start.arguments = {"kvbench", "replay"};
    conditions_.start.run_id = "1";
    conditions_.start.timestamp = "now";
    conditions_.start.commit = std::string(40, 'a');
    conditions_.server = Server::kOwn;
    conditions_.server_commit = conditions_.start.commit;
    conditions_.folder = ".";
    conditions_.dram_bytes = conditions_.target_bytes = kGiB;
    conditions_.targets = 1;
    conditions_.layers = 16;
    conditions_.layer_bytes = 64 * kKiB;
    conditions_.block_tokens = 512;
  }

  static PlayedPull decoded(uint64_t last_ms, uint32_t dram, uint32_t flash) {
    PlayedPull pull;
    pull.took_ns = pull.last_layer_ns = last_ms * kMillisecond;
    pull.first_layer_ns = kMillisecond;
    pull.blocks = dram + flash;
    pull.dram_blocks = dram;
    pull.flash_blocks = flash;
    pull.bytes = 1000;
    return pull;
  }
  void make_it_storage_only() {
    options_.storage_only = true;
    conditions_.mode = Mode::kStorageOnly;
    for (Played& played : all_) {
      for (PlayedPull* pull : {&played.prefill, &played.decode}) {
        pull->flash_blocks += pull->dram_blocks;
        pull->dram_blocks = 0;
      }
    }
    run_.dram_bytes = 0;
    run_.flash_bytes = 4000;  // what its four pulls brought
    out_ = Declaration();
  }
  Status conclude_it() {
    return conclude({options_, trace_, plan_, all_, run_}, conditions_, out_, lines_);
  }

  ReplayOptions options_;
  trace::Trace trace_;
  ReplayPlan plan_;
  std::vector<Played> all_;
  ReplayRun run_;
  Conditions conditions_;
  Declaration out_;
  std::vector<std::string> lines_;
};

TEST_F(ReplayResults, TheDeclarationIsCompleteForBothLoopsAndAllServers) {
  for (const char* loop : {"closed", "open"}) {
    for (const Server server : {Server::kOwn, Server::kOthers}) {
      out_ = Declaration();
      options_.loop = loop;
      conditions_.server = server;
      conditions_.server_commit = server == Server::kOwn ? conditions_.start.commit : "";
      run_.server_pid = server == Server::kOwn ? 1 : 0;
      ASSERT_TRUE(conclude_it().ok());
      EXPECT_EQ(out_.problems(), std::vector<std::string>());
    }
  }
}

TEST_F(ReplayResults, TheWorkloadIsWhatIsPlayedNotWhatTheTraceSays) {
  trace_.requests[0].input_tokens = 1000000;
  ASSERT_TRUE(conclude_it().ok());
  const Json declared = out_.document()["declaration"];
  EXPECT_LE(declared["workload.input_tokens"]["max"], 16 * 512) << "cut to 16 blocks";
  EXPECT_FALSE(declared.contains("workload.output_tokens"));
  EXPECT_EQ(declared["workload.duration"]["seed"], 1);
  EXPECT_EQ(declared["tiers[].capacity_bytes"]["dram"], kGiB / 2) << "half of the arena";
  out_ = Declaration();
  options_.trace_path = "/no/such/trace.jsonl";
  ASSERT_TRUE(conclude_it().ok());
  EXPECT_FALSE(out_.document()["declaration"]["workload.duration"].contains("seed"));
}

TEST_F(ReplayResults, KindsOfOutcomesAndTiersAreNotMixed) {
  ASSERT_TRUE(conclude_it().ok());
  const Json results = out_.document()["results"];
  EXPECT_EQ(results["outcomes"]["misses"], 1);
  EXPECT_EQ(results["outcomes"]["pulls"]["timed_out"], 1);
  EXPECT_EQ(results["outcomes"]["pushes"]["refused"], 1);
  EXPECT_EQ(results["outcomes"]["failed_blocks"], 1);
  EXPECT_EQ(results["by_tier"]["dram"]["max"], 30);
  EXPECT_EQ(results["by_tier"]["flash"]["max"], 50);
  EXPECT_EQ(results["by_tier"]["mixed"]["max"], 70);
  EXPECT_EQ(results["by_tier"]["dram"]["n"], 1);
  EXPECT_EQ(results["hits"]["hit_blocks"], 2);
}

TEST_F(ReplayResults, ARateStandsBesideTheCeilingOfItsRound) {
  ASSERT_TRUE(conclude_it().ok());
  const Json rates = out_.document()["results"]["rates"];
  EXPECT_EQ(rates["of_ceiling"]["rounds"], Json({2.0, 0.5})) << "a round without pulls has none";
  EXPECT_EQ(rates["pull_gb_per_s"]["max"], 4.0);
}

TEST_F(ReplayResults, OnlyStorageStandsBesideTheDrive) {
  run_.flash_bytes = 4000;
  ASSERT_TRUE(conclude_it().ok());
  Json results = out_.document()["results"];
  EXPECT_EQ(results["mode"], "storage_plus_memory") << "memory was there to serve";
  EXPECT_EQ(results["rates"]["drive_gb_per_s"]["rounds"], Json({8.0}));
  EXPECT_FALSE(results["rates"].contains("of_drive")) << "memory would improve it";
  make_it_storage_only();
  ASSERT_EQ(conclude_it().code(), Code::kOk);
  results = out_.document()["results"];
  EXPECT_EQ(out_.problems(), std::vector<std::string>());
  EXPECT_EQ(results["mode"], "storage_only");
  EXPECT_EQ(results["served"]["dram_bytes"], 0);
  EXPECT_EQ(results["served"]["flash_bytes"], 4000);
  EXPECT_EQ(results["rates"]["of_drive"]["rounds"], Json({0.5}));
  EXPECT_EQ(results["rates"]["request_p99_ms"]["max"], 3.0);
  EXPECT_EQ(out_.document()["declaration"]["tiers[].name"], Json({"nvme_local"}));
}

TEST_F(ReplayResults, OneBlockOrByteOfMemoryAndARunOfStorageOnlyHasNoResult) {
  make_it_storage_only();
  EXPECT_EQ(check_storage_only(all_, run_).code(), Code::kOk);
  all_[0].decode.dram_blocks = 1;
  EXPECT_EQ(conclude_it().code(), Code::kInvalid) << "as a match answered";
  make_it_storage_only();
  run_.dram_bytes = 1;
  EXPECT_EQ(conclude_it().code(), Code::kInvalid) << "as the server counted";
  make_it_storage_only();
  run_.flash_bytes = 3999;
  EXPECT_EQ(conclude_it().code(), Code::kInvalid) << "a byte that nobody counted";
}

TEST_F(ReplayResults, TheSchemaKnowsStorageOnlyByItself) {
  make_it_storage_only();
  ASSERT_TRUE(conclude_it().ok());
  const Json served = out_.document()["results"]["served"];
  for (const auto& [key, value] :
       {std::pair<const char*, int>{"dram_bytes", 1}, {"dram_blocks", 1}, {"flash_bytes", 0}}) {
    Json wrong = served;
    wrong[key] = value;
    out_.result("served", wrong);
    EXPECT_NE(out_.problems(), std::vector<std::string>()) << key;
  }
  out_.result("served", served);
  EXPECT_EQ(out_.problems(), std::vector<std::string>());
  out_.declare("tiers[].name", {"dram", "nvme_local"});
  EXPECT_NE(out_.problems(), std::vector<std::string>()) << "memory is a tier of it";
  out_.declare("tiers[].name", {"nvme_local"});
  out_.declare("io[].mechanism", {{"nvme_local", "page_cache_rw"}});
  EXPECT_NE(out_.problems(), std::vector<std::string>()) << "the page cache is memory too";
}

TEST_F(ReplayResults, AnOpenLoopCountsFromWhenARequestWasDueAndSaysSo) {
  options_.loop = "open";
  ASSERT_TRUE(conclude_it().ok());
  const Json results = out_.document()["results"];
  EXPECT_EQ(results["transfer_ms"]["request"]["max"], 100);
  EXPECT_NE(results["latency_counted_from"].get<std::string>().find("due"), std::string::npos);
  EXPECT_EQ(out_.document()["declaration"]["workload.arrival"]["kind"], "trace_timestamps");
}

TEST_F(ReplayResults, WhatFailsIsInTheLatencyAndInTheRateAndIsWarnedOf) {
  all_[2].decode = PlayedPull();  // a pull that timed out after 900 ms
  all_[2].decode.took_ns = all_[2].decode.last_layer_ns = 900 * kMillisecond;
  all_[2].decode.flash_blocks = 4;
  all_[2].decode.failed = true;
  all_[0].prefill.last_layer_ns = 300 * kMillisecond;  // its match failed: no pull
  all_[0].prefill.failed = true;
  all_[0].matches.count(Code::kTimedOut);
  run_.rounds[2].pull_busy_ns = 900;  // nothing came of it
  all_[1].pushes.ops = all_[1].pushes.ok = 10;
  ASSERT_TRUE(conclude_it().ok());
  const Json document = out_.document();
  const Json results = document["results"];
  EXPECT_EQ(results["transfer_ms"]["decode_last_layer"]["n"], 3);
  EXPECT_EQ(results["transfer_ms"]["decode_last_layer"]["max"], 900);
  EXPECT_EQ(results["transfer_ms"]["decode_first_layer"]["n"], 2);
  EXPECT_EQ(results["transfer_ms"]["prefill_last_layer"]["max"], 300);
  EXPECT_EQ(results["by_tier"]["flash"]["max"], 900);
  EXPECT_EQ(results["outcomes"]["without_first_layer"], 2);
  EXPECT_EQ(results["rates"]["pull_gb_per_s"]["min"], 0);
  std::string warnings;
  for (const Json& warning : document["warnings"])
    warnings += warning.get<std::string>() + "\n";
  for (const char* text : {"1 of 1 matches", "1 of 1 pulls", "1 of 11 pushes"})
    EXPECT_NE(warnings.find(text), std::string::npos) << text << " in " << warnings;
}

TEST_F(ReplayResults, WhereMoreThanAQuarterFailsThereIsNoResult) {
  all_[2].pulls = all_[2].pushes = Outcomes();
  all_[0].matches = {.ops = 10, .ok = 7, .failed = 2};
  all_[1].pulls = {.ops = 6, .ok = 5, .failed = 1};
  all_[2].pushes = {.ops = 4, .ok = 3, .failed = 1};
  EXPECT_EQ(check_failures(all_).code(), Code::kOk) << "4 of 20";
  all_[0].matches = {.ops = 10, .ok = 6, .failed = 3};
  EXPECT_EQ(check_failures(all_).code(), Code::kOk) << "5 of 20: a quarter";
  all_[2].pushes.failed = 3;
  EXPECT_EQ(conclude_it().code(), Code::kUnavailable);
  all_[2].pushes = {.ops = 40, .refused = 20, .timed_out = 20};
  EXPECT_TRUE(conclude_it().ok()) << "a busy server is measured, and warned of";
  EXPECT_EQ(check_failures({}).code(), Code::kOk);
}

TEST_F(ReplayResults, WithoutAHitThereIsNoResult) {
  run_.rounds = {{2.0, 0, 0, kSecond, 1, 0, 0}};
  EXPECT_EQ(conclude_it().code(), Code::kInvalid);
}

}  // namespace
}  // namespace varve::kvbench
