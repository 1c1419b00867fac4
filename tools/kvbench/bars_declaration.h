// BarsDeclaration: every variable that shaped the numbers, and what was left out, said before them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

struct BarsDeclarationInput {
  WorkingSetShape shape;
  uint32_t lanes = 1;
  uint32_t rounds = 0;
  std::string folder;
  bool quick = false;
};

using BarsDeclaration = std::vector<std::pair<std::string, std::string>>;
BarsDeclaration declare_bars(const BarsDeclarationInput& input);

}  // namespace varve::kvbench
