// BarsDeclaration: what a run of bars declares, and what of it is printed for people.
#pragma once

#include <string>
#include <vector>

#include "tools/kvbench/bar.h"
#include "tools/kvbench/conditions.h"

namespace varve::kvbench {

struct BarsRun {
  RunStart start;
  std::vector<Bar> bars;  // measured or refused; one at least
  std::string folder;     // in which the daemons had their targets
  std::string hardware_path;
  bool quick = false;
  std::string server_commit;  // of varved; empty: it could not be asked
};

// Fields that differ by bar are those of the first one that has a daemon; each names its own in
// results.bars. Where none has a daemon nothing of a store is declared.
Status declare_bars(const BarsRun& run, Declaration& out);

// "declare <field> <value>", of every field.
std::vector<std::string> declared_lines(const Declaration& declaration);

}  // namespace varve::kvbench
