// From a command line to an exit code: parse, make what the command needs, run it, say what failed.
#include "tools/kvctl/kvctl.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "tools/kvctl/call.h"
#include "tools/kvctl/command_tree.h"

namespace varve::kvctl {

namespace {

// K1: one line, whatever it is made of.
void say(Console& console, bool json, const Outcome& outcome) {
  if (outcome.text.empty()) return;
  if (json) {
    const Json error = {{"error", {{"code", outcome.code}, {"message", outcome.text}}}};
    console.err << error.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    console.err << "kvctl: " << outcome.text << "\n";
  }
}

Outcome carry_out(const Parsed& parsed, Console& console) {
  NodeAddress address;
  address.control = parsed.arguments.control;
  address.token_file = parsed.arguments.token_file;
  address.timeout_ns = static_cast<Nanos>(parsed.arguments.timeout_s * 1e9);
  NodeClient node(std::move(address));
  Call call{console, parsed.arguments, node, Paint(console.colour)};
  return parsed.run(call);
}

}  // namespace

Exit run(const std::vector<std::string>& arguments, Console& console) {
  CommandTree tree;
  const Parsed parsed = tree.parse(arguments);
  if (!parsed.text.empty()) {
    console.out << parsed.text;
    return Exit::kDone;
  }
  // What failed to parse may have failed before --json was read.
  const bool json = parsed.arguments.json ||
                    std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  const Outcome outcome =
      parsed.run == nullptr ? Outcome::usage(parsed.problem) : carry_out(parsed, console);
  say(console, json, outcome);
  return outcome.exit;
}

}  // namespace varve::kvctl
