// Goal: domains are listed, and the calls that make and end them pass names that can be names only.
// Method: through an in-process channel against a node that is none.
#include <gtest/gtest.h>

#include "tests/server/control/control_rig.h"

namespace varve::control {
namespace {

using Stub = v1::Control::Stub;

TEST(ControlDomain, IsListedMadeRotatedAndDropped) {
  ControlRig rig;
  rig.node.purged = {7, 8, 9, 0, true};
  v1::ListDomainsResponse list;
  ASSERT_TRUE(rig.call(&Stub::ListDomains, v1::ListDomainsRequest(), &list).ok());
  ASSERT_EQ(list.domains_size(), 1);
  EXPECT_EQ(list.domains(0).name(), "default");
  EXPECT_EQ(list.domains(0).generation(), 2u);
  EXPECT_EQ(list.domains(0).used_bytes(), 4096u);
  EXPECT_EQ(list.domains(0).dram_bytes(), 8192u);
  EXPECT_EQ(list.domains(0).blocks(), 5u);
  EXPECT_EQ(rig.node.page.rows_max, kDomainsPageMax);
  v1::CreateDomainRequest create;
  create.set_name("team-a_1.x");
  v1::CreateDomainResponse created;
  ASSERT_TRUE(rig.call(&Stub::CreateDomain, create, &created).ok());
  EXPECT_EQ(created.token(), "secret");
  v1::RotateDomainTokenRequest rotate;
  rotate.set_name("team");
  v1::RotateDomainTokenResponse rotated;
  ASSERT_TRUE(rig.call(&Stub::RotateDomainToken, rotate, &rotated).ok());
  EXPECT_EQ(rotated.token(), "other");
  v1::DropDomainRequest drop;
  drop.set_name("team");
  v1::DropDomainResponse dropped;
  ASSERT_TRUE(rig.call(&Stub::DropDomain, drop, &dropped).ok());
  EXPECT_EQ(dropped.purged().generation(), 7u);
  EXPECT_TRUE(dropped.purged().erased_unknown());
}

TEST(ControlDomain, OddNamesDoNotReachTheNode) {
  ControlRig rig;
  for (const std::string name : {"", "Team", "a b", "a/b", "x\n"}) {
    v1::CreateDomainRequest create;
    create.set_name(name);
    v1::CreateDomainResponse created;
    EXPECT_EQ(rig.call(&Stub::CreateDomain, create, &created).error_code(), grpc::INVALID_ARGUMENT)
        << name;
    v1::DropDomainRequest drop;
    drop.set_name(name);
    v1::DropDomainResponse dropped;
    EXPECT_EQ(rig.call(&Stub::DropDomain, drop, &dropped).error_code(), grpc::INVALID_ARGUMENT);
    v1::RotateDomainTokenRequest rotate;
    rotate.set_name(name);
    v1::RotateDomainTokenResponse rotated;
    EXPECT_EQ(rig.call(&Stub::RotateDomainToken, rotate, &rotated).error_code(),
              grpc::INVALID_ARGUMENT);
  }
  v1::ListDomainsRequest list;
  list.set_page_size(65);
  v1::ListDomainsResponse listed;
  EXPECT_EQ(rig.call(&Stub::ListDomains, list, &listed).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_TRUE(rig.node.asked.empty());
}

// A quota that is not kept would be worse than none: it reaches the node, which says so.
TEST(ControlDomain, AQuotaReachesTheNodeAndIsUnimplementedThere) {
  ControlRig rig;
  rig.node.refusal = Code::kUnsupported;
  v1::CreateDomainRequest create;
  create.set_name("a");
  create.set_quota_bytes(4096);
  v1::CreateDomainResponse created;
  EXPECT_EQ(rig.call(&Stub::CreateDomain, create, &created).error_code(), grpc::UNIMPLEMENTED);
  EXPECT_EQ(rig.node.asked, std::vector<std::string>{"create a 4096"});
  EXPECT_TRUE(created.token().empty());
}

TEST(ControlDomain, EachRefusalHasItsCode) {
  ControlRig rig;
  v1::CreateDomainRequest create;
  create.set_name("a");
  v1::CreateDomainResponse created;
  v1::DropDomainRequest drop;
  drop.set_name("a");
  v1::DropDomainResponse dropped;
  const std::pair<Code, grpc::StatusCode> codes[] = {{Code::kQuota, grpc::RESOURCE_EXHAUSTED},
                                                     {Code::kNoSpace, grpc::RESOURCE_EXHAUSTED},
                                                     {Code::kIo, grpc::INTERNAL},
                                                     {Code::kTimedOut, grpc::DEADLINE_EXCEEDED}};
  for (const auto& [code, expected] : codes) {
    rig.node.refusal = code;
    EXPECT_EQ(rig.call(&Stub::CreateDomain, create, &created).error_code(), expected);
  }
  rig.node.refusal_kind = Refusal::Kind::kState;
  EXPECT_EQ(rig.call(&Stub::DropDomain, drop, &dropped).error_code(), grpc::FAILED_PRECONDITION);
  rig.node.refusal_kind = Refusal::Kind::kNotFound;
  EXPECT_EQ(rig.call(&Stub::DropDomain, drop, &dropped).error_code(), grpc::NOT_FOUND);
}

}  // namespace
}  // namespace varve::control
