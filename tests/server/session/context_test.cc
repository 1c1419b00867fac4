// Names of reasons, the metrics' registration, and that the first cause of an end is the one that
// counts.
#include "server/session/context.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

struct CountingTask final : Task {
  void run() override { ++runs; }
  const char* name() const override { return "counting"; }
  uint32_t runs = 0;
};

TEST(SessionContext, TheFirstCauseCountsAndMakesTheTaskReady) {
  World world;
  SessionContext context(world.reactor, {}, {world.homes[0].get()});
  CountingTask task;
  SessionScope scope(context, task);
  scope.fail_malformed(Malformed::kExtent, Status::invalid("first"));
  scope.fail_malformed(Malformed::kExtent, Status::corrupt("second"));
  scope.fail(Status::io("third", 5));
  EXPECT_EQ(scope.failure.code(), Code::kInvalid);
  EXPECT_TRUE(scope.over());
  EXPECT_EQ(context.metrics.malformed[static_cast<uint8_t>(Malformed::kExtent)].value(), 1u);
  world.run_for(kMillisecond);
  EXPECT_EQ(task.runs, 1u);
}

TEST(SessionContext, ASessionWithoutALaneAnswersNobody) {
  World world;
  SessionContext context(world.reactor, {}, {world.homes[0].get()});
  CountingTask task;
  SessionScope scope(context, task);
  scope.reply(context.encoder().ping(1, {}));
  EXPECT_TRUE(scope.failure.ok());
}

TEST(SessionContext, EveryMetricHasANameOfItsOwn) {
  World world;
  std::set<std::string> names;
  for (const MetricSnapshot::Value& value : world.metrics.snapshot().values) {
    EXPECT_TRUE(names.insert(value.name.name + "{" + value.name.labels + "}").second)
        << value.name.name;
    EXPECT_EQ(value.name.name.rfind("varve_", 0), 0u);
    EXPECT_FALSE(value.name.help.empty()) << value.name.name;
  }
  EXPECT_GT(names.size(), 60u);
}

// Goal: why a match is zero can be read in the metrics: who asks under which fingerprint, and who
// pushes. Expect: a peer that invents fingerprints does not grow the metrics without bound.
TEST(SessionContext, FormatsAreCountedByFingerprintUpToALimit) {
  SessionOptions options;
  options.formats_max = 3;
  World world(1, options);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  world.homes[0]->known[id_of(0)] = wire::TierKind::kDram;
  client.wait<wire::MatchedView>(client.match(format, ids_of(5)));
  char label[32];
  std::snprintf(
      label, sizeof(label), "format=\"%016llx\"",
      static_cast<unsigned long long>(__builtin_bswap64(small_format().fingerprint().prefix64())));
  EXPECT_EQ(world.metric("varve_format_matched_ids_total", label), 5);
  EXPECT_EQ(world.metric("varve_format_hit_ids_total", label), 1);
  for (uint32_t i = 0; i < 10; ++i) {
    TestClient other(world);
    Format strange = small_format();
    strange.lineage = "strange " + std::to_string(i);
    const uint32_t handle = other.register_format(strange);
    other.wait<wire::MatchedView>(other.match(handle, ids_of(2)));
  }
  EXPECT_EQ(world.metric("varve_format_matched_ids_total", "format=\"other\""), 16);
  uint32_t names = 0;
  for (const MetricSnapshot::Value& value : world.metrics.snapshot().values)
    names += value.name.name == "varve_format_matched_ids_total" ? 1 : 0;
  EXPECT_EQ(names, 4u);
}

TEST(SessionContext, ReasonsHaveNames) {
  EXPECT_STREQ(malformed_name(Malformed::kCredit), "credit");
  EXPECT_STREQ(malformed_name(Malformed::kPayload), "payload");
  EXPECT_STREQ(discarded_name(Discarded::kForeign), "foreign");
  EXPECT_STREQ(slow_name(Slow::kData), "data");
}

}  // namespace
}  // namespace varve::test
