// Goal: a purge says what it is of, is asked for again only while it was refused for now, and tells
// what the daemon told; what may have been done is never asked again by itself.
// Method: the rig with answers by script.
#include "client/purge.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/client/client_rig.h"

namespace varve {
namespace {

struct PurgeTest : testing::Test {
  void SetUp() override {
    rig.daemon->hook = [this](const auto& r) {
      if (r.type != Type::kPurge) return false;
      const wire::Frame frame = r.frame();
      const auto& view = std::get<wire::PurgeView>(frame.body);
      asked.push_back(view.body);
      ids.clear();
      for (uint32_t i = 0; i < view.ids.size(); ++i)
        ids.push_back(view.ids[i]);
      if (silent) return true;
      wire::Purged body = answer;
      if (refusals > 0) {
        --refusals;
        body = wire::Purged();
        body.code = static_cast<uint8_t>(Code::kOverloaded);
      }
      rig.daemon->send(0, rig.daemon->encoder().purged(r.op, body));
      return true;
    };
  }
  static BaseId id(uint8_t n) {
    BaseId id;
    id.bytes.fill(static_cast<std::byte>(n));
    return id;
  }
  static PurgeRequest blocks(std::vector<BaseId> which, Nanos deadline_ns = 5 * kSecond,
                             uint64_t tag = 0) {
    PurgeRequest request;
    request.ids = std::move(which);
    request.deadline_ns = deadline_ns;
    request.tag = tag;
    return request;
  }
  ClientRig rig;
  wire::Purged answer{
      .code = 0, .reserved = {}, .generation = 3, .blocks = 4, .bytes = 500, .erased_ns = 6};
  uint32_t refusals = 0;
  bool silent = false;
  std::vector<wire::Purge> asked;
  std::vector<BaseId> ids;
};

TEST_F(PurgeTest, NamesTheBlocksAndTellsTheAnswer) {
  const Event event = rig.finish(*rig.core->purge(blocks({id(1), id(2)}, kSecond, 9)));
  EXPECT_EQ(event.kind, Event::Kind::kPurged);
  EXPECT_EQ(event.tag, 9u);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.purged.generation, 3u);
  EXPECT_EQ(event.purged.blocks, 4u);
  EXPECT_EQ(event.purged.bytes, 500u);
  EXPECT_EQ(event.purged.erased_ns, 6u);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].kind, wire::PurgeKind::kBlocks);
  EXPECT_EQ(asked[0].format, 0u);
  EXPECT_EQ(ids, (std::vector<BaseId>{id(1), id(2)}));
}

TEST_F(PurgeTest, NamesTheFormatOfALineageAndNothingForTheDomain) {
  PurgeRequest request;
  request.kind = wire::PurgeKind::kLineage;
  request.format = *rig.core->format(format_of({4096}));
  EXPECT_TRUE(rig.finish(*rig.core->purge(request)).status.ok());
  request = PurgeRequest();
  request.kind = wire::PurgeKind::kDomain;
  const Event domain = rig.finish(*rig.core->purge(request));
  EXPECT_TRUE(domain.status.ok());
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_NE(asked[0].format, 0u);
  EXPECT_EQ(asked[1].format, 0u);
  EXPECT_EQ(asked[1].count, 0u);
}

TEST_F(PurgeTest, RefusesRequestsThatSayNothingOrTooMuch) {
  PurgeRequest request;
  EXPECT_FALSE(rig.core->purge(request).has_value()) << "no ids";
  request.ids.resize(wire::kIdsMax + 1);
  EXPECT_FALSE(rig.core->purge(request).has_value()) << "too many";
  request.ids = {id(1)};
  request.kind = wire::PurgeKind::kDomain;
  EXPECT_FALSE(rig.core->purge(request).has_value()) << "ids of a domain";
  request.ids.clear();
  request.kind = wire::PurgeKind::kLineage;
  request.format = 999;
  EXPECT_FALSE(rig.core->purge(request).has_value()) << "of no format";
  EXPECT_TRUE(asked.empty());
}

TEST_F(PurgeTest, AsksAgainWhatWasRefusedForNow) {
  refusals = 3;
  const Event event = rig.finish(*rig.core->purge(blocks({id(1)})));
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(asked.size(), 4u);
}

TEST_F(PurgeTest, TellsOnceWhatTheDaemonCouldNotFinishAndWhatToDo) {
  std::set<std::string> remedies;
  for (const Code code : {Code::kUnavailable, Code::kNoSpace, Code::kTimedOut}) {
    asked.clear();
    answer.code = static_cast<uint8_t>(code);
    const Event event = rig.finish(*rig.core->purge(blocks({id(1)})));
    EXPECT_EQ(event.status.code(), code);
    EXPECT_EQ(event.purged.blocks, 4u) << "what is unreachable already";
    EXPECT_EQ(asked.size(), 1u);
    remedies.insert(event.status.what());
  }
  EXPECT_EQ(remedies.size(), 3u);
}

TEST_F(PurgeTest, EndsAtItsDeadlineAndWithItsSession) {
  silent = true;
  const Event late = rig.finish(*rig.core->purge(blocks({id(1)}, 50 * kMillisecond)));
  EXPECT_EQ(late.status.code(), Code::kTimedOut);
  EXPECT_EQ(asked.size(), 1u) << "it may have been done";
}

}  // namespace
}  // namespace varve
