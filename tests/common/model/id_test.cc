// Goal: base ids and seeds equal their golden vectors, and every input counts.
// Method: vectors that check_vectors.py recomputes independently; one changed input at a time.
#include "common/model/id.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "tests/common/model/vector_file.h"

namespace varve {
namespace {

uint64_t hex_number(const std::string& text) {
  return std::stoull(text, nullptr, 16);
}

TEST(BaseId, EqualsTheGoldenVectors) {
  const auto records = vectors::read("tests/vectors/base_id.txt");
  EXPECT_GE(records.size(), 9u);
  std::set<std::string> ids;
  for (const vectors::Record& r : records) {
    const Digest fingerprint = r.digest("fingerprint"), salt = r.digest("salt");
    BaseId id;
    if (r.has("engine_hash")) {
      id = base_id_of_engine_hash(fingerprint, salt, r.bytes("engine_hash")).value();
    } else {
      std::vector<uint32_t> tokens;
      std::istringstream text(r.text("tokens"));
      for (uint32_t token; text >> token;)
        tokens.push_back(token);
      id = base_id_of_tokens(fingerprint, salt, r.digest("parent"), tokens, r.bytes("extras"));
    }
    EXPECT_EQ(id, r.digest("base_id")) << r.text("case");
    EXPECT_TRUE(ids.insert(to_hex(id.bytes)).second) << r.text("case");
  }
}

TEST(BaseId, TokensAndExtrasCannotBeConfused) {
  const uint32_t tokens[] = {1, 2, 3};
  const auto bytes = std::as_bytes(std::span<const uint32_t>(tokens));
  const std::span<const uint32_t> all(tokens);
  std::set<BaseId> ids;
  for (size_t n = 0; n <= 3; ++n) {
    ids.insert(base_id_of_tokens({}, {}, {}, all.first(n), bytes.subspan(4 * n)));
    ids.insert(base_id_of_tokens({}, {}, {}, all.first(n)));
  }
  EXPECT_EQ(ids.size(), 7u);  // all three tokens and no extras appear twice
}

TEST(BaseId, RefusesEngineHashesOutsideTheirSizes) {
  const std::vector<std::byte> hash(65);
  for (size_t size : {0u, 8u, 15u, 65u}) {
    const auto id = base_id_of_engine_hash({}, {}, ConstByteSpan(hash).first(size));
    EXPECT_EQ(id.error().code(), Code::kInvalid) << size;
  }
}

TEST(BaseId, ShortNameIsTheFirstFourBytes) {
  BaseId id;
  id.bytes[0] = std::byte{0xab};
  id.bytes[3] = std::byte{0x01};
  EXPECT_EQ(short_name(id), "ab000001");
}

TEST(Attempt, OrdersByBootThenTargetThenCounterAndZeroIsNone) {
  EXPECT_TRUE(Attempt{}.is_none());
  EXPECT_FALSE((Attempt{0, 0, 1}).is_none());
  EXPECT_LT((Attempt{1, 9, 9}), (Attempt{2, 0, 0}));
  EXPECT_LT((Attempt{1, 0, 9}), (Attempt{1, 1, 0}));
  EXPECT_LT((Attempt{1, 1, 0}), (Attempt{1, 1, 1}));
}

TEST(ChecksumSeed, EqualsTheGoldenVectors) {
  const auto records = vectors::read("tests/vectors/checksum_seed.txt");
  EXPECT_GE(records.size(), 10u);
  for (const vectors::Record& r : records) {
    const BlockId block{r.digest("base_id"), static_cast<uint32_t>(r.number("rank"))};
    const Attempt attempt{static_cast<uint32_t>(r.number("boot_generation")),
                          static_cast<uint32_t>(r.number("target")), r.number("counter")};
    const auto extent = static_cast<uint32_t>(r.number("extent"));
    const ChecksumSeed seed = checksum_seed(block, extent, attempt);
    EXPECT_EQ(seed.stored, hex_number(r.text("stored_seed"))) << r.text("case");
    EXPECT_EQ(seed.decoded, hex_number(r.text("decoded_seed"))) << r.text("case");
    const std::vector<std::byte> data = r.bytes("data");
    EXPECT_EQ(crc32c(seed.stored, data), hex_number(r.text("stored_crc"))) << r.text("case");
    EXPECT_EQ(xxh3(seed.decoded, data), hex_number(r.text("decoded_xxh3"))) << r.text("case");
  }
}

TEST(ChecksumSeed, DependsOnEveryPartOfTheName) {
  const auto seed_of = [](uint8_t base, uint32_t rank, uint32_t extent, Attempt attempt) {
    BlockId block{{}, rank};
    block.base.bytes[31] = static_cast<std::byte>(base);
    return checksum_seed(block, extent, attempt);
  };
  std::set<uint32_t> stored;
  std::set<uint64_t> decoded;
  for (const ChecksumSeed& seed :
       {seed_of(0, 0, 0, {1, 0, 1}), seed_of(1, 0, 0, {1, 0, 1}), seed_of(0, 1, 0, {1, 0, 1}),
        seed_of(0, 0, 1, {1, 0, 1}), seed_of(0, 0, 0, {2, 0, 1}), seed_of(0, 0, 0, {1, 1, 1}),
        seed_of(0, 0, 0, {1, 0, 2})}) {
    stored.insert(seed.stored);
    decoded.insert(seed.decoded);
  }
  EXPECT_EQ(stored.size(), 7u);
  EXPECT_EQ(decoded.size(), 7u);
}

}  // namespace
}  // namespace varve
