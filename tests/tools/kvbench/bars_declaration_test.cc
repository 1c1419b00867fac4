// What is declared: the parts that can be known without the machine.
#include "tools/kvbench/declaration.h"

#include <gtest/gtest.h>

#include <set>

namespace varve::kvbench {
namespace {

TEST(Declaration, ACacheValueIsFoundByItsWholeKey) {
  const std::string cache =
      "# comment\nCMAKE_CXX_FLAGS_X:STRING=-O0\nCMAKE_CXX_FLAGS:STRING=-O3 -g\n"
      "VARVE_SANITIZE:STRING=\n";
  EXPECT_EQ(cache_value(cache, "CMAKE_CXX_FLAGS"), "-O3 -g");
  EXPECT_EQ(cache_value(cache, "VARVE_SANITIZE"), "(none)");
  EXPECT_EQ(cache_value(cache, "VARVE_MARCH"), "unknown");
  EXPECT_EQ(cache_value("", "VARVE_MARCH"), "unknown");
}

TEST(Declaration, EverythingThatShapedTheNumbersIsNamed) {
  DeclarationInput input;
  input.program = "nowhere/varve_bench";
  input.folder = ".";
  input.lanes = 2;
  std::set<std::string> keys;
  for (const auto& [key, value] : declare(input)) {
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

TEST(Declaration, AQuickRunSaysThatItIsOne) {
  DeclarationInput input;
  input.folder = ".";
  input.quick = true;
  bool said = false;
  for (const auto& [key, value] : declare(input)) {
    said = said || (key == "mode" && value.find("quick") == 0);
  }
  EXPECT_TRUE(said);
}

}  // namespace
}  // namespace varve::kvbench
