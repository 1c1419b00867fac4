// Goal: a format described in C is the one of C++, by its fingerprint, and base ids are the same.
// Method: the rig's format both ways; wrong descriptions one at a time.
#include <gtest/gtest.h>

#include <numeric>

#include "client/c_border.h"
#include "tests/client/c_rig.h"

namespace varve {
namespace {

class CFormatTest : public CRig {
 protected:
  varve_status add(const varve_format_desc& desc) {
    varve_format format = 0;
    return varve_format_register(client_, &desc, &format);
  }
};

TEST_F(CFormatTest, TheSameDescriptionIsTheSameFormat) {
  open_ready();
  varve_id fingerprint;
  ASSERT_EQ(varve_format_fingerprint(client_, format_, &fingerprint), VARVE_OK);
  EXPECT_EQ(from_c(fingerprint), shape_.fingerprint());
  varve_format again = 0;
  ASSERT_EQ(varve_format_register(client_, &desc_, &again), VARVE_OK);
  EXPECT_EQ(again, format_);
  // Expect: extras in any order are one format, and another one than without.
  const varve_extra ab[] = {{"a", "1"}, {"b", "2"}}, ba[] = {{"b", "2"}, {"a", "1"}};
  varve_format first = 0, second = 0;
  desc_.extra_count = 2;
  desc_.extras = ab;
  ASSERT_EQ(varve_format_register(client_, &desc_, &first), VARVE_OK) << varve_last_error();
  desc_.extras = ba;
  ASSERT_EQ(varve_format_register(client_, &desc_, &second), VARVE_OK);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, format_);
}

TEST_F(CFormatTest, WhatDescribesNoFormatIsRefused) {
  open_ready();
  const varve_format_desc good = desc_;
  const auto refused = [&](auto change, varve_status status = VARVE_INVALID) {
    varve_format_desc desc = good;
    change(desc);
    return add(desc) == status;
  };
  EXPECT_TRUE(refused([](auto& d) { d.type = 0; }));
  EXPECT_TRUE(refused([](auto& d) { d.type = 258; }));  // not 2
  EXPECT_TRUE(refused([](auto& d) { d.order = 99; }));
  EXPECT_TRUE(refused([](auto& d) { d.tokens_per_block = 0; }));
  EXPECT_TRUE(refused([](auto& d) { d.rank_count = 0; }));
  EXPECT_TRUE(refused([](auto& d) { d.rank_count = 33; }));
  EXPECT_TRUE(refused([](auto& d) { d.ranks = nullptr; }));
  EXPECT_TRUE(refused([](auto& d) { d.extra_count = 1; }));
  EXPECT_TRUE(refused([](auto& d) { d.extra_count = 33; }));
  EXPECT_TRUE(refused([](auto& d) { d.struct_size = 16; }));
  const varve_extra half = {"key", nullptr};
  EXPECT_TRUE(refused([&](auto& d) {
    d.extras = &half;
    d.extra_count = 1;
  }));
  const std::string text(257, 'x');
  EXPECT_TRUE(refused([&](auto& d) { d.lineage = text.c_str(); }));
  rank_.layer_count = 1025;
  EXPECT_EQ(add(good), VARVE_INVALID);
  rank_ = {nullptr, 1, 0};
  EXPECT_EQ(add(good), VARVE_INVALID);
  rank_ = {layers_, kLayers, 1};
  EXPECT_EQ(add(good), VARVE_UNSUPPORTED);
  rank_ = {layers_, kLayers, 0};
  layers_[1].kind = 257;  // not 1
  EXPECT_EQ(add(good), VARVE_INVALID);
  layers_[1] = {VARVE_LAYER_FULL, 0};
  EXPECT_EQ(add(good), VARVE_INVALID);
  EXPECT_EQ(varve_format_register(client_, nullptr, nullptr), VARVE_INVALID);
  varve_id out;
  EXPECT_EQ(varve_format_fingerprint(client_, 99, &out), VARVE_INVALID);
  EXPECT_EQ(varve_format_fingerprint(client_, format_, nullptr), VARVE_INVALID);
}

class CBaseIdsTest : public CFormatTest {
 protected:
  CBaseIdsTest() {
    salt_.bytes[0] = std::byte{42};  // the scripted daemon's
    numbers_.resize(16 * 4 + 3);
    std::iota(numbers_.begin(), numbers_.end(), 1u);
    VARVE_INIT(&tokens_);
    tokens_.tokens = numbers_.data();
    tokens_.token_count = numbers_.size();
  }
  Digest salt_;
  std::vector<uint32_t> numbers_;
  varve_tokens tokens_;
};

TEST_F(CBaseIdsTest, ASequenceThatGrowsGoesOnWhereItStopped) {
  open_ready();
  tokens_.format = format_;
  varve_id all[4];
  size_t count = 0;
  ASSERT_EQ(varve_base_ids(client_, &tokens_, all, 4, &count), VARVE_OK);
  ASSERT_EQ(count, 4u);
  BaseId expected;
  const std::span<const uint32_t> numbers(numbers_);
  for (size_t i = 0; i < 4; ++i) {
    expected =
        base_id_of_tokens(shape_.fingerprint(), salt_, expected, numbers.subspan(i * 16, 16));
    EXPECT_EQ(from_c(all[i]), expected);
  }
  tokens_.parent = all[1];
  tokens_.tokens += 32;
  tokens_.token_count -= 32;
  varve_id rest[2];
  ASSERT_EQ(varve_base_ids(client_, &tokens_, rest, 2, &count), VARVE_OK);
  EXPECT_EQ(std::memcmp(rest, all + 2, sizeof rest), 0);
}

TEST_F(CBaseIdsTest, TooLittleRoomSaysHowMuchIsNeeded) {
  open_ready();
  tokens_.format = format_;
  varve_id ids[4] = {};
  size_t count = 0;
  EXPECT_EQ(varve_base_ids(client_, &tokens_, ids, 3, &count), VARVE_INVALID);
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(from_c(ids[0]), BaseId());
  count = 0;
  EXPECT_EQ(varve_base_ids(client_, &tokens_, nullptr, 0, &count), VARVE_INVALID);
  EXPECT_EQ(count, 4u);
  tokens_.token_count = 15;
  EXPECT_EQ(varve_base_ids(client_, &tokens_, nullptr, 0, &count), VARVE_OK);
  EXPECT_EQ(count, 0u);
}

TEST_F(CBaseIdsTest, ExtrasAndHashesAreThoseOfTheFormat) {
  open_ready();
  tokens_.format = format_;
  varve_id plain[4], other[4];
  size_t count = 0;
  ASSERT_EQ(varve_base_ids(client_, &tokens_, plain, 4, &count), VARVE_OK);
  const varve_bytes extras[4] = {{nullptr, 0}, {"img", 3}, {nullptr, 0}, {nullptr, 0}};
  tokens_.extras = extras;
  tokens_.extra_count = 4;
  ASSERT_EQ(varve_base_ids(client_, &tokens_, other, 4, &count), VARVE_OK);
  EXPECT_EQ(from_c(plain[0]), from_c(other[0]));
  EXPECT_NE(from_c(plain[1]), from_c(other[1]));
  EXPECT_NE(from_c(plain[3]), from_c(other[3]));
  tokens_.extra_count = 3;
  EXPECT_EQ(varve_base_ids(client_, &tokens_, other, 4, &count), VARVE_INVALID);
  const char* hash = "0123456789abcdef0123456789abcdef";
  varve_id id;
  ASSERT_EQ(varve_base_id_of_hash(client_, format_, hash, 32, &id), VARVE_OK);
  EXPECT_EQ(from_c(id), *base_id_of_engine_hash(shape_.fingerprint(), salt_,
                                                std::as_bytes(std::span(hash, 32))));
  EXPECT_EQ(varve_base_id_of_hash(client_, format_, hash, 15, &id), VARVE_INVALID);
  EXPECT_EQ(varve_base_id_of_hash(client_, format_, nullptr, 16, &id), VARVE_INVALID);
  EXPECT_EQ(varve_base_id_of_hash(client_, format_, hash, 16, nullptr), VARVE_INVALID);
}

TEST_F(CBaseIdsTest, NullsAndUnknownFormatsAreRefused) {
  open_ready();
  varve_id ids[4];
  size_t count = 0;
  EXPECT_EQ(varve_base_ids(client_, &tokens_, ids, 4, &count), VARVE_INVALID);  // format 0
  tokens_.format = format_;
  EXPECT_EQ(varve_base_ids(client_, &tokens_, nullptr, 4, &count), VARVE_INVALID);
  EXPECT_EQ(varve_base_ids(client_, &tokens_, ids, 4, nullptr), VARVE_INVALID);
  EXPECT_EQ(varve_base_ids(client_, nullptr, ids, 4, &count), VARVE_INVALID);
  tokens_.tokens = nullptr;
  EXPECT_EQ(varve_base_ids(client_, &tokens_, ids, 4, &count), VARVE_INVALID);
  tokens_.tokens = numbers_.data();
  tokens_.extra_count = 4;
  EXPECT_EQ(varve_base_ids(client_, &tokens_, ids, 4, &count), VARVE_INVALID);
  const varve_bytes extras[4] = {{nullptr, 1}, {nullptr, 0}, {nullptr, 0}, {nullptr, 0}};
  tokens_.extras = extras;
  EXPECT_EQ(varve_base_ids(client_, &tokens_, ids, 4, &count), VARVE_INVALID);
}

TEST_F(CBaseIdsTest, BeforeTheFirstSessionThereIsNoSalt) {
  std::string address;
  { address = DaemonThread().address(); }
  open(address);
  tokens_.format = format_;
  varve_id ids[4];
  size_t count = 0;
  EXPECT_EQ(varve_base_ids(client_, &tokens_, ids, 4, &count), VARVE_UNAVAILABLE);
}

}  // namespace
}  // namespace varve
