// Formats are shared by fingerprint, live as long as a session refers to them, and stay within
// limits.
#include "server/session/formats.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve {
namespace {

Format format_number(uint32_t number) {
  Format format = test::small_format();
  format.lineage = "line " + std::to_string(number);
  return format;
}

TEST(Formats, EqualFormatsAreOneEntry) {
  FormatTable table(8, kMiB, Scheme{});
  SessionFormats a(table, 8), b(table, 8);
  const auto bytes = format_number(1).encode();
  EXPECT_EQ(*a.add(kDomainDefault, bytes), 1u);
  EXPECT_EQ(*a.add(kDomainDefault, bytes), 1u);
  EXPECT_EQ(*b.add(kDomainDefault, bytes), 1u);
  EXPECT_EQ(table.count(), 1u);
  EXPECT_EQ(a.find(1), b.find(1));
  EXPECT_EQ(a.find(1)->fingerprint, format_number(1).fingerprint());
  EXPECT_EQ(a.find(1)->tables.size(), 1u);
  a.clear();
  EXPECT_EQ(table.count(), 1u);
  b.clear();
  EXPECT_EQ(table.count(), 0u);
  EXPECT_EQ(table.bytes(), 0u);
}

TEST(Formats, UnknownHandlesAreNull) {
  FormatTable table(8, kMiB, Scheme{});
  SessionFormats formats(table, 8);
  EXPECT_EQ(formats.find(0), nullptr);
  EXPECT_EQ(formats.find(1), nullptr);
  EXPECT_EQ(*formats.add(kDomainDefault, format_number(1).encode()), 1u);
  EXPECT_EQ(formats.find(2), nullptr);
  EXPECT_EQ(formats.find(~0u), nullptr);
  formats.clear();
}

TEST(Formats, LimitsInSumAndPerSessionAreKept) {
  FormatTable table(2, kMiB, Scheme{});
  SessionFormats one(table, 1), many(table, 8);
  EXPECT_TRUE(one.add(kDomainDefault, format_number(1).encode()).has_value());
  EXPECT_EQ(one.add(kDomainDefault, format_number(2).encode()).error().code(), Code::kQuota);
  EXPECT_TRUE(many.add(kDomainDefault, format_number(2).encode()).has_value());
  EXPECT_EQ(many.add(kDomainDefault, format_number(3).encode()).error().code(), Code::kOverloaded);
  EXPECT_TRUE(many.add(kDomainDefault, format_number(1).encode()).has_value());  // known already
  EXPECT_EQ(table.count(), 2u);
  one.clear();
  many.clear();
  EXPECT_EQ(table.count(), 0u);
}

// Goal: what one domain has registered tells another one nothing and takes nothing from it, up to
// the last of its share.
TEST(Formats, NothingOfOneDomainIsSeenOrMissedByAnother) {
  constexpr uint32_t kOther = 2;
  FormatTable table(4, kMiB, Scheme{});
  table.domains_set(2);
  SessionFormats own(table, 8), other(table, 8);
  EXPECT_TRUE(other.add(kOther, format_number(1).encode()).has_value());
  EXPECT_TRUE(other.add(kOther, format_number(2).encode()).has_value());
  // Expect: its share is all that is refused, whoever registered what.
  EXPECT_TRUE(own.add(kDomainDefault, format_number(3).encode()).has_value());
  for (const uint32_t number : {3u, 4u}) {
    EXPECT_EQ(other.add(kOther, format_number(number).encode()).error().code(), Code::kOverloaded)
        << number;
  }
  EXPECT_TRUE(own.add(kDomainDefault, format_number(1).encode()).has_value());
  EXPECT_EQ(table.count(), 4u);
  EXPECT_NE(own.find(2), other.find(1));
  other.clear();
  EXPECT_EQ(own.find(2)->fingerprint, format_number(1).fingerprint());
  own.clear();
  EXPECT_EQ(table.bytes(), 0u);
}

TEST(Formats, BytesAreSharedByDomainsToo) {
  FormatTable table(100, 4000, Scheme{});
  table.domains_set(2);
  SessionFormats own(table, 100), other(table, 100);
  uint32_t taken = 0;
  while (taken < 50 && other.add(2, format_number(taken).encode()).has_value())
    ++taken;
  EXPECT_LE(table.bytes(), 2000u);
  EXPECT_LT(taken, 50u);
  EXPECT_TRUE(own.add(kDomainDefault, format_number(1).encode()).has_value());
  own.clear();
  other.clear();
}

// Goal: a block that can never be taken is refused when its format comes, and the refusal says what
// to do; not block by block without a word.
TEST(Formats, BlocksThatTheNodeCanNeverTakeAreRefusedWithNumbersAndRemedy) {
  // 516 KiB in 4 extents: 131 pages of extents and one of the header.
  const auto bytes = test::small_format().encode();
  FormatTable fits(8, kMiB, Scheme{},
                   {.fragment_pages_max = 132, .push_bytes_max = 132 * kPageBytes});
  SessionFormats happy(fits, 8);
  EXPECT_TRUE(happy.add(kDomainDefault, bytes).has_value()) << fits.refusal();
  EXPECT_EQ(fits.refusal(), "");
  FormatTable flash(8, kMiB, Scheme{}, {.fragment_pages_max = 131});
  SessionFormats sad(flash, 8);
  EXPECT_EQ(sad.add(kDomainDefault, bytes).error().code(), Code::kUnsupported);
  EXPECT_EQ(flash.refusal(),
            "a block of rank 0 needs 528KiB; the targets of this node take at most 524KiB for one: "
            "format them with larger --target-bytes, or put fewer tokens in a block");
  EXPECT_EQ(flash.count(), 0u);
  FormatTable dram(8, kMiB, Scheme{}, {.push_bytes_max = 132 * kPageBytes - 1});
  SessionFormats poor(dram, 8);
  EXPECT_EQ(poor.add(kDomainDefault, bytes).error().code(), Code::kUnsupported);
  EXPECT_NE(dram.refusal().find("--dram-bytes"), std::string::npos);
  happy.clear();
}

TEST(Formats, BytesInSumAreKept) {
  FormatTable table(100, 2000, Scheme{});
  SessionFormats formats(table, 100);
  uint32_t taken = 0;
  Code refusal = Code::kOk;
  for (uint32_t i = 0; i < 100 && refusal == Code::kOk; ++i) {
    const auto added = formats.add(kDomainDefault, format_number(i).encode());
    if (added) ++taken;
    if (!added) refusal = added.error().code();
  }
  EXPECT_EQ(refusal, Code::kOverloaded);
  EXPECT_GT(taken, 0u);
  EXPECT_LE(table.bytes(), 2000u);
  formats.clear();
}

TEST(Formats, GarbageIsRefusedAndLeavesNothing) {
  FormatTable table(8, kMiB, Scheme{});
  SessionFormats formats(table, 8);
  auto bytes = format_number(1).encode();
  for (size_t cut = 0; cut < bytes.size(); cut += 7) {
    EXPECT_FALSE(formats.add(kDomainDefault, ConstByteSpan(bytes).first(cut)).has_value()) << cut;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(formats.add(kDomainDefault, bytes).has_value());
  EXPECT_EQ(table.count(), 0u);
}

// Method: brute force over a table with a run of small layers, whole layers and a cut layer.
TEST(Formats, ExtentsOfLayersCoverExactlyTheLayersAskedFor) {
  std::vector<LayerSpec> layers;
  for (const uint32_t bytes : {20000u, 30000u, 40000u, 100000u, 9u * 1024 * 1024, 70000u}) {
    layers.push_back({LayerKind::kFull, bytes});
  }
  const ExtentTable table = *ExtentTable::of(layers, Scheme{});
  for (uint32_t first = 0; first < layers.size(); ++first) {
    for (uint32_t count = 1; first + count <= layers.size(); ++count) {
      const ExtentRange range = *extents_of_layers(table, first, count);
      for (uint32_t e = 0; e < table.extents.size(); ++e) {
        const ExtentSpec& extent = table.extents[e];
        const bool wanted =
            extent.layer_first < first + count && extent.layer_first + extent.layer_count > first;
        EXPECT_EQ(wanted, e >= range.first && e < range.end) << first << "+" << count << " " << e;
      }
    }
  }
  EXPECT_EQ(extents_of_layers(table, 0, 0)->end, table.extents.size());
  EXPECT_FALSE(extents_of_layers(table, 6, 1).has_value());
  EXPECT_FALSE(extents_of_layers(table, 5, 2).has_value());
  EXPECT_FALSE(extents_of_layers(table, 1, ~0u).has_value());
}

}  // namespace
}  // namespace varve
