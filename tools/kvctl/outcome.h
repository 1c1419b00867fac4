// Outcome: how a command ended, and why when it did not do what it was asked.
#pragma once

#include <string>

#include "tools/kvctl/kvctl.h"

namespace varve::kvctl {

struct [[nodiscard]] Outcome {
  Exit exit = Exit::kDone;
  std::string code;  // the name of a code of gRPC, whoever says it; empty: nothing to be said
  std::string text;  // cause and remedy, in one line
  bool ok() const { return exit == Exit::kDone; }

  static Outcome done() { return {}; }
  static Outcome usage(std::string text) {
    return {Exit::kUsage, "INVALID_ARGUMENT", std::move(text)};
  }
  // Of this machine or of what was found there.
  static Outcome failed(std::string text) {
    return {Exit::kFailed, "FAILED_PRECONDITION", std::move(text)};
  }
};

}  // namespace varve::kvctl
