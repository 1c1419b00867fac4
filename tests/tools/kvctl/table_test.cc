// Goal: columns stand under their heads, whatever is in them, and no line ends in blanks.
#include "tools/kvctl/table.h"

#include <gtest/gtest.h>

namespace varve::kvctl {
namespace {

TEST(Table, AlignsTextLeftAndNumbersRight) {
  Table table({"NAME", ">SIZE", ""});
  table.row({"a", "1.0 GiB", ""});
  table.row({"longer", "3 B", "note"});
  EXPECT_EQ(table.text(Paint(false)),
            "NAME       SIZE\n"
            "a       1.0 GiB\n"
            "longer      3 B  note\n");
}

TEST(Table, KeepsItsColumnsWithColoursAndLetters) {
  Table table({"STATE", ">N"});
  table.row({Cell("ok", Tone::kGood), "1"});
  table.row({Cell("g\xc3\xbcltig", Tone::kBad), "20"});
  EXPECT_EQ(table.text(Paint(true)),
            "\033[2mSTATE\033[0m    \033[2mN\033[0m\n"
            "\033[32mok\033[0m       1\n"
            "\033[31mg\xc3\xbcltig\033[0m  20\n");
}

TEST(Facts, StandBesideTheirNamesAndWrapUnderThemselves) {
  Facts facts;
  facts.add("node", "x");
  facts.add("degraded", std::string(60, 'a') + " " + std::string(60, 'b'));
  EXPECT_EQ(facts.text(Paint(false)),
            "node      x\n"
            "degraded  " +
                std::string(60, 'a') + "\n          " + std::string(60, 'b') + "\n");
}

}  // namespace
}  // namespace varve::kvctl
