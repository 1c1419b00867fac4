// The common part of long operations: one completion a call, footers of one and of many pages.
#include "server/flash/window_op.h"

#include <gtest/gtest.h>

#include <cstring>

#include "server/flash/segment_writer.h"
#include "tests/server/flash/scripted_device.h"

namespace varve::flash {
namespace {

class NobodyUser final : public FlashUser {
 public:
  bool on_recovered(const FragmentInfo&) override { return true; }
  void on_target_failed(uint32_t) override {}
  void on_lost(const BlockId&, const Place&, DropReason) override {}
  Verdict on_reclaim(const BlockId&, const Place&) override { return Verdict::kDead; }
  bool on_live(const BlockId&, const Place&) override { return false; }
  bool on_moved(const BlockId&, const Place&, const Place&) override { return false; }
  void on_room_wanted(uint32_t, uint32_t, uint32_t) override {}
};

class ProbeOp final : public WindowOp {
 public:
  explicit ProbeOp(Target& target) : WindowOp(target) {}
  void run() override {
    RunScope scope(*this);
    status = take_failure();
    ++runs;
    if (!next) return;
    auto step = next;
    next = nullptr;
    step(*this);
  }
  const char* name() const override { return "probe"; }
  void go(void (*step)(ProbeOp&)) {
    next = step;
    again();
  }
  using WindowOp::discard;
  using WindowOp::flush;
  using WindowOp::Footer;
  using WindowOp::footer_at;
  using WindowOp::footer_count;
  using WindowOp::footer_read;
  using WindowOp::footer_take;
  using WindowOp::read;
  using WindowOp::view;
  using WindowOp::wait;
  using WindowOp::write;
  using WindowOp::zero_page;
  void (*next)(ProbeOp&) = nullptr;
  SliceLog* log = nullptr;
  Status status;
  Footer footer = Footer::kNone;
  int runs = 0;
};

// A device over bytes, so that footers can be written by hand.
struct World {
  World()
      : reactor(clock, nullptr, ReactorOptions{}),
        platter(16 * kMiB),
        geometry{1, 1024, 8, 8},
        target(reactor, entropy, user, {}, info(), geometry,
               make_memory_device(reactor, platter, {})),
        log(geometry, 0, 0, 1),
        op(target) {
    op.log = &log;
  }
  static TargetInfo info() {
    TargetInfo info;
    info.super.target_uuid[3] = std::byte{9};
    return info;
  }
  void run() {
    for (int i = 0; i < 200; ++i) {
      if (!reactor.turn() && reactor.next_work_ns() != kNever) {
        clock.advance_to(std::max(clock.now_ns(), reactor.next_work_ns()));
      }
    }
  }
  void put_footer(uint32_t count) {
    FooterImage image;
    for (uint32_t i = 0; i < count; ++i) {
      CatalogEntry entry;
      entry.attempt = {1, 0, i + 1};
      entry.page = static_cast<uint16_t>(1 + 2 * i);
      entry.pages = entry.lead_pages = 2;
      entry.which = pack({});
      image.add(entry);
    }
    FooterTrailer trailer;
    trailer.segment = 2;
    trailer.entry_count = count;
    trailer.sequence = log.segment(2).sequence = 5;
    trailer.nonce = log.segment(2).nonce = 77;
    std::memcpy(trailer.target_uuid, target.info.super.target_uuid, 16);
    trailer.used_pages = 1 + 2 * count;
    const auto runs = image.finish(trailer);
    uint64_t at = target.offset(log, 2, 1024 - static_cast<uint32_t>(runs.size()));
    for (const iovec& piece : runs) {
      std::memcpy(platter.bytes().data() + at, piece.iov_base, piece.iov_len);
      at += piece.iov_len;
    }
  }
  ManualClock clock;
  Reactor reactor;
  MemoryPlatter platter;
  SeededEntropy entropy{1};
  NobodyUser user;
  TargetGeometry geometry;
  Target target;
  SliceLog log;
  ProbeOp op;
};

TEST(WindowOp, MovesPagesBothWaysAndZeroesOne) {
  World world;
  world.platter.bytes()[bytes_of(300)] = std::byte{7};
  world.op.go([](ProbeOp& op) {
    op.read(bytes_of(300), 3, 2);
    op.wait(1);
  });
  world.run();
  EXPECT_EQ(world.op.runs, 2);
  EXPECT_EQ(world.op.view(3, 1)[0], std::byte{7});
  world.op.go([](ProbeOp& op) {
    op.write(bytes_of(400), 3, 1);
    op.wait(1);
  });
  world.run();
  EXPECT_EQ(world.platter.bytes()[bytes_of(400)], std::byte{7});
  world.op.go([](ProbeOp& op) {
    op.zero_page(bytes_of(400));
    op.wait(1);
  });
  world.run();
  EXPECT_EQ(world.platter.bytes()[bytes_of(400)], std::byte{0});
  world.op.go([](ProbeOp& op) {
    op.discard(bytes_of(300), bytes_of(2));
    op.wait(1);
  });
  world.run();
  EXPECT_TRUE(world.op.status.ok());
  EXPECT_EQ(world.platter.bytes()[bytes_of(300)], std::byte{0});
  EXPECT_EQ(world.op.runs, 8);
}

TEST(WindowOp, ReadsFootersOfOneAndOfManyPages) {
  for (const uint32_t count : {0u, 1u, 50u, 203u, 204u, 450u}) {
    World world;
    world.put_footer(count);
    world.op.go([](ProbeOp& op) {
      op.next = [](ProbeOp& then) {
        then.footer = then.footer_take(*then.log, 2, then.status);
        if (then.footer != ProbeOp::Footer::kMore) return;
        then.next = [](ProbeOp& last) {
          last.footer = last.footer_take(*last.log, 2, last.status);
        };
        then.wait(1);
      };
      op.footer_read(*op.log, 2);
      op.wait(1);
    });
    world.run();
    ASSERT_EQ(world.op.footer, ProbeOp::Footer::kReady) << count;
    ASSERT_EQ(world.op.footer_count(), count);
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(world.op.footer_at(i).attempt.counter, i + 1) << count;
    }
  }
}

TEST(WindowOp, ARottenFooterIsNone) {
  World world;
  world.put_footer(450);
  world.platter.bytes()[world.target.offset(world.log, 2, 1018) + 100] ^= std::byte{1};
  world.op.go([](ProbeOp& op) {
    op.next = [](ProbeOp& then) {
      then.footer = then.footer_take(*then.log, 2, then.status);
      if (then.footer != ProbeOp::Footer::kMore) return;
      then.next = [](ProbeOp& last) { last.footer = last.footer_take(*last.log, 2, last.status); };
      then.wait(1);
    };
    op.footer_read(*op.log, 2);
    op.wait(1);
  });
  world.run();
  EXPECT_EQ(world.op.footer, ProbeOp::Footer::kNone);
}

}  // namespace
}  // namespace varve::flash
