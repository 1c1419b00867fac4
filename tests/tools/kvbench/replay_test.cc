// The plan of a replay: what of a trace is played, when, and what could hit.
#include "tools/kvbench/replay.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace varve::kvbench {
namespace {

trace::TraceRequest request_of(uint64_t time_ms, std::vector<uint64_t> ids, uint32_t session) {
  trace::TraceRequest request;
  request.time_ms = time_ms;
  request.session = session;
  request.ids = std::move(ids);
  return request;
}

TEST(Replay, ThePlanHasDenseIdsDueTimesAndWhatCouldHit) {
  trace::Trace trace;
  trace.requests = {request_of(1000, {70, 1ull << 40}, 5), request_of(1500, {70, 1ull << 40, 9}, 5),
                    request_of(3000, {8, 70}, trace::kNoSession)};
  const ReplayPlan plan = plan_of(trace, 16, 2);
  ASSERT_EQ(plan.prompts.size(), 3u);
  EXPECT_EQ(plan.prompts[1].content, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(plan.prompts[2].content, (std::vector<uint32_t>{3, 0}));
  EXPECT_EQ(plan.load[0].due_ns, 0u);
  EXPECT_EQ(plan.load[1].due_ns, 250 * kMillisecond);
  EXPECT_EQ(plan.load[2].due_ns, kSecond);
  EXPECT_EQ(plan.load[0].session, 5u);
  EXPECT_EQ(plan.load[2].session, kNoLoadSession);
  EXPECT_EQ(plan.hits_possible, 2u) << "a block behind one that misses cannot hit";
  EXPECT_EQ(plan.hits_possible, trace.hits_possible());
  EXPECT_EQ(plan.unique_blocks, 4u);
  EXPECT_EQ(plan.sessions, 1u);
  EXPECT_EQ(plan.session_turns, std::vector<double>{2});
}

TEST(Replay, WhatIsCutIsCountedAndCannotHit) {
  trace::Trace trace;
  trace.cut_blocks = 10;
  trace.requests = {request_of(0, {1, 2, 3}, trace::kNoSession),
                    request_of(1, {1, 2, 3}, trace::kNoSession)};
  const ReplayPlan plan = plan_of(trace, 2, 1);
  EXPECT_EQ(plan.blocks, 4u);
  EXPECT_EQ(plan.hits_possible, 2u);
  EXPECT_EQ(plan.cut_requests, 2u);
  EXPECT_EQ(plan.cut_blocks, 12u);
}

TEST(Replay, TheGeneratorsPlanIsAFunctionOfItsSeed) {
  const ReplayPlan a = plan_of(trace::generate_trace(50, 3), 64, 1);
  const ReplayPlan b = plan_of(trace::generate_trace(50, 3), 64, 1);
  ASSERT_EQ(a.prompts.size(), b.prompts.size());
  for (size_t i = 0; i < a.prompts.size(); ++i) {
    EXPECT_EQ(a.prompts[i].content, b.prompts[i].content);
    EXPECT_EQ(a.load[i].due_ns, b.load[i].due_ns);
  }
  EXPECT_GT(a.sessions, 1u);
}

TEST(Replay, ARoundOfAnOpenLoopIsTheWholeTraceSoThatAStallDelaysAllThatIsDueBehindIt) {
  ReplayOptions options;
  options.rounds = 4;
  const std::vector<Slice> closed = rounds_of(options, 10);
  ASSERT_EQ(closed.size(), 4u);
  EXPECT_EQ(closed.back().first + closed.back().count, 10u);
  EXPECT_EQ(rounds_of(options, 3).size(), 3u) << "none is empty";
  options.rounds = 0;
  options.loop = "open";
  const ReplayPlan once = plan_of(trace::generate_trace(7, 3), 64, 1);
  const ReplayPlan plan = repeated(once, rounds_asked(options));
  const std::vector<Slice> open = rounds_of(options, static_cast<uint32_t>(plan.prompts.size()));
  ASSERT_EQ(open.size(), 3u) << "a spread needs more than one";
  for (uint32_t round = 0; round < 3; ++round) {
    EXPECT_EQ(open[round].first, 7 * round);
    EXPECT_EQ(open[round].count, 7u);
    EXPECT_EQ(plan.load[7 * round].due_ns, once.load[0].due_ns);
  }
}

TEST(Replay, ARepeatedPlanHasBlocksOfItsOwnEachTime) {
  trace::Trace trace;
  trace.requests = {request_of(0, {7, 8}, 1), request_of(5, {7, 9}, 1)};
  const ReplayPlan plan = repeated(plan_of(trace, 16, 1), 2);
  ASSERT_EQ(plan.prompts.size(), 4u);
  EXPECT_EQ(plan.prompts[2].content, (std::vector<uint32_t>{3, 4}));
  EXPECT_EQ(plan.prompts[3].content, (std::vector<uint32_t>{3, 5}));
  EXPECT_EQ(plan.unique_blocks, 6u);
  EXPECT_EQ(plan.hits_possible, 2u);
  EXPECT_EQ(plan.blocks, 8u);
  EXPECT_EQ(plan.load.size(), 4u);
  EXPECT_EQ(plan.prefix_tokens.size(), 4u);
  EXPECT_EQ(plan.sessions, 1u) << "of the trace";
}

TEST(Replay, AnOpenLoopNeedsTimesThatComeToAnEnd) {
  trace::Trace trace;
  trace.requests = {request_of(5, {1}, 0), request_of(5 + 40ull * 24 * 3600 * 1000, {1}, 0)};
  ReplayOptions options;
  EXPECT_TRUE(check_times(options, trace).ok()) << "a closed loop has no use for times";
  options.loop = "open";
  EXPECT_FALSE(check_times(options, trace).ok());
  options.speedup = 2;
  options.rounds = 1;
  EXPECT_TRUE(check_times(options, trace).ok());
  trace.timed = false;
  EXPECT_FALSE(check_times(options, trace).ok());
}

TEST(Replay, ATimeBeyondAllClocksIsNoUndefinedOne) {
  trace::Trace trace;
  trace.requests = {request_of(0, {1}, 0), request_of(~0ull, {1}, 0)};
  const ReplayPlan plan = plan_of(trace, 16, 0.001);
  EXPECT_EQ(plan.load[1].due_ns, 30ull * 24 * 3600 * kSecond) << "an open loop refuses it";
}

TEST(Replay, BusyTimeCountsWhatOverlapsOnce) {
  EXPECT_EQ(busy_ns({}), 0u);
  EXPECT_EQ(busy_ns({{10, 20}, {15, 30}, {40, 50}}), 30u);
  EXPECT_EQ(busy_ns({{40, 50}, {10, 100}}), 90u);
  EXPECT_EQ(busy_ns({{10, 10}}), 0u);
}

TEST(Replay, WhatCannotBePlayedHasNoResult) {
  ReplayOptions options;
  options.trace_path = "/no/such/trace.jsonl";
  char name[] = "kvbench";
  char* arguments[] = {name};
  EXPECT_EQ(run_replay(options, RunStart::now(1, arguments, "of a test")), 1);
}

TEST(Replay, StorageOnlyIsOfAServerOfOursAndOfWhatIsDurable) {
  for (const char* line :
       {"replay --storage-only --address h:1", "replay --storage-only --ack cached"}) {
    CLI::App app;
    ReplayOptions options;
    add_replay(app, options);
    EXPECT_THROW(app.parse(line), CLI::ParseError) << line;
  }
  CLI::App app;
  ReplayOptions options;
  add_replay(app, options);
  EXPECT_NO_THROW(app.parse("replay --storage-only --ack durable"));
  EXPECT_TRUE(options.storage_only);
  EXPECT_EQ(options.concurrency, 1u) << "requests at once may share what one of them reads";
  CLI::App asked;
  ReplayOptions more;
  add_replay(asked, more);
  asked.parse("replay --storage-only --concurrency 3");
  EXPECT_EQ(more.concurrency, 3u) << "of a trace whose requests share nothing";
}

TEST(Replay, WrongUseIsRefused) {
  for (const char* line :
       {"replay --loop half", "replay --speedup 0", "replay --speedup nan", "replay --speedup inf",
        "replay --speedup 1e308", "replay --speedup=-0", "replay --trace /dev/zero",
        "replay --requests 0", "replay --concurrency 1000", "replay --ack maybe"}) {
    CLI::App app;
    ReplayOptions options;
    add_replay(app, options);
    EXPECT_THROW(app.parse(line), CLI::ParseError) << line;
  }
}

}  // namespace
}  // namespace varve::kvbench
