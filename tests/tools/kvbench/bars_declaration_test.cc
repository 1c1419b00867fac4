// What is declared: the parts that can be known without the machine.
#include "tools/kvbench/bars_declaration.h"

#include <gtest/gtest.h>

#include <set>

namespace varve::kvbench {
namespace {

TEST(BarsDeclaration, EverythingThatShapedTheNumbersIsNamed) {
  BarsDeclarationInput input;
  input.folder = ".";
  input.lanes = 2;
  std::set<std::string> keys;
  for (const auto& [key, value] : declare_bars(input)) {
    EXPECT_FALSE(value.empty()) << key;
    keys.insert(key);
  }
  for (const char* key :
       {"cpu", "cores", "kernel", "compiler", "flags", "io_backend", "congestion_control", "lanes",
        "extent_bytes", "working_set", "process_split", "source", "verification", "queue_depth",
        "codec", "erasure_coding", "ONE_DISK", "fabric", "omissions"}) {
    EXPECT_EQ(keys.count(key), 1u) << key;
  }
}

TEST(BarsDeclaration, AQuickRunSaysThatItIsOne) {
  BarsDeclarationInput input;
  input.folder = ".";
  input.quick = true;
  bool said = false;
  for (const auto& [key, value] : declare_bars(input)) {
    said = said || (key == "mode" && value.find("quick") == 0);
  }
  EXPECT_TRUE(said);
}

}  // namespace
}  // namespace varve::kvbench
