// Goal: each script is one that its shell takes, and what it offers is what can follow. Method: a
// shell that is there is asked; one that is not is skipped, visibly.
#include "tools/kvctl/completion.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/kvctl/fake_node.h"
#include "tools/kvctl/command_tree.h"

namespace varve::kvctl {
namespace {

bool has_shell(const std::string& shell) {
  return std::system(("command -v " + shell + " >/dev/null 2>&1").c_str()) == 0;
}

// What a command of the system prints; "FAILED" in front where it failed.
std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    text.append(buffer, n);
  return ::pclose(pipe) == 0 ? text : "FAILED " + text;
}

class CompletionOf : public ::testing::Test {
 protected:
  CompletionOf() : folder(::testing::TempDir() + "kvctl_completion_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder);
  }
  ~CompletionOf() override { std::filesystem::remove_all(folder); }
  std::string script(const std::string& shell) {
    const std::string file = folder + "/script";
    const Said said = run_kvctl({"completion", shell});
    EXPECT_EQ(said.exit, Exit::kDone) << said.err;
    std::ofstream(file) << said.out;
    return file;
  }
  // What bash offers behind these words, in the folder of this test; the last one is being typed.
  std::vector<std::string> offered(const std::string& words) {
    const std::string ask = folder + "/ask";
    std::ofstream(ask) << "cd " << folder << "\nsource ./script\nCOMP_WORDS=(kvctl " << words
                       << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_kvctl\n"
                       << "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    std::istringstream lines(output_of("bash --norc " + ask + " 2>&1"));
    std::vector<std::string> out;
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) out.push_back(line);
    return out;
  }
  const std::string folder;
};

using Words = std::vector<std::string>;

TEST_F(CompletionOf, BashOffersWhatCanFollow) {
  if (!has_shell("bash")) GTEST_SKIP() << "there is no bash";
  const std::string file = script("bash");
  EXPECT_EQ(output_of("bash -n " + file + " 2>&1"), "");
  EXPECT_EQ(offered("sta"), Words{"status"});
  EXPECT_EQ(offered("targets dr"), Words{"drain"});
  EXPECT_EQ(offered("target undr"), Words{"undrain"}) << "by its other name as well";
  EXPECT_EQ(offered("targets drain --u"), Words{"--uuid"});
  EXPECT_EQ(offered("targets fail --f"), Words{"--force"});
  EXPECT_EQ(offered("status --js"), Words{"--json"}) << "common options follow everywhere";
  EXPECT_EQ(offered("--control a:1 targets undr"), Words{"undrain"}) << "a value is no command";
  EXPECT_EQ(offered("completion z"), Words{"zsh"});
  EXPECT_EQ(offered("put --ack c"), Words{"cached"});
  EXPECT_EQ(offered("--control ''"), Words{}) << "an address is typed";
}

TEST_F(CompletionOf, BashOffersFilesWhereTheyAreMeant) {
  if (!has_shell("bash")) GTEST_SKIP() << "there is no bash";
  script("bash");
  std::ofstream(folder + "/zebra and more") << "x";
  EXPECT_EQ(offered("put zeb"), Words{"zebra and more"});
  EXPECT_EQ(offered("--token-file zeb"), Words{"zebra and more"});
  EXPECT_EQ(offered("status zeb"), Words{});
}

TEST_F(CompletionOf, BashKnowsEveryCommand) {
  if (!has_shell("bash")) GTEST_SKIP() << "there is no bash";
  script("bash");
  const Words all = offered("''");
  for (const Noun& noun : nouns())
    EXPECT_NE(std::find(all.begin(), all.end(), noun.name), all.end()) << noun.name;
}

TEST_F(CompletionOf, ZshTakesItsScript) {
  if (!has_shell("zsh")) GTEST_SKIP() << "there is no zsh";
  EXPECT_EQ(output_of("zsh -n " + script("zsh") + " 2>&1"), "");
}

TEST_F(CompletionOf, FishTakesItsScriptAndOffersWhatCanFollow) {
  if (!has_shell("fish")) GTEST_SKIP() << "there is no fish";
  const std::string file = script("fish");
  EXPECT_EQ(output_of("fish -n " + file + " 2>&1"), "");
  const std::string out =
      output_of("fish -c 'source " + file + "; complete -C \"kvctl targets dr\"' 2>&1");
  EXPECT_EQ(out.substr(0, out.find('\t')), "drain") << out;
}

TEST_F(CompletionOf, IsATextInJsonToo) {
  const nlohmann::json json = run_kvctl({"--json", "completion", "bash"}).json();
  EXPECT_EQ(json["script"], run_kvctl({"completion", "bash"}).out);
}

TEST_F(CompletionOf, OtherShellsAreRefused) {
  const Said said = run_kvctl({"completion", "tcsh"});
  EXPECT_EQ(said.exit, Exit::kUsage);
  EXPECT_NE(said.err.find("tcsh"), std::string::npos) << said.err;
}

}  // namespace
}  // namespace varve::kvctl
