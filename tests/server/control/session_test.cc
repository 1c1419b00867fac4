// Goal: holds and sessions are listed in pages, and the session that is named is the one closed.
// Method: through an in-process channel against a node that is none.
#include <gtest/gtest.h>

#include "tests/server/control/control_rig.h"

namespace varve::control {
namespace {

using Stub = v1::Control::Stub;

TEST(ControlSession, HoldsComeInPages) {
  ControlRig rig;
  rig.node.hold_page.rows.push_back({9, HoldKind::kFollow, 0xabc, "decode-1", 5, 6, 7, 8, "team"});
  rig.node.hold_page.next_cursor = 10;
  v1::ListHoldsRequest in;
  in.set_cursor(3);
  in.set_page_size(1);
  v1::ListHoldsResponse out;
  ASSERT_TRUE(rig.call(&Stub::ListHolds, in, &out).ok());
  ASSERT_EQ(out.holds_size(), 1);
  EXPECT_EQ(out.holds(0).kind(), v1::HOLD_KIND_FOLLOW);
  EXPECT_EQ(out.holds(0).session(), 0xabcu);
  EXPECT_EQ(out.holds(0).blocks(), 8u);
  EXPECT_EQ(out.holds(0).domain(), "team");
  EXPECT_EQ(out.next_cursor(), 10u);
  EXPECT_EQ(rig.node.page.cursor, 3u);
  EXPECT_EQ(rig.node.page.rows_max, 1u);
  in.set_page_size(kHoldsPageMax + 1);
  EXPECT_EQ(rig.call(&Stub::ListHolds, in, &out).error_code(), grpc::INVALID_ARGUMENT);
}

TEST(ControlSession, SessionsAreListedAndClosed) {
  ControlRig rig;
  Session session;
  session.session = ~0ull - 1;
  session.client = "prefill-0";
  session.peer = "127.0.0.1:5";
  session.leases = 2;
  session.ending = true;
  rig.node.session_page.rows.push_back(session);
  v1::ListSessionsResponse out;
  ASSERT_TRUE(rig.call(&Stub::ListSessions, v1::ListSessionsRequest(), &out).ok());
  ASSERT_EQ(out.sessions_size(), 1);
  EXPECT_EQ(out.sessions(0).client(), "prefill-0");
  EXPECT_EQ(out.sessions(0).leases(), 2u);
  EXPECT_TRUE(out.sessions(0).ending());
  EXPECT_EQ(rig.node.page.rows_max, kSessionsPageMax);
  v1::ListSessionsRequest large;
  large.set_page_size(kSessionsPageMax + 1);
  EXPECT_EQ(rig.call(&Stub::ListSessions, large, &out).error_code(), grpc::INVALID_ARGUMENT);
  v1::CloseSessionRequest close;
  close.set_session(out.sessions(0).session());
  v1::CloseSessionResponse closed;
  ASSERT_TRUE(rig.call(&Stub::CloseSession, close, &closed).ok());
  EXPECT_EQ(rig.node.session, ~0ull - 1);
  rig.node.refusal = Code::kInvalid;
  rig.node.refusal_kind = Refusal::Kind::kNotFound;
  EXPECT_EQ(rig.call(&Stub::CloseSession, close, &closed).error_code(), grpc::NOT_FOUND);
}

}  // namespace
}  // namespace varve::control
