// Goal: every id and block has one outcome, in the row of its own domain, and rows are bounded.
#include "server/session/domain_metric.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

std::string of(const std::string& domain, RequestOutcome outcome) {
  return "domain=\"" + domain + "\",outcome=\"" + outcome_name(outcome) + "\"";
}

struct TwoDomains {
  TwoDomains() {
    EXPECT_TRUE(options.domains.add("team-a", {{{std::byte{1}}}, "token of team a"}, 1).ok());
  }
  SessionOptions options;
};

TEST(DomainMetrics, EveryCodeHasOneOutcome) {
  uint32_t seen[kRequestOutcomes] = {};
  for (uint8_t code = 0; code < kCodeCount; ++code)
    ++seen[static_cast<uint8_t>(outcome_of(static_cast<Code>(code)))];
  EXPECT_EQ(seen[static_cast<uint8_t>(RequestOutcome::kHit)], 0u);
  for (uint32_t i = 1; i < kRequestOutcomes; ++i)
    EXPECT_GT(seen[i], 0u) << outcome_name(static_cast<RequestOutcome>(i));
}

// Expect: hits, misses, refusals, errors and timeouts of matches add up to what was asked for.
TEST(DomainMetrics, MatchesAreCountedForWhoAsked) {
  TwoDomains domains;
  World world(1, domains.options);
  TestClient own(world), other(world, 1, 64 * kMiB, "token of team a");
  const uint32_t format = own.register_format(small_format());
  const uint32_t others_format = other.register_format(small_format());
  const auto ids = ids_of(10);
  for (uint32_t i = 0; i < 4; ++i)
    world.homes[0]->known[ids[i]] = i < 3 ? wire::TierKind::kDram : wire::TierKind::kFlash;
  own.wait<wire::MatchedView>(own.match(format, ids));
  for (const Status& failure : {Status::timed_out("late"), Status::io("drive", 5),
                                Status::overloaded("full"), Status::cancelled("gone")}) {
    world.homes[0]->fail_next = failure;
    own.wait<wire::MatchedView>(own.match(format, ids));
  }
  own.wait<wire::MatchedView>(own.match(99, ids));  // no such format
  const auto count = [&](RequestOutcome outcome) {
    return world.metric("varve_domain_match_ids_total", of("default", outcome));
  };
  EXPECT_EQ(count(RequestOutcome::kHit), 4);
  const auto hits = [&](const std::string& domain, const std::string& tier) {
    return world.metric("varve_domain_match_hits_total",
                        "domain=\"" + domain + "\",tier=\"" + tier + "\"");
  };
  EXPECT_EQ(hits("default", "dram"), 3);
  EXPECT_EQ(hits("default", "flash"), 1);
  EXPECT_EQ(hits("team-a", "dram") + hits("team-a", "flash"), 0);
  EXPECT_EQ(count(RequestOutcome::kMiss), 6);
  // The same of the node, in which nobody else asked.
  const auto failed = [&](const char* outcome) {
    return world.metric("varve_match_failed_ids_total", std::string("outcome=\"") + outcome + "\"");
  };
  EXPECT_EQ(world.metric("varve_match_refused_ids_total"), 20);
  EXPECT_EQ(failed("error"), 10);
  EXPECT_EQ(failed("timeout"), 10);
  EXPECT_EQ(failed("cancelled"), 10);
  EXPECT_EQ(count(RequestOutcome::kRefused), 20);
  EXPECT_EQ(count(RequestOutcome::kError), 10);
  EXPECT_EQ(count(RequestOutcome::kTimeout), 10);
  EXPECT_EQ(count(RequestOutcome::kCancelled), 10);
  EXPECT_EQ(world.metric("varve_match_ids_total"), 60);
  for (uint32_t i = 0; i < kRequestOutcomes; ++i) {
    EXPECT_EQ(
        world.metric("varve_domain_match_ids_total", of("team-a", static_cast<RequestOutcome>(i))),
        0);
  }
  other.wait<wire::MatchedView>(other.match(others_format, ids));
  EXPECT_EQ(world.metric("varve_match_ids_total"), 70);
  EXPECT_EQ(count(RequestOutcome::kMiss) + count(RequestOutcome::kHit), 10);
}

TEST(DomainMetrics, PushesAndPullsAreCountedForWhoMadeThem) {
  TwoDomains domains;
  World world(1, domains.options);
  TestClient own(world), other(world, 1, 64 * kMiB, "token of team a");
  const uint32_t format = other.register_format(small_format());
  const auto ids = ids_of(2);
  const uint64_t reserve = other.reserve(format, {ids[0]});
  const auto reserved = other.wait<wire::ReservedView>(reserve);
  const Attempt attempt = reserved.answers[0].attempt;
  other.send_extents(reserve, 0, {ids[0], 0}, attempt, {});
  EXPECT_EQ(
      other.wait<wire::CommittedView>(other.commit(reserve, 0, {ids[0], 0}, attempt)).body.code, 0);
  const std::string label = "domain=\"team-a\"", others = "domain=\"default\"";
  EXPECT_EQ(world.metric("varve_domain_pushed_blocks_total", label), 1);
  EXPECT_EQ(world.metric("varve_domain_received_bytes_total", label),
            world.metric("varve_push_received_bytes_total"));
  EXPECT_EQ(world.metric("varve_domain_pushed_blocks_total", others), 0);
  world.homes[0]->fail_next = Status::unavailable("nothing there");
  other.wait<wire::PulledView>(other.pull(format, ids));
  other.wait<wire::PulledView>(other.pull(format, ids, 77));  // no such lease
  EXPECT_EQ(world.metric("varve_domain_pull_blocks_total", of("team-a", RequestOutcome::kMiss)), 2);
  EXPECT_EQ(world.metric("varve_domain_pull_blocks_total", of("team-a", RequestOutcome::kTimeout)),
            2);
  EXPECT_EQ(world.metric("varve_domain_sent_bytes_total", label),
            world.metric("varve_pull_sent_bytes_total"));
  EXPECT_EQ(world.metric("varve_domain_sent_bytes_total", others), 0);

  // Expect: what is sent is of the tier that had it.
  const auto pulled = [&world](const std::string& domain, const std::string& tier) {
    return world.metric("varve_domain_pull_bytes_total", domain + ",tier=\"" + tier + "\"");
  };
  const int64_t block_bytes = world.metric("varve_domain_received_bytes_total", label);
  ASSERT_GT(block_bytes, 0);
  world.homes[0]->known[ids[0]] = wire::TierKind::kFlash;
  other.wait<wire::PulledView>(other.pull(format, {ids[0]}));
  EXPECT_TRUE(world.run_until([&] { return pulled(label, "flash") == block_bytes; }));
  EXPECT_EQ(pulled(label, "dram"), 0);
  world.homes[0]->known[ids[0]] = wire::TierKind::kDram;
  other.wait<wire::PulledView>(other.pull(format, {ids[0]}));
  EXPECT_TRUE(world.run_until([&] { return pulled(label, "dram") == block_bytes; }));
  EXPECT_EQ(pulled(label, "flash"), block_bytes);
  EXPECT_EQ(pulled(others, "dram") + pulled(others, "flash"), 0);
}

TEST(DomainMetrics, NamesOfABootAreBounded) {
  MetricSet set;
  DomainMetrics metrics;
  Domain domain;
  metrics.introduce(domain, nullptr);
  metrics.register_in(set);
  for (uint32_t n = 2; n < 200; ++n) {
    domain.id = n;
    domain.name = "d" + std::to_string(n);
    metrics.introduce(domain, &set);
    ASSERT_NE(metrics.find(n), nullptr);
  }
  EXPECT_EQ(metrics.find(1)->name, kDomainNameDefault);
  EXPECT_EQ(metrics.find(DomainMetrics::kRowsMax)->name, "d64");
  EXPECT_EQ(metrics.find(199)->name, DomainMetrics::kOthers);
  EXPECT_EQ(metrics.find(150)->name, DomainMetrics::kOthers);
  std::set<std::string> labels;
  for (const MetricSnapshot::Value& value : set.snapshot().values)
    labels.insert(value.name.labels.substr(0, value.name.labels.find(',')));
  EXPECT_EQ(labels.size(), DomainMetrics::kRowsMax + 1);
}

}  // namespace
}  // namespace varve::test
