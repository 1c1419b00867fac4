// Goal: a small file is read whole, replaced whole, and a refusal names its errno. Metrics never
// take the place of something else (H4).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "tests/server/host/host_folder.h"

namespace varve {
namespace {

TEST(HostFile, WhatIsReplacedIsReadBackAndNothingIsLeftBeside) {
  test::HostFolder folder;
  const std::string path = folder.path() + "/file";
  for (const Durability durability : {Durability::kNone, Durability::kPowerCut}) {
    EXPECT_EQ(replace_file(path, "first", durability), 0);
    EXPECT_EQ(replace_file(path, "2", durability), 0);
    std::string content;
    EXPECT_TRUE(read_file(path, &content));
    EXPECT_EQ(content, "2");
    EXPECT_FALSE(exists(path + ".new"));
  }
}

// Secrets that others may read or write are none any more: the start says so and takes nothing.
TEST(HostFile, AFileOfSecretsIsItsOwnersOnly) {
  test::HostFolder folder;
  const std::string path = folder.path() + "/secrets";
  std::string content;
  bool found = true;
  EXPECT_TRUE(read_secrets(path, &content, &found).ok());
  EXPECT_FALSE(found);
  folder.put("secrets", "a secret");
  for (const mode_t mode : {0640, 0604, 0602, 0620, 0601, 0777}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const Failure failure = read_secrets(path, &content, &found);
    EXPECT_EQ(failure.exit_code, kExitEnvironment);
    EXPECT_EQ(failure.text, path + " may be read or written by others; chmod 600 it");
    EXPECT_TRUE(content.empty());
  }
  for (const mode_t mode : {0600, 0400}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(read_secrets(path, &content, &found).ok());
    EXPECT_TRUE(found);
    EXPECT_EQ(content, "a secret");
  }
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(read_secrets(path, &content, &found).text.find("no regular file"), std::string::npos);
}

// Whose file it is may change it. Changing an owner needs root.
TEST(HostFile, AFileOfSecretsIsOursOrRoots) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a file away";
  test::HostFolder folder;
  folder.put("secrets", "a secret");
  const std::string path = folder.path() + "/secrets";
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(::chown(path.c_str(), 12345, 0), 0);
  std::string content;
  bool found = false;
  const Failure failure = read_secrets(path, &content, &found);
  EXPECT_EQ(failure.text,
            path +
                " is of user 12345, who may change it; chown it to whoever runs this, "
                "or root");
  EXPECT_TRUE(found && content.empty());
  ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  EXPECT_TRUE(read_secrets(path, &content, &found).ok());
}

// What systemd hands over (since 254 with mode 0440) is taken there, and nowhere else.
TEST(HostFile, CredentialsOfAServiceAreTakenInTheirFolderOnly) {
  test::HostFolder folder;
  for (const char* name : {"credentials/token", "credentials/below/token", "token"})
    folder.put(name, "0123456789abcdef");
  const std::string there = folder.path() + "/credentials/token";
  ::setenv("CREDENTIALS_DIRECTORY", (folder.path() + "/credentials").c_str(), 1);
  std::string token;
  const auto takes = [&token](const std::string& path, mode_t mode) {
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return load_token("--token-file", path, &token).ok();
  };
  EXPECT_TRUE(takes(there, 0440));
  EXPECT_EQ(token, "0123456789abcdef");
  EXPECT_TRUE(takes(folder.path() + "/credentials/below/../token", 0440));
  for (const mode_t mode : {0444, 0460, 0640, 0450})
    EXPECT_FALSE(takes(there, mode)) << mode;
  EXPECT_FALSE(takes(folder.path() + "/credentials/below/token", 0440));
  EXPECT_FALSE(takes(folder.path() + "/token", 0440));
  EXPECT_FALSE(takes(folder.path() + "/credentials/../token", 0440));
  ::setenv("CREDENTIALS_DIRECTORY", "credentials", 1);
  EXPECT_FALSE(takes(there, 0440));
  ::unsetenv("CREDENTIALS_DIRECTORY");
  EXPECT_FALSE(takes(there, 0440));
  EXPECT_TRUE(takes(there, 0400));
}

// Expect: one sentence each, with the path, and no waiting for the writer of a pipe.
TEST(HostFile, AFileOfSettingsIsARegularOneOfModestSize) {
  test::HostFolder folder;
  const std::string path = folder.path() + "/v.toml";
  std::string text;
  const auto refused = [&](const char* why) {
    const Failure failure = load_config(path, &text);
    EXPECT_EQ(failure.exit_code, kExitUsage);
    EXPECT_EQ(failure.text, "--config " + path + why);
  };
  refused(": No such file or directory; check the path");
  folder.make("v.toml");
  refused(" is a folder; name the file in it");
  ASSERT_EQ(::rmdir(path.c_str()), 0);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  refused(" is no regular file; copy the settings to one");
  ASSERT_EQ(::unlink(path.c_str()), 0);
  folder.put("v.toml", std::string(65537, '#'));
  refused(" has 65537 bytes; settings are at most 65536");
  folder.put("v.toml", std::string(65536, '#'));
  EXPECT_TRUE(load_config(path, &text).ok());
  EXPECT_EQ(text.size(), 65536u);
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  if (::access(path.c_str(), R_OK) != 0) refused(": Permission denied; check its permissions");
  ASSERT_EQ(::rename(path.c_str(), (path + ".real").c_str()), 0);  // a link is fine
  ASSERT_EQ(::chmod((path + ".real").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("v.toml.real", path.c_str()), 0);
  EXPECT_TRUE(load_config(path, &text).ok());
}

// In a folder that others may write to a link could name whatever this user owns.
TEST(HostFile, WritesMetricsThroughNoLink) {
  test::HostFolder folder;
  const std::string path = folder.path() + "/file", other = folder.path() + "/other";
  folder.put("other", "kept");
  ASSERT_EQ(::symlink(other.c_str(), (path + ".new").c_str()), 0);
  EXPECT_FALSE(replace_metrics(path, "# HELP varve_a A.\n").ok());
  std::string content;
  EXPECT_TRUE(read_file(other, &content));
  EXPECT_EQ(content, "kept");
}

TEST(HostFile, ARefusalNamesItsErrno) {
  test::HostFolder folder;
  std::string content;
  EXPECT_FALSE(read_file(folder.path() + "/absent", &content));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(replace_file(folder.path() + "/absent/file", "x", Durability::kNone), ENOENT);
  folder.make("taken");
  EXPECT_EQ(replace_file(folder.path() + "/taken", "x", Durability::kNone), EISDIR);
  EXPECT_FALSE(exists(folder.path() + "/taken.new"));
  folder.put("five", "12345");
  EXPECT_EQ(file_bytes(folder.path() + "/five"), 5u);
  EXPECT_EQ(file_bytes(folder.path() + "/absent"), 0u);
  EXPECT_EQ(errno_suffix(ENOENT), ": No such file or directory");
  EXPECT_EQ(errno_suffix(0), "");
}

TEST(HostFile, MetricsReplaceMetricsAnEmptyFileOrNothing) {
  test::HostFolder folder;
  const std::string path = folder.path() + "/m.prom", text = "# HELP varve_a A.\n";
  EXPECT_TRUE(replace_metrics(path, text).ok());
  EXPECT_TRUE(replace_metrics(path, text + "varve_a 1\n").ok());
  folder.put("m.prom", "");
  folder.put("m.prom.new", text.substr(0, 7));  // of a daemon that was killed
  EXPECT_TRUE(check_metrics(path).ok());
  EXPECT_TRUE(replace_metrics(path, text).ok());
  std::string content;
  EXPECT_TRUE(read_file(path, &content));
  EXPECT_EQ(content, text);
}

// Goal: a collector that runs as somebody else can read them, whatever the umask (the unit's is
// 0077), and nothing else that is written so.
TEST(HostFile, MetricsAreForWhoeverMayLookIntoTheirFolder) {
  test::HostFolder folder;
  const auto mode_of = [&](const char* name) {
    struct stat info = {};
    EXPECT_EQ(::stat((folder.path() + "/" + name).c_str(), &info), 0) << name;
    return info.st_mode & 0777;
  };
  const mode_t before = ::umask(0077);
  EXPECT_TRUE(replace_metrics(folder.path() + "/m.prom", "# HELP varve_a A.\n").ok());
  EXPECT_EQ(replace_file(folder.path() + "/secret", "x", Durability::kNone), 0);
  ::umask(before);
  EXPECT_EQ(mode_of("m.prom"), 0644u);
  EXPECT_EQ(mode_of("secret"), 0600u);
}

// They are not flushed: the next start must not be refused for it.
TEST(HostFile, MetricsReplaceTheZerosThatAPowerCutLeaves) {
  test::HostFolder folder;
  folder.put("m.prom", std::string(4096, '\0'));
  EXPECT_TRUE(check_metrics(folder.path() + "/m.prom").ok());
  EXPECT_TRUE(replace_metrics(folder.path() + "/m.prom", "# HELP a b\n").ok());
}

// As root one rename would be enough to lose a target, /dev/null or the salt.
TEST(HostFile, MetricsReplaceNothingElseAndSayWhat) {
  test::HostFolder folder;
  const std::string path = folder.path() + "/m.prom", text = "# HELP varve_a A.\n";
  const auto refused = [&](const char* why) {
    const Failure asked = check_metrics(path), done = replace_metrics(path, text);
    EXPECT_EQ(asked.exit_code, kExitEnvironment) << why;
    EXPECT_EQ(asked.text, done.text);
    EXPECT_NE(asked.text.find(why), std::string::npos) << asked.text;
    EXPECT_NE(asked.text.find("give another path, or remove it"), std::string::npos) << asked.text;
  };
  for (const std::string& other :
       {std::string("# HEL"), std::string("0123\n"), std::string(5000, '\0') + "x"}) {
    folder.put("m.prom", other);
    refused("m.prom holds something else than metrics");
    std::string content;
    EXPECT_TRUE(read_file(path, &content));
    EXPECT_EQ(content, other);
  }
  std::filesystem::resize_file(path, 0);
  std::filesystem::resize_file(path, 400 * kMiB);  // a blank target
  refused("m.prom holds something else than metrics");
  EXPECT_EQ(std::filesystem::file_size(path), 400 * kMiB);
  std::filesystem::remove(path);
  folder.put("m.prom.new", "mine");  // it would be cut off to write the next one
  refused("m.prom.new holds something else than metrics");
  std::filesystem::remove(path + ".new");
  folder.put("real", text);
  std::filesystem::create_symlink(folder.path() + "/real", path);
  refused("m.prom is no regular file");
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  refused("m.prom is no regular file");
  EXPECT_EQ(check_metrics("/dev/null").exit_code, kExitEnvironment);
}

TEST(HostFile, MetricsThatCannotBeWrittenSayWhy) {
  test::HostFolder folder;
  const Failure failure = replace_metrics(folder.path() + "/absent/m.prom", "# HELP varve_a A.\n");
  EXPECT_EQ(failure.exit_code, kExitEnvironment);
  EXPECT_NE(failure.text.find("m.prom is not written: No such file"), std::string::npos)
      << failure.text;
}

TEST(HostFile, APathIsTheSameFromEveryFolder) {
  test::HostFolder folder;
  folder.make("two\nlines");
  const std::filesystem::path before = std::filesystem::current_path();
  const std::string real = std::filesystem::canonical(folder.path());
  std::filesystem::current_path(real);
  EXPECT_EQ(absolute("t.dat"), real + "/t.dat");
  EXPECT_EQ(absolute("./a/t.dat"), real + "/./a/t.dat");
  EXPECT_EQ(absolute("/a/t.dat"), "/a/t.dat");
  std::filesystem::current_path(real + "/two\nlines");
  EXPECT_EQ(absolute("t.dat"), "t.dat");  // the list of targets has a line for each
  std::filesystem::current_path(before);
}

TEST(HostFile, APlaceIsKnownByItsFolderAndName) {
  test::HostFolder folder;
  const std::string path = folder.path() + "/t.dat";
  EXPECT_TRUE(same_place(path, folder.path() + "/./t.dat"));
  EXPECT_TRUE(same_place(path, folder.path() + "//t.dat"));
  EXPECT_FALSE(same_place(path, folder.path() + "/u.dat"));
  EXPECT_FALSE(same_place(path, folder.path() + "/gone/t.dat"));
  EXPECT_TRUE(same_place(folder.path() + "/gone/t.dat", folder.path() + "/gone/t.dat"));
}

}  // namespace
}  // namespace varve
