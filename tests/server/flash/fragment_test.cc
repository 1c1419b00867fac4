// Fragments as bytes: layout, checks of header and table, verification piece by piece.
#include "server/flash/fragment.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

constexpr HeaderExpect kAt = {0x1122334455667788, 42, 9, 4000};

TestFragment sealed(uint32_t extents, uint32_t bytes = 5000) {
  TestFragment f(7, extents, bytes, {2, 0, 5});
  auto& header = *reinterpret_cast<FragmentHeader*>(f.memory->page(0));
  lay_out(f.header_runs, header);
  seal_header(f.header_runs, header, kAt);
  return f;
}

TEST(Fragment, IsLaidOutWithoutGapsWhateverTheNumberOfExtents) {
  for (const uint32_t extents : {1u, 2u, 119u, 120u, 121u, 248u, 249u, 504u}) {
    TestFragment f = sealed(extents, 100);
    const auto header = load<FragmentHeader>(f.memory->span(0, 1));
    EXPECT_EQ(header.pages, f.pages);
    EXPECT_EQ(header.header_pages, header_pages_of(extents));
    uint32_t page = header.header_pages;
    for (uint32_t i = 0; i < extents; ++i) {
      const ExtentEntry entry = table_entry(f.header_runs, i);
      EXPECT_EQ(entry.page_offset, page);
      EXPECT_EQ(entry.page_offset, f.table[i].page_offset);
      page += pages_of(entry.stored_bytes);
    }
    EXPECT_TRUE(check_header(f.header_runs, kAt).ok()) << extents;
  }
}

// Goal: the fragments of a block hold its whole table between them, each extent once, and the pages
// that are reserved for each are those that it is laid out with.
TEST(Fragment, OfEveryPositionHoldsItsExtentsAndNoOthers) {
  constexpr Scheme kSchemes[] = {{1, 0}, {1, 1}, {2, 1}, {4, 2}, {8, 3}};
  for (const Scheme& scheme : kSchemes) {
    for (const uint32_t layers : {1u, 3u, 130u}) {
      const std::vector<LayerSpec> specs(layers, {LayerKind::kFull, kExtentBytesMin + 9000});
      const ExtentTable table = ExtentTable::of(specs, scheme).value();
      const BlockId block{.base = test_block(layers).base, .rank = 3};
      PageMemory memory(kHeaderPagesMax);
      const iovec runs = {memory.page(0), bytes_of(header_pages_of(table.count()))};
      uint32_t held = 0;
      for (uint32_t position = 0; position < scheme.width(); ++position) {
        FragmentHeader header;
        header.extent_count = table.count();
        header.data_extent_count = table.data_count();
        header.base = block.base;
        header.rank = block.rank;
        header.rank_count = 4;
        header.attempt = {1, 0, 1};
        header.k = static_cast<uint8_t>(scheme.k);
        header.m = static_cast<uint8_t>(scheme.m);
        header.position = static_cast<uint8_t>(position);
        header.role = position < scheme.k ? 0 : 1;
        header.matrix = static_cast<uint16_t>(std::min(scheme.m, 2u));
        store(memory.span(0, 1), 0, header);
        for (uint32_t e = 0; e < table.count(); ++e) {
          ExtentEntry entry;
          entry.stored_bytes = entry.decoded_bytes = table.bytes_at(e);
          table_entry_set({&runs, 1}, e, entry);
        }
        auto& placed = *reinterpret_cast<FragmentHeader*>(memory.page(0));
        lay_out({&runs, 1}, placed);
        seal_header({&runs, 1}, placed, kAt);
        EXPECT_TRUE(check_header({&runs, 1}, kAt).ok()) << scheme.text() << " " << position;
        EXPECT_EQ(placed.pages, fragment_pages_of(table, block, position));
        uint32_t page = placed.header_pages;
        for (uint32_t e = first_held(placed, 0); e < table.count(); e = first_held(placed, e + 1)) {
          EXPECT_EQ(position_at(table, block, e), position);
          EXPECT_EQ(table_entry({&runs, 1}, e).page_offset, page);
          if (page == placed.header_pages) {
            EXPECT_EQ(placed.first_extent_pages, pages_of(table.bytes_at(e)));
          }
          page += pages_of(table.bytes_at(e));
          ++held;
        }
        EXPECT_EQ(page, placed.pages);
      }
      EXPECT_EQ(held, table.count());
    }
  }
}

TEST(Fragment, AnyFlippedByteOfHeaderOrTableIsFound) {
  TestFragment f = sealed(130);
  const size_t end = sizeof(FragmentHeader) + 130 * sizeof(ExtentEntry);
  for (size_t i = 0; i < end; ++i) {
    f.memory->page(0)[i] ^= std::byte{0x20};
    ASSERT_FALSE(check_header(f.header_runs, kAt).ok()) << i;
    f.memory->page(0)[i] ^= std::byte{0x20};
  }
  EXPECT_TRUE(check_header(f.header_runs, kAt).ok());
}

TEST(Fragment, OfAnotherLifeOrPlaceIsNone) {
  TestFragment f = sealed(2);
  HeaderExpect at = kAt;
  at.nonce += 1;
  EXPECT_EQ(check_header(f.header_runs, at).code(), Code::kCorrupt);
  at = kAt;
  at.sequence += 1;
  EXPECT_EQ(check_header(f.header_runs, at).code(), Code::kCorrupt);
  at = kAt;
  at.segment_page += 1;
  EXPECT_EQ(check_header(f.header_runs, at).code(), Code::kCorrupt);
  at = kAt;
  at.pages_max = f.pages - 1;
  EXPECT_EQ(check_header(f.header_runs, at).code(), Code::kCorrupt);
}

TEST(Fragment, WithValidChecksumAndSenselessFieldsIsNone) {
  const auto check_with = [](auto change) {
    TestFragment f = sealed(2);
    auto& header = *reinterpret_cast<FragmentHeader*>(f.memory->page(0));
    change(f, header);
    header.crc = header_crc(f.header_runs, header, kAt.nonce);
    return check_header(f.header_runs, kAt);
  };
  EXPECT_TRUE(check_with([](auto&, auto&) {}).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.rank = 1; }).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.rank_count = 33; }).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.attempt = {}; }).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.role = 2; }).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.k = 0; }).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.flags = 2; }).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.reserved[43] = std::byte{1}; }).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.k = 6; }).ok());  // not offered
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.m = 1; }).ok());  // without a parity extent
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.position = 1; }).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.data_extent_count = 0; }).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.data_extent_count = 3; }).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.pages += 1; }).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.block_bytes_high = 1; }).ok());
  EXPECT_FALSE(check_with([](auto&, auto& h) { h.first_extent_pages += 1; }).ok());
  const auto entry_with = [&](auto change) {
    return check_with([&](TestFragment& f, auto&) {
      ExtentEntry entry = table_entry(f.header_runs, 1);
      change(entry);
      table_entry_set(f.header_runs, 1, entry);
    });
  };
  EXPECT_FALSE(entry_with([](ExtentEntry& e) { e.page_offset += 1; }).ok());
  EXPECT_FALSE(entry_with([](ExtentEntry& e) { e.stored_bytes = 0; }).ok());
  EXPECT_FALSE(entry_with([](ExtentEntry& e) { e.stored_bytes = ~0u; }).ok());
  EXPECT_EQ(entry_with([](ExtentEntry& e) { e.codec = 1; }).code(), Code::kUnsupported);
}

TEST(FragmentCheck, VerifiesInWhateverPiecesThePagesCome) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    TestFragment f = sealed(static_cast<uint32_t>(random.between(1, 140)), 9000);
    FragmentCheck check;
    uint32_t page = f.header_pages;
    ASSERT_TRUE(check.begin(f.memory->span(0, page), kAt).ok());
    while (check.pages_left() > 0) {
      const auto count =
          static_cast<uint32_t>(random.between(1, std::min(check.pages_left(), 17u)));
      ASSERT_TRUE(check.feed(f.memory->span(page, count)));
      page += count;
    }
    EXPECT_TRUE(check.complete());
    EXPECT_EQ(page, f.pages);
  }
}

TEST(FragmentCheck, FindsAFlippedBitInAnyExtentButNotInItsPad) {
  TestFragment f = sealed(3, 5000);
  for (uint32_t page = f.header_pages; page < f.pages; ++page) {
    for (const uint32_t offset : {0u, 1000u, 4095u}) {
      f.memory->page(page)[offset] ^= std::byte{1};
      bool pad = true;
      for (const ExtentEntry& entry : f.table) {
        const uint64_t from = bytes_of(entry.page_offset);
        const uint64_t at = bytes_of(page) + offset;
        if (at >= from && at < from + entry.stored_bytes) pad = false;
      }
      FragmentCheck check;
      ASSERT_TRUE(check.begin(f.memory->span(0, f.pages), kAt).ok());
      EXPECT_EQ(check.feed(f.memory->span(f.header_pages, f.pages - f.header_pages)), pad);
      f.memory->page(page)[offset] ^= std::byte{1};
    }
  }
}

TEST(Extent, IsCheckedOverAnyPieces) {
  TestFragment f = sealed(1, 12000);
  const ExtentEntry& entry = f.table[0];
  std::byte* at = f.memory->page(f.header_pages);
  iovec pieces[3] = {{f.memory->page(0), bytes_of(f.header_pages)},
                     {at, kPageBytes},
                     {at + kPageBytes, bytes_of(f.pages - f.header_pages - 1)}};
  const uint64_t skip = bytes_of(f.header_pages);
  EXPECT_TRUE(check_extent(pieces, skip, f.block, 0, f.attempt, entry).ok());
  EXPECT_FALSE(check_extent(pieces, skip, f.block, 1, f.attempt, entry).ok());
  EXPECT_FALSE(check_extent(pieces, skip, f.block, 0, {2, 0, 6}, entry).ok());
  EXPECT_FALSE(check_extent({pieces, 2}, skip, f.block, 0, f.attempt, entry).ok());
}

}  // namespace
}  // namespace varve::flash
