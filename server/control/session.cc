// Calls about clients: what they hold, who they are, the end of one.
#include "server/control/check.h"
#include "server/control/rpc.h"

namespace varve::control {

grpc::Status list_holds(const Ask& ask, const v1::ListHoldsRequest& in,
                        v1::ListHoldsResponse* out) {
  VARVE_ASK(const PageAsk page, page_of(in.cursor(), in.page_size(), kHoldsPageMax));
  VARVE_ASK(const Page<Hold> holds, ask.ingress.holds(page, ask.limit_ns));
  for (const Hold& hold : holds.rows) {
    v1::Hold* row = out->add_holds();
    row->set_hold(hold.hold);
    row->set_kind(static_cast<v1::HoldKind>(hold.kind));
    row->set_session(hold.session);
    row->set_client(hold.client);
    row->set_age_ns(hold.age_ns);
    row->set_left_ns(hold.left_ns);
    row->set_bytes(hold.bytes);
    row->set_blocks(hold.blocks);
    row->set_domain(hold.domain);
  }
  out->set_next_cursor(holds.next_cursor);
  return grpc::Status::OK;
}

grpc::Status list_sessions(const Ask& ask, const v1::ListSessionsRequest& in,
                           v1::ListSessionsResponse* out) {
  VARVE_ASK(const PageAsk page, page_of(in.cursor(), in.page_size(), kSessionsPageMax));
  VARVE_ASK(const Page<Session> sessions, ask.ingress.sessions(page, ask.limit_ns));
  for (const Session& session : sessions.rows) {
    v1::Session* row = out->add_sessions();
    row->set_session(session.session);
    row->set_client(session.client);
    row->set_domain(session.domain);
    row->set_peer(session.peer);
    row->set_age_ns(session.age_ns);
    row->set_quiet_ns(session.quiet_ns);
    row->set_lanes(session.lanes);
    row->set_formats(session.formats);
    row->set_requests(session.requests);
    row->set_leases(session.leases);
    row->set_reservations(session.reservations);
    row->set_ending(session.ending);
  }
  out->set_next_cursor(sessions.next_cursor);
  return grpc::Status::OK;
}

grpc::Status close_session(const Ask& ask, const v1::CloseSessionRequest& in,
                           v1::CloseSessionResponse*) {
  VARVE_ASK([[maybe_unused]] const bool closed,
            ask.ingress.session_close(in.session(), ask.limit_ns));
  return grpc::Status::OK;
}

}  // namespace varve::control
