// kvctl completion. Each script walks the words before the cursor to the command that they name
// ("at"), then offers what can follow there: subcommands, options, choices, or files.
#include "tools/kvctl/completion.h"

#include <CLI/CLI.hpp>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/kvctl/call.h"
#include "tools/kvctl/command_tree.h"

namespace varve::kvctl {

namespace {

constexpr const char* kFile = "FILE";

struct Place {
  std::string path;                                        // "targets drain"; empty: kvctl itself
  std::vector<std::pair<std::string, std::string>> words;  // what goes down: word, help
  std::vector<std::pair<std::string, std::string>> transitions;  // words and aliases, to the path
  std::vector<std::pair<std::string, std::string>> options;      // with help
  std::vector<std::string> choices;                              // of its own words
  bool takes_file = false;
};

struct Tree {
  std::vector<Place> places;
  std::set<std::string> valued;                             // options behind which a value stands
  std::set<std::string> files;                              // of them, those that name one
  std::map<std::string, std::vector<std::string>> choices;  // of them, those that have them
};

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(by); end != std::string::npos; end = text.find(by, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string first_sentence(std::string text) {
  for (char& c : text)
    c = c == '\n' ? ' ' : c;
  return text.substr(0, text.find(". "));
}

void add_option(const CLI::Option& option, Place& place, Tree& tree) {
  const std::string type = option.get_type_name();
  const bool has_value = option.get_items_expected_max() > 0;
  const bool has_choices = type.find('|') != std::string::npos;
  if (option.get_positional()) {
    place.takes_file = place.takes_file || type == kFile;
    if (has_choices) place.choices = split(type, '|');
    return;
  }
  for (const std::string& name : option.get_lnames()) {
    const std::string word = "--" + name;
    place.options.emplace_back(word, first_sentence(option.get_description()));
    if (!has_value) continue;
    tree.valued.insert(word);
    if (type == kFile) tree.files.insert(word);
    if (has_choices) tree.choices[word] = split(type, '|');
  }
}

const auto kEveryApp = [](const CLI::App*) { return true; };
const auto kEveryOption = [](const CLI::Option*) { return true; };

void add_place(const CLI::App& app, const std::string& path, const Place* above, Tree& tree) {
  Place place;
  place.path = path;
  for (const CLI::Option* option : app.get_options(kEveryOption))
    add_option(*option, place, tree);
  if (above != nullptr) {  // what every command takes
    for (const auto& option : above->options) {
      if (option.first != "--help" && option.first != "--version") place.options.push_back(option);
    }
  }
  const std::vector<const CLI::App*> below = app.get_subcommands(kEveryApp);
  for (const CLI::App* command : below) {
    const std::string down = path.empty() ? command->get_name() : path + " " + command->get_name();
    place.words.emplace_back(command->get_name(), first_sentence(command->get_description()));
    place.transitions.emplace_back(command->get_name(), down);
    for (const std::string& alias : command->get_aliases())
      place.transitions.emplace_back(alias, down);
  }
  tree.places.push_back(place);
  const Place root = above == nullptr ? place : *above;
  for (const CLI::App* command : below) {
    const std::string down = path.empty() ? command->get_name() : path + " " + command->get_name();
    add_place(*command, down, &root, tree);
  }
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : between) + word;
  return text;
}

// In single quotes of any shell.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "'" + out + "'";
}

std::vector<std::string> all_words(const Place& place) {
  std::vector<std::string> words;
  for (const auto& [word, help] : place.words)
    words.push_back(word);
  words.insert(words.end(), place.choices.begin(), place.choices.end());
  for (const auto& [word, help] : place.options)
    words.push_back(word);
  return words;
}

// ---- bash and zsh: the walk is the same, only the names of what the shell gives differ

std::string walk_text(const Tree& tree, const std::string& word) {
  const std::vector<std::string> valued(tree.valued.begin(), tree.valued.end());
  std::string text = "    case \"$at|" + word + "\" in\n";
  text += "      *\"|\"" + joined(valued, "|*\"|\"") + ") ((++i)); continue ;;\n";
  for (const Place& place : tree.places) {
    for (const auto& [from, to] : place.transitions)
      text += "      " + quoted(place.path + "|" + from) + ") at=" + quoted(to) + " ;;\n";
  }
  return text + "    esac\n";
}

struct Offers {
  const char* files;                                         // offers files
  std::string (*words)(const std::vector<std::string>& of);  // offers these
};

std::string offers_text(const Tree& tree, const std::string& before, const Offers& offers) {
  std::string text = "  case \"" + before + "\" in\n";
  const std::vector<std::string> files(tree.files.begin(), tree.files.end());
  text += "    " + joined(files, "|") + ") " + offers.files + "; return ;;\n";
  for (const auto& [option, choices] : tree.choices)
    text += "    " + option + ") " + offers.words(choices) + "; return ;;\n";
  for (const std::string& option : tree.valued) {
    if (tree.files.count(option) == 0 && tree.choices.count(option) == 0) {
      text += "    " + option + ") return ;;\n";
    }
  }
  text += "  esac\n  case \"$at\" in\n";
  for (const Place& place : tree.places) {
    text += "    " + quoted(place.path) + ") " + offers.words(all_words(place));
    if (place.takes_file) text += std::string("; ") + offers.files;
    text += " ;;\n";
  }
  return text + "  esac\n";
}

std::string bash_script(const Tree& tree) {
  const Offers offers = {"_kvctl_files", [](const std::vector<std::string>& words) {
                           return "_kvctl_words " + quoted(joined(words, " "));
                         }};
  return "# bash completion of kvctl: source <(kvctl completion bash)\n"
         "_kvctl_words() { COMPREPLY+=($(compgen -W \"$1\" -- \"$cur\")); }\n"
         "_kvctl_files() {\n"
         "  local file\n"
         "  compopt -o filenames 2>/dev/null\n"
         "  while IFS= read -r file; do COMPREPLY+=(\"$file\"); done < <(compgen -f -- \"$cur\")\n"
         "}\n"
         "_kvctl() {\n"
         "  local cur=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" at='' "
         "i\n"
         "  COMPREPLY=()\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n" +
         walk_text(tree, "${COMP_WORDS[i]}") + "  done\n" + offers_text(tree, "$before", offers) +
         "}\n"
         "complete -F _kvctl kvctl\n";
}

std::string zsh_script(const Tree& tree) {
  const Offers offers = {"_files", [](const std::vector<std::string>& words) {
                           return "compadd -- " + joined(words, " ");
                         }};
  return "#compdef kvctl\n"
         "# zsh completion of kvctl: kvctl completion zsh > \"${fpath[1]}/_kvctl\"\n"
         "_kvctl() {\n"
         "  local before=\"${words[CURRENT-1]}\" at=''\n"
         "  local -i i\n"
         "  for ((i = 2; i < CURRENT; ++i)); do\n" +
         walk_text(tree, "${words[i]}") + "  done\n" + offers_text(tree, "$before", offers) +
         "}\n"
         "if [ \"$funcstack[1]\" = _kvctl ]; then _kvctl \"$@\"; else compdef _kvctl kvctl; fi\n";
}

// ---- fish: one line for each word that can be offered

std::string fish_walk(const Tree& tree) {
  const std::vector<std::string> valued(tree.valued.begin(), tree.valued.end());
  std::string text =
      "function __kvctl_at\n"
      "  set -l at ''\n"
      "  set -l skip 0\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    if test $skip = 1\n"
      "      set skip 0\n"
      "      continue\n"
      "    end\n"
      "    switch \"$at|$word\"\n"
      "      case ";
  for (const std::string& option : valued)
    text += quoted("*|" + option) + " ";
  text += "\n        set skip 1\n";
  for (const Place& place : tree.places) {
    for (const auto& [from, to] : place.transitions)
      text +=
          "      case " + quoted(place.path + "|" + from) + "\n        set at " + quoted(to) + "\n";
  }
  return text + "    end\n  end\n  echo \"$at\"\nend\n";
}

std::string fish_script(const Tree& tree) {
  std::string text =
      "# fish completion of kvctl: kvctl completion fish > "
      "~/.config/fish/completions/kvctl.fish\n" +
      fish_walk(tree) + "complete -c kvctl -f\n";
  for (const Place& place : tree.places) {
    const std::string where =
        "complete -c kvctl -n " + quoted("test (__kvctl_at) = \"" + place.path + "\"");
    for (const auto& [word, help] : place.words)
      text += where + " -a " + word + " -d " + quoted(help) + "\n";
    for (const std::string& choice : place.choices)
      text += where + " -a " + choice + "\n";
    if (place.takes_file) text += where + " -F\n";
    for (const auto& [option, help] : place.options) {
      text += where + " -l " + option.substr(2) + " -d " + quoted(help);
      if (tree.valued.count(option) > 0) text += tree.files.count(option) > 0 ? " -r -F" : " -x";
      const auto choices = tree.choices.find(option);
      if (choices != tree.choices.end()) text += " -a " + quoted(joined(choices->second, " "));
      text += "\n";
    }
  }
  return text;
}

Outcome print_completion(Call& call) {
  const CommandTree tree;
  const std::string& shell = call.arguments.shell;
  const std::string script = completion_script(tree.app(), shell == "fish"  ? Shell::kFish
                                                           : shell == "zsh" ? Shell::kZsh
                                                                            : Shell::kBash);
  return call.show(Json{{"shell", shell}, {"script", script}}, script);
}

}  // namespace

std::string completion_script(const CLI::App& app, Shell shell) {
  Tree tree;
  add_place(app, "", nullptr, tree);
  switch (shell) {
    case Shell::kBash:
      return bash_script(tree);
    case Shell::kZsh:
      return zsh_script(tree);
    case Shell::kFish:
      return fish_script(tree);
  }
  return {};
}

Noun completion_noun() {
  return {"completion",
          "",
          "A script that completes kvctl in a shell",
          {{"",
            "A script that completes kvctl in a shell",
            {{"SHELL", "bash|zsh|fish", &Arguments::shell, "which one", Need::kRequired}},
            {"completion bash > /etc/bash_completion.d/kvctl",
             "completion fish > ~/.config/fish/completions/kvctl.fish"},
            print_completion}}};
}

}  // namespace varve::kvctl
