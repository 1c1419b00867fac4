// Goal: a purge that finds no room says what to do that does, of each kind. The rest of the room's
// questions to cores is tested by tests/e2e/control_test.cc.
#include "server/node/ingress.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(PurgeRefusals, WithoutRoomEachKindNamesAWayOut) {
  using control::PurgeKind;
  const auto text = [](PurgeKind kind) {
    const control::Refusal refusal = purge_refusal(Code::kNoSpace, kind);
    EXPECT_EQ(refusal.code, Code::kNoSpace);
    return refusal.text;
  };
  EXPECT_NE(text(PurgeKind::kBlocks).find("purge the lineage, or the domain"), std::string::npos);
  EXPECT_NE(text(PurgeKind::kLineage).find("purge the domain"), std::string::npos);
  EXPECT_EQ(text(PurgeKind::kLineage).find("purge the lineage"), std::string::npos);
  // Expect: whoever asked for the domain is not sent to the domain that it asked for.
  const std::string domain = text(PurgeKind::kDomain);
  EXPECT_NE(domain.find("the domain that purged most lineages"), std::string::npos) << domain;
  EXPECT_EQ(domain.find("always"), std::string::npos) << domain;
}

TEST(PurgeRefusals, TheOthersAreOfNoKind) {
  for (const Code code : {Code::kOverloaded, Code::kTimedOut, Code::kUnavailable, Code::kIo}) {
    const std::string text = purge_refusal(code, control::PurgeKind::kBlocks).text;
    EXPECT_EQ(text, purge_refusal(code, control::PurgeKind::kDomain).text);
    EXPECT_NE(text.find("again"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace varve
