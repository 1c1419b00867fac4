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
  // What ended the parsing may have done so before --json was read.
  const bool json = parsed.arguments.json ||
                    std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  Outcome outcome;
  if (!parsed.text.empty()) {
    console.out << (json ? document(Json{{parsed.text_name, parsed.text}}) : parsed.text);
  } else {
    outcome = parsed.run == nullptr ? Outcome::usage(parsed.problem) : carry_out(parsed, console);
  }
  // An answer that nobody got (a full disk, a closed pipe) is none.
  if (outcome.text.empty() && !console.out.flush()) {
    outcome = Outcome::failed(
        "the answer cannot be written to standard output, but what was asked is done; free space "
        "where it goes, and look again before it is asked twice");
  }
  say(console, json, outcome);
  return outcome.exit;
}

}  // namespace varve::kvctl
