// Goal: a stripe knows what it needs, asks for no more, and believes only what verifies (D1, D2).
// Method: stored blocks of every scheme; sources filled in by hand, as lanes would.
#include "client/stripe_in.h"

#include <gtest/gtest.h>

#include <bit>

#include "tests/client/client_rig.h"

namespace varve {
namespace {

using Owe = StripeIn::Owe;
using Why = StripeIn::Why;
using Sight = StripeIn::Sight;
using State = StripeIn::Source::State;

constexpr Positions bit(uint32_t position) {
  return static_cast<Positions>(1u << position);
}

// One stripe of `layers.size()` members (or as many as k) of a stored block.
struct World {
  World(Scheme scheme, const std::vector<uint32_t>& layers, Positions whole)
      : rig(layers, 1, options_of(scheme)) {
    rig.daemon->put(id, rig.table);
    rig.put_into_memory(id, 0);
    regions.push_back(std::make_unique<Region>());
    *regions[0] = {rig.memory.data(), rig.memory.size()};
    const std::vector<uint32_t> slots = {0};
    layout = *BoundLayout::bind(rig.layout, rig.format.ranks[0], slots, regions);
    stripe = std::make_unique<StripeIn>(
        rig.table, StripeIn::Of{id, rig.daemon->store().at(id).attempt, 0, 0, 0, whole});
    EXPECT_TRUE(scratch.take(stripe->columns_needed(), stripe->columns()));
  }
  ~World() { scratch.give(stripe->columns()); }
  static RigOptions options_of(Scheme scheme) {
    RigOptions options;
    options.daemon.k = scheme.k;
    options.daemon.m = scheme.m;
    return options;
  }
  std::vector<uint32_t> want(const Sight& sight) {
    std::vector<uint32_t> extents;
    stripe->want(sight, stripe->missing(sight), extents);
    for (auto& source : stripe->sources()) {
      if (source.state == State::kWanted) source.state = State::kAsked;
    }
    return extents;
  }
  // As a lane does it: a payload at a time, where it was told to. True: whole and verified.
  bool arrive(uint32_t extent, std::byte flip = {}) {
    const auto& bytes = rig.daemon->store().at(id).extents[extent];
    StripeIn::Source* source = stripe->find_source(extent);
    bool whole = false;
    for (uint32_t at = 0; at < bytes.size(); at = source->received) {
      Placement where;
      const auto length = std::min<uint32_t>(100001, static_cast<uint32_t>(bytes.size()) - at);
      stripe->place(*source, length, where);
      EXPECT_EQ(stripe->find_lent(where), source);
      EXPECT_FALSE(stripe->quiet());
      uint32_t done = at;
      for (uint32_t i = 0; i < where.count; ++i) {
        std::memcpy(where.pieces[i].iov_base, bytes.data() + done, where.pieces[i].iov_len);
        done += static_cast<uint32_t>(where.pieces[i].iov_len);
      }
      EXPECT_EQ(done, at + length);
      *static_cast<std::byte*>(where.pieces[0].iov_base) ^= flip;
      whole = stripe->received(*source, where, rig.daemon->entry_of(id, extent).stored_crc);
      if (source->state == State::kFree) break;
    }
    return whole;
  }
  std::vector<std::byte> outcome(uint32_t extent) {
    const auto columns = stripe->outcome(*stripe->find_owed(extent));
    const uint32_t bytes = rig.table.bytes_at(extent);
    std::vector<std::byte> out;
    for (uint32_t c = 0; c < columns.size(); ++c) {
      out.insert(out.end(), columns[c],
                 columns[c] + std::min(kColumnBytes, bytes - c * kColumnBytes));
    }
    return out;
  }
  Status rebuild(const Sight& sight) { return stripe->rebuild(sight, layout, gather); }
  ExtentEntry entry(uint32_t extent) { return rig.daemon->entry_of(id, extent); }

  const BlockId id{id_of(1), 0};
  KvRig rig;
  std::vector<std::unique_ptr<Region>> regions;
  BoundLayout layout;
  Scratch scratch{128 * kMiB};
  std::vector<std::byte> gather = std::vector<std::byte>(size_t{kDataMax} * kColumnBytes);
  std::unique_ptr<StripeIn> stripe;
};

// Every single loss of every scheme, the others in the caller's memory; ragged sizes.
TEST(StripeInTest, RebuildsAnyMemberFromTheCallersMemoryAndParity) {
  const std::vector<uint32_t> layers = {100000, 131072, 70001, 66000, 90000, 131000, 65537, 80000};
  for (const Scheme scheme : kSchemes) {
    if (scheme.m == 0) continue;
    for (uint32_t lost = 0; lost < scheme.k; ++lost) {
      SCOPED_TRACE(scheme.text() + " " + std::to_string(lost));
      const Positions all = static_cast<Positions>((1u << scheme.k) - 1);
      World world(scheme, layers, all);
      ASSERT_EQ(world.stripe->stripe().count, scheme.k);
      EXPECT_EQ(world.stripe->owe(lost, Why::kLost, world.entry(lost)), Owe::kTaken);
      const Sight sight{static_cast<Positions>(all & ~bit(lost)), 0, 0};
      EXPECT_FALSE(world.stripe->ready(sight));
      const uint32_t parity = world.rig.table.parity_at(0, 0);
      EXPECT_EQ(world.want(sight), std::vector<uint32_t>{parity});
      EXPECT_EQ(world.stripe->missing(sight), 0u);
      EXPECT_TRUE(world.arrive(parity));
      ASSERT_TRUE(world.stripe->ready(sight));
      EXPECT_TRUE(world.rebuild(sight).ok());
      EXPECT_EQ(world.outcome(lost), world.rig.daemon->store().at(world.id).extents[lost]);
      EXPECT_TRUE(world.stripe->quiet());
    }
  }
}

// A stripe of fewer than k: the places without a member are known.
TEST(StripeInTest, ZerosStandForMembersThatAreNotThere) {
  const Scheme scheme{4, 2};
  std::vector<uint32_t> layers(6, 70000);
  World world(scheme, layers, 3);
  auto& table = world.rig.table;
  ASSERT_EQ(table.stripes[1].count, 2u);
  StripeIn stripe(table, StripeIn::Of{world.id, world.stripe->of().attempt, 0, 0, 1, 3});
  ASSERT_TRUE(world.scratch.take(stripe.columns_needed(), stripe.columns()));
  std::swap(*world.stripe, stripe);
  EXPECT_EQ(world.stripe->owe(4, Why::kLost, world.entry(4)), Owe::kTaken);
  EXPECT_EQ(world.stripe->owe(5, Why::kLost, world.entry(5)), Owe::kTaken);
  EXPECT_EQ(world.want({}), (std::vector<uint32_t>{table.parity_at(1, 0), table.parity_at(1, 1)}));
  EXPECT_TRUE(world.arrive(table.parity_at(1, 0)));
  EXPECT_TRUE(world.arrive(table.parity_at(1, 1)));
  EXPECT_TRUE(world.rebuild({}).ok());
  for (const uint32_t e : {4u, 5u})
    EXPECT_EQ(world.outcome(e), world.rig.daemon->store().at(world.id).extents[e]);
  world.scratch.give(stripe.columns());
}

TEST(StripeInTest, AsksForDataBeforeParityAndForNothingTwice) {
  World world({4, 2}, std::vector<uint32_t>(4, 70000), bit(1));
  EXPECT_EQ(world.stripe->owe(1, Why::kLost, world.entry(1)), Owe::kTaken);
  EXPECT_EQ(world.stripe->missing({}), 4u);
  EXPECT_EQ(std::popcount(world.stripe->idle({})), 5);
  EXPECT_EQ(world.want({}), (std::vector<uint32_t>{0, 2, 3, 4}));
  EXPECT_TRUE(world.want({}).empty());
  // Expect: what is lost of them is replaced, and not asked for again.
  world.stripe->lose(*world.stripe->find_source(2));
  EXPECT_EQ(world.want({}), std::vector<uint32_t>{5});
  world.stripe->lose(*world.stripe->find_source(0));
  EXPECT_EQ(world.stripe->missing({}), 1u);
  EXPECT_EQ(world.stripe->idle({}), 0);
  // One that was refused for now may be asked for again.
  world.stripe->forget(*world.stripe->find_source(3));
  EXPECT_EQ(world.want({}), std::vector<uint32_t>{3});
}

TEST(StripeInTest, WhatIsLateIsNeitherCountedOnNorAskedFor) {
  World world({4, 2}, std::vector<uint32_t>(4, 70000), 15);
  EXPECT_EQ(world.stripe->owe(0, Why::kLost, world.entry(0)), Owe::kTaken);
  const Sight sight{bit(1), bit(2), bit(3)};
  EXPECT_EQ(world.stripe->missing(sight), 2u);
  EXPECT_EQ(world.want(sight), (std::vector<uint32_t>{4, 5}));
}

TEST(StripeInTest, OwesNoMoreThanMAndAHedgeGivesWay) {
  World world({4, 1}, std::vector<uint32_t>(4, 70000), 15);
  StripeIn& stripe = *world.stripe;
  EXPECT_EQ(stripe.owe(0, Why::kLate, world.entry(0)), Owe::kTaken);
  EXPECT_EQ(stripe.owe(1, Why::kLate, world.entry(1)), Owe::kFull);
  EXPECT_EQ(stripe.owe(2, Why::kLost, world.entry(2)), Owe::kTaken);
  EXPECT_EQ(stripe.find_owed(0), nullptr);
  EXPECT_EQ(stripe.owe(3, Why::kLost, world.entry(3)), Owe::kFull);
  *stripe.find_owed(2) = StripeIn::Owed();
  // One that is rebuilt already does not: it is a source as soon as it is delivered.
  EXPECT_EQ(stripe.owe(0, Why::kLate, world.entry(0)), Owe::kTaken);
  stripe.find_owed(0)->rebuilt = true;
  EXPECT_EQ(stripe.owe(3, Why::kLost, world.entry(3)), Owe::kWait);
  // And a late one that is lost after all stays what it is.
  EXPECT_EQ(stripe.owe(0, Why::kLost, world.entry(0)), Owe::kTaken);
  EXPECT_TRUE(stripe.owes(Why::kLost));
  EXPECT_FALSE(stripe.owes(Why::kLate));
}

// D3: what is owed is asked for as well, and is there when it comes.
TEST(StripeInTest, AnotherLookAsksForWhatWasLostAndOwed) {
  const Sight sight{};
  World world({2, 1}, {70000, 70000}, 0);
  StripeIn& stripe = *world.stripe;
  EXPECT_EQ(stripe.owe(0, Why::kLost, world.entry(0)), Owe::kTaken);
  EXPECT_EQ(world.want(sight), (std::vector<uint32_t>{1, 2}));
  stripe.lose(*stripe.find_source(2));
  EXPECT_EQ(stripe.idle(sight), 0);
  EXPECT_TRUE(stripe.look_again());
  EXPECT_EQ(world.want(sight), (std::vector<uint32_t>{0}));
  EXPECT_TRUE(world.arrive(0));
  EXPECT_TRUE(stripe.find_owed(0)->rebuilt);
  EXPECT_EQ(world.outcome(0), world.rig.daemon->store().at(world.id).extents[0]);
  EXPECT_EQ(stripe.find_source(0), nullptr);
  EXPECT_EQ(stripe.idle(sight) & bit(0), 0) << "it is there";
}

// Asked for as a source, and late, and lost: what is here is not waited for.
TEST(StripeInTest, WhatIsOwedAndHereAlreadyIsThere) {
  World world({2, 1}, {70000, 70000}, 0);
  StripeIn& stripe = *world.stripe;
  EXPECT_EQ(stripe.owe(0, Why::kLate, world.entry(0)), Owe::kTaken);
  world.want(Sight{});
  EXPECT_TRUE(world.arrive(1));
  EXPECT_EQ(stripe.owe(1, Why::kLate, world.entry(1)), Owe::kFull) << "one is owed already";
  stripe.find_owed(0)->extent = StripeIn::kNone;
  EXPECT_EQ(stripe.owe(1, Why::kLate, world.entry(1)), Owe::kTaken);
  EXPECT_FALSE(stripe.find_owed(1)->rebuilt) << "the original may still come";
  EXPECT_EQ(stripe.owe(1, Why::kLost, world.entry(1)), Owe::kTaken);
  EXPECT_TRUE(stripe.find_owed(1)->rebuilt);
  EXPECT_EQ(stripe.find_source(1), nullptr);
}

TEST(StripeInTest, ItLooksOnlySoOftenAndNotForWhatIsWrong) {
  World world({2, 1}, {70000, 70000}, 0);
  for (uint32_t i = 0; i < StripeIn::kLooksMax; ++i)
    EXPECT_TRUE(world.stripe->look_again());
  EXPECT_FALSE(world.stripe->look_again());
  World other({2, 1}, {70000, 70000}, 0);
  EXPECT_EQ(other.stripe->owe(0, Why::kLost, other.entry(0)), Owe::kTaken);
  other.want(Sight{});
  EXPECT_FALSE(other.arrive(2, std::byte{1}));
  EXPECT_FALSE(other.stripe->look_again());
}

// D1: a source that does not verify is lost; an outcome that does not is nothing.
TEST(StripeInTest, OnlyWhatVerifiesCounts) {
  const Sight sight{bit(1), 0, 0};
  World world({2, 1}, {70000, 70000}, 3);
  ExtentEntry wrong = world.entry(0);
  EXPECT_EQ(world.stripe->owe(0, Why::kLost, wrong), Owe::kTaken);
  EXPECT_EQ(world.want(sight), std::vector<uint32_t>{2});
  EXPECT_FALSE(world.arrive(2, std::byte{1}));
  EXPECT_EQ(world.stripe->find_source(2), nullptr);
  EXPECT_EQ(world.stripe->missing(sight), 1u);
  EXPECT_EQ(world.stripe->idle(sight), 0);
  for (const bool crc : {true, false}) {
    World other({2, 1}, {70000, 70000}, 3);
    wrong = other.entry(0);
    wrong.stored_crc ^= crc ? 1 : 0;
    wrong.decoded_xxh3 ^= crc ? 0 : 1;
    EXPECT_EQ(other.stripe->owe(0, Why::kLost, wrong), Owe::kTaken);
    other.want(sight);
    EXPECT_TRUE(other.arrive(2));
    EXPECT_EQ(other.rebuild(sight).code(), Code::kCorrupt);
    EXPECT_FALSE(other.stripe->find_owed(0)->rebuilt);
  }
}

// D2: whatever is lost, in whatever order, the columns lent at first are enough.
TEST(StripeInTest, ItNeedsNoMoreScratchThanItWasLent) {
  for (const Scheme scheme : kSchemes) {
    if (scheme.m == 0) continue;
    const std::vector<LayerSpec> layers(scheme.k, {LayerKind::kFull, 70000});
    const ExtentTable table = *ExtentTable::of(layers, scheme);
    for (uint32_t whole = 0; whole < (1u << scheme.k); ++whole) {
      for (uint32_t lost = 0; lost < (1u << scheme.k); ++lost) {
        if (std::popcount(lost) > static_cast<int>(scheme.m)) continue;
        StripeIn of(table, {BlockId{id_of(1), 0}, Attempt{1, 0, 1}, 0, 0, 0,
                            static_cast<Positions>(whole)});
        for (uint32_t e = 0; e < scheme.k; ++e) {
          if ((lost >> e & 1) != 0) {
            ASSERT_EQ(of.owe(e, Why::kLost, ExtentEntry()), Owe::kTaken);
          }
        }
        const Sight sight{0, static_cast<Positions>(whole & ~lost), 0};
        const uint32_t missing = of.missing(sight);
        std::vector<uint32_t> extents;
        of.want(sight, missing, extents);
        ASSERT_EQ(extents.size(), missing) << scheme.text() << " " << whole << " " << lost;
      }
    }
  }
}

}  // namespace
}  // namespace varve
