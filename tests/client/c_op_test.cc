// Goal: purges and holds through the C door say what the daemon said. Method: answers by script.
#include <gtest/gtest.h>

#include "tests/client/c_rig.h"

namespace varve {
namespace {

class COpTest : public CRig {};

TEST_F(COpTest, APurgeSaysWhatIsGone) {
  open_ready();
  daemon_.call([](ScriptedDaemon& d) {
    d.hook = [&d](const auto& r) {
      if (r.type != Type::kPurge) return false;
      wire::Purged body;
      body.generation = 7;
      body.blocks = 3;
      body.bytes = 1000;
      body.erased_ns = 99;
      d.send(0, d.encoder().purged(r.op, body));
      return true;
    };
  });
  varve_purge_request request;
  VARVE_INIT(&request);
  const varve_blocks of = blocks(0, 3);
  request.kind = VARVE_PURGE_BLOCKS;
  request.ids = of.ids;
  request.count = of.count;
  request.tag = 5;
  varve_op op = 0;
  ASSERT_EQ(varve_purge_submit(client_, &request, &op), VARVE_OK) << varve_last_error();
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.kind, uint32_t{VARVE_DONE_PURGE});
  EXPECT_EQ(done.status, VARVE_OK) << done.reason;
  EXPECT_EQ(done.tag, 5u);
  EXPECT_EQ(done.purged_blocks, 3u);
  EXPECT_EQ(done.bytes, 1000u);
  EXPECT_EQ(done.erased_ns, 99u);
  EXPECT_EQ(done.generation, 7u);
}

TEST_F(COpTest, APurgeOfNothingOrOfTooMuchIsRefused) {
  open_ready();
  varve_purge_request request;
  VARVE_INIT(&request);
  varve_op op = 0;
  EXPECT_EQ(varve_purge_submit(client_, &request, &op), VARVE_INVALID);  // no kind
  request.kind = 4;
  EXPECT_EQ(varve_purge_submit(client_, &request, &op), VARVE_INVALID);
  request.kind = VARVE_PURGE_BLOCKS;
  request.count = 2049;
  request.ids = blocks(0, 1).ids;
  EXPECT_EQ(varve_purge_submit(client_, &request, &op), VARVE_INVALID);
  request.count = 1;
  request.ids = nullptr;
  EXPECT_EQ(varve_purge_submit(client_, &request, &op), VARVE_INVALID);
  request.count = 0;
  ASSERT_EQ(varve_purge_submit(client_, &request, &op), VARVE_OK);
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.status, VARVE_INVALID);
}

TEST_F(COpTest, HoldsAreListedWithTheirOwner) {
  open_ready();
  daemon_.call([](ScriptedDaemon& d) {
    for (uint64_t i = 1; i <= 150; ++i) {  // two pages of the daemon's
      wire::Hold row{};
      row.session = 11;
      row.hold = i;
      row.bytes = 4096 * i;
      row.count = static_cast<uint32_t>(i);
      row.kind = wire::HoldKind::kReservation;
      std::memcpy(row.name, "prefill", 7);
      d.holds.push_back(row);
    }
  });
  varve_op op = 0;
  ASSERT_EQ(varve_holds_submit(client_, 0, 6, &op), VARVE_OK);
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.kind, uint32_t{VARVE_DONE_HOLDS});
  EXPECT_EQ(done.status, VARVE_OK) << done.reason;
  ASSERT_EQ(done.hold_count, 150u);
  EXPECT_EQ(done.holds[149].number, 150u);
  EXPECT_EQ(done.holds[149].bytes, 4096u * 150);
  EXPECT_EQ(done.holds[149].kind, uint32_t{VARVE_HOLD_GRANT});
  EXPECT_STREQ(done.holds[149].name, "prefill");
}

}  // namespace
}  // namespace varve
