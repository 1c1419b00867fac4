// The tail scan over images of segments, fed in windows of every size.
#include "server/flash/tail_scan.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

constexpr uint64_t kNonce = 0xfeedfacecafebeef;
constexpr uint64_t kSequence = 12;

struct Image {
  explicit Image(uint32_t segment_pages) : pages(segment_pages), memory(segment_pages) {}
  // Puts a whole fragment at `page`.
  void put(TestFragment& f, uint32_t page, uint64_t nonce = kNonce) {
    auto& header = *reinterpret_cast<FragmentHeader*>(f.memory->page(0));
    lay_out(f.header_runs, header);
    seal_header(f.header_runs, header, {nonce, kSequence, page, f.pages});
    std::memcpy(memory.page(page), f.memory->page(0), bytes_of(f.pages));
  }
  std::vector<uint32_t> scan(uint32_t window) {
    TailScan scan;
    scan.begin(kNonce, kSequence, pages);
    while (!scan.done()) {
      const uint32_t want = scan.want_page();
      scan.feed(memory.span(want, std::min(window, pages - want)));
    }
    torn = scan.torn();
    std::vector<uint32_t> found;
    for (const CatalogEntry& entry : scan.entries())
      found.push_back(entry.page);
    return found;
  }
  uint32_t pages;
  PageMemory memory;
  uint32_t torn = 0;
};

TEST(TailScan, FindsWholeFragmentsThroughWindowsOfAnySize) {
  Image image(256);
  std::vector<uint32_t> at;
  uint32_t page = 1;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    // 130 and more extents: headers of two and three pages, which windows cut.
    TestFragment f(seed, seed % 2 == 0 ? 3 : static_cast<uint32_t>(20 + seed), 700, {1, 0, seed});
    if (page + f.pages > 250) break;
    image.put(f, page);
    at.push_back(page);
    page += f.pages + static_cast<uint32_t>(seed % 3);  // holes between them
  }
  ASSERT_GE(at.size(), 4u);
  for (uint32_t window = kHeaderPagesMax; window <= 256; window += window < 16 ? 1 : 37) {
    EXPECT_EQ(image.scan(window), at) << window;
  }
}

TEST(TailScan, ReadsHeadersOfSeveralPagesAtAWindowsEdge) {
  Image image(1024);
  TestFragment f(1, 300, 200, {1, 0, 1});
  ASSERT_EQ(f.header_pages, 3u);
  for (uint32_t page = 1; page < 12; ++page) {
    std::memset(image.memory.page(0), 0, bytes_of(1024));
    image.put(f, page);
    EXPECT_EQ(image.scan(8), std::vector<uint32_t>{page});
  }
}

TEST(TailScan, ATornFragmentHidesNoLaterOne) {
  Image image(128);
  TestFragment a(1, 2, 9000, {1, 0, 1}), b(2, 2, 9000, {1, 0, 2}), c(3, 2, 9000, {1, 0, 3});
  const uint32_t at_b = 1 + a.pages, at_c = at_b + b.pages;
  image.put(a, 1);
  image.put(b, at_b);
  image.put(c, at_c);
  image.memory.page(at_b + b.pages - 1)[0] ^= std::byte{1};  // its last extent
  EXPECT_EQ(image.scan(256), (std::vector<uint32_t>{1, at_c}));
  EXPECT_EQ(image.torn, 1u);
}

TEST(TailScan, WhatLiesInsideAWholeFragmentIsNotLookedAt) {
  Image image(128);
  TestFragment outer(1, 1, 60000, {1, 0, 1});
  TestFragment inner(2, 1, 5000, {1, 0, 2});
  // The inner one even knows the nonce: it is data of a whole fragment and nothing else.
  auto& header = *reinterpret_cast<FragmentHeader*>(inner.memory->page(0));
  lay_out(inner.header_runs, header);
  seal_header(inner.header_runs, header, {kNonce, kSequence, 4, inner.pages});
  std::memcpy(outer.memory->page(3), inner.memory->page(0), bytes_of(inner.pages));
  ExtentEntry entry = outer.table[0];
  ExtentDigest digest(checksum_seed(outer.block, 0, outer.attempt));
  digest.update({outer.memory->page(1), entry.stored_bytes});
  entry.stored_crc = digest.stored_crc();
  entry.decoded_xxh3 = digest.decoded_xxh3();
  table_entry_set(outer.header_runs, 0, entry);
  image.put(outer, 1);
  EXPECT_EQ(image.scan(64), std::vector<uint32_t>{1});
}

TEST(TailScan, AnEarlierLifeOfTheSegmentIsNotThere) {
  Image image(128);
  TestFragment old(1, 2, 9000, {1, 0, 1}), now(2, 2, 5000, {1, 0, 2});
  image.put(old, 1, kNonce + 1);
  image.put(old, 40, kNonce + 1);
  image.put(now, 1);
  EXPECT_EQ(image.scan(64), std::vector<uint32_t>{1});
}

TEST(TailScan, UnreadablePagesCostWhatCoversThem) {
  Image image(128);
  TestFragment a(1, 2, 9000, {1, 0, 1}), b(2, 2, 9000, {1, 0, 2});
  image.put(a, 1);
  image.put(b, 60);
  TailScan scan;
  scan.begin(kNonce, kSequence, 128);
  scan.feed(image.memory.span(1, 5));
  scan.skip(4);  // inside a
  while (!scan.done()) {
    const uint32_t want = scan.want_page();
    scan.feed(image.memory.span(want, std::min(32u, 128 - want)));
  }
  ASSERT_EQ(scan.entries().size(), 1u);
  EXPECT_EQ(scan.entries()[0].page, 60u);
  EXPECT_EQ(scan.torn(), 1u);
}

TEST(TailScan, LeavesRoomForTheFooter) {
  Image image(32);
  TestFragment f(1, 1, 5000, {1, 0, 1});
  image.put(f, 32 - f.pages);  // up to the very last page: the writer never does that
  EXPECT_TRUE(image.scan(64).empty());
}

}  // namespace
}  // namespace varve::flash
