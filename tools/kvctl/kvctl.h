// kvctl: the operator's tool. Asks one node's control plane (proto/varve/v1/control.proto), looks
// at the machine it runs on, and puts and gets files through the data plane to try a node out.
//
// Owns: the tree of commands, what they print, exit codes, completion of shells. Called by main and
// the tests. One thread. gRPC stands in node_client.cc alone, CLI11 in command_tree.cc and
// completion.cc. Invariants:
//   K1 what a command has to say goes to `out`, all else to `err`; with --json `out` has one
//      document or nothing, and an error is one line of JSON on `err`.
//   K2 an error names cause and remedy, and never a token.
//   K3 what cannot be taken back is asked for, or needs --yes where nobody can be asked.
//   K4 every wait ends: by its answer or --timeout.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace varve::kvctl {

enum class Exit : int {
  kDone = 0,
  kFailed = 1,     // the node refused, it failed, or doctor found something wrong
  kUsage = 2,      // of this command; nothing was asked
  kUnreached = 3,  // no node there, or it is starting or stopping
  kDenied = 4,     // no token, or a wrong one
  kTimedOut = 5,   // --timeout passed, the connection ended, or the node could not go on: what was
                   // begun may go on, or be done in part
};

// The streams, and whether people are at them.
struct Console {
  std::ostream& out;
  std::ostream& err;
  std::istream& in;
  bool colour = false;       // `out` is a terminal, and NO_COLOR is not set
  bool interactive = false;  // somebody can be asked: `in` and `err` are terminals
};

// The whole tool, without its name as an argument.
Exit run(const std::vector<std::string>& arguments, Console& console);

}  // namespace varve::kvctl
