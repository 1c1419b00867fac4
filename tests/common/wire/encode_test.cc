// Goal: the bytes of every frame are those of docs/WIRE.md for ever. Method: golden vectors, one
// line a frame, compared with what the encoder makes of the same structs. The vectors were packed
// by hand from the document, and never by this code: a changed vector is a changed protocol.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/common/wire/wire_samples.h"

namespace varve::wire {
namespace {

std::map<std::string, std::string> golden_vectors() {
  std::map<std::string, std::string> lines;
  std::ifstream file("tests/vectors/wire_1.txt");
  std::string name, hex;
  while (file >> name) {
    if (name[0] == '#') {
      std::getline(file, hex);
      continue;
    }
    file >> hex;
    lines[name] = hex;
  }
  return lines;
}

TEST(Encode, EveryFrameHasItsGoldenBytes) {
  const auto golden = golden_vectors();
  EXPECT_EQ(golden.size(), 33u);
  for (const Sample& sample : wire_samples()) {
    ASSERT_TRUE(golden.contains(sample.name)) << sample.name << " " << to_hex(sample.head);
    EXPECT_EQ(golden.at(sample.name), to_hex(sample.head)) << sample.name;
  }
}

// Packed by hand from docs/WIRE.md: the golden PULLED but for the tiers, DRAM and flash.
TEST(Encode, APulledThatSaysTiersHasThemAtOne) {
  std::string expected = golden_vectors().at("PULLED");
  expected.replace(2 * (16 + 1), 2, "06");
  std::vector<std::byte> buffer(kHeadBytesMax);
  Encoder encoder(buffer);
  Pulled pulled;
  pulled.code = static_cast<uint8_t>(Code::kCancelled);
  pulled.tiers = tier_bit(TierKind::kDram) | tier_bit(TierKind::kFlash);
  const uint8_t codes[] = {0, 8, 0};
  EXPECT_EQ(to_hex(encoder.pulled(10, pulled, codes)), expected);
}

// Packed by hand from docs/WIRE.md: the golden MATCH but for what is asked for.
TEST(Encode, AMatchOfEachIsAMatchWithAOneAtTwelve) {
  std::string expected = golden_vectors().at("MATCH");
  expected.replace(2 * (16 + 8), 10, "0000000001");
  std::vector<std::byte> buffer(kHeadBytesMax);
  const BaseId ids[] = {sample_digest(1), sample_digest(2), sample_digest(3)};
  Match match;
  match.format = 5;
  match.of = MatchOf::kEach;
  EXPECT_EQ(to_hex(Encoder(buffer).match(4, match, ids)), expected);
}

TEST(Encode, TheLargestFramesFitAHead) {
  std::vector<std::byte> buffer(kHeadBytesMax);
  Encoder encoder(buffer);
  const std::vector<BaseId> ids(kIdsMax, sample_digest(1));
  Pull pull;
  pull.layer_count = 1;
  EXPECT_EQ(encoder.pull(1, pull, ids).size(), 16u + 64u + kIdsMax * 32u);
  pull.layer_count = 0;
  EXPECT_EQ(encoder.pull(1, pull, ids, std::vector<Want>(kWantsMax)).size(),
            16u + 64u + kIdsMax * 32u + kWantsMax * 8u);
  LostExtent lost;
  lost.entry = sample_entry(0);
  EXPECT_EQ(encoder.lost(1, std::vector<LostExtent>(kLostMax, lost)).size(),
            16u + 8u + kLostMax * 64u);
  EXPECT_EQ(encoder.held(1, {}, std::vector<Hold>(kHoldsMax)).size(), 16u + 16u + kHoldsMax * 96u);
  const std::vector<FollowBlock> follow_blocks(kIdsMax, {sample_digest(1), kSampleAttempt});
  Follow follow;
  follow.layer_count = 1;
  EXPECT_EQ(encoder.follow(1, follow, follow_blocks).size(), 16u + 48u + kIdsMax * 48u);
  const std::vector<ExtentEntry> entries(kExtentsMax, sample_entry(0));
  EXPECT_EQ(encoder.commit(1, {}, entries).size(), 16u + 48u + kExtentsMax * 32u);
  const std::vector<ReserveAnswer> answers(kIdsMax);
  EXPECT_EQ(encoder.reserved(1, {}, answers).size(), 16u + 8u + kIdsMax * 24u);
  const std::vector<std::byte> canonical(kFormatBytesMax);
  EXPECT_EQ(encoder.format(1, canonical).size(), 16u + 8u + kFormatBytesMax);
}

TEST(Encode, ALongRefusalIsCutToItsLimit) {
  std::vector<std::byte> buffer(kHeadBytesMax);
  Encoder encoder(buffer);
  const auto frame = decode(encoder.refused(1, Code::kInvalid, std::string(1000, 'x')));
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(std::get<RefusedView>(frame->body).text.size(), kTextBytesMax);
}

TEST(EncodeDeathTest, AFieldOutOfRangeIsABug) {
  std::vector<std::byte> buffer(kHeadBytesMax);
  Encoder encoder(buffer);
  EXPECT_DEATH(encoder.match(1, {}, {}), "check\\(body\\)");
  Extent extent;
  extent.extent_bytes = 4096;
  extent.offset = 4096;
  EXPECT_DEATH(encoder.extent(1, extent), "check\\(body\\)");
  EXPECT_DEATH(Encoder(ByteSpan(buffer).first(8)).ping(1, {1}), "buffer_");
}

}  // namespace
}  // namespace varve::wire
