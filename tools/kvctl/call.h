// Call: one command being carried out: what was asked, whom to ask, and where answers go.
#pragma once

#include <string>

#include "tools/kvctl/json.h"
#include "tools/kvctl/node_client.h"
#include "tools/kvctl/text.h"
#include "tools/kvctl/verb.h"

namespace varve::kvctl {

struct Call {
  Console& console;
  const Arguments& arguments;
  NodeClient& node;
  Paint paint;

  // The answer, as text or with --json as the message.
  Outcome show(const google::protobuf::Message& message, const std::string& text);
  Outcome show(const Json& json, const std::string& text);
  // Whether what cannot be taken back shall happen: `deed` as in "purge domain x".
  Outcome confirm(const std::string& deed);
};

// The token of a file, where one is given: mode 0600 is looked for.
Outcome load_token_file(const char* option, const std::string& file, std::string* token);
// Bytes of hex; `what` as in "a base id".
Outcome read_hex(const std::string& what, const std::string& hex, size_t bytes_min,
                 size_t bytes_max, std::string* bytes);
// Base ids of words and of a file with one a line ("-": standard input), 1 to 2048 in all.
Outcome read_ids(Call& call, std::vector<std::string>* ids);
// How much a purge ended, in a line.
std::string purged_text(const v1::PurgeResponse& purged);
// Whole, at most `bytes_max` of it; "-": standard input.
Outcome read_whole(Call& call, const std::string& path, size_t bytes_max, std::string* content);

}  // namespace varve::kvctl
