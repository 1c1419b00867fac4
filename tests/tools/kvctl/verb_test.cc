// Goal: every command has its help and an example that parses; the options of one never mean two
// things.
#include "tools/kvctl/verb.h"

#include <gtest/gtest.h>

#include <set>

#include "tools/kvctl/command_tree.h"

namespace varve::kvctl {
namespace {

// Words as a shell splits them, up to the first pipe or redirection; quotes are for what follows.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string rest = line.substr(0, line.find_first_of("|>"));
  for (size_t at = rest.find_first_not_of(' '); at < rest.size();) {
    const size_t end = std::min(rest.find(' ', at), rest.size());
    words.push_back(rest.substr(at, end - at));
    at = std::min(rest.find_first_not_of(' ', end), rest.size());
  }
  return words;
}

TEST(Verbs, EachHasHelpAndAnExampleThatRuns) {
  for (const Noun& noun : nouns()) {
    ASSERT_FALSE(noun.verbs.empty()) << noun.name;
    EXPECT_NE(noun.help[0], '\0') << noun.name;
    for (const Verb& verb : noun.verbs) {
      EXPECT_NE(verb.help[0], '\0') << noun.name << " " << verb.name;
      EXPECT_FALSE(verb.examples.empty()) << noun.name << " " << verb.name;
      for (const char* example : verb.examples) {
        CommandTree tree;
        const Parsed parsed = tree.parse(words_of(example));
        EXPECT_EQ(parsed.run, verb.run) << example << ": " << parsed.problem;
      }
    }
  }
}

TEST(Verbs, NamesAreGivenOnce) {
  std::set<std::string> names;
  for (const Noun& noun : nouns()) {
    EXPECT_TRUE(names.insert(noun.name).second) << noun.name;
    const std::string alias = noun.alias;
    EXPECT_TRUE(alias.empty() || names.insert(alias).second) << alias;
    for (const Verb& verb : noun.verbs) {
      std::set<std::string> options;
      for (const Option& option : common_options())
        options.insert(option.name);
      for (const Option& option : verb.options)
        EXPECT_TRUE(options.insert(option.name).second) << noun.name << " " << option.name;
    }
  }
}

}  // namespace
}  // namespace varve::kvctl
