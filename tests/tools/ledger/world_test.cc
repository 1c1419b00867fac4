// Goal: the mix of formats is legal and diverse, and a seat's memory holds its blocks apart.
// Method: validate, fill every slot of every kind, read back.
#include "tools/ledger/world.h"

#include <gtest/gtest.h>

#include <set>

namespace varve::ledger {
namespace {

TEST(World, EveryKindIsALegalFormatOfItsOwnAndFillsWholeChains) {
  std::set<Digest> fingerprints;
  for (const uint32_t folder : {0u, 1u}) {
    for (const Kind& kind : make_kinds(folder, 1)) {
      EXPECT_TRUE(kind.format.validate().ok());
      EXPECT_TRUE(fingerprints.insert(kind.format.fingerprint()).second);
      EXPECT_EQ(kind.id_count % kChainBlocks, 0u);
      for (const auto& rank : kind.format.ranks)
        EXPECT_TRUE(ExtentTable::of(rank, Scheme{}).has_value());
    }
  }
}

TEST(World, ScaleMultipliesTheBlocksNotTheirShape) {
  const auto one = make_kinds(0, 1), three = make_kinds(0, 3);
  EXPECT_EQ(bytes_of_all(three), 3 * bytes_of_all(one));
  EXPECT_EQ(one[3].format.fingerprint(), three[3].format.fingerprint());
}

TEST(World, TheSlotsOfASeatDoNotOverlap) {
  const auto kinds = make_kinds(0, 1);
  Seat seat(kinds);
  for (uint32_t k = 0; k < kinds.size(); ++k) {
    for (uint32_t r = 0; r < kinds[k].format.rank_count(); ++r) {
      for (uint32_t slot = 0; slot < kSlots; ++slot)
        seat.fill(kinds[k], k, {BaseId(), r}, slot, 100 + slot);
      for (uint32_t slot = 0; slot < kSlots; ++slot)
        EXPECT_EQ(seat.writer(kinds[k], k, {BaseId(), r}, slot), Salt{100 + slot});
      seat.poison(kinds[k], k, r, 3);
      EXPECT_EQ(seat.writer(kinds[k], k, {BaseId(), r}, 3), std::nullopt);
      EXPECT_EQ(seat.writer(kinds[k], k, {BaseId(), r}, 4), Salt{104});
    }
  }
}

TEST(World, ConnectingToNobodyIsAnErrorNotAHang) {
  const auto kinds = make_kinds(0, 1);
  Seat seat(kinds);
  EXPECT_FALSE(seat.connect("127.0.0.1:1", kinds).ok());
}

}  // namespace
}  // namespace varve::ledger
