// Opening targets: blank ones are formatted, ours are opened, everything else is refused by name
// and not a byte of it changes.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "server/flash/flash.h"
#include "server/flash/generation.h"
#include "server/flash/segment.h"

namespace varve::flash {
namespace {

constexpr uint64_t kBytes = 8 * kMiB;

struct World {
  World() : platter(kBytes) {
    options.file.path = "platter";
    options.geometry = {2, 32};
  }
  Result<TargetInfo> prepare() { return prepare_platter(platter, options, node, entropy); }
  std::vector<std::byte> copy() { return {platter.bytes().begin(), platter.bytes().end()}; }
  void refused(Code code, const std::string& word) {
    const std::vector<std::byte> before = copy();
    const Result<TargetInfo> info = prepare();
    ASSERT_FALSE(info.has_value()) << word;
    EXPECT_EQ(info.error().code(), code) << info.error().what();
    EXPECT_NE(std::string(info.error().what()).find(word), std::string::npos)
        << info.error().what();
    EXPECT_EQ(copy(), before);
  }
  Superblock super(uint32_t page) {
    return load<Superblock>(platter.bytes().subspan(bytes_of(page), kPageBytes));
  }
  void put(uint32_t page, Superblock super) {
    super.crc = 0;
    super.crc = crc32c(0, bytes_view(super));
    store(platter.bytes().subspan(bytes_of(page), kPageBytes), 0, super);
  }
  MemoryPlatter platter;
  TargetOptions options;
  SeededEntropy entropy{3};
  std::byte node[16] = {std::byte{1}};
};

TEST(Superblock, WhatIsLostAndWhatIsNotOurs) {
  EXPECT_TRUE(is_lost(Status::io("read failed", EIO)));
  EXPECT_TRUE(is_lost(Status(Code::kUnavailable, "does not exist", ENOENT)));
  EXPECT_TRUE(is_lost(Status::corrupt("both superblocks are damaged")));
  EXPECT_FALSE(is_lost(Status(Code::kUnavailable, "another process uses it", EAGAIN)));
  EXPECT_FALSE(is_lost(Status::invalid("target belongs to another node")));
  EXPECT_FALSE(is_lost(Status::unsupported("a newer version")));
  EXPECT_FALSE(is_lost(Status(Code::kInvalid, "may not be opened", EACCES)));
}

TEST(Superblock, ABlankTargetIsFormattedOnce) {
  World world;
  const auto first = world.prepare();
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->formatted_now);
  EXPECT_EQ(first->super.boot_generation, 1u);
  EXPECT_TRUE(geometry_of(first->super).has_value());
  const auto second = world.prepare();
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(second->formatted_now);
  EXPECT_EQ(second->super.boot_generation, 2u);
  EXPECT_EQ(std::memcmp(first->super.target_uuid, second->super.target_uuid, 16), 0);
}

TEST(Superblock, TheBootGenerationRisesAtEveryStartInTurnsOfTheTwoPages) {
  World world;
  for (uint32_t start = 1; start <= 6; ++start) {
    const auto info = world.prepare();
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->super.boot_generation, start);
  }
  EXPECT_EQ(world.super(0).write_count + world.super(1).write_count, 7u + 6u);
}

TEST(Superblock, ATornUpdateLeavesTheOtherOne) {
  World world;
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(world.prepare().has_value());
  const uint32_t newest = world.super(0).write_count > world.super(1).write_count ? 0 : 1;
  world.platter.bytes()[bytes_of(newest) + 112] ^= std::byte{8};
  const auto info = world.prepare();
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->super.boot_generation, 3u);  // the lost one was never granted from
}

TEST(Superblock, AFormatThatDidNotFinishIsDoneAgain) {
  World world;
  ASSERT_TRUE(world.prepare().has_value());
  std::memset(world.platter.bytes().data() + kPageBytes, 0, kPageBytes);
  world.platter.bytes()[100] ^= std::byte{1};
  const auto info = world.prepare();
  ASSERT_TRUE(info.has_value());
  EXPECT_TRUE(info->formatted_now);
}

TEST(Superblock, ForeignDataIsRefused) {
  World world;
  world.platter.bytes()[5000] = std::byte{1};
  world.refused(Code::kInvalid, "foreign");
  world.platter.bytes()[5000] = std::byte{0};
  world.platter.bytes()[kMiB - 1] = std::byte{1};
  world.refused(Code::kInvalid, "foreign");
}

TEST(Superblock, DamageOfBothIsRefused) {
  World world;
  ASSERT_TRUE(world.prepare().has_value());
  world.platter.bytes()[100] ^= std::byte{1};
  world.platter.bytes()[kPageBytes + 100] ^= std::byte{1};
  world.refused(Code::kCorrupt, "damaged");
}

TEST(Superblock, AnotherNodeIsRefused) {
  World world;
  ASSERT_TRUE(world.prepare().has_value());
  world.node[3] = std::byte{9};
  world.refused(Code::kInvalid, "another node");
}

TEST(Superblock, AnotherIndexIsRefused) {
  World world;
  ASSERT_TRUE(world.prepare().has_value());
  world.options.index = 1;
  world.refused(Code::kInvalid, "index");
}

TEST(Superblock, AnotherGeometryIsRefused) {
  World world;
  ASSERT_TRUE(world.prepare().has_value());
  world.options.geometry.slices = 4;
  world.refused(Code::kInvalid, "slices");
  world.options.geometry = {2, 64};
  world.refused(Code::kInvalid, "segment size");
  world.options.geometry = {2, 0};  // whatever it was formatted with
  EXPECT_TRUE(world.prepare().has_value());
}

TEST(Superblock, ANewerVersionIsRefusedWhateverItsChecksum) {
  World world;
  ASSERT_TRUE(world.prepare().has_value());
  Superblock newer = world.super(1);
  newer.version = 2;
  newer.write_count += 1;
  world.put(1, newer);
  world.refused(Code::kUnsupported, "newer");
}

TEST(Superblock, ASmallerDeviceIsRefused) {
  World world;
  ASSERT_TRUE(world.prepare().has_value());
  for (uint32_t page = 0; page < 2; ++page) {
    Superblock super = world.super(page);
    super.capacity_bytes += kMiB;
    super.geometry_hash = geometry_hash(super);
    world.put(page, super);
  }
  world.refused(Code::kIo, "smaller");
}

TEST(Superblock, SenselessGeometryWithAValidChecksumIsRefused) {
  World world;
  ASSERT_TRUE(world.prepare().has_value());
  const Superblock good = world.super(0);
  const auto with = [&](auto change) {
    for (uint32_t page = 0; page < 2; ++page) {
      Superblock super = good;
      change(super);
      super.geometry_hash = geometry_hash(super);
      world.put(page, super);
    }
    return world.prepare();
  };
  EXPECT_FALSE(with([](Superblock& s) { s.slices = 3; }).has_value());
  EXPECT_FALSE(with([](Superblock& s) { s.segments_per_slice = ~0u; }).has_value());
  EXPECT_FALSE(with([](Superblock& s) { s.segments_per_slice = 60000; }).has_value());
  EXPECT_FALSE(with([](Superblock& s) { s.checkpoint_pages = 0; }).has_value());
  EXPECT_FALSE(with([](Superblock& s) { s.generation_count = 65; }).has_value());
  // Of no domain, one twice, or where the next raise would begin anew.
  const auto with_rows = [&](const Generations& rows) {
    return with([&](Superblock& s) { rows_set(s, rows); });
  };
  EXPECT_FALSE(with_rows({{.domain = 0}}).has_value());
  EXPECT_FALSE(with_rows({{.domain = 1}, {.domain = 2}, {.domain = 1}}).has_value());
  EXPECT_FALSE(with_rows({{.domain = 1, .domain_generation = ~0u}}).has_value());
  EXPECT_FALSE(with_rows({{.domain = 1, .lineage_generation = ~0u}}).has_value());
  EXPECT_TRUE(with_rows({{.domain = 1}, {.domain = 1, .lineage = 5}, {.domain = 2}}).has_value());
  EXPECT_TRUE(with([](Superblock&) {}).has_value());
}

TEST(Superblock, FilesAreOpenedLikePlatters) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("varve_superblock_test_" + std::to_string(getpid()));
  TargetOptions options;
  options.file.path = path.string();
  options.file.create_bytes = kBytes;
  options.geometry = {2, 32};
  SeededEntropy entropy{3};
  const std::byte node[16] = {};
  const auto first = prepare_target(options, node, entropy);
  if (!first.has_value() && first.error().code() == Code::kUnsupported) {
    std::filesystem::remove(path);
    GTEST_SKIP() << "no O_DIRECT in the temporary folder: " << first.error().what();
  }
  ASSERT_TRUE(first.has_value()) << first.error().what();
  const auto second = prepare_target(options, node, entropy);
  ASSERT_TRUE(second.has_value()) << second.error().what();
  EXPECT_EQ(second->super.boot_generation, 2u);
  const std::byte other[16] = {std::byte{7}};
  EXPECT_FALSE(prepare_target(options, other, entropy).has_value());
  std::filesystem::remove(path);
}

// A file with holes for which there is no room: blank it is refused and not written to; with blocks
// in it, it is read as long as it can be, and that is said.
TEST(Superblock, AFileWithHolesAndNoRoomIsNotFormattedButAdopted) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("varve_superblock_holes_" + std::to_string(getpid()));
  { std::ofstream file(path); }
  std::filesystem::resize_file(path, kBytes);
  TargetOptions options;
  options.file.path = path.string();
  options.file.free_floor_bytes = ~uint64_t{0} >> 1;
  options.geometry = {2, 32};
  SeededEntropy entropy{3};
  const std::byte node[16] = {};
  const auto refused = prepare_target(options, node, entropy);
  if (!refused.has_value() && refused.error().code() == Code::kUnsupported) {
    std::filesystem::remove(path);
    GTEST_SKIP() << "no O_DIRECT in the temporary folder: " << refused.error().what();
  }
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kNoSpace);
  EXPECT_TRUE(look_target(options, node)->blank);
  options.file.free_floor_bytes = 0;
  ASSERT_TRUE(prepare_target(options, node, entropy).has_value());
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, kBytes) << "allocated";
  // Its copy has holes again.
  std::vector<char> head(kHeadPages * kPageBytes);
  std::ifstream(path).read(head.data(), static_cast<std::streamsize>(head.size()));
  std::filesystem::remove(path);
  std::ofstream(path).write(head.data(), static_cast<std::streamsize>(head.size()));
  std::filesystem::resize_file(path, kBytes);
  options.file.free_floor_bytes = ~uint64_t{0} >> 1;
  testing::internal::CaptureStderr();
  const auto adopted = prepare_target(options, node, entropy);
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(adopted.has_value()) << adopted.error().what();
  EXPECT_NE(said.find("WHEN ITS FILE SYSTEM IS FULL"), std::string::npos) << said;
  std::filesystem::remove(path);
}

// Goal: a start has one boot generation for all targets, later than any had, whatever happened to
// them since: one that counted more starts, one that is new.
TEST(Superblock, AStartHasOneBootGenerationForAllTargets) {
  World old;
  for (int i = 0; i < 7; ++i)
    ASSERT_TRUE(old.prepare().has_value());
  World other;
  other.options.index = 1;
  ASSERT_TRUE(other.prepare().has_value());
  World fresh;
  fresh.options.index = 2;
  World* all[] = {&old, &other, &fresh};
  std::vector<TargetLook> looks;
  for (World* world : all) {
    const std::vector<std::byte> before = world->copy();
    const auto look = look_platter(world->platter, world->options, world->node);
    ASSERT_TRUE(look.has_value());
    EXPECT_EQ(world->copy(), before);  // nothing is written by a look
    looks.push_back(*look);
  }
  EXPECT_TRUE(looks[2].blank);
  EXPECT_EQ(looks[2].index, 2u);
  const auto start = common_start(looks, 1);
  ASSERT_TRUE(start.has_value());
  EXPECT_EQ(start->boot_generation, 8u);
  EXPECT_EQ(start->slices, 2u);
  for (World* world : all) {
    world->options.boot_generation = start->boot_generation;
    const auto info = world->prepare();
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->super.boot_generation, 8u);
  }
  // Expect: who was not looked at cannot be taken back to an earlier count.
  old.options.boot_generation = 8;
  old.refused(Code::kInvalid, "later start");
}

// One that was emptied to be taken out and is used again: what it held is nobody's, but it must be
// this node's still.
TEST(Superblock, OneOfThisNodeIsFormattedAnewWhenAsked) {
  World world;
  const auto before = world.prepare();
  ASSERT_TRUE(before.has_value());
  world.options.anew = true;
  const auto look = look_platter(world.platter, world.options, world.node);
  ASSERT_TRUE(look.has_value());
  EXPECT_TRUE(look->blank);
  EXPECT_EQ(std::memcmp(look->target_uuid, before->super.target_uuid, 16), 0);
  const auto after = world.prepare();
  ASSERT_TRUE(after.has_value());
  EXPECT_TRUE(after->formatted_now);
  EXPECT_NE(std::memcmp(after->super.target_uuid, before->super.target_uuid, 16), 0);
  world.options.anew = false;
  const auto again = world.prepare();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(std::memcmp(again->super.target_uuid, after->super.target_uuid, 16), 0);
  world.options.anew = true;
  world.node[0] = std::byte{2};
  world.refused(Code::kInvalid, "another node");
}

TEST(Superblock, ALookRefusesWhatAPreparationWouldRefuse) {
  World world;
  ASSERT_TRUE(world.prepare().has_value());
  world.node[0] = std::byte{2};
  EXPECT_FALSE(look_platter(world.platter, world.options, world.node).has_value());
  EXPECT_FALSE(common_start({}, 1).has_value());
  TargetLook looks[2];
  looks[0].slices = 2;
  looks[1].slices = 4;
  EXPECT_FALSE(common_start(looks, 1).has_value());
}

TEST(Superblock, WhatIsKnownOfTargetsThatAreAwayCountsAsOneMore) {
  TargetLook looks[2];
  looks[0].slices = 4;
  looks[0].boot_generation = 5;
  looks[1].slices = 4;
  looks[1].boot_generation = 7;  // the start that those had which are away now
  EXPECT_EQ(common_start(looks, 1)->boot_generation, 8u);
  looks[0] = {};
  looks[0].blank = true;
  looks[0].capacity_bytes = 64 * kGiB;
  EXPECT_EQ(common_start(looks, 1)->slices, 4u);
}

TEST(Superblock, BlankTargetsTakeTheSlicesOfThoseThereAre) {
  TargetLook looks[2];
  looks[0].slices = 4;
  looks[0].boot_generation = 3;
  looks[1].blank = true;
  looks[1].capacity_bytes = 64 * kGiB;
  const auto joined = common_start(looks, 1);
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->slices, 4u);
  looks[0] = {.blank = true, .boot_generation = 0, .slices = 0, .capacity_bytes = 2 * kGiB};
  EXPECT_EQ(common_start(looks, 1)->slices, 4u);  // of the smallest: 2 GiB
  EXPECT_EQ(common_start(looks, 5)->slices, 8u);  // every shard has one
}

// From the superblock of a target or the list of the node: a start has them of neither any more.
TEST(Superblock, GenerationsOfADroppedDomainLeaveWithTheNextStart) {
  const Generations rows = {{.domain = 1, .domain_generation = 3},
                            {.domain = 2, .domain_generation = 4},
                            {.domain = 9, .domain_generation = 5}};
  const DomainIds domains{.ids = {1}, .last = 2};
  TargetLook look;
  look.slices = 4;
  look.generations = rows;
  const auto start = common_start({&look, 1}, 1, domains);
  ASSERT_TRUE(start.has_value());
  ASSERT_EQ(start->generations.size(), 2u);  // of 9 nothing is known: its list may come back
  World world;
  ASSERT_TRUE(world.prepare().has_value());
  for (uint32_t page = 0; page < 2; ++page) {
    Superblock super = world.super(page);
    rows_set(super, rows);
    world.put(page, super);
  }
  world.options.domains = domains;
  const auto info = world.prepare();
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(rows_of(info->super).size(), 2u);
  EXPECT_EQ(domain_generation(rows_of(info->super), 2), 0u);
}

// Rows of many domains that no list knows: two sound targets can have more of them than one table.
TEST(Superblock, GenerationsOfTooManyDomainsAreRefused) {
  TargetLook looks[2];
  for (uint32_t t = 0; t < 2; ++t) {
    looks[t].slices = 4;
    for (uint32_t i = 0; i < kGenerationsMax; ++i)
      looks[t].generations.push_back({.domain = 100 + t * 100 + i, .domain_generation = 1});
  }
  const auto start = common_start(looks, 1);
  ASSERT_FALSE(start.has_value());
  EXPECT_EQ(start.error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace varve::flash
