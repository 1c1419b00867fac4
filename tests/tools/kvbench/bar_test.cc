// Medians, spreads and the lines that other programs read.
#include "tools/kvbench/bar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace varve::kvbench {
namespace {

Bar ratio_bar(std::vector<double> rounds) {
  Bar bar;
  bar.name = "pull";
  bar.unit = "ratio";
  bar.target = 0.85;
  bar.rounds = std::move(rounds);
  return bar;
}

TEST(Bar, TheMedianIsTheMiddleOneOrTheMeanOfTheTwoMiddleOnes) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({7}), 7);
}

TEST(Bar, TheSpreadGoesFromTheLowestToTheHighest) {
  const Spread spread = spread_of({5, 1, 9});
  EXPECT_EQ(spread.low, 1);
  EXPECT_EQ(spread.middle, 5);
  EXPECT_EQ(spread.high, 9);
}

TEST(Bar, ALineNamesValueTargetAndVerdict) {
  EXPECT_EQ(ratio_bar({0.9, 0.8, 0.91}).line(), "bar pull 0.9000 0.8500 ok");
  EXPECT_EQ(ratio_bar({0.9, 0.8, 0.81}).line(), "bar pull 0.8100 0.8500 short");
}

TEST(Bar, ATargetThatMustNotBePassedIsMetFromBelow) {
  Bar bar = ratio_bar({92});
  bar.target = 96;
  bar.sense = Sense::kAtMost;
  EXPECT_EQ(bar.line(), "bar pull 92.00 96.00 ok");
  bar.rounds = {97};
  EXPECT_EQ(bar.line(), "bar pull 97.00 96.00 short");
}

TEST(Bar, AFactHasNoTargetAndNoVerdict) {
  Bar bar = ratio_bar({0.9, 0.8, 0.7});
  bar.sense = Sense::kNoTarget;
  EXPECT_EQ(bar.line(), "fact pull 0.8000");
  EXPECT_NE(bar.details().find("no target"), std::string::npos);
  EXPECT_EQ(bar.json()["result"], "fact");
  EXPECT_FALSE(bar.json().contains("target"));
}

TEST(Bar, AQuantileIsAValueThatWasMeasured) {
  std::vector<double> values;
  for (uint32_t i = 200; i >= 1; --i)
    values.push_back(i);
  EXPECT_EQ(quantile(values, 990), 198);
  EXPECT_EQ(quantile(values, 500), 100);
  EXPECT_EQ(quantile(values, 1000), 200);
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile({5, 7}, 990), 7) << "few values: the largest";
}

TEST(Bar, ARefusedBarHasNoNumberWhateverItsRoundsSay) {
  Bar bar = ratio_bar({0.99});
  bar.refused = "bytes were wrong";
  EXPECT_FALSE(bar.is_ok());
  EXPECT_EQ(bar.line(), "refused pull bytes were wrong");
  EXPECT_EQ(bar.details().find("spread"), std::string::npos);
  EXPECT_EQ(ratio_bar({}).line(), "refused pull no rounds");
}

TEST(Bar, NumbersKeepFourDigitsAndNeverAnExponent) {
  EXPECT_EQ(number_text(0.87314), "0.8731");
  EXPECT_EQ(number_text(4.2149), "4.215");
  EXPECT_EQ(number_text(42.149), "42.15");
  EXPECT_EQ(number_text(421.49), "421.5");
  EXPECT_EQ(number_text(5300000), "5300000");
}

TEST(Bar, TheJsonHoldsEveryRoundAndTheSetup) {
  Bar good = ratio_bar({0.9, 0.8, 0.7});
  good.fact("pull", "1 GB/s");
  good.setup.has_daemon = true;
  good.setup.targets = 3;
  good.setup.schemes = {Scheme{2, 1}, Scheme{1, 0}};
  const Json json = good.json();
  EXPECT_EQ(json["value"], 0.8);
  EXPECT_EQ(json["result"], "short");
  EXPECT_EQ(json["rounds"].size(), 3u);
  EXPECT_EQ(json["facts"]["pull"], "1 GB/s");
  EXPECT_EQ(json["setup"]["targets"], 3);
  EXPECT_EQ(json["setup"]["schemes"], (std::vector<std::string>{"2+1", "1+0"}));
  EXPECT_FALSE(json["setup"].contains("dram_bytes")) << "it has none";
  Bar bad = ratio_bar({});
  bad.refused = "no hits";
  EXPECT_EQ(bad.json()["result"], "refused");
  EXPECT_EQ(bad.json()["why"], "no hits");
  EXPECT_FALSE(bad.json().contains("value"));
}

}  // namespace
}  // namespace varve::kvbench
