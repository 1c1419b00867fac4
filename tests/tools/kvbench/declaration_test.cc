// The document is complete or there is none: each field of the schema is declared or omitted with a
// reason, and a value of the wrong form, or a condition that is broken, is refused.
#include "tools/kvbench/declaration.h"

#include <gtest/gtest.h>

#include <set>

namespace varve::kvbench {
namespace {

constexpr const char* kReason = "not known in this test";

// Everything is omitted, the rest is as it must be.
Declaration omitting_all_but(const std::set<std::string>& kept) {
  Declaration declaration;
  for (const char* key : {"run_id", "timestamp", "git_commit", "host_fingerprint", "declared_by",
                          "reproduction_command"})
    declaration.head(key, "x");
  declaration.head("machine_quiet", true);
  declaration.head("load_average", 0.1);
  declaration.result("label", "measured");
  declaration.result("verified", {{"bytes", 1}, {"wrong_blocks", 0}, {"content", "all"}});
  for (const DeclarationField& field : declaration_fields()) {
    if (kept.count(field.name) == 0) declaration.omit(field.name, kReason);
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

TEST(Declaration, WithEveryFieldOmittedForAReasonItIsValid) {
  const Declaration declaration = omitting_all_but({});
  EXPECT_EQ(first_problem(declaration), "");
  EXPECT_TRUE(declaration.text().has_value());
}

TEST(Declaration, SilenceAboutAnyOneFieldIsRefused) {
  for (const DeclarationField& field : declaration_fields()) {
    const Declaration silent = omitting_all_but({field.name});
    EXPECT_NE(first_problem(silent).find(field.name + " is"), std::string::npos) << field.name;
    EXPECT_FALSE(silent.text().has_value());
  }
}

TEST(Declaration, AFieldBothDeclaredAndOmittedIsRefused) {
  Declaration both = omitting_all_but({});
  both.declare("topology.kind", "single_node_local");
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
