// Goal: the room as a whole: golden vectors, and a wrong source never passes for the lost extent.
// Method: vectors of tests/vectors/erasure_1.txt; random stripes, losses and damage by seed.
#include "common/erasure/erasure.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/common/erasure/reference.h"

namespace varve {
namespace {

using reference::Bytes;

struct Vector {
  std::string name, scheme;
  int matrix = -1;
  std::vector<Bytes> data, rows, parity;
};

Bytes from_hex_text(const std::string& text) {
  Bytes bytes(text.size() / 2);
  EXPECT_TRUE(from_hex(text, bytes)) << text;
  return bytes;
}

std::vector<Vector> read_vectors() {
  std::ifstream file("tests/vectors/erasure_1.txt");
  EXPECT_TRUE(file.is_open()) << "run from the root of the tree";
  std::vector<Vector> vectors;
  for (std::string key, value; file >> key && std::getline(file >> std::ws, value);) {
    if (key == "case") vectors.push_back({value, "", -1, {}, {}, {}});
    if (key == "scheme") vectors.back().scheme = value;
    if (key == "matrix") vectors.back().matrix = std::stoi(value);
    if (key == "data") vectors.back().data.push_back(from_hex_text(value));
    if (key == "row") vectors.back().rows.push_back(from_hex_text(value));
    if (key == "parity") vectors.back().parity.push_back(from_hex_text(value));
  }
  return vectors;
}

// One stripe coded, as bytes: a unit vector at data position j shows column j of the matrix.
std::vector<Bytes> encode(Scheme scheme, std::vector<Bytes> members) {
  size_t bytes = 0;
  for (const Bytes& member : members)
    bytes = std::max(bytes, member.size());
  members.resize(scheme.k);
  return reference::run(Coder(scheme), members, std::vector<size_t>(scheme.m, bytes), 4096);
}

TEST(Erasure, EqualsTheGoldenVectors) {
  const std::vector<Vector> vectors = read_vectors();
  std::map<std::string, uint32_t> seen;
  for (const Vector& v : vectors) {
    const Scheme scheme = Scheme::parse(v.scheme).value();
    EXPECT_EQ(static_cast<int>(matrix_of(scheme)), v.matrix) << v.name;
    EXPECT_EQ(encode(scheme, v.data), v.parity) << v.name;
    for (uint32_t j = 0; j < scheme.k; ++j) {
      std::vector<Bytes> unit(scheme.k, Bytes(1));
      unit[j][0] = std::byte{1};
      const std::vector<Bytes> column = encode(scheme, unit);
      ASSERT_EQ(column.size(), v.rows.size()) << v.name;
      for (uint32_t i = 0; i < scheme.m; ++i)
        EXPECT_EQ(column[i][0], v.rows[i][j]) << v.name << " row " << i << " column " << j;
    }
    seen[v.scheme] += 1;
  }
  EXPECT_EQ(seen.size(), kSchemes.size());
  EXPECT_GE(vectors.size(), 20u);
}

struct Checks {
  uint32_t stored;
  uint64_t decoded;
  bool operator==(const Checks&) const = default;
};

// Rebuilds one position from `extents` and digests it as extent `position` of one attempt.
Checks rebuilt_checks(const Coder& coder, const std::vector<Bytes>& extents, size_t bytes,
                      const ChecksumSeed& seed) {
  std::vector<ExtentDigest> digest{ExtentDigest(seed)};
  reference::run(coder, extents, {bytes}, 500, digest);
  return {digest[0].stored_crc(), digest[0].decoded_xxh3()};
}

// Damages bytes that the lost extent depends on, in the way that `kind` says; false: no change.
bool damage(uint64_t kind, Bytes& source, const Bytes& other, size_t reach, Random& random) {
  const Bytes before = source;
  const size_t shared = std::min(source.size(), reach);
  if (shared == 0) return false;
  switch (kind) {
    case 0:  // one bit
      source[random.below(shared)] ^= static_cast<std::byte>(1u << random.below(8));
      break;
    case 1:  // another extent in its place
      source = other;
      break;
    case 2:  // cut short
      source.resize(random.below(shared));
      break;
    default:  // shifted by one byte
      std::rotate(source.begin(), source.begin() + 1, source.end());
  }
  Bytes a = before, b = source;
  a.resize(reach);
  b.resize(reach);
  return a != b;
}

TEST(Erasure, AnExtentRebuiltFromAWrongSourceDoesNotVerify) {
  uint32_t wrong = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Random random(seed);
    const Scheme scheme = kSchemes[random.between(1, kSchemes.size() - 1)];
    std::vector<size_t> sizes(random.between(1, scheme.k));
    for (size_t& size : sizes)
      size = random.chance(200) ? 1 : random.between(1, 900);
    std::vector<Bytes> extents = reference::stripe(scheme, sizes, random);
    const auto lost = static_cast<uint32_t>(random.below(sizes.size()));
    const auto all = static_cast<Positions>((1u << scheme.width()) - 1);
    const auto wanted = static_cast<Positions>(1u << lost);
    auto present = static_cast<Positions>(all & ~wanted);
    // Leaves out a member of the first k at random, so that parity rows of any number take part.
    const auto dropped = static_cast<uint32_t>(random.below(sizes.size()));
    if (scheme.m > 1) present &= static_cast<Positions>(~(1u << dropped));
    const Coder coder = Coder::rebuild(scheme, {present, wanted}).value();
    const size_t bytes = extents[lost].size();
    const ChecksumSeed name = checksum_seed({}, lost, {1, 0, seed});
    ExtentDigest truth(name);
    truth.update(extents[lost]);
    const Checks wanted_checks{truth.stored_crc(), truth.decoded_xxh3()};
    ASSERT_EQ(rebuilt_checks(coder, extents, bytes, name), wanted_checks) << "seed " << seed;
    // Expect: right bytes under another attempt do not verify either.
    EXPECT_NE(rebuilt_checks(coder, extents, bytes, checksum_seed({}, lost, {1, 0, seed + 1})),
              wanted_checks);
    const uint8_t victim = coder.sources()[random.below(scheme.k)];
    const Bytes other = extents[coder.sources()[random.below(scheme.k)]];
    if (!damage(random.below(4), extents[victim], other, bytes, random)) continue;
    wrong += 1;
    const Checks checks = rebuilt_checks(coder, extents, bytes, name);
    EXPECT_NE(checks.stored, wanted_checks.stored) << "seed " << seed;
    EXPECT_NE(checks.decoded, wanted_checks.decoded) << "seed " << seed;
  }
  EXPECT_GT(wrong, 1000u);
}

}  // namespace
}  // namespace varve
