// Goal: nothing that cannot be taken back happens unasked, and what is given is checked before
// anybody is asked.
#include "tools/kvctl/call.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

const std::string kId(64, 'a');

class Folder {
 public:
  Folder() : path(::testing::TempDir() + "kvctl_call_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name, const std::string& content, mode_t mode = 0600) const {
    const std::string file = path + "/" + name;
    std::ofstream(file) << content;
    ::chmod(file.c_str(), mode);
    return file;
  }
  const std::string path;
};

TEST(Confirm, AsksAtATerminalAndTakesOnlyYes) {
  FakeNode node;
  for (const std::string typed : {"n\n", "\n", "Yess\n", "yn\n"}) {
    const Said said = node.kvctl({"purge", kId}, typed);
    EXPECT_EQ(said.exit, Exit::kFailed) << typed;
    EXPECT_NE(said.err.find("[y/N]"), std::string::npos);
  }
  EXPECT_TRUE(node.asked.empty());
  EXPECT_EQ(node.kvctl({"purge", kId}, "y\n").exit, Exit::kDone);
  EXPECT_EQ(node.asked, std::vector<std::string>{"Purge"});
}

TEST(Confirm, AsksNothingWhereJsonIsWanted) {
  FakeNode node;
  const Said said = node.kvctl({"--json", "purge", kId}, "y\n");
  EXPECT_EQ(said.exit, Exit::kUsage);
  EXPECT_NE(said.err.find("--yes"), std::string::npos) << said.err;
  EXPECT_EQ(said.err.find("[y/N]"), std::string::npos) << said.err;
  EXPECT_TRUE(node.asked.empty());
}

TEST(Confirm, NeedsYesWhereNobodyCanBeAsked) {
  FakeNode node;
  const std::vector<std::vector<std::string>> verbs = {
      {"purge", kId},          {"targets", "fail", "1"},  {"targets", "replace", "1"},
      {"domain", "drop", "a"}, {"domain", "rotate", "a"}, {"drain"}};
  for (std::vector<std::string> verb : verbs) {
    const Said said = node.kvctl(verb);
    EXPECT_EQ(said.exit, Exit::kUsage) << verb.front();
    EXPECT_NE(said.err.find("--yes"), std::string::npos) << said.err;
    EXPECT_TRUE(node.asked.empty()) << verb.front();
  }
  for (std::vector<std::string> verb : verbs) {
    verb.emplace_back("--yes");
    EXPECT_EQ(node.kvctl(verb).exit, Exit::kDone) << verb.front();
  }
  EXPECT_EQ(node.asked, (std::vector<std::string>{"Purge", "FailTarget", "ReplaceTarget",
                                                  "DropDomain", "RotateDomainToken", "Drain"}));
}

TEST(Ids, ComeAsWordsAndFromAFile) {
  const Folder folder;
  FakeNode node;
  const std::string file =
      folder.file("ids", std::string(64, 'b') + "\n\n " + std::string(64, 'c'));
  EXPECT_EQ(node.kvctl({"match", kId, "--ids-file", file}).exit, Exit::kDone);
  ASSERT_EQ(node.MatchPrefix_request.base_ids_size(), 3);
  EXPECT_EQ(node.MatchPrefix_request.base_ids(2), std::string(32, '\xcc'));
  EXPECT_EQ(node.kvctl({"match", "--ids-file", "-"}, kId + "\n").exit, Exit::kDone);
  EXPECT_EQ(node.MatchPrefix_request.base_ids_size(), 1);
}

TEST(Ids, AreCheckedBeforeANodeIsAsked) {
  const Folder folder;
  FakeNode node;
  std::string many;
  for (int i = 0; i < 2049; ++i)
    many += kId + "\n";
  EXPECT_EQ(node.kvctl({"match"}).exit, Exit::kUsage);
  EXPECT_EQ(node.kvctl({"match", "abcd"}).exit, Exit::kUsage);
  EXPECT_EQ(node.kvctl({"match", std::string(64, 'g')}).exit, Exit::kUsage);
  EXPECT_EQ(node.kvctl({"match", "--ids-file", folder.file("many", many)}).exit, Exit::kUsage);
  EXPECT_EQ(node.kvctl({"match", "--ids-file", folder.path + "/none"}).exit, Exit::kUsage);
  EXPECT_EQ(node.kvctl({"match", "--ids-file", folder.path}).exit, Exit::kUsage);
  EXPECT_EQ(
      node.kvctl({"match", "--ids-file", folder.file("large", std::string(300000, 'a'))}).exit,
      Exit::kFailed);
  EXPECT_TRUE(node.asked.empty());
}

TEST(TokenFile, IsSentAndNeverOneThatOthersMayRead) {
  const Folder folder;
  FakeNode node;
  const std::string token = "0123456789abcdef";
  EXPECT_EQ(node.kvctl({"status", "--token-file", folder.file("good", token + "\n")}).exit,
            Exit::kDone);
  EXPECT_EQ(node.authorization, "Bearer " + token);
  node.asked.clear();
  const Said open = node.kvctl({"status", "--token-file", folder.file("open", token, 0644)});
  EXPECT_EQ(open.exit, Exit::kFailed);
  EXPECT_NE(open.err.find("chmod 600"), std::string::npos) << open.err;
  EXPECT_EQ(open.err.find(token), std::string::npos);
  const Said small = node.kvctl({"status", "--token-file", folder.file("short", "0123")});
  EXPECT_EQ(small.exit, Exit::kFailed);
  EXPECT_NE(small.err.find("16 characters; write "), std::string::npos) << small.err;
  EXPECT_EQ(node.kvctl({"status", "--token-file", folder.path + "/none"}).exit, Exit::kFailed);
  EXPECT_TRUE(node.asked.empty());
}

}  // namespace
}  // namespace varve::kvctl
