// Goal: the reader of traces takes what the published files hold, names what it cannot read, and
// the generator is a function of its seed with a prefix structure that can hit.
#include "tools/trace/trace.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace varve::trace {
namespace {

std::string write_file(const std::string& text) {
  const std::string path = testing::TempDir() + "varve_trace_test.jsonl";
  std::ofstream(path) << text;
  return path;
}

TEST(Trace, ReadsRequestsInOrderAndStopsAtTheLimit) {
  const std::string path = write_file(
      "{\"timestamp\": 3, \"input_length\": 1024, \"hash_ids\": [0, 1]}\n"
      "{\"timestamp\": 9, \"input_length\": 1536, \"hash_ids\": [0, 1, 2]}\n"
      "{\"timestamp\": 9, \"input_length\": 512, \"hash_ids\": [7]}\n");
  const auto trace = read_trace(path, 2);
  ASSERT_TRUE(trace.has_value());
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_EQ(trace->requests[0].time_ms, 3u);
  EXPECT_EQ(trace->requests[1].ids, (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_EQ(trace->blocks(), 5u);
  EXPECT_EQ(trace->hits_possible(), 2u);  // the second request repeats two blocks
  std::remove(path.c_str());
}

TEST(Trace, RefusesWhatIsNoTrace) {
  EXPECT_EQ(read_trace("/nonexistent/trace", 1).error().code(), Code::kInvalid);
  for (const char* text : {"", "not json\n", "{\"hash_ids\": 3}\n", "{\"hash_ids\": [-1]}\n",
                           "{\"hash_ids\": []}\n", "{\"timestamp\": 1}\n", "[1]\n"}) {
    const std::string path = write_file(text);
    EXPECT_EQ(read_trace(path, 5).error().code(), Code::kInvalid) << text;
    std::remove(path.c_str());
  }
}

TEST(Trace, ALineThatIsTooLongIsRefusedAndOneWithoutATimeIsSaid) {
  std::string path = write_file("{\"timestamp\": 3, \"hash_ids\": [1]}\n{\"hash_ids\": [1]}");
  const auto untimed = read_trace(path, 5);
  ASSERT_TRUE(untimed.has_value());
  EXPECT_EQ(untimed->requests.size(), 2u) << "the last line has no end";
  EXPECT_FALSE(untimed->timed);
  EXPECT_TRUE(read_trace(path, 1)->timed) << "what is not played does not count";
  path =
      write_file("{\"hash_ids\": [1], \"x\": \"" + std::string(kTraceLineBytesMax, 'x') + "\"}\n");
  EXPECT_EQ(read_trace(path, 5).error().code(), Code::kInvalid);
  std::remove(path.c_str());
}

TEST(Trace, AHitNeedsTheWholePrefixBeforeIt) {
  const std::string path = write_file(
      "{\"hash_ids\": [1, 2, 3]}\n"
      "{\"hash_ids\": [9, 2, 3]}\n");
  const auto trace = read_trace(path, 5);
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->hits_possible(), 0u);
  std::remove(path.c_str());
}

std::string session_file(const std::string& name, const std::string& text) {
  const std::string folder = testing::TempDir() + "varve_sessions";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/" + name) << text;
  return folder;
}

// `count` ids from `first`, as JSON.
std::string ids(uint32_t first, uint32_t count) {
  std::string text = "[";
  for (uint32_t i = 0; i < count; ++i)
    text += (i > 0 ? "," : "") + std::to_string(first + i);
  return text + "]";
}

std::string request(double t, const std::string& hash_ids) {
  return "{\"t\":" + std::to_string(t) + ",\"in\":600,\"out\":7,\"hash_ids\":" + hash_ids + "}";
}

TEST(Sessions, RunsOfSmallBlocksAreJoinedAndSessionsShareNothing) {
  session_file("session_1.json", "{\"block_size\":64,\"requests\":[" + request(0, ids(1, 17)) +
                                     "," + request(2.5, ids(1, 24)) + "]}");
  const std::string folder = session_file(
      "session_2.json", "{\"block_size\":64,\"requests\":[" + request(1, ids(1, 16)) + "]}");
  const auto trace = read_any(folder, 10);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(trace.has_value()) << trace.error().what();
  ASSERT_EQ(trace->requests.size(), 3u);
  EXPECT_EQ(trace->requests[0].ids, (std::vector<uint64_t>{0, 1}));  // the 17th is part of a block
  EXPECT_EQ(trace->requests[1].ids, (std::vector<uint64_t>{3, 4}));  // of the other session
  EXPECT_EQ(trace->requests[2].ids, (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_EQ(trace->requests[2].time_ms, 2500u);
  EXPECT_EQ(trace->requests[2].output_tokens, 7u);
  EXPECT_EQ(trace->requests[0].session, trace->requests[2].session);
  EXPECT_NE(trace->requests[0].session, trace->requests[1].session);
  EXPECT_EQ(trace->hits_possible(), 2u);
}

TEST(Sessions, ASubAgentIsASessionThatBeginsWhenItIsCalled) {
  const std::string sub =
      "{\"t\":10,\"type\":\"subagent\",\"requests\":[" + request(1, ids(1, 8)) + "]}";
  const std::string folder =
      session_file("session_3.json",
                   "{\"block_size\":64,\"requests\":[" + request(0, ids(1, 8)) + "," + sub + "]}");
  const auto trace = read_sessions(folder + "/session_3.json", 10);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(trace.has_value()) << trace.error().what();
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_EQ(trace->requests[1].time_ms, 11000u);
  EXPECT_EQ(trace->requests[1].ids, trace->requests[0].ids);
  EXPECT_NE(trace->requests[1].session, trace->requests[0].session);
}

TEST(Sessions, RefusesWhatIsNoSession) {
  std::string nested = "{\"t\":0,\"requests\":[]}";
  for (int i = 0; i < 20; ++i)
    nested = "{\"t\":0,\"requests\":[" + nested + "]}";
  const std::string head = "{\"block_size\":64,\"requests\":";
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"block_size\":64}"),
        std::string("{\"block_size\":100,\"requests\":[]}"), head + "[]}", head + "[3]}",
        head + "[{\"t\":0}]}", head + "[{\"t\":-1,\"hash_ids\":[1]}]}",
        head + "[{\"t\":1e300,\"hash_ids\":[1]}]}", head + "[{\"t\":0,\"hash_ids\":[\"a\"]}]}",
        head + "[" + nested + "]}"}) {
    const std::string folder = session_file("session_4.json", text);
    EXPECT_EQ(read_sessions(folder, 5).error().code(), Code::kInvalid) << text;
    std::filesystem::remove_all(folder);
  }
  EXPECT_EQ(read_sessions("/nonexistent/folder", 5).error().code(), Code::kInvalid);
}

TEST(Sessions, ThePublishedOnesReuseNearlyAllOfTheirInput) {
  const std::string folder = "../shared/data/traces/agent";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  const auto trace = read_any(folder, kTraceRequestsMax);
  ASSERT_TRUE(trace.has_value()) << trace.error().what();
  EXPECT_EQ(trace->requests.size(), 355u);
  const double share =
      static_cast<double>(trace->hits_possible()) / static_cast<double>(trace->blocks());
  EXPECT_GT(share, 0.85);
}

TEST(Trace, WhatIsCutOffOfALongRequestIsCounted) {
  const std::string path = write_file("{\"hash_ids\": " + ids(0, kTraceBlocksMax + 3) + "}\n");
  const auto trace = read_any(path, 5);
  std::remove(path.c_str());
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->requests[0].ids.size(), kTraceBlocksMax);
  EXPECT_EQ(trace->cut_blocks, 3u);
}

TEST(Trace, TheGeneratorIsAFunctionOfItsSeed) {
  const Trace a = generate_trace(200, 5), b = generate_trace(200, 5), c = generate_trace(200, 6);
  ASSERT_EQ(a.requests.size(), 200u);
  bool same = true, other = true;
  for (size_t i = 0; i < 200; ++i) {
    same = same && a.requests[i].ids == b.requests[i].ids;
    other = other && a.requests[i].ids == c.requests[i].ids;
  }
  EXPECT_TRUE(same);
  EXPECT_FALSE(other);
  EXPECT_GT(a.hits_possible() * 100, a.blocks() * 20);  // conversations go on
  EXPECT_LT(a.hits_possible() * 100, a.blocks() * 60);  // and new ones begin
}

}  // namespace
}  // namespace varve::trace
