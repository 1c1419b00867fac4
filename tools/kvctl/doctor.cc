// kvctl doctor: what is wrong with this machine and with a running node; one cause and one remedy
// each, from the worst to the best.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/config/config.h"
#include "server/host/host.h"
#include "tools/kvctl/call.h"
#include "tools/kvctl/machine.h"
#include "tools/kvctl/node_check.h"

namespace varve::kvctl {

namespace {

constexpr size_t kColumns = 84;

Tone tone_of(Severity severity) {
  static constexpr Tone kTones[] = {Tone::kGood, Tone::kPlain, Tone::kWarn, Tone::kBad};
  return kTones[static_cast<size_t>(severity)];
}

std::string findings_text(const std::vector<Finding>& findings, const Paint& paint) {
  static const std::string kIndent(9, ' ');
  std::string text;
  for (const Finding& finding : findings) {
    std::string name = severity_name(finding.severity);
    const std::string blanks(kIndent.size() - name.size(), ' ');
    text += paint(tone_of(finding.severity), name) + blanks +
            wrapped(finding.check + ": " + finding.cause, kColumns, kIndent) + "\n";
    if (finding.remedy.empty()) continue;
    text += kIndent + wrapped("-> " + finding.remedy, kColumns, kIndent + "   ") + "\n";
  }
  return text;
}

struct Counts {
  uint64_t errors = 0, warnings = 0;
  explicit Counts(const std::vector<Finding>& findings) {
    for (const Finding& finding : findings) {
      errors += finding.severity == Severity::kError ? 1 : 0;
      warnings += finding.severity == Severity::kWarning ? 1 : 0;
    }
  }
};

Json json_of(const std::vector<Finding>& findings, const Counts& counts) {
  Json rows = Json::array();
  for (const Finding& finding : findings) {
    rows.push_back({{"severity", severity_name(finding.severity)},
                    {"check", finding.check},
                    {"cause", finding.cause},
                    {"remedy", finding.remedy}});
  }
  return {{"findings", rows}, {"errors", counts.errors}, {"warnings", counts.warnings}};
}

struct NodeSeen {
  NodeHere here = NodeHere::kYes;  // also when nobody was asked: what may be its own is no fault
  std::string data_dir;
  std::vector<Finding> findings;
};

NodeSeen see_node(Call& call) {
  NodeSeen seen;
  v1::GetStatusResponse status;
  v1::ListTargetsResponse targets;
  Outcome outcome = call.node.ask(v1::GetStatusRequest(), &status);
  if (outcome.ok()) outcome = call.node.ask(v1::ListTargetsRequest(), &targets);
  // Whoever answers is there, also when he refuses.
  if (outcome.exit == Exit::kUnreached && !call.node.reached()) seen.here = NodeHere::kNo;
  if (outcome.ok()) {
    seen.data_dir = status.data_dir();
    seen.findings = check_node(status, targets);
  } else {
    seen.findings = {finding_of(Severity::kError, "node", outcome.text)};
  }
  return seen;
}

// Of the varved that is to start here, as far as --config says: what is wrong with it is found too.
ServerConfig read_settings(const Arguments& arguments, std::vector<Finding>* findings) {
  ServerConfig config;
  config.config_file = arguments.config;
  std::vector<std::string> problems;
  if (!config.config_file.empty()) {
    std::string text;
    const Failure failure = load_config(config.config_file, &text);
    if (failure.ok()) read_config(text, config, problems);
    if (!failure.ok()) problems.push_back(failure.text);
  }
  settle(config, read_machine(""));
  for (std::string& problem : config.problems())
    problems.push_back(std::move(problem));
  for (const std::string& problem : problems)
    findings->push_back(finding_of(Severity::kError, "config", printable(problem),
                                   "see varved --help for what each setting takes"));
  if (problems.empty() && !config.config_file.empty()) {
    findings->push_back(ok_finding("config", printable(config.config_file)));
  }
  return config;
}

// A node's own may be seen from the folder where it was started, which nobody knows here.
void choose_folder(const Arguments& arguments, const NodeSeen& seen, ServerConfig* config) {
  if (!arguments.data.empty()) {
    config->data_dir = arguments.data;
  } else if (seen.here == NodeHere::kYes) {
    config->data_dir = seen.data_dir.starts_with("/") ? seen.data_dir : std::string();
  }
}

Outcome examine(Call& call) {
  const Arguments& a = call.arguments;
  if (a.local && a.remote) {
    return Outcome::usage("--local and --remote leave nothing to look at; give one of them");
  }
  NodeSeen seen;
  seen.here = NodeHere::kNo;
  if (!a.local) seen = see_node(call);
  std::vector<Finding> findings = std::move(seen.findings);
  ServerConfig config = read_settings(a, &findings);
  // A node elsewhere says nothing of this machine, nor this machine of it.
  if (a.local || (!a.remote && is_loopback(a.control))) {
    choose_folder(a, seen, &config);
    const MachineFacts facts = look_at_machine("", config, seen.here);
    for (Finding& finding : check_machine(facts, config, seen.here))
      findings.push_back(std::move(finding));
  }
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& one, const Finding& other) {
    return one.severity > other.severity;
  });
  const Counts counts(findings);
  std::string text = findings_text(findings, call.paint);
  text += counts.errors + counts.warnings == 0
              ? "nothing is wrong\n"
              : plural(counts.errors, "error") + ", " + plural(counts.warnings, "warning") + "\n";
  Outcome outcome = call.show(json_of(findings, counts), text);
  if (counts.errors + counts.warnings > 0) outcome.exit = Exit::kFailed;  // said already
  return outcome;
}

}  // namespace

const char* severity_name(Severity severity) {
  static constexpr const char* kNames[] = {"ok", "note", "warning", "error"};
  return kNames[static_cast<size_t>(severity)];
}

Finding finding_of(Severity severity, std::string check, const std::string& text,
                   const std::string& remedy) {
  const size_t at = text.rfind("; ");
  if (at == std::string::npos) return {severity, std::move(check), text, remedy};
  return {severity, std::move(check), text.substr(0, at), text.substr(at + 2)};
}

std::string told(Status status) {
  const std::string text = status.what();
  const size_t remedy = text.rfind("; ");
  return text.substr(0, remedy) + errno_suffix(status.errno_value()) +
         (remedy == std::string::npos ? std::string() : text.substr(remedy));
}

Noun doctor_noun() {
  return {
      "doctor",
      "",
      "What is wrong, and what to do: of this machine, and of a node",
      {{"",
        "Looks at the node, and at this machine when the node is on it (or is to be): io_uring, "
        "limits, memory, clock, ports, a data folder, in which it makes a file and removes it, and "
        "each target, of which it reads the first MiB. Of a machine where a node runs, only what "
        "that node cannot say itself. One cause and one remedy for each finding. Exit 1 when there "
        "is an error or a warning.",
        {{"--local", "", &Arguments::local, "this machine only: before a first start"},
         {"--remote", "", &Arguments::remote, "the node only"},
         {"--config", "FILE", &Arguments::config,
          "the settings of the varved that is to start here [the defaults]"},
         {"--data", "FOLDER", &Arguments::data,
          "data folder to look at [the node's, else that of --config, else ./varve-data]"}},
        {"doctor", "doctor --local --config /etc/varve/varved.toml",
         "doctor --local --data /var/lib/varve",
         "--json doctor | jq '.findings[] | select(.severity != \"ok\")'"},
        examine}}};
}

}  // namespace varve::kvctl
