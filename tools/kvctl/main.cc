// kvctl: one command of an operator; see kvctl --help, and docs/OPERATIONS.md.
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "common/base/base.h"
#include "tools/kvctl/kvctl.h"

int main(int argc, char** argv) {
  varve::kvctl::Console console{std::cout, std::cerr, std::cin};
  const char* no_colour = std::getenv("NO_COLOR");
  console.colour = ::isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
  console.interactive = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  varve::log_level_set(varve::LogLevel::kError);  // libvarve's lines are no answer to an operator
  return static_cast<int>(varve::kvctl::run({argv + 1, argv + argc}, console));
}
