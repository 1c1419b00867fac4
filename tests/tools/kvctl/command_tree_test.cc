// Goal: what is typed means one command or one sentence that says what is wrong with it.
#include "tools/kvctl/command_tree.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace varve::kvctl {
namespace {

Parsed parse(const std::vector<std::string>& arguments) {
  return CommandTree().parse(arguments);
}

TEST(CommandTree, TakesCommonOptionsAnywhere) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"--json", "--control", "a:1", "targets", "drain", "2"},
           {"targets", "--json", "drain", "2", "--control=a:1"},
           {"target", "drain", "--control", "a:1", "2", "--json"}}) {
    const Parsed parsed = parse(arguments);
    EXPECT_NE(parsed.run, nullptr) << parsed.problem;
    EXPECT_TRUE(parsed.arguments.json);
    EXPECT_EQ(parsed.arguments.control, "a:1");
    EXPECT_EQ(parsed.arguments.target, 2u);
  }
  EXPECT_EQ(parse({"--control", "a:1", "status", "--control", "b:2"}).arguments.control, "b:2");
}

TEST(CommandTree, MeansListWhereANounStandsAlone) {
  for (const char* noun : {"tiers", "targets", "domain", "format", "leases", "sessions", "policy"})
    EXPECT_EQ(parse({noun}).run, parse({noun, "list"}).run) << noun;
  EXPECT_EQ(parse({"block"}).run, nullptr);
  EXPECT_NE(parse({"block"}).problem.find("kvctl block --help"), std::string::npos);
}

TEST(CommandTree, SaysWhatIsWrong) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{}, "no command"},
      {{"tragets"}, "tragets"},
      {{"targets", "drain"}, "INDEX"},
      {{"targets", "drain", "x"}, "INDEX"},
      {{"targets", "drain", "-1"}, "-1"},
      {{"targets", "drain", "010"}, "010"},
      {{"targets", "fail", "0x1"}, "0x1"},
      {{"scrub", "1", "02"}, "02"},
      {{"targets", "drain", "1", "2"}, "2"},
      {{"targets", "drain", "4294967296"}, "INDEX"},
      {{"status", "--forse"}, "--forse"},
      {{"--timeout", "0.01", "status"}, "--timeout"},
      {{"--timeout", "0", "status"}, "--timeout"},
      {{"targets", "fail", "1", "--uuid", ""}, "--uuid"},  // as a script gives what it lacks
      {{"targets", "replace", "1", "--uuid="}, "--uuid"},
      {{"--timeout", "1e9", "status"}, "--timeout"},
      {{"--timeout", "nan", "status"}, "--timeout"},
      {{"--control", "7441", "status"}, "HOST:PORT"},
      {{"--control", "host:", "status"}, "HOST:PORT"},
      {{"--control", "host:70000", "status"}, "HOST:PORT"}};
  for (const auto& [arguments, mark] : wrong) {
    const Parsed parsed = parse(arguments);
    EXPECT_EQ(parsed.run, nullptr) << mark;
    EXPECT_NE(parsed.problem.find(mark), std::string::npos) << parsed.problem;
    EXPECT_EQ(parsed.problem.find('\n'), std::string::npos) << parsed.problem;
    EXPECT_TRUE(parsed.text.empty());
  }
}

TEST(CommandTree, HasHelpWithExamplesEverywhere) {
  EXPECT_NE(parse({"--help"}).text.find("Exit: 0 done"), std::string::npos);
  const std::string help = parse({"targets", "drain", "--help"}).text;
  EXPECT_NE(help.find("kvctl targets drain"), std::string::npos) << help;
  EXPECT_NE(help.find("Example"), std::string::npos) << help;
  EXPECT_NE(help.find("--uuid"), std::string::npos) << help;
  EXPECT_EQ(parse({"--version"}).text.rfind("kvctl 0.", 0), 0u);
}

TEST(CommandTree, TakesHelpAndVersionAsWords) {
  EXPECT_EQ(parse({"help"}).text, parse({"--help"}).text);
  EXPECT_EQ(parse({"help", "targets", "drain"}).text, parse({"targets", "drain", "--help"}).text);
  EXPECT_EQ(parse({"--json", "--control", "a:1", "help", "targets"}).text,
            parse({"targets", "--help"}).text);
  EXPECT_EQ(parse({"version"}).text, parse({"--version"}).text);
  EXPECT_FALSE(parse({"help"}).text.empty());
}

TEST(CommandTree, ReadsTheEnvironmentWhereNothingIsSaid) {
  ASSERT_EQ(::setenv("VARVE_CONTROL", "env:1", 1), 0);
  EXPECT_EQ(parse({"status"}).arguments.control, "env:1");
  EXPECT_EQ(parse({"--control", "said:1", "status"}).arguments.control, "said:1");
  ASSERT_EQ(::unsetenv("VARVE_CONTROL"), 0);
  EXPECT_EQ(parse({"status"}).arguments.control, "127.0.0.1:7441");
}

// Goal: a variable is for where nothing is said, whichever commands know of it.
TEST(CommandTree, TakesTheCommandLineBeforeTheEnvironment) {
  const std::vector<std::pair<const char*, std::string Arguments::*>> variables = {
      {"VARVE_ADDRESS", &Arguments::address},
      {"VARVE_TOKEN_FILE", &Arguments::client_token_file},
      {"VARVE_CONTROL", &Arguments::control}};
  const std::vector<std::vector<std::string>> commands = {{"put", "f"}, {"get", "00", "f"}};
  for (const auto& each : variables) {
    const char* variable = each.first;
    std::string Arguments::*const field = each.second;
    for (std::vector<std::string> command : commands) {
      const auto said = [&] { return parse(command).arguments.*field; };
      ASSERT_EQ(::setenv(variable, "env:1", 1), 0);
      EXPECT_EQ(said(), "env:1") << command[0];
      command.insert(command.end(), {"--address", "said:2", "--client-token-file", "said:2",
                                     "--control", "said:2"});
      EXPECT_EQ(said(), "said:2") << command[0];
      ASSERT_EQ(::unsetenv(variable), 0);
      EXPECT_EQ(said(), "said:2") << command[0];
    }
  }
}

}  // namespace
}  // namespace varve::kvctl
