// Goal: base ids are those of docs/FORMAT.md for tokens, what else a run depends on, and hashes of
// engines. Method: the rig's core against the pure functions.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/client/client_rig.h"

namespace varve {
namespace {

class FormatsTest : public testing::Test {
 protected:
  FormatsTest() : rig_({1000}, 1) {
    salt_.bytes[0] = std::byte{42};  // the scripted daemon's
    tokens_.resize(16 * 3 + 5);
    std::iota(tokens_.begin(), tokens_.end(), 100u);
  }
  ConstByteSpan text(const char* of) { return std::as_bytes(std::span(of, std::strlen(of))); }
  KvRig rig_;
  Digest salt_;
  std::vector<uint32_t> tokens_;
};

TEST_F(FormatsTest, ExtrasGoIntoTheIdOfTheirRunAndOfAllBehind) {
  ASSERT_TRUE(rig_.ready());
  const auto plain = *rig_.core->base_ids(rig_.format_id, BaseId(), tokens_);
  const std::vector<ConstByteSpan> extras = {text(""), text("image 7"), text("")};
  const auto ids = *rig_.core->base_ids(rig_.format_id, BaseId(), tokens_, extras);
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids[0], plain[0]);
  EXPECT_NE(ids[1], plain[1]);
  EXPECT_NE(ids[2], plain[2]);
  EXPECT_EQ(ids[1],
            base_id_of_tokens(rig_.format.fingerprint(), salt_, ids[0],
                              std::span<const uint32_t>(tokens_).subspan(16, 16), text("image 7")));
}

TEST_F(FormatsTest, ExtrasAreOneForEachWholeRunAndBounded) {
  ASSERT_TRUE(rig_.ready());
  const std::vector<ConstByteSpan> two = {text("a"), text("b")};
  EXPECT_EQ(rig_.core->base_ids(rig_.format_id, BaseId(), tokens_, two).error().code(),
            Code::kInvalid);
  std::vector<std::byte> large(kIdExtrasBytesMax + 1);
  std::vector<ConstByteSpan> three = {text("a"), text("b"), ConstByteSpan(large)};
  EXPECT_EQ(rig_.core->base_ids(rig_.format_id, BaseId(), tokens_, three).error().code(),
            Code::kInvalid);
  three[2] = ConstByteSpan(large).first(kIdExtrasBytesMax);
  EXPECT_TRUE(rig_.core->base_ids(rig_.format_id, BaseId(), tokens_, three).has_value());
}

TEST_F(FormatsTest, AHashOfAnEngineIsAnIdOfThisFormatAndDomain) {
  const auto hash = text("0123456789abcdef");
  EXPECT_EQ(rig_.core->base_id_of_hash(rig_.format_id, hash).error().code(), Code::kUnavailable);
  ASSERT_TRUE(rig_.ready());
  EXPECT_EQ(*rig_.core->base_id_of_hash(rig_.format_id, hash),
            *base_id_of_engine_hash(rig_.format.fingerprint(), salt_, hash));
  EXPECT_EQ(rig_.core->base_id_of_hash(rig_.format_id, hash.first(15)).error().code(),
            Code::kInvalid);
  EXPECT_EQ(rig_.core->base_id_of_hash(99, hash).error().code(), Code::kInvalid);
}

}  // namespace
}  // namespace varve
