// completion: scripts for shells, made from the tree of commands, so that neither can know others.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace varve::kvctl {

enum class Shell { kBash, kZsh, kFish };

std::string completion_script(const CLI::App& app, Shell shell);

}  // namespace varve::kvctl
