// Goal: the parity of a stripe, made round by round from scattered memory, is that of the whole,
// and scratch that is full stops it without harm. Method: every offered scheme over layers of mixed
// sizes, against the coder over whole extents; a scratch that holds one round.
#include "client/stripe_out.h"

#include <gtest/gtest.h>

#include "tests/client/client_rig.h"

namespace varve {
namespace {

// Stripes of fewer than k, sizes that differ within a class, a cut layer, a run of small ones.
const std::vector<uint32_t> kLayers = {20000,  50000,  70000,  66000, 131072, 100001,
                                       900000, 300000, 270000, 65537, 5000000};

struct StripeOutTest : testing::Test {
  // Every parity extent of the block, made with as much scratch as one round needs.
  static std::vector<std::byte> all_of(StripeOut& out, Scratch& scratch, uint32_t j) {
    std::vector<std::byte> bytes;
    while (!out.finished()) {
      const auto piece = out.piece();
      EXPECT_TRUE(piece.has_value());
      Columns columns;
      columns.swap(*piece->columns);
      if (piece->j == j) {
        EXPECT_EQ(piece->offset, bytes.size());
        for (uint32_t c = 0; c < columns.size(); ++c) {
          const auto length = std::min(kColumnBytes, piece->bytes - c * kColumnBytes);
          bytes.insert(bytes.end(), columns[c], columns[c] + length);
        }
      }
      scratch.give(columns);
      out.sent();
    }
    return bytes;
  }
  std::vector<std::byte> gather_ = std::vector<std::byte>(size_t{kDataMax} * kColumnBytes);
};

TEST_F(StripeOutTest, IsTheParityOfTheWhole) {
  for (const Scheme scheme : kSchemes) {
    if (scheme.m == 0) continue;
    SCOPED_TRACE(scheme.text());
    RigOptions options;
    options.daemon.k = scheme.k;
    options.daemon.m = scheme.m;
    KvRig rig(kLayers, 2, options);
    const BlockId id{id_of(3), 0};
    rig.daemon->put(id, rig.table);
    const auto& stored = rig.daemon->store().at(id);
    rig.put_into_memory(id, 1);
    std::vector<std::unique_ptr<Region>> regions;
    regions.push_back(std::make_unique<Region>());
    *regions[0] = {rig.memory.data(), rig.memory.size()};
    const std::vector<uint32_t> slots = {1};
    const auto layout = *BoundLayout::bind(rig.layout, rig.format.ranks[0], slots, regions);
    Scratch scratch(uint64_t{scheme.m} * kPayloadBytesMax);
    for (uint32_t s = 0; s < rig.table.stripes.size(); ++s) {
      for (uint32_t j = 0; j < scheme.m; ++j) {
        StripeOut out(scratch, gather_);
        out.begin(rig.table, layout, {id, stored.attempt, 1, s});
        const uint32_t extent = rig.table.parity_at(s, j);
        ASSERT_EQ(all_of(out, scratch, j), stored.extents[extent]) << s << " " << j;
        const ExtentEntry entry = out.entry(j);
        const ExtentEntry expected = rig.daemon->entry_of(id, extent);
        EXPECT_EQ(std::memcmp(&entry, &expected, sizeof(entry)), 0);
        out.drop();
      }
    }
    EXPECT_EQ(scratch.used(), 0u);
  }
}

TEST_F(StripeOutTest, AFullScratchStopsItAndNothingIsLost) {
  RigOptions options;
  options.daemon.k = 2;
  options.daemon.m = 1;
  KvRig rig({600000, 600000}, 1, options);
  const BlockId id{id_of(3), 0};
  rig.daemon->put(id, rig.table);
  rig.put_into_memory(id, 0);
  std::vector<std::unique_ptr<Region>> regions;
  regions.push_back(std::make_unique<Region>());
  *regions[0] = {rig.memory.data(), rig.memory.size()};
  const std::vector<uint32_t> slots = {0};
  const auto layout = *BoundLayout::bind(rig.layout, rig.format.ranks[0], slots, regions);
  Scratch scratch(kPayloadBytesMax);
  StripeOut out(scratch, gather_);
  out.begin(rig.table, layout, {id, rig.daemon->store().at(id).attempt, 0, 0});
  Columns held;
  ASSERT_TRUE(scratch.take(1, held));
  EXPECT_FALSE(out.piece().has_value());
  EXPECT_EQ(scratch.used(), 1u);  // nobody waits with a part
  scratch.give(held);
  EXPECT_EQ(all_of(out, scratch, 0), rig.daemon->store().at(id).extents[2]);
  out.drop();
  // Expect: what was made and not sent is given back.
  out.begin(rig.table, layout, {id, rig.daemon->store().at(id).attempt, 0, 0});
  EXPECT_TRUE(out.piece().has_value());
  EXPECT_EQ(scratch.used(), 4u);
  out.drop();
  EXPECT_EQ(scratch.used(), 0u);
}

}  // namespace
}  // namespace varve
