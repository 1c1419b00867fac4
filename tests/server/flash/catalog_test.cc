// Catalog pages as bytes: footers of every size come back entry by entry, any damaged bit is found.
#include "server/flash/catalog.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <new>

// There where the build has them, whichever the compiler.
extern "C" {
[[gnu::weak]] void __asan_init();
[[gnu::weak]] void __tsan_init();
}

namespace varve::flash {
namespace {

constexpr uint32_t kPages = 65536;

CatalogEntry make_entry(uint32_t i) {
  CatalogEntry entry;
  entry.base.bytes[0] = static_cast<std::byte>(i);
  entry.base.bytes[1] = static_cast<std::byte>(i >> 8);
  entry.attempt = {3, 1, i + 1};
  entry.page = static_cast<uint16_t>(1 + 2 * i);
  entry.pages = 2;
  entry.lead_pages = 2;
  entry.which = pack({});
  return entry;
}

FooterTrailer trailer_of(uint32_t count) {
  FooterTrailer trailer;
  trailer.slice = 2;
  trailer.segment = 7;
  trailer.entry_count = count;
  trailer.sequence = 99;
  trailer.nonce = 0x1234567890abcdef;
  trailer.used_pages = 1 + 2 * count;
  return trailer;
}

FooterExpect expect_of(const FooterTrailer& trailer) {
  return {std::span<const std::byte, 16>(trailer.target_uuid),
          trailer.slice,
          trailer.segment,
          trailer.sequence,
          trailer.nonce,
          kPages};
}

std::vector<std::byte> written(FooterImage& image, const FooterTrailer& trailer) {
  std::vector<std::byte> bytes;
  for (const iovec& run : image.finish(trailer)) {
    const auto* at = static_cast<const std::byte*>(run.iov_base);
    bytes.insert(bytes.end(), at, at + run.iov_len);
  }
  return bytes;
}

TEST(Footer, ComesBackEntryByEntryWhateverItsSize) {
  FooterImage image;  // reused: nothing of the use before may stay
  for (const uint32_t count : {8192u, 0u, 1u, 49u, 50u, 51u, 100u, 101u, 102u, 5000u, 3u}) {
    image.clear();
    for (uint32_t i = 0; i < count; ++i)
      image.add(make_entry(i));
    const FooterTrailer trailer = trailer_of(count);
    const std::vector<std::byte> bytes = written(image, trailer);
    ASSERT_EQ(bytes.size(), bytes_of(footer_pages_of(count)));
    const ConstByteSpan last = ConstByteSpan(bytes).last(kPageBytes);
    const auto read = read_trailer(last, expect_of(trailer));
    ASSERT_TRUE(read.has_value()) << count << " " << read.error().what();
    ASSERT_TRUE(check_footer(bytes, *read, kPages)) << count;
    for (uint32_t i = 0; i < count; ++i) {
      const CatalogEntry entry = footer_entry(bytes, footer_pages_of(count), i);
      ASSERT_EQ(entry.attempt.counter, i + 1) << count;
    }
    // What is behind the last entry is zero, whatever the image held before.
    if (count == 3) {
      EXPECT_TRUE(all_zero(ConstByteSpan(bytes).subspan(96 + 3 * 80)));
    }
  }
}

TEST(Footer, AnyFlippedBitIsFound) {
  FooterImage image;
  for (uint32_t i = 0; i < 60; ++i)
    image.add(make_entry(i));
  const FooterTrailer trailer = trailer_of(60);
  const std::vector<std::byte> pristine = written(image, trailer);
  Random random(5);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes = pristine;
    const size_t at = i < 1000 ? kPageBytes + random.below(200) : random.below(bytes.size());
    bytes[at] ^= static_cast<std::byte>(1u << random.below(8));
    const auto read = read_trailer(ConstByteSpan(bytes).last(kPageBytes), expect_of(trailer));
    if (!read.has_value()) continue;
    ASSERT_EQ(footer_pages_of(read->entry_count), 2u);
    EXPECT_FALSE(check_footer(bytes, *read, kPages)) << at;
  }
}

TEST(Footer, OfAnEarlierLifeIsNone) {
  FooterImage image;
  image.add(make_entry(0));
  const FooterTrailer trailer = trailer_of(1);
  const std::vector<std::byte> bytes = written(image, trailer);
  FooterExpect expect = expect_of(trailer);
  expect.nonce ^= 1;  // the same sequence again, as after a start that forgot an erased segment
  EXPECT_FALSE(read_trailer(bytes, expect).has_value());
  expect = expect_of(trailer);
  expect.sequence = 98;
  EXPECT_FALSE(read_trailer(bytes, expect).has_value());
  expect = expect_of(trailer);
  expect.segment = 8;
  EXPECT_FALSE(read_trailer(bytes, expect).has_value());
  expect = expect_of(trailer);
  expect.nonce = expect.sequence = 0;  // header lost: the trailer's own identity
  EXPECT_TRUE(read_trailer(bytes, expect).has_value());
}

TEST(Footer, WhoseEntriesOverlapIsNone) {
  FooterImage image;
  image.add(make_entry(0));
  CatalogEntry overlapping = make_entry(1);
  overlapping.page = 2;
  image.add(overlapping);
  const FooterTrailer trailer = trailer_of(2);
  const std::vector<std::byte> bytes = written(image, trailer);
  const auto read = read_trailer(bytes, expect_of(trailer));
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(check_footer(bytes, *read, kPages));
}

TEST(CatalogEntryCheck, RefusesEveryFieldOutOfBounds) {
  const CatalogEntry good = make_entry(4);
  EXPECT_TRUE(check_entry(good, 9, 100));
  EXPECT_FALSE(check_entry(good, 10, 100));  // overlaps
  EXPECT_FALSE(check_entry(good, 9, 11));    // beyond the segment
  CatalogEntry bad = good;
  bad.pages = 0;
  EXPECT_FALSE(check_entry(bad, 1, 100));
  bad = good;
  bad.lead_pages = 3;
  EXPECT_FALSE(check_entry(bad, 1, 100));
  bad = good;
  bad.lead_pages = 0;
  EXPECT_FALSE(check_entry(bad, 1, 100));
  bad = good;
  bad.which = pack({.rank = 1});
  EXPECT_FALSE(check_entry(bad, 1, 100));
  bad = good;
  bad.which = pack({.position = kWidthMax});
  EXPECT_FALSE(check_entry(bad, 1, 100));
  bad = good;
  bad.which = pack({.kill = true});
  EXPECT_FALSE(check_entry(bad, 1, 100));
  bad = good;
  bad.attempt = {};
  EXPECT_FALSE(check_entry(bad, 1, 100));
}

TEST(SegmentHeaderPage, IsValidZeroOrInvalid) {
  PageMemory page(1);
  SegmentHeader header;
  header.slice = 1;
  header.segment = 5;
  header.sequence = 3;
  header.nonce = 77;
  fill_segment_header(page.span(0, 1), header);
  FooterExpect expect = {std::span<const std::byte, 16>(header.target_uuid), 1, 5, 0, 0, kPages};
  SegmentHeader read;
  EXPECT_EQ(read_segment_header(page.span(0, 1), expect, &read), HeaderFound::kValid);
  EXPECT_EQ(read.nonce, 77u);
  expect.segment = 6;
  EXPECT_EQ(read_segment_header(page.span(0, 1), expect, &read), HeaderFound::kInvalid);
  expect.segment = 5;
  for (size_t i = 0; i < sizeof(SegmentHeader); ++i) {
    page.page(0)[i] ^= std::byte{4};
    EXPECT_EQ(read_segment_header(page.span(0, 1), expect, &read), HeaderFound::kInvalid) << i;
    page.page(0)[i] ^= std::byte{4};
  }
  std::memset(page.page(0), 0, kPageBytes);
  EXPECT_EQ(read_segment_header(page.span(0, 1), expect, &read), HeaderFound::kZero);
}

[[noreturn]] void want_pages_without_memory() {
  std::set_new_handler([] { ::_exit(3); });
  const rlimit limit = {kGiB, kGiB};
  ::setrlimit(RLIMIT_AS, &limit);
  const PageMemory memory(1 << 20);
  ::_exit(memory.pages() == 0 ? 1 : 0);
}

// Pages are memory as any other: where none is left, the daemon's sentence for that is said.
TEST(PageMemoryDeathTest, WithoutMemoryTheNewHandlerIsAsked) {
  if (__asan_init != nullptr || __tsan_init != nullptr) {
    GTEST_SKIP() << "a sanitizer takes all addresses for itself";
  }
  EXPECT_EXIT(want_pages_without_memory(), testing::ExitedWithCode(3), "");
}

TEST(Catalog, AnEntrySaysTheDomainOfItsBlock) {
  CatalogEntry entry = make_entry(1);
  entry.domain = 7;
  const FragmentInfo info = info_of(entry, 0, 0, 0);
  EXPECT_EQ(info.block, (BlockId{entry.base, 0, 7}));
  EXPECT_EQ(info.mark.domain, 7u);
  CatalogEntry other = entry;
  EXPECT_TRUE(is_same(entry, other));
  other.domain = 8;
  EXPECT_FALSE(is_same(entry, other));
}

}  // namespace
}  // namespace varve::flash
