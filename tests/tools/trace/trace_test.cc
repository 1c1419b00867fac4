// Goal: the reader of traces takes what the published files hold, names what it cannot read, and
// the generator is a function of its seed with a prefix structure that can hit.
#include "tools/trace/trace.h"

#include <gtest/gtest.h>

#include <cstdio>
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

TEST(Trace, AHitNeedsTheWholePrefixBeforeIt) {
  const std::string path = write_file(
      "{\"hash_ids\": [1, 2, 3]}\n"
      "{\"hash_ids\": [9, 2, 3]}\n");
  const auto trace = read_trace(path, 5);
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->hits_possible(), 0u);
  std::remove(path.c_str());
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
