// Goal: a domain's token is shown once, where it is made, in a way that a script can keep.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

TEST(Domains, AreListedPageByPage) {
  FakeNode node;
  for (uint64_t page = 0; page < 2; ++page) {
    v1::ListDomainsResponse& rows = node.ListDomains_pages.emplace_back();
    v1::Domain* domain = rows.add_domains();
    domain->set_name("team-" + std::to_string(page));
    domain->set_has_token(page == 1);
    domain->set_used_bytes(page << 30);
    domain->set_dram_bytes(page << 20);
    domain->set_blocks(page * 1234);
    rows.set_next_cursor(page == 0 ? 1 : 0);
  }
  const Said said = node.kvctl({"domain"});
  EXPECT_NE(said.out.find("team-0"), std::string::npos);
  EXPECT_NE(said.out.find("team-1"), std::string::npos);
  EXPECT_NE(said.out.find("1,234  1.0 MiB  1.0 GiB"), std::string::npos) << said.out;
  const auto json = node.kvctl({"--json", "domain"}).json();
  EXPECT_EQ(json["domains"].size(), 2u);
  EXPECT_EQ(json["domains"][1]["dram_bytes"], 1 << 20);
  EXPECT_EQ(json["domains"][1]["blocks"], 1234);
  EXPECT_EQ(json["next_cursor"], 0);
}

TEST(Domains, AreMadeWithATokenOnALineOfItsOwn) {
  FakeNode node;
  node.CreateDomain_answer().mutable_domain()->set_name("team-a");
  node.CreateDomain_answer().set_token("tok");
  const Said said = node.kvctl({"domain", "create", "team-a", "--quota", "1KiB"});
  EXPECT_EQ(node.CreateDomain_request.quota_bytes(), 1024u);
  EXPECT_NE(said.out.find("\ntok\n"), std::string::npos) << said.out;
  EXPECT_EQ(node.kvctl({"--json", "domain", "create", "team-a"}).json()["token"], "tok");
  EXPECT_EQ(node.kvctl({"domain", "create", "team-a", "--quota", "1 KB"}).exit, Exit::kUsage);
}

TEST(Domains, AreRotatedAndDropped) {
  FakeNode node;
  node.RotateDomainToken_answer().set_token("new");
  EXPECT_NE(node.kvctl({"--yes", "domain", "rotate", "team-a"}).out.find("\nnew\n"),
            std::string::npos);
  EXPECT_EQ(node.RotateDomainToken_request.name(), "team-a");
  node.DropDomain_answer().mutable_purged()->set_blocks(7);
  EXPECT_NE(node.kvctl({"--yes", "domain", "drop", "team-a"}).out.find("7 blocks"),
            std::string::npos);
  EXPECT_EQ(node.DropDomain_request.name(), "team-a");
}

}  // namespace
}  // namespace varve::kvctl
