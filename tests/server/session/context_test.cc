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

TEST(SessionContext, ReasonsHaveNames) {
  EXPECT_STREQ(malformed_name(Malformed::kCredit), "credit");
  EXPECT_STREQ(malformed_name(Malformed::kPayload), "payload");
  EXPECT_STREQ(discarded_name(Discarded::kForeign), "foreign");
}

}  // namespace
}  // namespace varve::test
