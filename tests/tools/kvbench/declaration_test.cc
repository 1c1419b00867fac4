// The document is complete or there is none: each field of the schema is declared or omitted with a
// reason, and a value of the wrong form, or a condition that is broken, is refused.
#include "tools/kvbench/declaration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace varve::kvbench {
namespace {

constexpr const char* kReason = "not known in this test";

// Of what every run knows, in forms that the schema takes.
const Json& always() {
  static const Json fields = {
      {"topology.kind", "single_node_local"},
      {"network.present", false},
      {"virtualization", {{"kind", "kvm"}}},
      {"os", {{"kernel", "k"}, {"cpu", "c"}, {"cores", 2}, {"memory", "1"}, {"huge_pages", "no"}}},
      {"hardware", Json::object()},
      {"engine.name", "none"},
      {"engine.connector", "none"},
      {"engine.params", Json::object()},
      {"workload.source", {{"name", "n"}, {"source", "s"}}},
      {"workload.arrival", {{"kind", "poisson"}}},
      {"workload.concurrent_requests", 1},
      {"workload.duration", {{"warmup_s", 0}, {"duration_s", 1}, {"repetitions", 5}}}};
  return fields;
}

// Everything that may be is omitted, the rest is as it must be; of `kept` nothing is said.
Declaration omitting_all_but(const std::set<std::string>& kept, const char* mode = "in_process",
                             const char* label = "measured") {
  Declaration declaration;
  for (const char* key :
       {"run_id", "timestamp", "host_fingerprint", "declared_by", "reproduction_command"})
    declaration.head(key, "x");
  declaration.head("git_commit", std::string(40, 'a'));
  declaration.omit("server_commit", kReason);
  declaration.head("machine_quiet", true);
  declaration.head("load_average", 0.1);
  declaration.result("label", label);
  if (kept.count("results.mode") == 0) declaration.result("mode", mode);
  declaration.result("verified", {{"bytes", 1}, {"wrong_blocks", 0}, {"content", "all"}});
  for (const DeclarationField& field : declaration_fields()) {
    if (kept.count(field.name) > 0 || field.name == "results.mode") continue;
    if (always().contains(field.name)) {
      declaration.declare(field.name, always()[field.name]);
    } else {
      declaration.omit(field.name, kReason);
    }
  }
  return declaration;
}

std::string first_problem(const Declaration& declaration) {
  const auto problems = declaration.problems();
  return problems.empty() ? "" : problems[0];
}

TEST(Declaration, TheSchemaHasEveryRowOfTheTableOnce) {
  std::set<std::string> rows;
  for (const DeclarationField& field : declaration_fields())
    EXPECT_TRUE(rows.insert(field.comment).second) << field.name;
  for (int row = 1; row <= 102; ++row)
    EXPECT_EQ(rows.count("table B " + std::to_string(row)), 1u) << row;
  EXPECT_EQ(rows.size(), 102u);
}

TEST(Declaration, WithEveryFieldOmittedThatMayBeItIsValid) {
  const Declaration declaration = omitting_all_but({});
  EXPECT_EQ(first_problem(declaration), "");
  EXPECT_TRUE(declaration.text().has_value());
}

TEST(Declaration, WhatEveryRunKnowsMayNotBeOmitted) {
  for (const auto& [field, value] : always().items()) {
    Declaration omitted = omitting_all_but({field});
    omitted.omit(field, kReason);
    EXPECT_NE(first_problem(omitted), "") << field;
  }
  Declaration sourceless = omitting_all_but({});
  sourceless.head("git_commit", "unknown");
  EXPECT_NE(first_problem(sourceless), "");
}

TEST(Declaration, WhatAStoreIsMayBeOmittedOnlyByWhoDidNotStartIt) {
  const auto lacks = [](const Declaration& declaration, const char* field) {
    for (const std::string& problem : declaration.problems()) {
      if (problem == std::string("/declaration: lacks \"") + field + "\"") return true;
    }
    return false;
  };
  const auto own = omitting_all_but({}, "storage_plus_memory", "measured");
  const auto others = omitting_all_but({}, "storage_plus_memory", "unknown");
  const auto ceiling = omitting_all_but({}, "no_store", "measured");
  for (const char* field : {"tiers[].name", "tiers[].capacity_bytes", "tiers[].eviction.policy",
                            "tiers[].admission.gate", "placement.shard_policy"}) {
    EXPECT_TRUE(lacks(own, field)) << field;
    EXPECT_FALSE(lacks(others, field)) << field;
    EXPECT_FALSE(lacks(ceiling, field)) << field;
  }
  for (const char* field : {"io[].mechanism", "io[].queue_depth", "codec.name", "ec.scheme"}) {
    EXPECT_TRUE(lacks(own, field)) << field;
    EXPECT_TRUE(lacks(ceiling, field)) << field;
    EXPECT_FALSE(lacks(others, field)) << field;
  }
  for (const char* field : {"interface", "network.pacing", "hits.counted_as"}) {
    EXPECT_TRUE(lacks(others, field)) << field;
    EXPECT_FALSE(lacks(ceiling, field)) << field;
  }
  for (const char* field : {"cache_state_proof", "transfer.order", "tensor.data_source"}) {
    EXPECT_TRUE(lacks(ceiling, field)) << field;
    EXPECT_TRUE(lacks(others, field)) << field;
  }
}

TEST(Declaration, SilenceAboutAnyOneFieldIsRefused) {
  for (const DeclarationField& field : declaration_fields()) {
    const Declaration silent = omitting_all_but({field.name});
    const auto problems = silent.problems();
    EXPECT_TRUE(std::any_of(problems.begin(), problems.end(), [&field](const std::string& p) {
      return p.find(field.name + " is") != std::string::npos;
    })) << field.name;
    EXPECT_FALSE(silent.text().has_value());
  }
}

TEST(Declaration, AFieldBothDeclaredAndOmittedIsRefused) {
  Declaration both = omitting_all_but({});
  both.omit("topology.kind", kReason);
  EXPECT_NE(first_problem(both), "");
}

TEST(Declaration, APartThatIsOmittedLeavesTheFieldDeclared) {
  Declaration part = omitting_all_but({"power"});
  part.omit_part("power", "idle_w", kReason);
  EXPECT_NE(first_problem(part), "");
  part.declare("power", {{"method", "a meter"}});
  EXPECT_EQ(first_problem(part), "");
}

TEST(Declaration, AnOmissionNeedsAReasonAndAKnownField) {
  Declaration unknown = omitting_all_but({});
  unknown.omit("topology.kinds", kReason);
  EXPECT_NE(first_problem(unknown), "");
  Declaration curt = omitting_all_but({"power"});
  curt.omit("power", "no");
  EXPECT_NE(first_problem(curt), "");
}

TEST(Declaration, AValueOfTheWrongFormIsRefused) {
  const std::pair<const char*, Json> wrong[] = {
      {"topology.kind", "moon"},
      {"tiers[].capacity_bytes", {{"dram", 0}}},
      {"io[].mechanism", {{"nvme_local", "fast"}}},
      {"workload.prefix_reuse_rate", {{"ideal", 1.5}, {"observed", 0.1}}},
      {"interface", nullptr},
      {"results.mode", "both"},
  };
  for (const auto& [field, value] : wrong) {
    Declaration declaration = omitting_all_but({field});
    const std::string name = field;
    if (name.starts_with("results.")) {
      declaration.result(name.substr(8), value);
    } else {
      declaration.declare(name, value);
    }
    EXPECT_NE(first_problem(declaration), "") << field;
  }
}

TEST(Declaration, WrongBytesAreNoResult) {
  Declaration wrong = omitting_all_but({});
  wrong.result("verified", {{"bytes", 1}, {"wrong_blocks", 1}, {"content", "all"}});
  EXPECT_NE(first_problem(wrong), "");
  Declaration unverified = omitting_all_but({});
  unverified.result("verified", nullptr);
  EXPECT_NE(first_problem(unverified), "");
}

TEST(Declaration, WhatServedIsSaidOfEachModeAndNoOtherModeIsKnown) {
  const auto says = [](const Declaration& declaration, const char* text) {
    for (const std::string& problem : declaration.problems()) {
      if (problem.find(text) != std::string::npos) return true;
    }
    return false;
  };
  for (const char* mode : {"storage_only", "storage_plus_memory"}) {
    Declaration run = omitting_all_but({}, mode, "measured");
    EXPECT_TRUE(says(run, "lacks \"served\"")) << mode;
  }
  Declaration unknown = omitting_all_but({}, "storage_only", "unknown");
  EXPECT_TRUE(says(unknown, "label")) << "whose counters nobody saw";
  EXPECT_NE(first_problem(omitting_all_but({}, "memory_only")), "");
}

TEST(Declaration, ACellIsOfItsTierAndItsState) {
  const auto problem_with = [](const char* tier, const char* state, const char* mode) {
    Declaration sweep = omitting_all_but({});
    sweep.result("cells",
                 Json::array({{{"tier", tier}, {"state", state}, {"mode", mode}, {"pure", true}}}));
    return first_problem(sweep);
  };
  EXPECT_EQ(problem_with("flash", "cold", "storage_only"), "");
  EXPECT_EQ(problem_with("flash", "hot", "storage_only"), "");
  EXPECT_EQ(problem_with("dram", "hot", "storage_plus_memory"), "");
  EXPECT_NE(problem_with("dram", "cold", "storage_plus_memory"), "");
  EXPECT_NE(problem_with("dram", "hot", "storage_only"), "");
  EXPECT_NE(problem_with("flash", "hot", "storage_plus_memory"), "");
}

TEST(Declaration, AConditionThatIsBrokenIsRefused) {
  Declaration lossy = omitting_all_but({"codec.class"});
  lossy.declare("codec.class", "lossy");
  EXPECT_NE(first_problem(lossy).find("lossy"), std::string::npos) << first_problem(lossy);
  Declaration warm = omitting_all_but({"cache_state"});
  warm.declare("cache_state", "warm");
  EXPECT_NE(first_problem(warm), "");
  Declaration emulated = omitting_all_but({"tiers[].emulated"});
  emulated.declare("tiers[].emulated", {{"nvme_local", {{"emulated", true}}}});
  EXPECT_NE(first_problem(emulated), "");
  emulated.result("label", "emulated");
  EXPECT_EQ(first_problem(emulated), "");
  Declaration coded = omitting_all_but({"ec.scheme"});
  coded.declare("ec.scheme", {{"kind", "xor"}, {"k", 2}, {"m", 1}});
  EXPECT_NE(first_problem(coded), "");
}

}  // namespace
}  // namespace varve::kvbench
