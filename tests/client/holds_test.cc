// Goal: holds() lists every row once, over any number of pages, and comes to an end whatever the
// daemon says. Method: the rig with rows by script.
#include "client/holds.h"

#include <gtest/gtest.h>

#include "tests/client/client_rig.h"

namespace varve {
namespace {

struct HoldsTest : testing::Test {
  static wire::Hold row(uint64_t number) {
    wire::Hold hold;
    hold.session = 3;
    hold.hold = number;
    hold.age_ns = 10 * number;
    hold.left_ns = 20 * number;
    hold.bytes = 30 * number;
    hold.count = 40;
    hold.kind = static_cast<wire::HoldKind>(1 + number % 4);
    std::memcpy(hold.name, "engine", 6);
    return hold;
  }
  Event holds() { return rig.finish(*rig.core->holds({kSecond, 5})); }
  void say(uint64_t op, const std::vector<uint64_t>& numbers, uint64_t cursor,
           Code code = Code::kOk) {
    std::vector<wire::Hold> rows;
    for (const uint64_t number : numbers)
      rows.push_back(row(number));
    wire::Held held;
    held.code = static_cast<uint8_t>(code);
    held.cursor = cursor;
    rig.daemon->send(0, rig.daemon->encoder().held(op, held, rows));
  }
  ClientRig rig;
};

TEST_F(HoldsTest, ListsEveryRowOfEveryPage) {
  for (const uint32_t count : {0u, 1u, 99u, 100u, 101u, 250u}) {
    rig.daemon->holds.clear();
    for (uint64_t n = 1; n <= count; ++n)
      rig.daemon->holds.push_back(row(3 * n));
    const size_t asked = rig.daemon->count(Type::kHolds);
    const Event event = holds();
    EXPECT_TRUE(event.status.ok());
    EXPECT_EQ(event.kind, Event::Kind::kHolds);
    EXPECT_EQ(event.tag, 5u);
    ASSERT_EQ(event.holds.size(), count);
    for (uint64_t n = 1; n <= count; ++n) {
      const HoldRow& got = event.holds[n - 1];
      EXPECT_EQ(got.number, 3 * n);
      EXPECT_EQ(got.session, 3u);
      EXPECT_EQ(got.name, "engine");
      EXPECT_EQ(got.kind, row(3 * n).kind);
      EXPECT_EQ(got.age_ns, 30 * n);
      EXPECT_EQ(got.left_ns, 60 * n);
      EXPECT_EQ(got.bytes, 90 * n);
      EXPECT_EQ(got.blocks, 40u);
    }
    EXPECT_EQ(rig.daemon->count(Type::kHolds) - asked, std::max(1u, (count + 99) / 100));
  }
}

TEST_F(HoldsTest, ANameMayFillItsField) {
  rig.daemon->holds = {row(1)};
  std::memset(rig.daemon->holds[0].name, 'n', sizeof(wire::Hold::name));
  EXPECT_EQ(holds().holds.at(0).name, std::string(48, 'n'));
}

TEST_F(HoldsTest, PagesThatDoNotRiseAreRefused) {
  struct Page {
    std::vector<uint64_t> numbers;
    uint64_t cursor;
  };
  const Page pages[] = {{{2, 2}, 0}, {{2, 1}, 0}, {{}, 7}, {{2, 5}, 5}, {{2, 5}, 1}};
  for (const Page& page : pages) {
    rig.daemon->hook = [&](const auto& r) {
      if (r.type == Type::kHolds) say(r.op, page.numbers, page.cursor);
      return r.type == Type::kHolds;
    };
    EXPECT_EQ(holds().status.code(), Code::kInvalid) << page.cursor;
  }
  // Expect: a page that begins before its cursor, too.
  rig.daemon->hook = [&](const auto& r) {
    if (r.type == Type::kHolds) say(r.op, {4}, 9);
    return r.type == Type::kHolds;
  };
  EXPECT_EQ(holds().status.code(), Code::kInvalid);
}

TEST_F(HoldsTest, MoreThanAnyDaemonHoldsIsCut) {
  uint64_t next = 1;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kHolds) return false;
    std::vector<uint64_t> numbers;
    for (uint32_t i = 0; i < wire::kHoldsMax; ++i)
      numbers.push_back(next++);
    say(r.op, numbers, next);
    return true;
  };
  const Event event = holds();
  EXPECT_EQ(event.status.code(), Code::kOverloaded);
  EXPECT_EQ(event.holds.size(), kHoldRowsMax);
}

TEST_F(HoldsTest, RefusedForNowIsAskedAgain) {
  uint32_t asked = 0;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kHolds || ++asked > 2) return false;
    say(r.op, {}, 0, Code::kOverloaded);
    return true;
  };
  EXPECT_TRUE(holds().status.ok());
  EXPECT_EQ(asked, 3u);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type == Type::kHolds) say(r.op, {}, 0, Code::kUnauthorized);
    return r.type == Type::kHolds;
  };
  EXPECT_EQ(holds().status.code(), Code::kUnauthorized);
}

TEST_F(HoldsTest, EndsWithTheSessionOrTheDeadline) {
  rig.daemon->hook = [](const auto& r) { return r.type == Type::kHolds; };
  EXPECT_EQ(holds().status.code(), Code::kTimedOut);
  const OpId op = *rig.core->holds({10 * kSecond, 0});
  ASSERT_TRUE(rig.run_until([&] { return rig.daemon->count(Type::kHolds) == 2; }));
  rig.daemon->close_all();
  EXPECT_EQ(rig.finish(op).status.code(), Code::kUnavailable);
  rig.stop_daemon();
  ASSERT_TRUE(rig.run_until([&] { return rig.core->state() == SessionState::kWaiting; }));
  EXPECT_EQ(holds().status.code(), Code::kUnavailable);
}

}  // namespace
}  // namespace varve
