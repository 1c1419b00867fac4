// Goal: every rule of docs/WIRE.md section 5 refuses just outside its limit and accepts just
// inside. Method: one default-valid struct per rule, one field changed.
#include "common/wire/check.h"

#include <gtest/gtest.h>

namespace varve::wire {
namespace {

template <class Body, class Change>
bool accepts(Body body, Change change) {
  change(body);
  return check(body).ok();
}

Match valid_match() {
  Match body;
  body.count = 1;
  return body;
}
Reserve valid_reserve() {
  Reserve body;
  body.count = 1;
  return body;
}
Pull valid_pull() {
  Pull body;
  body.count = 1;
  body.layer_count = 1;
  return body;
}
Extent valid_extent() {
  Extent body;
  body.extent_bytes = 4096;
  return body;
}
Commit valid_commit() {
  Commit body;
  body.count = 1;
  return body;
}
ExtentEntry valid_entry() {
  ExtentEntry entry;
  entry.stored_bytes = 4096;
  return entry;
}
Data valid_data() {
  Data body;
  body.entry = valid_entry();
  return body;
}

LostExtent valid_lost() {
  LostExtent lost;
  lost.entry = valid_entry();
  return lost;
}
Follow valid_follow() {
  Follow body;
  body.count = 1;
  body.layer_count = 1;
  return body;
}
Purge valid_purge() {
  Purge body;
  body.count = 1;
  return body;
}

TEST(Check, CountsStopAtTheirLimits) {
  EXPECT_TRUE(accepts(Lost{1, 0}, [](Lost& b) { b.count = kLostMax; }));
  EXPECT_FALSE(accepts(Lost{1, 0}, [](Lost& b) { b.count = kLostMax + 1; }));
  EXPECT_FALSE(accepts(Lost{1, 0}, [](Lost& b) { b.count = 0; }));
  EXPECT_TRUE(accepts(valid_follow(), [](Follow& b) { b.count = kIdsMax; }));
  EXPECT_FALSE(accepts(valid_follow(), [](Follow& b) { b.count = kIdsMax + 1; }));
  EXPECT_FALSE(accepts(valid_follow(), [](Follow& b) { b.count = 0; }));
  EXPECT_TRUE(accepts(Held(), [](Held& b) { b.count = kHoldsMax; }));
  EXPECT_FALSE(accepts(Held(), [](Held& b) { b.count = kHoldsMax + 1; }));
  EXPECT_FALSE(accepts(valid_purge(), [](Purge& b) { b.count = kIdsMax + 1; }));
  EXPECT_TRUE(accepts(valid_match(), [](Match& b) { b.count = kIdsMax; }));
  EXPECT_FALSE(accepts(valid_match(), [](Match& b) { b.count = kIdsMax + 1; }));
  EXPECT_FALSE(accepts(valid_match(), [](Match& b) { b.count = 0; }));
  EXPECT_FALSE(accepts(valid_reserve(), [](Reserve& b) { b.count = kIdsMax + 1; }));
  EXPECT_FALSE(accepts(valid_reserve(), [](Reserve& b) { b.count = 0; }));
  EXPECT_FALSE(accepts(valid_pull(), [](Pull& b) { b.count = kIdsMax + 1; }));
  EXPECT_FALSE(accepts(valid_pull(), [](Pull& b) { b.count = 0; }));
  EXPECT_TRUE(accepts(valid_commit(), [](Commit& b) { b.count = kExtentsMax; }));
  EXPECT_FALSE(accepts(valid_commit(), [](Commit& b) { b.count = kExtentsMax + 1; }));
  EXPECT_FALSE(accepts(valid_commit(), [](Commit& b) { b.count = 0; }));
  EXPECT_FALSE(accepts(Matched(), [](Matched& b) { b.n_blocks = kIdsMax + 1; }));
  EXPECT_FALSE(accepts(Reserved(), [](Reserved& b) { b.count = kIdsMax + 1; }));
  EXPECT_FALSE(accepts(Pulled(), [](Pulled& b) { b.count = kIdsMax + 1; }));
  EXPECT_FALSE(accepts(FormatBody{1, 0}, [](FormatBody& b) { b.format_bytes = 0; }));
  EXPECT_TRUE(accepts(FormatBody{1, 0}, [](FormatBody& b) { b.format_bytes = kFormatBytesMax; }));
  EXPECT_FALSE(
      accepts(FormatBody{1, 0}, [](FormatBody& b) { b.format_bytes = kFormatBytesMax + 1; }));
}

TEST(Check, IndexesStopAtTheirLimits) {
  EXPECT_FALSE(accepts(valid_extent(), [](Extent& b) { b.index = kIdsMax; }));
  EXPECT_FALSE(accepts(valid_extent(), [](Extent& b) { b.extent = kExtentsMax; }));
  EXPECT_FALSE(accepts(valid_commit(), [](Commit& b) { b.index = kIdsMax; }));
  EXPECT_FALSE(accepts(Committed(), [](Committed& b) { b.index = kIdsMax; }));
  EXPECT_FALSE(accepts(Abort(), [](Abort& b) { b.index = kIdsMax; }));
  EXPECT_FALSE(accepts(Aborted(), [](Aborted& b) { b.index = kIdsMax; }));
  EXPECT_FALSE(accepts(valid_data(), [](Data& b) { b.block = kIdsMax; }));
  EXPECT_FALSE(accepts(valid_data(), [](Data& b) { b.extent = kExtentsMax; }));
  EXPECT_FALSE(accepts(valid_reserve(), [](Reserve& b) { b.rank = kRanksMax; }));
  EXPECT_FALSE(accepts(valid_pull(), [](Pull& b) { b.rank = kRanksMax; }));
}

TEST(Check, PiecesLieInsideTheirExtent) {
  EXPECT_TRUE(accepts(valid_extent(), [](Extent& b) { b.offset = 4095; }));
  EXPECT_FALSE(accepts(valid_extent(), [](Extent& b) { b.offset = 4096; }));
  EXPECT_FALSE(accepts(valid_extent(), [](Extent& b) { b.extent_bytes = 0; }));
  EXPECT_FALSE(accepts(valid_extent(), [](Extent& b) { b.extent_bytes = kExtentBytesMax + 1; }));
  EXPECT_FALSE(accepts(valid_data(), [](Data& b) { b.offset = 4096; }));
  EXPECT_FALSE(accepts(valid_data(), [](Data& b) { b.entry.stored_bytes = 0; }));
  EXPECT_FALSE(
      accepts(valid_entry(), [](ExtentEntry& e) { e.stored_bytes = kExtentBytesMax + 1; }));
}

TEST(Check, LayersOfAPullAreARangeOfLayers) {
  EXPECT_FALSE(accepts(valid_pull(), [](Pull& b) { b.layer_count = 0; }));
  EXPECT_TRUE(accepts(valid_pull(), [](Pull& b) { b.layer_count = kLayersMax; }));
  EXPECT_FALSE(accepts(valid_pull(), [](Pull& b) { b.layer_count = kLayersMax + 1; }));
  EXPECT_FALSE(accepts(valid_pull(), [](Pull& b) { b.layer_first = kLayersMax; }));
  // Expect: no overflow hides a range that wraps around.
  EXPECT_FALSE(accepts(valid_pull(), [](Pull& b) { b.layer_first = ~0u; }));
}

TEST(Check, APullAsksForLayersOrForSingleExtents) {
  EXPECT_FALSE(accepts(valid_pull(), [](Pull& b) { b.want_count = 1; }));
  const auto wants = [](uint32_t count) {
    return [count](Pull& b) {
      b.layer_count = 0;
      b.want_count = count;
    };
  };
  EXPECT_TRUE(accepts(valid_pull(), wants(1)));
  EXPECT_TRUE(accepts(valid_pull(), wants(kWantsMax)));
  EXPECT_FALSE(accepts(valid_pull(), wants(kWantsMax + 1)));
  EXPECT_FALSE(accepts(valid_pull(), [&](Pull& b) { wants(1)(b), b.layer_first = 1; }));
  EXPECT_TRUE(check(Want{kIdsMax - 1, kExtentsMax - 1}).ok());
  EXPECT_FALSE(check(Want{kIdsMax, 0}).ok());
  EXPECT_FALSE(check(Want{0, kExtentsMax}).ok());
}

TEST(Check, ACancelNamesAnOpOrOneExtentOfIt) {
  EXPECT_TRUE(check(Cancel{7}).ok());
  EXPECT_TRUE(check(Cancel{7, 0, 0}).ok());
  EXPECT_TRUE(check(Fenced{7, kIdsMax - 1, kExtentsMax - 1}).ok());
  EXPECT_FALSE(check(Cancel{7, kWhole, 0}).ok());
  EXPECT_FALSE(check(Cancel{7, 0, kWhole}).ok());
  EXPECT_FALSE(check(Fenced{7, kIdsMax, 0}).ok());
  EXPECT_FALSE(check(Fenced{7, 0, kExtentsMax}).ok());
}

TEST(Check, WhatIsLostFollowedHeldAndPurgedIsNamed) {
  EXPECT_TRUE(check(valid_lost()).ok());
  EXPECT_FALSE(accepts(valid_lost(), [](LostExtent& e) { e.state = static_cast<LostState>(0); }));
  EXPECT_FALSE(accepts(valid_lost(), [](LostExtent& e) { e.state = static_cast<LostState>(3); }));
  EXPECT_FALSE(accepts(valid_lost(), [](LostExtent& e) { e.code = kCodeCount; }));
  EXPECT_FALSE(accepts(valid_lost(), [](LostExtent& e) { e.block = kIdsMax; }));
  EXPECT_FALSE(accepts(valid_lost(), [](LostExtent& e) { e.extent = kExtentsMax; }));
  EXPECT_FALSE(accepts(valid_lost(), [](LostExtent& e) { e.entry.stored_bytes = 0; }));
  EXPECT_FALSE(check(Renew{1, 0, 0}).ok());
  EXPECT_FALSE(accepts(Renewed(), [](Renewed& b) { b.code = kCodeCount; }));
  EXPECT_FALSE(accepts(valid_follow(), [](Follow& b) { b.layer_count = 0; }));
  EXPECT_FALSE(accepts(valid_follow(), [](Follow& b) { b.rank = kRanksMax; }));
  EXPECT_FALSE(check(FollowBlock{}).ok());
  EXPECT_FALSE(accepts(Hold(), [](Hold& h) { h.kind = static_cast<HoldKind>(0); }));
  EXPECT_FALSE(accepts(Hold(), [](Hold& h) { h.kind = static_cast<HoldKind>(5); }));
  EXPECT_FALSE(accepts(Held(), [](Held& b) { b.code = kCodeCount; }));
  EXPECT_FALSE(accepts(valid_purge(), [](Purge& b) { b.count = 0; }));
  EXPECT_FALSE(accepts(valid_purge(), [](Purge& b) { b.kind = static_cast<PurgeKind>(0); }));
  EXPECT_FALSE(accepts(valid_purge(), [](Purge& b) { b.kind = static_cast<PurgeKind>(4); }));
  EXPECT_FALSE(accepts(valid_purge(), [](Purge& b) { b.kind = PurgeKind::kDomain; }));
  EXPECT_FALSE(accepts(valid_purge(), [](Purge& b) { b.format = 1; }));
  EXPECT_FALSE(accepts(Purged(), [](Purged& b) { b.code = kCodeCount; }));
}

TEST(Check, EnumsAndCodesAreKnown) {
  EXPECT_FALSE(accepts(Hello(), [](Hello& b) { b.lane = static_cast<LaneKind>(0); }));
  EXPECT_FALSE(accepts(Hello(), [](Hello& b) { b.lane = static_cast<LaneKind>(3); }));
  EXPECT_FALSE(accepts(valid_commit(), [](Commit& b) { b.ack = static_cast<AckKind>(0); }));
  EXPECT_FALSE(accepts(Committed(), [](Committed& b) { b.ack = static_cast<AckKind>(3); }));
  EXPECT_FALSE(accepts(ReserveAnswer(),
                       [](ReserveAnswer& a) { a.outcome = static_cast<ReserveOutcome>(0); }));
  EXPECT_FALSE(accepts(ReserveAnswer(),
                       [](ReserveAnswer& a) { a.outcome = static_cast<ReserveOutcome>(5); }));
  EXPECT_TRUE(check(TierKind::kObject).ok());
  EXPECT_FALSE(check(static_cast<TierKind>(4)).ok());
  EXPECT_TRUE(check_code(kCodeCount - 1).ok());
  EXPECT_FALSE(check_code(kCodeCount).ok());
  EXPECT_FALSE(accepts(Matched(), [](Matched& b) { b.code = kCodeCount; }));
  EXPECT_FALSE(accepts(Reserved(), [](Reserved& b) { b.code = kCodeCount; }));
  EXPECT_FALSE(accepts(Pulled(), [](Pulled& b) { b.code = kCodeCount; }));
  EXPECT_FALSE(accepts(Pulled(), [](Pulled& b) { b.tiers = 1; }));
  EXPECT_FALSE(accepts(Pulled(), [](Pulled& b) { b.tiers = 0x10; }));
  EXPECT_TRUE(accepts(Pulled(), [](Pulled& b) { b.tiers = kTierBits; }));
  EXPECT_FALSE(accepts(Committed(), [](Committed& b) { b.code = kCodeCount; }));
  EXPECT_FALSE(accepts(Aborted(), [](Aborted& b) { b.code = kCodeCount; }));
  EXPECT_FALSE(accepts(Released(), [](Released& b) { b.code = kCodeCount; }));
  EXPECT_FALSE(accepts(FormatOk(), [](FormatOk& b) { b.code = kCodeCount; }));
  EXPECT_FALSE(accepts(Refused(), [](Refused& b) { b.code = 0; }));
  EXPECT_FALSE(accepts(Matched(), [](Matched& b) { b.recovering = 2; }));
}

TEST(Check, AHelloSaysOnlyWhatItsLaneMaySay) {
  EXPECT_TRUE(accepts(Hello(), [](Hello& b) { b.pull_credit_bytes = 1; }));
  EXPECT_FALSE(accepts(Hello(), [](Hello& b) { b.session = 1; }));
  EXPECT_FALSE(accepts(Hello(), [](Hello& b) { b.session_secret = 1; }));
  EXPECT_FALSE(accepts(Hello(), [](Hello& b) { b.lane_index = 1; }));
  EXPECT_FALSE(accepts(Hello(), [](Hello& b) { b.version_min = 2; }));
  EXPECT_FALSE(accepts(Hello(), [](Hello& b) { b.token_bytes = kTokenBytesMax + 1; }));
  EXPECT_FALSE(accepts(Hello(), [](Hello& b) { b.name_bytes = kTextBytesMax + 1; }));
  Hello bulk;
  bulk.lane = LaneKind::kBulk;
  EXPECT_TRUE(accepts(bulk, [](Hello& b) { b.lane_index = kBulkLanesMax - 1; }));
  EXPECT_FALSE(accepts(bulk, [](Hello& b) { b.lane_index = kBulkLanesMax; }));
  EXPECT_FALSE(accepts(bulk, [](Hello& b) { b.pull_credit_bytes = 1; }));
}

TEST(Check, AHelloOkIsOfThisVersionAndOffersALane) {
  EXPECT_TRUE(check(HelloOk()).ok());
  EXPECT_FALSE(accepts(HelloOk(), [](HelloOk& b) { b.version = 2; }));
  EXPECT_FALSE(accepts(HelloOk(), [](HelloOk& b) { b.bulk_lanes_max = 0; }));
  EXPECT_FALSE(accepts(HelloOk(), [](HelloOk& b) { b.bulk_lanes_max = kBulkLanesMax + 1; }));
  EXPECT_FALSE(accepts(HelloOk(), [](HelloOk& b) { b.k = 0; }));
}

TEST(Check, AGrantHasAnAttemptAndARefusalHasNoAnswers) {
  ReserveAnswer granted;
  granted.outcome = ReserveOutcome::kGranted;
  EXPECT_FALSE(check(granted).ok());
  granted.attempt.counter = 1;
  EXPECT_TRUE(check(granted).ok());
  Reserved refused;
  refused.code = static_cast<uint8_t>(Code::kOverloaded);
  EXPECT_TRUE(check(refused).ok());
  refused.count = 1;
  EXPECT_FALSE(check(refused).ok());
}

TEST(Check, AMatchOfEachHasNoLease) {
  EXPECT_TRUE(accepts(valid_match(), [](Match& b) { b.lease_ms = 5; }));
  EXPECT_TRUE(accepts(valid_match(), [](Match& b) { b.of = MatchOf::kEach; }));
  EXPECT_FALSE(accepts(valid_match(), [](Match& b) {
    b.of = MatchOf::kEach;
    b.lease_ms = 5;
  }));
  EXPECT_FALSE(accepts(valid_match(), [](Match& b) { b.of = MatchOf{2}; }));
}

TEST(Check, ReservedFieldsAreZero) {
  EXPECT_FALSE(accepts(Hello(), [](Hello& b) { b.reserved[5] = 1; }));
  EXPECT_FALSE(accepts(HelloOk(), [](HelloOk& b) { b.reserved0 = 1; }));
  EXPECT_FALSE(accepts(FormatBody{1, 0}, [](FormatBody& b) { b.reserved = 1; }));
  EXPECT_FALSE(accepts(FormatOk(), [](FormatOk& b) { b.reserved[2] = 1; }));
  EXPECT_FALSE(accepts(valid_match(), [](Match& b) { b.reserved[2] = 1; }));
  EXPECT_FALSE(accepts(Matched(), [](Matched& b) { b.reserved0 = 1; }));
  EXPECT_FALSE(accepts(Matched(), [](Matched& b) { b.reserved1 = 1; }));
  EXPECT_FALSE(accepts(Released(), [](Released& b) { b.reserved[6] = 1; }));
  EXPECT_FALSE(accepts(ReserveAnswer(), [](ReserveAnswer& a) { a.reserved[5] = 1; }));
  EXPECT_FALSE(accepts(Reserved(), [](Reserved& b) { b.reserved[0] = 1; }));
  EXPECT_FALSE(accepts(valid_extent(), [](Extent& b) { b.reserved = 1; }));
  EXPECT_FALSE(accepts(valid_commit(), [](Commit& b) { b.reserved[0] = 1; }));
  EXPECT_FALSE(accepts(valid_commit(), [](Commit& b) { b.reserved1 = 1; }));
  EXPECT_FALSE(accepts(Committed(), [](Committed& b) { b.reserved[1] = 1; }));
  EXPECT_FALSE(accepts(Abort(), [](Abort& b) { b.reserved = 1; }));
  EXPECT_FALSE(accepts(Aborted(), [](Aborted& b) { b.reserved[0] = 1; }));
  EXPECT_FALSE(accepts(Lost{1, 0}, [](Lost& b) { b.reserved = 1; }));
  EXPECT_FALSE(accepts(valid_lost(), [](LostExtent& e) { e.reserved[5] = 1; }));
  EXPECT_FALSE(accepts(Renew{1, 1, 0}, [](Renew& b) { b.reserved = 1; }));
  EXPECT_FALSE(accepts(Renewed(), [](Renewed& b) { b.reserved[0] = 1; }));
  EXPECT_FALSE(accepts(valid_follow(), [](Follow& b) { b.reserved = 1; }));
  EXPECT_FALSE(accepts(Held(), [](Held& b) { b.reserved[1] = 1; }));
  EXPECT_FALSE(accepts(Hold(), [](Hold& h) { h.reserved[2] = 1; }));
  EXPECT_FALSE(accepts(valid_purge(), [](Purge& b) { b.reserved[0] = 1; }));
  EXPECT_FALSE(accepts(valid_purge(), [](Purge& b) { b.reserved1 = 1; }));
  EXPECT_FALSE(accepts(Purged(), [](Purged& b) { b.reserved[0] = 1; }));
  EXPECT_FALSE(accepts(valid_data(), [](Data& b) { b.reserved = 1; }));
  EXPECT_FALSE(accepts(valid_entry(), [](ExtentEntry& e) { e.reserved = 1; }));
  EXPECT_FALSE(accepts(Pulled(), [](Pulled& b) { b.reserved[0] = 1; }));
}

}  // namespace
}  // namespace varve::wire
