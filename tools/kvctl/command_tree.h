// CommandTree: the table of commands as a tree of CLI11, and what it says of a command line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/kvctl/verb.h"

namespace CLI {
class App;
}

namespace varve::kvctl {

// Exactly one: a command to run, a text to print (help, version), or a problem.
struct Parsed {
  Outcome (*run)(Call& call) = nullptr;
  Arguments arguments;
  std::string text;
  const char* text_name = "";  // "help", "version"
  std::string problem;
};

class CommandTree {
 public:
  CommandTree();
  ~CommandTree();
  CommandTree(const CommandTree&) = delete;
  CommandTree& operator=(const CommandTree&) = delete;

  Parsed parse(const std::vector<std::string>& arguments);  // once
  const CLI::App& app() const;

 private:
  struct Tree;
  const std::unique_ptr<Tree> tree_;
};

}  // namespace varve::kvctl
