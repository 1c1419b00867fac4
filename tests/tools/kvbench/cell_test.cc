// A number of storage is of storage alone: one block from memory, and the cell has none.
#include "tools/kvbench/cell.h"

#include <gtest/gtest.h>

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

Cell cell_of(Warmth warmth, std::vector<CellRepetition> repetitions) {
  Cell cell{256, 4, 1, warmth, std::move(repetitions)};
  return cell;
}

TEST(Cell, AColdOneIsOfTheDriveAndAHotOneOfTheSocket) {
  const Cell cold = cell_of(Warmth::kCold, {repetition_of(0, 4), repetition_of(0, 4)});
  EXPECT_EQ(cold.impurity(), "");
  EXPECT_EQ(cold.ratios(), (std::vector<double>{0.8, 0.8}));
  EXPECT_EQ(cold.json()["mode"], "storage_only");
  EXPECT_EQ(cold.json()["ceiling"], "drive");
  const Cell hot = cell_of(Warmth::kHot, {repetition_of(4, 0)});
  EXPECT_EQ(hot.ratios(), std::vector<double>{0.5});
  EXPECT_EQ(hot.json()["mode"], "storage_plus_memory");
  EXPECT_EQ(hot.json()["ceiling"], "socket");
}

TEST(Cell, OneBlockOfAnotherTierInOneRepetitionTakesTheNumbers) {
  for (const Cell& cell : {cell_of(Warmth::kCold, {repetition_of(0, 4), repetition_of(1, 3)}),
                           cell_of(Warmth::kHot, {repetition_of(4, 0), repetition_of(3, 1)})}) {
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
  EXPECT_NE(cell_of(Warmth::kCold, {missing}).impurity(), "");
  EXPECT_NE(cell_of(Warmth::kCold, {}).impurity(), "");
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
