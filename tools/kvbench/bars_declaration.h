// Declaration: every variable that shaped the numbers, and what was left out, said before them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

struct DeclarationInput {
  WorkingSetShape shape;
  uint32_t lanes = 1;
  uint32_t rounds = 0;
  std::string program;  // path of this program: its build's cache stands beside it
  std::string folder;
  bool quick = false;
};

using Declaration = std::vector<std::pair<std::string, std::string>>;
Declaration declare(const DeclarationInput& input);

// The value of `key` in a CMake cache ("KEY:TYPE=value"), "unknown" when absent. Pure.
std::string cache_value(const std::string& cache, const std::string& key);

}  // namespace varve::kvbench
