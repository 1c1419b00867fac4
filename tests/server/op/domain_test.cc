// Goal: what is pulled, and what a lease keeps, is of the domain that asks.
// Method: domains that write other bytes under the same ids. What else must not meet is tested
// where it is done: match, reserve, purge, catalog, lineage, siblings, look.
#include <gtest/gtest.h>

#include "server/op/lineage.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

// A purge of a domain, as the session does it: raised, then walked for. One that cannot be raised
// is not.
struct DomainPurge {
  PurgePart part;
  bool back = false;
  DomainPurge(Rig& rig, const flash::DomainIds& domains, uint32_t domain, uint64_t lineage = 0) {
    part.what = lineage == 0 ? wire::PurgeKind::kDomain : wire::PurgeKind::kLineage;
    part.lineage = lineage;
    part.domain = domain;
    part.domains = domains;
    part.session_reactor = &rig.reactor;
    part.owner = this;
    part.on_back = [](Part& done) { static_cast<DomainPurge*>(done.owner)->back = true; };
    for (const bool raise : {true, false}) {
      part.raise = raise;
      back = false;
      rig.operations->begin(part);
      EXPECT_TRUE(rig.run_until([this] { return back; }));
      if (!part.status.ok()) return;
    }
  }
};

// Goal: the bytes are those of the domain that asks, from DRAM and from flash; what it has not is
// not found, whatever others have. Method: each domain writes other bytes under one id.
TEST(Domain, BytesAreThoseOfTheDomainThatAsks) {
  Rig rig;
  for (const uint32_t domain : {1u, 2u}) {
    rig.domain = domain;
    rig.push({1});
  }
  for (const bool dram : {true, false}) {
    for (const uint32_t domain : {1u, 2u}) {
      rig.domain = domain;
      if (!dram) rig.drop_from_dram(1);
      auto pull = rig.make_pull({1});
      rig.start(*pull);
      rig.finish(*pull);
      EXPECT_EQ(pull->code(0), Code::kOk);
      rig.expect_bytes(*pull, {1});
    }
  }
  rig.domain = 3;
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kUnavailable);
  EXPECT_TRUE(pull->got.empty());
  rig.expect_at_rest();
}

// A lease of one domain keeps nothing of another from being evicted, nor does its pull.
TEST(Domain, ALeaseKeepsWhatIsOfItsDomain) {
  Rig rig;
  for (const uint32_t domain : {1u, 2u}) {
    rig.domain = domain;
    rig.push({1});
  }
  const Rig::Matched leased = rig.match({1}, 1000);  // of domain 2
  Catalog& catalog = rig.operations->catalog();
  EXPECT_EQ(catalog.evict(*rig.index.base_slot(2, rig.id(1))), 0u);
  EXPECT_GT(catalog.evict(*rig.index.base_slot(1, rig.id(1))), 0u);
  EXPECT_EQ(rig.match({1}).found(), 1u);
  rig.release(leased.lease);
  rig.expect_at_rest();
}

TEST(Domain, TheGenerationOfOneThatIsDroppedGoesOnFromItsOwn) {
  Rig rig;
  const flash::DomainIds both{.ids = {1, 2}, .last = 2}, one{.ids = {1}, .last = 2};
  for (uint32_t generation = 1; generation <= 2; ++generation)
    EXPECT_EQ(DomainPurge(rig, both, 2).part.generation, generation);
  rig.domain = 2;
  rig.push({1});
  const DomainPurge dropped(rig, one, 2);
  EXPECT_TRUE(dropped.part.status.ok());
  EXPECT_EQ(dropped.part.generation, 3u);
  EXPECT_EQ(dropped.part.blocks, 1u);
  EXPECT_EQ(flash::domain_generation(rig.flash.rows, 2), 3u);
}

// Rows taken when there was one domain only leave one for another, and only of lineages none.
TEST(Domain, WhatOthersPurgedBeforeKeepsNoneFromPurgingItself) {
  Rig rig;
  for (uint32_t i = 0; i < flash::kLineageRowsMax; ++i)
    ASSERT_TRUE(DomainPurge(rig, {.ids = {1}, .last = 1}, 1, 100 + i).part.status.ok());
  EXPECT_EQ(DomainPurge(rig, {.ids = {1}, .last = 1}, 1, 99).part.status.code(), Code::kNoSpace);
  rig.domain = 2;
  rig.push({1});
  const flash::DomainIds both{.ids = {1, 2}, .last = 2};
  EXPECT_EQ(DomainPurge(rig, both, 2, 99).part.status.code(), Code::kNoSpace);
  EXPECT_EQ(rig.match({1}).found(), 1u);
  const DomainPurge all(rig, both, 2);
  EXPECT_TRUE(all.part.status.ok());
  EXPECT_EQ(all.part.generation, 1u);
  EXPECT_EQ(all.part.blocks, 1u);
  EXPECT_EQ(rig.match({1}).found(), 0u);
  rig.settle();
  rig.expect_at_rest();
}

// Of domains that no list has: one that is dropped needs no row, and is told of none.
TEST(Domain, AFullTableOfGenerationsKeepsNoneFromBeingDropped) {
  Rig rig;
  flash::Generations rows;
  for (uint32_t i = 0; i < flash::kGenerationsMax; ++i)
    rows.push_back({.domain = 100 + i, .domain_generation = 1});
  rig.context->lineages->purge(100, 0, rows);
  rig.context->lineages->walked();
  rig.domain = 2;
  rig.push({1});
  EXPECT_EQ(DomainPurge(rig, {.ids = {1, 2}, .last = 2}, 2).part.status.code(), Code::kNoSpace);
  const DomainPurge dropped(rig, {.ids = {1}, .last = 2}, 2);
  EXPECT_TRUE(dropped.part.status.ok());
  EXPECT_EQ(dropped.part.generation, 0u) << "no superblock has another";
  EXPECT_EQ(dropped.part.blocks, 1u);
  EXPECT_EQ(rig.match({1}).found(), 0u);
  EXPECT_EQ(rig.context->lineages->rows().size(), flash::kGenerationsMax);
  rig.settle();
  rig.expect_at_rest();
}

// What recovery still finds of it then, in whatever generation, is nobody's.
TEST(Domain, WhatIsDroppedWhileRecoveryRunsIsNotFoundByIt) {
  RigOptions options;
  options.op.domains = {.ids = {1, 2}, .last = 2};
  Rig rig(options);
  const auto recovers = [&rig](uint32_t number, uint32_t page) {
    flash::FragmentInfo info;
    info.block = {rig.id(number), 0, 2};
    info.attempt = {.boot_generation = 3, .target = 0, .counter = 10};
    const uint32_t slice = slice_of(info.block.base, rig.context->options.slices);
    info.place = {.slice = static_cast<uint8_t>(slice), .page = page, .pages = 4, .lead_pages = 2};
    info.block_bytes = 1000;
    info.mark = {.domain = 2, .domain_generation = 9};
    rig.flash.adopt(info.place, info.block);
    return rig.operations->catalog().recovered(info);
  };
  EXPECT_TRUE(recovers(1, 1));
  EXPECT_EQ(DomainPurge(rig, {.ids = {1}, .last = 2}, 2).part.blocks, 1u);
  EXPECT_FALSE(recovers(2, 10));
  EXPECT_EQ(rig.context->metrics.recovered_unknown.value(), 1u);
  EXPECT_EQ(rig.index.base_slot(2, rig.id(2)), std::nullopt);
}

}  // namespace
}  // namespace varve
