// Goal: columns of scattered bytes are those of the bytes in one piece, and are copied only where a
// column crosses pieces.
#include "common/erasure/gather.h"

#include <gtest/gtest.h>

#include "tests/common/erasure/reference.h"

namespace varve {
namespace {

using reference::Bytes;

// Cuts `bytes` at random, empty pieces included.
std::vector<iovec> cut(Bytes& bytes, size_t piece_bytes_max, Random& random) {
  std::vector<iovec> pieces;
  for (size_t at = 0; at < bytes.size();) {
    const size_t n = std::min<size_t>(random.between(0, piece_bytes_max), bytes.size() - at);
    pieces.push_back({bytes.data() + at, n});
    at += n;
  }
  return pieces;
}

TEST(Gather, ColumnsAreThoseOfTheBytesInOnePiece) {
  Random random(5);
  for (uint32_t round = 0; round < 300; ++round) {
    Bytes bytes = reference::random_bytes(random, random.between(0, 3000));
    const std::vector<iovec> pieces = cut(bytes, random.between(1, 900), random);
    const size_t column = random.between(1, 700);
    Bytes scratch(column), seen;
    Gather gather(pieces, scratch);
    // Expect: full columns but for the last, and nothing behind it.
    for (size_t offset = 0; offset < bytes.size() + 2 * column; offset += column) {
      const ConstByteSpan next = gather.next(column);
      const size_t left = offset < bytes.size() ? bytes.size() - offset : 0;
      ASSERT_EQ(next.size(), std::min(column, left)) << round;
      seen.insert(seen.end(), next.begin(), next.end());
    }
    EXPECT_EQ(seen, bytes) << round;
  }
}

TEST(Gather, AColumnInsideOnePieceIsNotCopied) {
  Bytes bytes(100);
  const iovec pieces[] = {{bytes.data(), 40}, {bytes.data() + 40, 60}};
  Bytes scratch(30);
  Gather gather(pieces, scratch);
  EXPECT_EQ(gather.next(20).data(), bytes.data());
  EXPECT_EQ(gather.next(20).data(), bytes.data() + 20);
  EXPECT_EQ(gather.next(30).data(), bytes.data() + 40);
  // Expect: the last column, shorter than asked for, needs no scratch either.
  EXPECT_EQ(gather.next(50).data(), bytes.data() + 70);
  EXPECT_TRUE(gather.next(50).empty());
}

TEST(Gather, AMemberThatIsNotThereHasEmptyColumns) {
  EXPECT_TRUE(Gather().next(kColumnBytes).empty());
}

TEST(Gather, ScratchTooSmallForAColumnIsABug) {
  Bytes bytes(10), scratch(3);
  const iovec pieces[] = {{bytes.data(), 2}, {bytes.data() + 2, 8}};
  Gather gather(pieces, scratch);
  EXPECT_DEATH(gather.next(6), "scratch_");
}

}  // namespace
}  // namespace varve
