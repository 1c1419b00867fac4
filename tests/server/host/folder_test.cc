// Goal: what identifies a node is never replaced (H1); its list of targets is exact; a refusal says
// what to do. Method: folders of a test, with files taken away and damaged.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

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

// Goal: who only looks makes nothing, and is told of the same losses.
TEST(HostFolder, AnIdentityIsLookedAtAndNotMade) {
  test::HostFolder folder;
  SeededEntropy entropy(1);
  Identity none, made, seen;
  EXPECT_TRUE(look_identity(folder.path(), &none).ok());
  EXPECT_TRUE(none.is_new);
  EXPECT_FALSE(exists(folder.path() + "/node.id") || exists(folder.path() + "/domain.salt"));
  ASSERT_TRUE(load_identity(folder.path(), entropy, &made).ok());
  EXPECT_TRUE(look_identity(folder.path(), &seen).ok());
  EXPECT_FALSE(seen.is_new);
  EXPECT_EQ(to_hex(seen.node_uuid), to_hex(made.node_uuid));
  ASSERT_EQ(::unlink((folder.path() + "/domain.salt").c_str()), 0);
  EXPECT_TRUE(says(look_identity(folder.path(), &seen), "domain.salt is missing"));
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

// A new node.id would only have its own targets refused, and nobody would know why.
TEST(HostFolder, AMissingIdOfANodeThatHadTargetsIsRefusedAndNotReplaced) {
  test::HostFolder folder;
  SeededEntropy entropy(1);
  Identity identity;
  ASSERT_TRUE(load_identity(folder.path(), entropy, &identity).ok());
  ASSERT_TRUE(save_records(folder.path(), {1, 1, {1, 0}, {}}).ok());
  for (const char* gone : {"/node.id", "/domain.salt"}) {  // the first alone, then both
    ASSERT_EQ(::unlink((folder.path() + gone).c_str()), 0);
    const Failure failure = load_identity(folder.path(), entropy, &identity);
    EXPECT_EQ(failure.exit_code, kExitEnvironment);
    EXPECT_TRUE(says(failure, "node.id is missing, but this node had targets")) << failure.text;
    EXPECT_FALSE(exists(folder.path() + "/node.id"));
  }
  EXPECT_FALSE(exists(folder.path() + "/domain.salt"));
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

// The pid is written into it: not into somebody's file, and no pipe is waited for.
TEST(HostFolder, ALockThatIsNoFileIsRefused) {
  test::HostFolder folder;
  folder.put("other", "precious");
  ASSERT_EQ(symlink((folder.path() + "/other").c_str(), (folder.path() + "/lock").c_str()), 0);
  EXPECT_TRUE(says(lock_folder(folder.path()), "is no regular file; remove it"));
  std::string content;
  EXPECT_TRUE(read_file(folder.path() + "/other", &content));
  EXPECT_EQ(content, "precious");
  ASSERT_EQ(unlink((folder.path() + "/lock").c_str()), 0);
  ASSERT_EQ(mkfifo((folder.path() + "/lock").c_str(), 0600), 0);
  EXPECT_TRUE(says(lock_folder(folder.path()), "is no regular file; remove it"));
  std::string token;
  EXPECT_TRUE(
      says(load_token("--token-file", folder.path() + "/lock", &token), "is no regular file"));
  ASSERT_EQ(unlink((folder.path() + "/lock").c_str()), 0);
  ASSERT_EQ(mkdir((folder.path() + "/lock").c_str(), 0700), 0);
  EXPECT_TRUE(says(lock_folder(folder.path()), "is no regular file; remove it"));
  ASSERT_EQ(rmdir((folder.path() + "/lock").c_str()), 0);
  sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "lock"};
  // By a short name: that of a test's folder may not fit.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  const int bound = bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  std::filesystem::current_path(before);
  ASSERT_EQ(bound, 0);
  EXPECT_TRUE(says(lock_folder(folder.path()), "is no regular file; remove it"));
  close(fd);
}

// Every lookup would be a miss, and nobody would know why.
TEST(HostFolder, AnotherSaltThanThatOfTheLastStartIsRefused) {
  Digest salt, other;
  other.bytes[31] = std::byte{1};
  TargetList list;
  EXPECT_TRUE(check_salt("d", list, salt).ok()) << "an older list knows none";
  list.salt_mark = salt_mark(salt);
  EXPECT_TRUE(check_salt("d", list, salt).ok());
  const Failure failure = check_salt("d", list, other);
  EXPECT_EQ(failure.exit_code, kExitEnvironment);
  EXPECT_TRUE(says(failure, "d/domain.salt is not the one that this node had")) << failure.text;
  EXPECT_FALSE(parse_records("varve targets 6 5 16 2+1\nsalt 0\n").has_value());
  EXPECT_FALSE(parse_records("varve targets 6 5 16 2+1\nsalt 1\nsalt 1\n").has_value());
}

TEST(HostFolder, TheListOfTargetsComesBackAsItWas) {
  test::HostFolder folder;
  TargetList list{7, 16, {4, 2}, {}};
  std::vector<TargetRecord>& records = list.records;
  records.resize(2);
  records[0].index = 0;
  records[0].uuid[0] = std::byte{7};
  records[0].capacity_bytes = 400 * kMiB;
  records[0].path = "/a folder/t 0.dat";
  records[1].index = 5;
  records[1].drained = true;
  records[0].draining = true;
  records[0].missed = {{2, 3}, {4, 0}};
  records[1].from = 3;
  list.purged = {{1, 2, 0, 0}, {1, 2, 0xfedcba9876543210, 7}};
  list.salt_mark = 0xfedcba9876543211;
  list.served = 6;
  list.domain_id_last = 4294967295;
  list.domain_changes = 77;
  list.domain_id_seen = 4294967294;
  TargetList loaded;
  EXPECT_TRUE(load_records(folder.path(), &loaded).ok());
  EXPECT_TRUE(loaded.records.empty() && loaded.boot_generation == 0);
  EXPECT_TRUE(save_records(folder.path(), list).ok());
  EXPECT_TRUE(load_records(folder.path(), &loaded).ok());
  EXPECT_EQ(records_text(loaded), records_text(list));
  EXPECT_EQ(loaded.records[0].path, "/a folder/t 0.dat");
  EXPECT_TRUE(!loaded.records[0].drained && loaded.records[1].drained);
  EXPECT_TRUE(loaded.records[0].draining && !loaded.records[1].draining);
  ASSERT_EQ(loaded.records[0].missed.size(), 2u);
  EXPECT_TRUE(loaded.records[0].missed[0].first == 2 && loaded.records[0].missed[0].end == 3);
  EXPECT_TRUE(loaded.records[0].missed[1].first == 4 && loaded.records[0].missed[1].end == 0);
  EXPECT_TRUE(loaded.records[1].missed.empty());
  EXPECT_TRUE(loaded.records[0].from == 0 && loaded.records[1].from == 3);
  EXPECT_EQ(loaded.boot_generation, 7u);
  EXPECT_EQ(loaded.slices, 16u);
  EXPECT_EQ(loaded.scheme, (Scheme{4, 2}));
  EXPECT_EQ(loaded.salt_mark, 0xfedcba9876543211u);
  EXPECT_EQ(loaded.served, 6u);
  EXPECT_EQ(loaded.domain_id_last, 4294967295u);
  EXPECT_EQ(loaded.domain_changes, 77u);
  EXPECT_EQ(loaded.domain_id_seen, 4294967294u);
  ASSERT_EQ(loaded.purged.size(), 2u);
  EXPECT_EQ(loaded.purged[1].lineage, 0xfedcba9876543210u);
  EXPECT_EQ(loaded.purged[1].lineage_generation, 7u);
}

TEST(HostFolder, AnOlderListIsReadAndANewerOneRefusedByName) {
  const std::string line = "0 " + std::string(32, '0') + " 3 p\n";
  const Result<TargetList> old = parse_records("varve targets 1\n" + line);
  ASSERT_TRUE(old.has_value());
  EXPECT_EQ(old->records.size(), 1u);
  EXPECT_EQ(old->boot_generation, 0u);
  EXPECT_EQ(old->slices, 0u);
  const Result<TargetList> never_purged = parse_records("varve targets 3 5 16 2+1\n" + line);
  ASSERT_TRUE(never_purged.has_value());
  EXPECT_TRUE(never_purged->purged.empty());
  EXPECT_FALSE(parse_records("varve targets 4 5 16 2+1\npurged 1 2 3\n").has_value());
  EXPECT_FALSE(parse_records("varve targets 4 5 16 2+1\npurged 1 2 3 4 5\n").has_value());
  const Result<TargetList> drained =
      parse_records("varve targets 5 5 16 2+1\n" + line + "drained 0\n");
  ASSERT_TRUE(drained.has_value());
  EXPECT_TRUE(drained->records[0].drained && drained->records[0].missed.empty());
  const Result<TargetList> unseen = parse_records("varve targets 9 5 16 2+1\ndomains 3 1\n");
  ASSERT_TRUE(unseen.has_value());
  EXPECT_TRUE(unseen->domain_id_last == 3 && unseen->domain_id_seen == 0);
  const Result<TargetList> uncoded = parse_records("varve targets 2 5 16\n" + line);
  ASSERT_TRUE(uncoded.has_value());
  EXPECT_EQ(uncoded->boot_generation, 5u);
  EXPECT_EQ(uncoded->scheme, Scheme{});
  test::HostFolder folder;
  folder.put("targets.list", "varve targets 11 1 1 1+0 further\n" + line);
  TargetList list;
  const Failure failure = load_records(folder.path(), &list);
  EXPECT_EQ(failure.exit_code, kExitEnvironment);
  EXPECT_TRUE(says(failure, "a newer version of Varve")) << failure.text;
}

TEST(HostFolder, ADamagedListIsRefused) {
  const std::string zero(32, '0');
  for (const std::string& bad :
       {std::string("x"),
        std::string("varve targets 1\n0 12 3 p\n"),
        "varve targets 1\n0 " + zero + " 3 p",
        "varve targets 1\n77 " + zero + " 3 p\n",
        "varve targets 1\n0 " + zero + " 3 p\n0 " + zero + " 3 p\n",
        "varve targets 5 5 1 1+0\n0 " + zero + " 3 p\ndrained 1\n",
        "varve targets 5 5 1 1+0\n0 " + zero + " 3 p\ndrained 0\ndrained 0\n",
        "varve targets 5 5 1 1+0\n0 " + zero + " 3 p\ndrained 0 x\n",
        "varve targets 8 5 1 1+0\n0 " + zero + " 3 p\ndraining 1\n",
        "varve targets 8 5 1 1+0\n0 " + zero + " 3 p\ndraining 0\ndraining 0\n",
        "varve targets 8 5 1 1+0\n0 " + zero + " 3 p\ndraining 0 5\n",
        "varve targets 6 5 1 1+0\n0 " + zero + " 3 p\nmissed 1 2\n",
        "varve targets 6 5 1 1+0\n0 " + zero + " 3 p\nfrom 0 2\nfrom 0 2\n",
        "varve targets 6 5 1 1+0\n0 " + zero + " 3 p\nmissed 0 0\n",
        "varve targets 6 5 1 1+0\n0 " + zero + " 3 p\nmissed 0 4294967295\n",
        "varve targets 6 5 1 1+0\n0 " + zero + " 3 p\nmissed 0\n",
        "varve targets 7 5 1 1+0\n0 " + zero + " 3 p\nmissed 0 4 4\n",
        "varve targets 7 5 1 1+0\n0 " + zero + " 3 p\nmissed 0 2 0\nmissed 0 4 0\n",
        "varve targets 7 5 1 1+0\n0 " + zero + " 3 p\nmissed 0 2 4\nmissed 0 4 0\n",
        "varve targets 7 5 1 1+0\n0 " + zero + " 3 p\nfrom 0 2 3\n",
        "varve targets 7 5 1 1+0\n0 " + zero + " 3 p\ndrained 0 2\n",
        std::string("varve targets 7 5 1 1+0\nserved 6\n"),
        std::string("varve targets 7 5 1 1+0\nserved 4\nserved 4\n"),
        std::string("varve targets 9 5 1 1+0\ndomains 0 0\n"),
        std::string("varve targets 9 5 1 1+0\ndomains 4294967296 0\n"),
        std::string("varve targets 9 5 1 1+0\ndomains 3 1\ndomains 3 1\n"),
        std::string("varve targets 9 5 1 1+0\ndomains 3\n"),
        std::string("varve targets 10 5 1 1+0\ndomains 3 1 4294967296\n"),
        std::string("varve targets 10 5 1 1+0\ndomains 3 1 4 5\n"),
        std::string("varve targets 1 5 1\n"),
        std::string("varve targets 2\n"),
        std::string("varve targets 2 5\n"),
        std::string("varve targets 2 0 1\n"),
        std::string("varve targets 2 5 65\n"),
        std::string("varve targets 2 4294967295 1\n"),
        std::string("varve targets 2 5 1 x\n"),
        std::string("varve targets 2 5 1"),
        std::string("varve targets 2 5 1 1+0\n"),
        std::string("varve targets 3 5 1\n"),
        std::string("varve targets 3 5 1 6+1\n"),
        std::string("varve targets 3 5 1 1+0 x\n")}) {
    EXPECT_FALSE(parse_records(bad).has_value()) << bad;
  }
  test::HostFolder folder;
  folder.put("targets.list", "nonsense");
  TargetList list;
  EXPECT_EQ(load_records(folder.path(), &list).exit_code, kExitEnvironment);
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
