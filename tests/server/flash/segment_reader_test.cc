// Reads: nothing unverified comes out, rot is told, stale places are not rot.
#include "server/flash/segment_reader.h"

#include <gtest/gtest.h>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

struct Lead {
  Lead(Rig& rig, const TestFragment& f, const Place& place) : memory(place.lead_pages) {
    run = {memory.page(0), bytes_of(place.lead_pages)};
    read.kind = Read::Kind::kLead;
    read.block = f.block;
    read.place = place;
    read.fingerprint = f.fingerprint;
    read.runs = {&run, 1};
    read.owner = this;
    read.on_done = [](Read& r) { static_cast<Lead*>(r.owner)->done = true; };
    rig_ = &rig;
  }
  Status go() {
    rig_->flash().read(read);
    EXPECT_FALSE(done);  // not inside the call
    EXPECT_TRUE(rig_->run_until([this] { return done; }));
    return read.status;
  }
  PageMemory memory;
  iovec run;
  Read read;
  bool done = false;
  Rig* rig_;
};

struct World : Rig {
  World() : Rig(RigOptions{}) {
    start_and_recover();
    f = append(1, 3, 9000);
    run_until([this] { return f->done; });
  }
  std::byte* on_drive(uint32_t page) {
    const auto geometry = geometry_of(super(0));
    return platter(0).bytes().data() +
           bytes_of(geometry->segment_page(f->append.place.slice, f->append.place.segment) +
                    f->append.place.page + page);
  }
  TestFragment* f;
};

TEST(SegmentReader, RotIsToldAndEndsCorrupt) {
  World world;
  world.on_drive(world.f->table[2].page_offset)[17] ^= std::byte{1};
  const Status status = world.read_back(world.f->block, *world.f);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(world.user().lost.count(world.f->block), 1u);
  EXPECT_EQ(world.user().find(world.f->block), nullptr);
  EXPECT_EQ(world.metric("reads_corrupt_total"), 1);
  EXPECT_EQ(world.flash().usage(0).live_pages, 0u);  // released
}

TEST(SegmentReader, AFlippedBitAnywhereInTheHeaderIsRot) {
  for (const uint32_t at : {0u, 13u, 17u, 26u, 41u, 80u, 110u, 150u, 196u, 210u, 258u, 280u}) {
    World world;
    const Place place = world.f->append.place;
    world.on_drive(0)[at] ^= std::byte{2};
    Lead lead(world, *world.f, place);
    EXPECT_EQ(lead.go().code(), Code::kCorrupt) << at;
    EXPECT_EQ(world.user().lost.size(), 1u);
  }
}

TEST(SegmentReader, AnotherBlockFormatOrAttemptIsRefused) {
  World world;
  const Place place = world.f->append.place;
  Lead good(world, *world.f, place);
  EXPECT_TRUE(good.go().ok());
  EXPECT_EQ(good.read.attempt, world.f->attempt);  // reported
  Lead format(world, *world.f, place);
  format.read.fingerprint.bytes[0] ^= std::byte{1};
  EXPECT_EQ(format.go().code(), Code::kInvalid);  // the asker is wrong: nothing is lost
  EXPECT_TRUE(world.user().lost.empty());
  Lead any(world, *world.f, place);
  any.read.fingerprint = Digest{};
  EXPECT_TRUE(any.go().ok()) << "whatever format it is";
  Lead block(world, *world.f, place);
  block.read.block = test_block(2);
  EXPECT_EQ(block.go().code(), Code::kCorrupt);
  Lead domain(world, *world.f, place);
  domain.read.block.domain = 2;
  EXPECT_EQ(domain.go().code(), Code::kCorrupt);
  Lead attempt(world, *world.f, place);
  attempt.read.attempt = {9, 9, 9};
  EXPECT_EQ(attempt.go().code(), Code::kCorrupt);
}

// What nobody waits for is no demand: a target that keeps it is not suspect, and pushes keep their
// slots for writes.
TEST(SegmentReader, AReadThatIsNeverWantedIsBackground) {
  for (const bool wanted : {true, false}) {
    World world;
    Lead lead(world, *world.f, world.f->append.place);
    lead.read.wanted_ns = wanted ? 1 : kNever;
    world.device(0).stuck_set(true);
    world.flash().read(lead.read);
    world.settle(1 * kSecond);
    world.reactor().turn();  // reads the clock
    EXPECT_EQ(world.flash().target_suspect(0), wanted);
    world.device(0).stuck_set(false);
    EXPECT_TRUE(world.run_until([&] { return lead.done; }));
    EXPECT_TRUE(lead.read.status.ok());
  }
}

TEST(SegmentReader, AStalePlaceIsCorruptButNoRot) {
  World world;
  Place place = world.f->append.place;
  place.segment = static_cast<uint16_t>(place.segment + 3);  // free
  Lead stale(world, *world.f, place);
  EXPECT_EQ(stale.go().code(), Code::kCorrupt);
  place = world.f->append.place;
  place.page += place.pages;  // behind the cursor
  Lead behind(world, *world.f, place);
  EXPECT_EQ(behind.go().code(), Code::kCorrupt);
  EXPECT_TRUE(world.user().lost.empty());
  EXPECT_EQ(world.metric("reads_stale_total"), 2);
  EXPECT_EQ(world.metric("reads_corrupt_total"), 0);
}

TEST(SegmentReader, AMediaErrorIsAskedTwiceAndThenOneLostFragment) {
  World world;
  const auto geometry = geometry_of(world.super(0));
  const Place place = world.f->append.place;
  const uint64_t at = bytes_of(geometry->segment_page(place.slice, place.segment) + place.page);
  world.device(0).sector_error_set(at, kPageBytes);
  const uint64_t reads = world.device(0).counters().reads;
  Lead lead(world, *world.f, place);
  EXPECT_EQ(lead.go().code(), Code::kIo);
  EXPECT_EQ(world.device(0).counters().reads - reads, 2u);
  EXPECT_TRUE(world.flash().target_ok(0));
  EXPECT_EQ(world.user().lost.count(world.f->block), 1u);
  EXPECT_EQ(world.user().reasons.count(DropReason::kMedia), 1u);
  EXPECT_EQ(world.user().find(world.f->block), nullptr);  // a miss, and may be written anew
  EXPECT_EQ(world.metric("reads_retried_total"), 1);
  EXPECT_EQ(world.metric("reads_media_total"), 1);
  EXPECT_EQ(world.flash().usage(0).live_pages, 0u);
}

TEST(SegmentReader, OneBadBlockAskedForAgainAndAgainFailsNoTarget) {
  World world;
  const auto geometry = geometry_of(world.super(0));
  const Place place = world.f->append.place;
  const uint64_t at = bytes_of(geometry->segment_page(place.slice, place.segment) + place.page);
  world.device(0).sector_error_set(at, kPageBytes);
  for (int i = 0; i < 20; ++i) {
    Lead lead(world, *world.f, place);
    EXPECT_EQ(lead.go().code(), Code::kIo);
  }
  EXPECT_TRUE(world.flash().target_ok(0));
}

TEST(SegmentReader, FewerPagesThanTheFragmentsLeadIsRefusedAndNothingIsLost) {
  World world;
  const Place place = world.f->append.place;
  ASSERT_GE(place.lead_pages, 2u);
  Lead lead(world, *world.f, place);
  lead.run.iov_len -= kPageBytes;
  EXPECT_EQ(lead.go().code(), Code::kInvalid);
  Lead extent(world, *world.f, place);  // an extent too
  extent.read.kind = Read::Kind::kExtent;
  extent.read.attempt = world.f->attempt;
  extent.read.extent = 1;
  extent.read.entry = world.f->table[1];
  extent.run.iov_len = kPageBytes;
  ASSERT_GT(pages_of(extent.read.entry.stored_bytes), 1u);
  EXPECT_EQ(extent.go().code(), Code::kInvalid);
  EXPECT_TRUE(world.user().lost.empty());
  EXPECT_EQ(world.metric("reads_corrupt_total"), 0);
  EXPECT_NE(world.user().find(world.f->block), nullptr);
}

TEST(SegmentReader, AStuckTargetEndsItsReadsAndKeepsTheirPages) {
  World world;
  world.device(0).stuck_set(true);
  int returned = 0;
  Lead lead(world, *world.f, world.f->append.place);
  lead.read.limbo = {[](void* owner) { ++*static_cast<int*>(owner); }, &returned};
  EXPECT_EQ(lead.go().code(), Code::kUnavailable);
  EXPECT_TRUE(lead.read.held);
  EXPECT_FALSE(world.flash().target_ok(0));
  EXPECT_EQ(returned, 0);
  world.device(0).stuck_set(false);
  EXPECT_TRUE(world.run_until([&] { return returned == 1; }));
}

}  // namespace
}  // namespace varve::flash
