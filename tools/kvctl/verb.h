// The commands as a table: nouns, their verbs, what each takes, what runs it. What the command line
// accepts, --help, completion and docs come from it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tools/kvctl/outcome.h"

namespace varve::kvctl {

struct Call;

// What a command line can say. The first five belong to every command, the others to those whose
// options name them.
struct Arguments {
  std::string control = "127.0.0.1:7441";
  std::string token_file;
  double timeout_s = 0;  // 0 = the command's own
  bool json = false;
  bool yes = false;

  std::string address = "127.0.0.1:7440";  // of the data plane
  std::string client_token_file;           // of the data plane
  std::vector<std::string> ids;            // base ids in hex
  std::string ids_file;
  std::vector<uint32_t> targets;
  uint32_t target = 0;
  std::string uuid, path;
  std::string name, value;  // of a policy, a domain
  std::string domain, lineage;
  std::string format, other_format;  // beginnings of fingerprints in hex
  uint32_t ranks = 0;
  std::string quota;  // "10GiB"
  std::string session, shell, file, key, data, config;
  bool force = false, all = false, canonical = false, local = false, remote = false;
};

using Field = std::variant<std::string Arguments::*, std::vector<std::string> Arguments::*,
                           std::vector<uint32_t> Arguments::*, uint32_t Arguments::*,
                           uint64_t Arguments::*, double Arguments::*, bool Arguments::*>;

enum class Need : uint8_t { kOptional, kRequired };

struct Option {
  const char* name;  // "--uuid"; "INDEX": a word in its place
  const char*
      value;  // what is given: "HEX", "FILE" (completed as such), "a|b" (these); "": a switch
  Field field;
  const char* help;
  Need need = Need::kOptional;
  const char* variable = nullptr;  // of the environment
};

struct Verb {
  const char* name;  // "": the noun alone is the command
  const char* help;  // one sentence
  std::vector<Option> options;
  std::vector<const char*> examples;  // of what stands behind "kvctl "
  Outcome (*run)(Call& call);
};

struct Noun {
  const char* name;
  const char* alias;  // another word for it; "": none
  const char* help;
  // Without a verb the noun means the first one, where that is "list".
  std::vector<Verb> verbs;
};

// In the order of --help.
std::vector<Noun> nouns();
std::vector<Option> common_options();

// Each in the file of its name.
Noun status_noun();
Noun tier_noun();
Noun target_noun();
Noun scrub_noun();
Noun domain_noun();
Noun format_noun();
Noun block_noun();
Noun match_noun();
Noun purge_noun();
Noun hold_noun();
Noun session_noun();
Noun policy_noun();
Noun drain_noun();
Noun put_noun();
Noun get_noun();
Noun doctor_noun();
Noun completion_noun();

}  // namespace varve::kvctl
