// SuperWriter: pages in turns, and what it says of a target that fails.
#include "server/flash/raise.h"

#include <gtest/gtest.h>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

struct Waiting {
  Raise raise;
  bool done = false;
};

Status raise_to(Rig& rig, uint32_t generation) {
  Waiting waiting;
  waiting.raise.rows = {{.domain = 1, .domain_generation = generation}};
  waiting.raise.owner = &waiting;
  waiting.raise.on_done = [](Raise& done) { static_cast<Waiting*>(done.owner)->done = true; };
  rig.flash().raise(waiting.raise);
  EXPECT_FALSE(waiting.done);  // never inside the call
  EXPECT_FALSE(rig.flash().idle());
  VARVE_ASSERT(rig.run_until([&] { return waiting.done; }));
  return waiting.raise.status;
}

Superblock page_of(Rig& rig, uint32_t page) {
  return load<Superblock>(rig.platter(0).bytes().subspan(bytes_of(page), kPageBytes));
}

TEST(Raise, TheTwoPagesAreWrittenInTurns) {
  Rig rig(RigOptions{});
  rig.start_and_recover();
  uint64_t newest = std::max(page_of(rig, 0).write_count, page_of(rig, 1).write_count);
  for (uint32_t generation = 1; generation < 5; ++generation) {
    ASSERT_TRUE(raise_to(rig, generation).ok());
    const uint64_t counts[] = {page_of(rig, 0).write_count, page_of(rig, 1).write_count};
    EXPECT_EQ(std::max(counts[0], counts[1]), newest + 1);
    EXPECT_EQ(std::min(counts[0], counts[1]), newest);
    ++newest;
    EXPECT_EQ(domain_generation(rig.flash().generations(), 1), generation);
  }
  EXPECT_EQ(rig.metric("raises_total"), 4);
}

TEST(Raise, OneTargetThatWorksIsEnoughAndNoneIsUnavailable) {
  RigOptions options;
  options.targets = 2;
  Rig rig(options);
  rig.start_and_recover();
  rig.stop();
  rig.absent = 1u << 1;
  rig.start_and_recover();
  EXPECT_TRUE(raise_to(rig, 1).ok());
  rig.device(0).vanish();
  EXPECT_EQ(raise_to(rig, 2).code(), Code::kUnavailable);
}

// What is committed from now on carries what the others know, not what a target that failed did.
TEST(Raise, ATargetThatFailedIsNotAskedWhatHolds) {
  RigOptions options;
  options.targets = 2;
  Rig rig(options);
  rig.start_and_recover();
  ASSERT_TRUE(raise_to(rig, 1).ok());
  rig.flash().fail_target(0, Status::unavailable("declared"));
  ASSERT_TRUE(raise_to(rig, 2).ok());
  EXPECT_EQ(domain_generation(rig.flash().generations(), 1), 2u);
}

}  // namespace
}  // namespace varve::flash
