// One line for each noun, and what every command takes.
#include "tools/kvctl/verb.h"

namespace varve::kvctl {

std::vector<Noun> nouns() {
  return {status_noun(),  tier_noun(),      target_noun(), scrub_noun(), domain_noun(),
          format_noun(),  block_noun(),     match_noun(),  purge_noun(), hold_noun(),
          session_noun(), policy_noun(),    drain_noun(),  put_noun(),   get_noun(),
          doctor_noun(),  completion_noun()};
}

std::vector<Option> common_options() {
  return {
      {"--control", "HOST:PORT", &Arguments::control, "control plane of the node [127.0.0.1:7441]",
       Need::kOptional, "VARVE_CONTROL"},
      {"--token-file", "FILE", &Arguments::token_file,
       "the node's --control-token-file, mode 0600 [none]", Need::kOptional,
       "VARVE_CONTROL_TOKEN_FILE"},
      {"--timeout", "SECONDS", &Arguments::timeout_s,
       "how long each answer may take, 0.1 to 3600 [30; where blocks are purged 90]"},
      {"--json", "", &Arguments::json, "one JSON document instead of text"},
      {"--yes", "", &Arguments::yes, "do not ask before what cannot be taken back"},
  };
}

}  // namespace varve::kvctl
