// Goal: what recovery finds stands where it belongs: in its domain, and nowhere when that is not
// there any more. Method: fragments and records told to the catalog. More in catalog_test.cc,
// coding_test.cc, away_test.cc and purge_test.cc.
#include <gtest/gtest.h>

#include "server/op/catalog.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

constexpr uint32_t kOne = 1, kTwo = 2, kNobody = 9;

RigOptions two_domains() {
  RigOptions options;
  options.op.domains = {.ids = {kOne, kTwo}, .last = 3};
  return options;
}

flash::FragmentInfo found(Rig& rig, uint32_t domain, uint64_t counter, uint32_t page) {
  flash::FragmentInfo info;
  info.block = {rig.id(1), 0, domain};
  info.attempt = {.boot_generation = 3, .target = 0, .counter = counter};
  info.place = {
      .slice = static_cast<uint8_t>(slice_of(info.block.base, rig.context->options.slices)),
      .page = page,
      .pages = 4,
      .lead_pages = 2};
  info.block_bytes = 1000;
  info.mark.domain = domain;
  rig.flash.adopt(info.place, info.block);
  return info;
}

bool matches(Rig& rig, uint32_t domain) {
  rig.domain = domain;
  return rig.match({1}).found() == 1;
}

TEST(CatalogRecovery, OneIdOfTwoDomainsIsFoundAsTwo) {
  Rig rig(two_domains());
  Catalog& catalog = rig.operations->catalog();
  // By attempts, one would replace the other.
  EXPECT_TRUE(catalog.recovered(found(rig, kOne, 10, 1)));
  EXPECT_FALSE(matches(rig, kTwo));
  EXPECT_TRUE(catalog.recovered(found(rig, kTwo, 11, 10)));
  EXPECT_EQ(rig.place_of({rig.id(1), 0, kOne}).page, 1u);
  EXPECT_EQ(rig.place_of({rig.id(1), 0, kTwo}).page, 10u);
  EXPECT_EQ(rig.context->metrics.replaced_older.value(), 0u);
  EXPECT_EQ(rig.context->metrics.recovered_older.value(), 0u);
}

// In a scheme of two data fragments, one of each domain is no block of anybody.
TEST(CatalogRecovery, FragmentsOfTwoDomainsMakeNoBlock) {
  RigOptions options = two_domains();
  options.op.scheme = {2, 1};
  options.targets = 3;
  Rig rig(options);
  Catalog& catalog = rig.operations->catalog();
  flash::FragmentInfo fragment = found(rig, kOne, 10, 1);
  ASSERT_TRUE(catalog.recovered(fragment));
  fragment = found(rig, kTwo, 10, 10);
  fragment.position = 1;
  fragment.place.target = 1;
  ASSERT_TRUE(catalog.recovered(fragment));
  EXPECT_FALSE(matches(rig, kOne) || matches(rig, kTwo));
  EXPECT_EQ(rig.index.away_count(), 2u);
}

TEST(CatalogRecovery, ARecordEndsWhatIsOfItsDomainFoundBeforeOrAfter) {
  for (const bool before : {true, false}) {
    Rig rig(two_domains());
    Catalog& catalog = rig.operations->catalog();
    if (before) catalog.killed(kTwo, rig.id(1), {3, 0, 50});
    EXPECT_TRUE(catalog.recovered(found(rig, kOne, 10, 1)));
    EXPECT_EQ(catalog.recovered(found(rig, kTwo, 10, 10)), !before);
    if (!before) catalog.killed(kTwo, rig.id(1), {3, 0, 50});
    EXPECT_TRUE(matches(rig, kOne));
    EXPECT_FALSE(matches(rig, kTwo));
  }
}

// Of one that was dropped, one that a lost list had, and one that never was.
TEST(CatalogRecovery, WhatIsOfNoDomainOfTheNodeIsDroppedAndCounted) {
  Rig rig(two_domains());
  Catalog& catalog = rig.operations->catalog();
  uint32_t page = 1;
  for (const uint32_t domain : {3u, kNobody, 0u}) {
    EXPECT_FALSE(catalog.recovered(found(rig, domain, 10, page)));
    EXPECT_FALSE(rig.index.find_any({rig.id(1), 0, domain}).has_value());
    page += 10;
  }
  catalog.killed(kNobody, rig.id(1), {3, 0, 50});  // of which there is nothing to end
  EXPECT_TRUE(catalog.recovered(found(rig, kOne, 10, page)));
  EXPECT_EQ(rig.context->options.domains.last, kNobody) << "it was given";
  EXPECT_EQ(rig.context->metrics.recovered_unknown.value(), 3u);
  EXPECT_EQ(rig.context->metrics.recovered_unknown_bytes.value(), 3 * bytes_of(4));
  catalog.recovery_done();
  EXPECT_TRUE(matches(rig, kOne));
}

// Its id was another domain's before: drives and lists forgot that one, the segments did not.
TEST(CatalogRecovery, WhatIsOlderThanItsDomainIsNotOfIt) {
  for (const uint32_t start : {3u, 4u}) {  // fragments are of start 3
    RigOptions options;
    options.op.domains = {.ids = {kOne, kTwo}, .last = 2, .starts = {0, start}};
    Rig rig(options);
    Catalog& catalog = rig.operations->catalog();
    EXPECT_TRUE(catalog.recovered(found(rig, kOne, 10, 1)));
    EXPECT_EQ(catalog.recovered(found(rig, kTwo, 10, 10)), start == 3);
    EXPECT_EQ(rig.context->metrics.recovered_unknown.value(), start == 3 ? 0u : 1u);
    catalog.recovery_done();
    EXPECT_EQ(matches(rig, kTwo), start == 3);
  }
}

// A target may fail while it recovers; it comes back at a later start.
TEST(CatalogRecovery, AnIdThatAFailedTargetTellsOfWasGivenToo) {
  Rig rig(two_domains());
  Catalog& catalog = rig.operations->catalog();
  const flash::FragmentInfo fragment = found(rig, kNobody, 10, 1);
  catalog.target_failed(0);
  EXPECT_FALSE(catalog.recovered(fragment));
  EXPECT_EQ(rig.context->options.domains.last, kNobody);
}

}  // namespace
}  // namespace varve
