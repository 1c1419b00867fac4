// Goal: a plan says of a block what its header says, and of a header that does not fit its scheme
// that it does not. Method: headers made by hand from extent tables of many shapes; each of their
// fields and rows spoilt in turn; scattered pieces.
#include "server/op/repair_plan.h"

#include <gtest/gtest.h>

#include <cstring>

#include "common/placement/placement.h"
#include "server/config/config.h"
#include "server/tier/tier.h"

namespace varve {
namespace {

struct Lead {
  Lead(Scheme of_scheme, const std::vector<uint32_t>& layer_bytes) : scheme(of_scheme) {
    std::vector<LayerSpec> layers;
    for (const uint32_t size : layer_bytes)
      layers.push_back({LayerKind::kFull, size});
    table = *ExtentTable::of(layers, scheme);
    block.base = Sha256().update(bytes_view(layer_bytes.size())).finish();
    block.rank = 3;
    header.extent_count = table.count();
    header.data_extent_count = table.data_count();
    header.header_pages = flash::header_pages_of(table.count());
    header.base = block.base;
    header.rank = block.rank;
    header.domain = block.domain;
    header.k = static_cast<uint8_t>(scheme.k);
    header.m = static_cast<uint8_t>(scheme.m);
    header.position = 1;
    header.attempt = {.boot_generation = 1, .target = 2, .counter = 3};
    header.lineage = 77;
    for (uint32_t e = 0; e < table.count(); ++e) {
      rows.push_back({.stored_bytes = table.bytes_at(e),
                      .decoded_bytes = table.bytes_at(e),
                      .stripe = static_cast<uint16_t>(table.stripe_at(e)),
                      .stored_crc = e * 7});
    }
  }
  // In pieces of one page each, in no order.
  Status load(RepairPlan& plan) {
    bytes.assign(bytes_of(header.header_pages), std::byte{0});
    store(ByteSpan(bytes), 0, header);
    for (size_t e = 0; e < rows.size(); ++e)
      store(ByteSpan(bytes), 256 + 32 * e, rows[e]);
    pages.assign(bytes.size(), std::byte{0});
    std::vector<iovec> pieces;
    const size_t count = header.header_pages;
    for (size_t p = 0; p < count; ++p) {
      std::byte* at = pages.data() + (count - 1 - p) * kPageBytes;
      std::memcpy(at, bytes.data() + p * kPageBytes, kPageBytes);
      pieces.push_back({at, kPageBytes});
    }
    return plan.load(pieces, block, scheme, 1);
  }
  Scheme scheme;
  ExtentTable table;
  BlockId block;
  flash::FragmentHeader header;
  std::vector<ExtentEntry> rows;
  std::vector<std::byte> bytes, pages;
};

const std::vector<std::vector<uint32_t>> kShapes = {
    {70000},
    {5000},
    {70000, 70000, 200000, 70000, 66000},
    std::vector<uint32_t>(200, 70000),  // a table of several pages
    {70000, 9000000, 66000},
};

TEST(RepairPlan, SaysOfABlockWhatItsTableSays) {
  for (const Scheme scheme : kSchemes) {
    if (scheme.m == 0) continue;
    for (const auto& shape : kShapes) {
      Lead lead(scheme, shape);
      RepairPlan plan;
      ASSERT_TRUE(lead.load(plan).ok()) << scheme.text();
      EXPECT_EQ(plan.stripe_count(), lead.table.stripes.size());
      EXPECT_EQ(plan.attempt(), lead.header.attempt);
      for (uint32_t e = 0; e < lead.table.count(); ++e) {
        EXPECT_EQ(plan.fragment_of(e), flash::position_at(lead.table, lead.block, e));
        EXPECT_EQ(plan.row(e).stored_crc, e * 7);
      }
      for (uint32_t p = 0; p < scheme.width(); ++p) {
        EXPECT_EQ(plan.fragment_pages(p), flash::fragment_pages_of(lead.table, lead.block, p));
      }
      for (uint32_t s = 0; s < plan.stripe_count(); ++s) {
        const Stripe& stripe = lead.table.stripes[s];
        for (uint32_t i = 0; i < scheme.k; ++i) {
          const uint32_t expected = i < stripe.count ? stripe.first + i : RepairPlan::kNoExtent;
          EXPECT_EQ(plan.extent_at(s, i), expected);
        }
        for (uint32_t j = 0; j < scheme.m; ++j)
          EXPECT_EQ(plan.extent_at(s, scheme.k + j), lead.table.parity_at(s, j));
      }
    }
  }
}

TEST(RepairPlan, CountsPlacesThatAreKnownToBeZerosAsPresent) {
  const Scheme scheme{.k = 4, .m = 2};
  Lead lead(scheme, {70000, 70000, 70000, 70000, 70000});  // one of four in the second stripe
  RepairPlan plan;
  ASSERT_TRUE(lead.load(plan).ok());
  ASSERT_EQ(plan.stripe_count(), 2u);
  const uint32_t holder = plan.fragment_of(4);
  const uint32_t all = 0x3F;
  const Loss whole = plan.loss(1, all, 0);
  EXPECT_EQ(whole.present, 0x3F);
  EXPECT_EQ(whole.wanted, 0);
  const Loss loss = plan.loss(1, all & ~(1u << holder), 1u << holder);
  EXPECT_EQ(loss.present, 0x3E) << "three of zeros, two of parity";
  EXPECT_EQ(loss.wanted, 1);
  const uint32_t other = plan.fragment_of(3);  // holds nothing of this stripe
  ASSERT_NE(other, holder);
  EXPECT_EQ(plan.loss(1, all & ~(1u << other), 1u << other).wanted, 0);
}

TEST(RepairPlan, CountsThePagesThatAStripeTakes) {
  Lead lead({.k = 2, .m = 1}, {70000, 70000, 200000, 70000, 66000});
  RepairPlan plan;  // stripes of 18 + 18, 49 and 18 + 17 pages, by size class
  ASSERT_TRUE(lead.load(plan).ok());
  const uint32_t holder = plan.fragment_of(2);
  EXPECT_EQ(plan.source_pages(7u & ~(1u << holder), 1u << holder), 49u) << "its parity, the zeros";
  const uint32_t other = 1 - holder;
  EXPECT_EQ(plan.source_pages(7u & ~(1u << other), 1u << other), 36u);
  EXPECT_EQ(plan.source_pages(3, 4), 49u) << "parity of them all";
  EXPECT_EQ(plan.source_pages(7, 0), 0u);
}

// The budget that a daemon has: whatever its pushes may bring, one fragment of it can be rebuilt.
TEST(RepairPlan, FitsTheBudgetOfEveryBlockThatAPushMayBring) {
  Random random(5);
  for (uint32_t round = 0; round < 400; ++round) {
    const Scheme scheme = kSchemes[1 + random.below(kSchemes.size() - 1)];
    std::vector<uint32_t> shape;
    const auto most = static_cast<uint32_t>(1) << (8 + random.below(17));
    for (uint64_t left = 1 + random.below(20); left > 0; --left)
      shape.push_back(1 + static_cast<uint32_t>(random.below(most)));
    Lead lead(scheme, shape);
    RepairPlan plan;
    ASSERT_TRUE(lead.load(plan).ok());
    ServerConfig config;  // whose pushes take exactly this block
    config.scheme = scheme;
    config.shards = 1;
    config.dram_bytes = 4 * bytes_of(DramTier::pages_of_block(lead.table));
    const ShardSizes sizes = shard_sizes(config, kGiB);
    ASSERT_EQ(sizes.push_bytes, config.dram_bytes / 4);
    const uint32_t all = (1u << scheme.width()) - 1;
    for (uint32_t p = 0; p < scheme.width(); ++p) {
      const uint32_t pages = plan.fragment_pages(p) + plan.source_pages(all & ~(1u << p), 1u << p);
      EXPECT_LE(bytes_of(pages), sizes.repair_bytes) << scheme.text() << " round " << round;
    }
  }
}

TEST(RepairPlan, WritesTheHeaderOfAnotherPosition) {
  Lead lead({.k = 2, .m = 1}, std::vector<uint32_t>(200, 70000));
  RepairPlan plan;
  lead.header.flags = flash::kFragmentThin;
  lead.header.crc = 99;
  ASSERT_TRUE(lead.load(plan).ok());
  std::vector<std::byte> out(bytes_of(plan.header_pages()), std::byte{0xEE});
  const size_t cut = kPageBytes;
  const std::vector<iovec> pieces = {{out.data(), cut}, {out.data() + cut, out.size() - cut}};
  plan.write_header(2, false, pieces);
  const auto header = load<flash::FragmentHeader>(out);
  EXPECT_EQ(header.position, 2);
  EXPECT_EQ(header.role, static_cast<uint8_t>(flash::FragmentRole::kParity));
  EXPECT_EQ(header.flags, 0);
  EXPECT_EQ(header.lineage, 77u);
  EXPECT_EQ(header.attempt, lead.header.attempt);
  EXPECT_EQ(std::memcmp(out.data() + 256, lead.bytes.data() + 256, out.size() - 256), 0)
      << "table and zeros";
  plan.write_header(0, true, pieces);
  EXPECT_EQ(load<flash::FragmentHeader>(out).role,
            static_cast<uint8_t>(flash::FragmentRole::kData));
  EXPECT_EQ(load<flash::FragmentHeader>(out).flags, flash::kFragmentThin);
}

TEST(RepairPlan, RefusesWhatDoesNotFit) {
  using Spoil = void (*)(Lead&);
  const Spoil spoils[] = {
      [](Lead& l) { l.header.position = 0; },
      [](Lead& l) { l.header.rank = 4; },
      [](Lead& l) { l.header.base.bytes[0] ^= std::byte{1}; },
      [](Lead& l) { l.header.k = 3; },
      [](Lead& l) { l.header.m = 2; },
      [](Lead& l) { l.header.data_extent_count = 0; },
      [](Lead& l) { l.header.data_extent_count = l.header.extent_count; },
      [](Lead& l) { l.header.data_extent_count -= 1; },
      [](Lead& l) { l.header.extent_count = kExtentsMax + 1; },
      [](Lead& l) { l.header.extent_count -= 1; },
      [](Lead& l) { l.rows[0].stripe = 1; },
      [](Lead& l) { l.rows[2].stripe = 0; },  // more than k
      [](Lead& l) { l.rows[2].stripe = 2; },  // one left out
      [](Lead& l) { l.rows[1].stored_bytes = 0; },
      [](Lead& l) { l.rows[1].stored_bytes = kExtentBytesMax + 1; },
      [](Lead& l) { l.rows.back().stripe = 0; },
      [](Lead& l) { l.rows.back().stored_bytes += 1; },
  };
  for (size_t i = 0; i < std::size(spoils); ++i) {
    Lead lead({.k = 2, .m = 1}, {70000, 70000, 70000, 70000, 70000});
    RepairPlan plan;
    ASSERT_TRUE(lead.load(plan).ok());
    spoils[i](lead);
    EXPECT_EQ(lead.load(plan).code(), Code::kCorrupt) << "spoil " << i;
  }
}

TEST(PieceCursor, HandsOutWhatLiesTogether) {
  std::byte bytes[10];
  const iovec pieces[] = {{bytes, 3}, {bytes + 3, 5}, {bytes + 8, 2}};
  PieceCursor cursor{std::span<const iovec>(pieces)};
  EXPECT_EQ(cursor.here().size(), 3u);
  cursor.skip(2);
  EXPECT_EQ(cursor.here().data(), bytes + 2);
  EXPECT_EQ(cursor.here().size(), 1u);
  cursor.skip(1);
  EXPECT_EQ(cursor.here().size(), 5u);
  cursor.skip(6);
  EXPECT_EQ(cursor.here().data(), bytes + 9);
  cursor.skip(1);
  EXPECT_TRUE(cursor.here().empty());
  EXPECT_TRUE(PieceCursor().here().empty());
}

TEST(PieceCursorDeathTest, DoesNotGoBeyondTheEnd) {
  std::byte bytes[4];
  const iovec piece = {bytes, 4};
  PieceCursor cursor{std::span<const iovec>(&piece, 1)};
  EXPECT_DEATH(cursor.skip(5), "left > 0");
}

TEST(RepairPlan, AHeaderOfAnotherDomainIsAnotherBlock) {
  Lead lead({2, 1}, {70000, 70000, 70000});
  RepairPlan plan;
  ASSERT_TRUE(lead.load(plan).ok());
  lead.header.domain = 2;
  EXPECT_FALSE(lead.load(plan).ok());
}

}  // namespace
}  // namespace varve
