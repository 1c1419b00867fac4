// A server that is not there is said so, and one that cannot be started leaves nothing behind. Real
// ones are measured in tests/e2e/kvbench_test.py.
#include "tools/kvbench/server_under_test.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

namespace varve::kvbench {
namespace {

TEST(ServerUnderTest, OneThatRunsAlreadyIsNotOursAndNotDescribed) {
  ServerOptions options;
  options.address = "127.0.0.1:1";
  auto server = ServerUnderTest::start(options, "x");
  ASSERT_TRUE(server.has_value());
  EXPECT_FALSE((*server)->is_own());
  EXPECT_EQ((*server)->pid(), 0);
  EXPECT_TRUE((*server)->target_paths().empty());
  Conditions conditions;
  (*server)->describe(conditions);
  EXPECT_EQ(conditions.server, Server::kOthers);
  EXPECT_EQ(conditions.address, "127.0.0.1:1");
}

TEST(ServerUnderTest, AFolderThatCannotBeMadeIsAnError) {
  ServerOptions options;
  options.folder = "/proc/kvbench";
  EXPECT_FALSE(ServerUnderTest::start(options, "x").has_value());
}

TEST(ServerUnderTest, ASchemeNeedsAsManyTargetsAsABlockHasFragments) {
  ServerOptions options;
  options.scheme = "4+2";
  options.targets = 5;
  const auto few = ServerUnderTest::start(options, "x");
  ASSERT_FALSE(few.has_value());
  EXPECT_NE(std::string(few.error().what()).find("--targets"), std::string::npos);
  CLI::App app;
  add_server_options(app, options);
  app.parse("--scheme 2+1");
  EXPECT_EQ(options.scheme, "2+1");
  EXPECT_THROW(app.parse("--scheme 7+7"), CLI::ParseError);
}

TEST(ServerUnderTest, ATokenFileThatIsNotThereIsWrongUse) {
  CLI::App app;
  ServerOptions options;
  add_server_options(app, options);
  EXPECT_THROW(app.parse("--token-file /no/such/file"), CLI::ParseError);
  app.parse("--address h:1 --dram-mib 128");
  EXPECT_EQ(options.address, "h:1");
  EXPECT_EQ(options.dram_mib, 128u);
}

TEST(ServerUnderTest, ATokenIsForAServerThatRunsAlready) {
  const std::string path = testing::TempDir() + "/kvbench_token";
  std::ofstream(path) << "a token\n";
  CLI::App app;
  ServerOptions options;
  add_server_options(app, options);
  EXPECT_THROW(app.parse("--token-file " + path), CLI::ParseError);
  EXPECT_NO_THROW(app.parse("--address h:1 --token-file " + path));
}

TEST(ServerUnderTest, ATokenFileWithoutATokenIsRefused) {
  ServerOptions options;
  options.address = "127.0.0.1:1";
  options.token_path = testing::TempDir() + "/kvbench_token_empty";
  std::ofstream(options.token_path) << " \n";
  EXPECT_FALSE(ServerUnderTest::start(options, "x").has_value());
  options.token_path = "/dev/zero";
  EXPECT_FALSE(ServerUnderTest::start(options, "x").has_value()) << "it has no end";
}

}  // namespace
}  // namespace varve::kvbench
