// Goal: what identifies a node is never replaced (H1); its list of targets is exact; a refusal says
// what to do. Method: folders of a test, with files taken away and damaged.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/server/host/host_folder.h"

namespace varve {
namespace {

bool says(const Failure& failure, const std::string& text) {
  return failure.text.find(text) != std::string::npos;
}

TEST(HostFolder, TheIdentityIsMadeOnceAndStays) {
  test::HostFolder folder;
  SeededEntropy entropy(1);
  Identity first, second;
  EXPECT_TRUE(load_identity(folder.path(), entropy, &first).ok());
  EXPECT_TRUE(first.is_new);
  EXPECT_TRUE(load_identity(folder.path(), entropy, &second).ok());
  EXPECT_FALSE(second.is_new);
  EXPECT_EQ(to_hex(first.node_uuid), to_hex(second.node_uuid));
  EXPECT_EQ(first.domain_salt, second.domain_salt);
}

// With another salt every block would be a miss for ever, without a word.
TEST(HostFolder, AMissingSaltOfAKnownNodeIsRefusedAndNotReplaced) {
  test::HostFolder folder;
  SeededEntropy entropy(1);
  Identity identity;
  ASSERT_TRUE(load_identity(folder.path(), entropy, &identity).ok());
  ASSERT_EQ(::unlink((folder.path() + "/domain.salt").c_str()), 0);
  const Failure failure = load_identity(folder.path(), entropy, &identity);
  EXPECT_EQ(failure.exit_code, kExitEnvironment);
  EXPECT_TRUE(says(failure, "domain.salt is missing")) << failure.text;
  EXPECT_TRUE(says(failure, "Restore")) << failure.text;
  EXPECT_FALSE(exists(folder.path() + "/domain.salt"));
}

// The salt comes first, so a start that was cut off between the two files can go on.
TEST(HostFolder, AFirstStartThatWasCutOffGoesOn) {
  test::HostFolder folder;
  SeededEntropy entropy(1);
  Identity first, second;
  ASSERT_TRUE(load_identity(folder.path(), entropy, &first).ok());
  ASSERT_EQ(::unlink((folder.path() + "/node.id").c_str()), 0);
  EXPECT_TRUE(load_identity(folder.path(), entropy, &second).ok());
  EXPECT_EQ(first.domain_salt, second.domain_salt);
}

TEST(HostFolder, ADamagedIdentityIsRefused) {
  for (const char* name : {"node.id", "domain.salt"}) {
    test::HostFolder folder;
    SeededEntropy entropy(1);
    Identity identity;
    ASSERT_TRUE(load_identity(folder.path(), entropy, &identity).ok());
    folder.put(name, "0123\n");
    const Failure failure = load_identity(folder.path(), entropy, &identity);
    EXPECT_EQ(failure.exit_code, kExitEnvironment);
    EXPECT_TRUE(says(failure, std::string(name) + " is damaged")) << failure.text;
  }
}

TEST(HostFolder, AMissingParentIsNamed) {
  test::HostFolder folder;
  const Failure failure = lock_folder(folder.path() + "/a/b");
  EXPECT_EQ(failure.exit_code, kExitEnvironment);
  EXPECT_TRUE(says(failure, "its parent " + folder.path() + "/a does not exist")) << failure.text;
}

TEST(HostFolder, ASecondLockNamesTheFirst) {
  test::HostFolder folder;
  const std::string data = folder.path() + "/data";
  EXPECT_TRUE(lock_folder(data).ok());
  const Failure failure = lock_folder(data);
  EXPECT_TRUE(says(failure, "pid " + std::to_string(::getpid()))) << failure.text;
}

TEST(HostFolder, TheListOfTargetsComesBackAsItWas) {
  test::HostFolder folder;
  std::vector<TargetRecord> records(2);
  records[0].index = 0;
  records[0].uuid[0] = std::byte{7};
  records[0].capacity_bytes = 400 * kMiB;
  records[0].path = "/a folder/t 0.dat";
  records[1].index = 5;
  bool found = true;
  std::vector<TargetRecord> loaded;
  EXPECT_TRUE(load_records(folder.path(), &loaded, &found).ok());
  EXPECT_FALSE(found);
  EXPECT_TRUE(save_records(folder.path(), records).ok());
  EXPECT_TRUE(load_records(folder.path(), &loaded, &found).ok());
  EXPECT_TRUE(found);
  EXPECT_EQ(records_text(loaded), records_text(records));
  EXPECT_EQ(loaded[0].path, "/a folder/t 0.dat");
}

TEST(HostFolder, ADamagedListIsRefused) {
  const std::string zero(32, '0');
  for (const std::string& bad :
       {std::string("x"), std::string("varve targets 1\n0 12 3 p\n"),
        "varve targets 1\n0 " + zero + " 3 p", "varve targets 1\n77 " + zero + " 3 p\n",
        "varve targets 1\n0 " + zero + " 3 p\n0 " + zero + " 3 p\n"}) {
    EXPECT_FALSE(parse_records(bad).has_value()) << bad;
  }
  test::HostFolder folder;
  folder.put("targets.list", "nonsense");
  std::vector<TargetRecord> records;
  bool found = false;
  EXPECT_EQ(load_records(folder.path(), &records, &found).exit_code, kExitEnvironment);
}

TEST(HostFolder, TargetFilesThatNobodyUsesAreFound) {
  test::HostFolder folder;
  for (const char* name : {"target-0.dat", "target-3.dat", "target-3.dat.creating", "target-x.dat"})
    folder.put(name, "x");
  EXPECT_EQ(unused_targets(folder.path(), 2), std::vector<std::string>{"target-3.dat"});
  EXPECT_TRUE(unused_targets(folder.path(), 4).empty());
}

}  // namespace
}  // namespace varve
