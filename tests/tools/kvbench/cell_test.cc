// A number of storage is of storage alone: one block from memory, and the cell has none.
#include "tools/kvbench/cell.h"

#include <gtest/gtest.h>

#include <set>

namespace varve::kvbench {
namespace {

CellRepetition repetition_of(uint32_t dram, uint32_t flash) {
  CellRepetition r;
  r.blocks = dram + flash;
  r.dram_blocks = dram;
  r.flash_blocks = flash;
  r.bytes = 4000;
  r.busy_ns = 1000;
  r.socket_rate = 8;
  r.drive_rate = 5;
  r.first_ms = {1};
  r.last_ms = {3};
  return r;
}

constexpr CellKind kDramHot{CellTier::kDram, CellState::kHot};
constexpr CellKind kFlashHot{CellTier::kFlash, CellState::kHot};
constexpr CellKind kFlashCold{CellTier::kFlash, CellState::kCold};

Cell cell_of(CellKind kind, std::vector<CellRepetition> repetitions) {
  Cell cell{256, 4, 1, kind, std::move(repetitions)};
  return cell;
}

TEST(Cell, OneOfFlashIsOfTheDriveAndOneOfDramOfTheSocketHotOrCold) {
  for (const CellKind kind : {kFlashCold, kFlashHot}) {
    const Cell flash = cell_of(kind, {repetition_of(0, 4), repetition_of(0, 4)});
    EXPECT_EQ(flash.impurity(), "");
    EXPECT_EQ(flash.ratios(), (std::vector<double>{0.8, 0.8}));
    EXPECT_EQ(flash.json()["mode"], "storage_only");
    EXPECT_EQ(flash.json()["ceiling"], "drive");
    EXPECT_EQ(flash.json()["tier"], "flash");
    EXPECT_EQ(flash.json()["state"], kind == kFlashHot ? "hot" : "cold");
    EXPECT_NE(flash.line().find(kind == kFlashHot ? "flash hot " : "flash cold "),
              std::string::npos);
  }
  const Cell hot = cell_of(kDramHot, {repetition_of(4, 0)});
  EXPECT_EQ(hot.ratios(), std::vector<double>{0.5});
  EXPECT_EQ(hot.json()["mode"], "storage_plus_memory");
  EXPECT_EQ(hot.json()["ceiling"], "socket");
}

TEST(Cell, WhatIsNoKindSaysWhyAndTheOthersWhatTheyMean) {
  EXPECT_NE(std::string(problem_of_kind({CellTier::kDram, CellState::kCold})).find("dram x cold"),
            std::string::npos);
  std::set<std::string> meanings;
  for (const CellKind kind : {kDramHot, kFlashHot, kFlashCold}) {
    EXPECT_STREQ(problem_of_kind(kind), "");
    EXPECT_TRUE(meanings.insert(meaning_of(kind)).second);
  }
}

TEST(Cell, OneBlockOfAnotherTierInOneRepetitionTakesTheNumbers) {
  for (const Cell& cell : {cell_of(kFlashCold, {repetition_of(0, 4), repetition_of(1, 3)}),
                           cell_of(kFlashHot, {repetition_of(0, 4), repetition_of(1, 3)}),
                           cell_of(kDramHot, {repetition_of(4, 0), repetition_of(3, 1)})}) {
    EXPECT_NE(cell.impurity(), "");
    const Json json = cell.json();
    EXPECT_EQ(json["pure"], false);
    EXPECT_FALSE(json.contains("pull_gb_per_s"));
    EXPECT_FALSE(json.contains("of_ceiling"));
    EXPECT_NE(cell.line().find("NOT PURE"), std::string::npos);
    EXPECT_EQ(cell.line().find("GB/s"), std::string::npos);
  }
}

TEST(Cell, BlocksThatDidNotComeTakeTheNumbersToo) {
  CellRepetition missing = repetition_of(0, 4);
  missing.failed_blocks = 1;
  EXPECT_NE(cell_of(kFlashCold, {missing}).impurity(), "");
  EXPECT_NE(cell_of(kFlashCold, {}).impurity(), "");
}

TEST(Cell, APullIsCountedWithoutTheMatchBeforeIt) {
  Played played;
  played.blocks = 3;
  played.decode.blocks = 2;
  played.decode.dram_blocks = 2;
  played.decode.took_ns = 4 * kMillisecond;
  played.decode.first_layer_ns = 6 * kMillisecond;
  played.decode.last_layer_ns = 9 * kMillisecond;
  played.decode.bytes = 10;
  CellRepetition r;
  r.add(played);
  EXPECT_EQ(r.first_ms, std::vector<double>{1});
  EXPECT_EQ(r.last_ms, std::vector<double>{4});
  EXPECT_EQ(r.failed_blocks, 1u);
  EXPECT_EQ(r.bytes, 10u);
}

}  // namespace
}  // namespace varve::kvbench
