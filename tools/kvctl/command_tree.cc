// CLI11 finds words and options and writes the help; its exceptions end here.
#include "tools/kvctl/command_tree.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <optional>

#include "common/base/base.h"
#include "server/config/config.h"
#include "tools/kvctl/text.h"

namespace varve::kvctl {

namespace {

constexpr const char* kPurpose =
    "kvctl: looks at a varved and operates it, over its control plane (--control).";
constexpr const char* kExits =
    "Exit: 0 done; 1 refused or failed, or doctor found something wrong; 2 wrong use; 3 no node\n"
    "reached; 4 no token, or a wrong one; 5 no answer within --timeout.\n"
    "kvctl COMMAND --help has examples. docs/OPERATIONS.md says more.";
constexpr double kTimeoutMin = 0.1, kTimeoutMax = 3600;  // seconds
constexpr size_t kHelpColumns = 64;                      // beside the names
constexpr size_t kTextColumns = 96;

std::string version_line() {
  const std::string varved = version_text();  // "varved 0.1 (wire 1, format 1)"
  return "kvctl" + varved.substr(varved.find(' '));
}

constexpr const char* kCommon =
    "\nEvery command takes --control, --token-file, --timeout, --json and --yes; see kvctl --help.";

std::string examples_text(const std::vector<const char*>& examples) {
  if (examples.empty()) return kCommon + 1;
  std::string text = examples.size() == 1 ? "Example:" : "Examples:";
  for (const char* example : examples)
    text += std::string("\n  kvctl ") + example;
  return text + kCommon;
}

// What CLI11 would take as well means another number: "010" is 8 to it.
std::string number_problem(const std::string& word) {
  const bool plain = word.find_first_not_of("0123456789") == std::string::npos &&
                     (word.size() == 1 || !word.starts_with("0"));
  return plain ? std::string() : word + " is no plain number; give digits, the first not 0";
}

struct AddOption {
  CLI::App& app;
  Arguments& arguments;
  const Option& option;
  std::string help = wrapped(option.help, kHelpColumns, "");

  CLI::Option* operator()(bool Arguments::*field) const {
    return app.add_flag(option.name, arguments.*field, help);
  }
  CLI::Option* operator()(uint32_t Arguments::*field) const { return add_number(field); }
  CLI::Option* operator()(std::vector<uint32_t> Arguments::*field) const {
    return add_number(field);
  }
  template <class T>
  CLI::Option* add_number(T Arguments::*field) const {
    return app.add_option(option.name, arguments.*field, help)
        ->type_name(option.value)
        ->check(number_problem);
  }
  // What a script left empty would count as not given: a guard, or a name, that is not there.
  CLI::Option* operator()(std::string Arguments::*field) const {
    return app.add_option(option.name, arguments.*field, help)
        ->type_name(option.value)
        ->check([](const std::string& word) {
          return word.empty() ? std::string("it is empty; give it, or leave it out")
                              : std::string();
        });
  }
  template <class T>
  CLI::Option* operator()(T Arguments::*field) const {
    return app.add_option(option.name, arguments.*field, help)->type_name(option.value);
  }
};

CLI::Option* add_option(CLI::App& app, Arguments& arguments, const Option& option) {
  CLI::Option* added = std::visit(AddOption{app, arguments, option}, option.field);
  if (option.need == Need::kRequired) added->required();
  if (option.variable != nullptr) added->envname(option.variable);
  if (std::string(option.value).find('|') == std::string::npos) return added;
  std::vector<std::string> choices;
  std::string rest = option.value;
  for (size_t bar = rest.find('|'); bar != std::string::npos; bar = rest.find('|')) {
    choices.push_back(rest.substr(0, bar));
    rest.erase(0, bar + 1);
  }
  choices.push_back(rest);
  return added->check(CLI::IsMember(choices).description(""));
}

// gRPC would take much more, and mean another port by a name without one.
bool is_host_port(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string port = address.substr(colon + 1);
  const bool digits = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == std::string::npos;
  return digits && std::stoul(port) > 0 && std::stoul(port) <= 65535;
}

// The command that was meant is the deepest one that was named.
const CLI::App* deepest(const CLI::App& app) {
  const CLI::App* found = &app;
  for (std::vector<CLI::App*> below = found->get_subcommands(); !below.empty();
       below = found->get_subcommands()) {
    found = below.front();
  }
  return found;
}

std::string path_of(const CLI::App& app) {
  std::string path = app.get_name();
  for (const CLI::App* above = app.get_parent(); above != nullptr; above = above->get_parent())
    path = above->get_name() + " " + path;
  return path;
}

// "help" and "version" are typed as commands too: "help targets drain" is "targets drain --help".
std::vector<std::string> without_help_word(std::vector<std::string> arguments) {
  const std::vector<Option> options = common_options();
  size_t at = 0;  // of the first word that is neither an option nor the value of one
  while (at < arguments.size() && arguments[at].starts_with("-")) {
    const bool has_value = std::any_of(options.begin(), options.end(), [&](const Option& option) {
      return arguments[at] == option.name && option.value[0] != '\0';
    });
    at += has_value ? 2 : 1;
  }
  if (at >= arguments.size()) return arguments;
  const std::string word = arguments[at];
  if (word != "help" && word != "version") return arguments;
  arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(at));
  arguments.push_back("--" + word);
  return arguments;
}

}  // namespace

struct CommandTree::Tree {
  CLI::App app{kPurpose, "kvctl"};
  Arguments arguments;
  std::vector<std::pair<const CLI::App*, Outcome (*)(Call& call)>> runs;

  void add(const Noun& noun);
  void add(CLI::App& app, const Verb& verb);
  Parsed found() const;
};

void CommandTree::Tree::add(CLI::App& command, const Verb& verb) {
  for (const Option& option : verb.options)
    add_option(command, arguments, option);
  // Else the variables of a command that is not meant overrule what was said to another one.
  command.parse_complete_callback([] {});
  command.footer(examples_text(verb.examples));
  runs.emplace_back(&command, verb.run);
}

void CommandTree::Tree::add(const Noun& noun) {
  VARVE_ASSERT(!noun.verbs.empty());
  CLI::App* command = app.add_subcommand(noun.name, noun.help);
  if (noun.alias[0] != '\0') command->alias(noun.alias);
  if (noun.verbs.front().name[0] == '\0') {
    const Verb& verb = noun.verbs.front();
    add(*command, verb);
    if (std::string(verb.help) != noun.help) {  // it has more to say than its line in the list
      command->footer(wrapped(verb.help, kTextColumns, "") + "\n" + command->get_footer());
    }
    return;
  }
  std::vector<const char*> examples;
  for (const Verb& verb : noun.verbs) {
    add(*command->add_subcommand(verb.name, verb.help), verb);
    if (!verb.examples.empty()) examples.push_back(verb.examples.front());
  }
  command->footer(examples_text(examples));
  const Verb& first = noun.verbs.front();
  if (std::string(first.name) == "list") {
    command->require_subcommand(0, 1);
    runs.emplace_back(command, first.run);
  } else {
    command->require_subcommand(1);
  }
}

CommandTree::CommandTree() : tree_(std::make_unique<Tree>()) {
  CLI::App& app = tree_->app;
  app.fallthrough();  // what every command takes may stand anywhere; inherited by what follows
  app.footer(kExits);
  app.set_version_flag("--version", version_line());
  app.require_subcommand(0, 1);
  // The last one counts, so that what an alias of a shell says can be overruled.
  for (const Option& option : common_options())
    add_option(app, tree_->arguments, option)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  for (const Noun& noun : nouns())
    tree_->add(noun);
}

CommandTree::~CommandTree() = default;

const CLI::App& CommandTree::app() const {
  return tree_->app;
}

Parsed CommandTree::Tree::found() const {
  Parsed out;
  out.arguments = arguments;
  const CLI::App* command = deepest(app);
  for (const auto& [of, run] : runs) {
    if (of == command) out.run = run;
  }
  const double timeout_s = arguments.timeout_s;
  if (out.run == nullptr) {
    out.problem = "no command is given; kvctl --help lists them";
  } else if (app.count("--timeout") > 0 &&
             !(timeout_s >= kTimeoutMin && timeout_s <= kTimeoutMax)) {
    out.problem = "--timeout must be 0.1 to 3600 seconds";
  }
  for (const auto& [option, address] :
       {std::pair("--control", arguments.control), std::pair("--address", arguments.address)}) {
    if (out.problem.empty() && !is_host_port(address)) {
      out.problem = std::string(option) + " is \"" + printable(address) +
                    "\"; it must be HOST:PORT, as in 127.0.0.1:7441 or [::1]:7441";
    }
  }
  if (!out.problem.empty()) out.run = nullptr;
  return out;
}

Parsed CommandTree::parse(const std::vector<std::string>& arguments) {
  CLI::App& app = tree_->app;
  Parsed out;
  try {
    const std::vector<std::string> words = without_help_word(arguments);
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return tree_->found();
  } catch (const CLI::CallForHelp&) {
    out.text = app.help();  // of the command that was named
    out.text_name = "help";
  } catch (const CLI::CallForVersion& version) {
    out.text = std::string(version.what()) + "\n";
    out.text_name = "version";
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    for (char& c : what)
      c = c == '\n' ? ' ' : c;
    out.problem = printable(what) + "; see " + path_of(*deepest(app)) + " --help";
  }
  out.arguments = tree_->arguments;
  return out;
}

}  // namespace varve::kvctl
