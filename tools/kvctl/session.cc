// kvctl sessions: the clients that are there; closing one.
#include "tools/kvctl/call.h"
#include "tools/kvctl/table.h"

#include "common/base/base.h"

namespace varve::kvctl {

namespace {

std::string sessions_text(const v1::ListSessionsResponse& list, const Paint& paint) {
  if (list.sessions_size() == 0) return "no client is there\n";
  Table table({"SESSION", "CLIENT", "DOMAIN", "PEER", ">AGE", ">QUIET", ">LANES", ">FORMATS",
               ">REQUESTS", ">LEASES", ">RESERVED", ""});
  for (const v1::Session& session : list.sessions()) {
    table.row({session_text(session.session()), printable(session.client()),
               printable(session.domain()), printable(session.peer()), age_text(session.age_ns()),
               age_text(session.quiet_ns()), std::to_string(session.lanes()),
               std::to_string(session.formats()), std::to_string(session.requests()),
               std::to_string(session.leases()), std::to_string(session.reservations()),
               session.ending() ? "ending" : ""});
  }
  return table.text(paint);
}

Outcome list_sessions(Call& call) {
  v1::ListSessionsResponse list;
  Outcome outcome = call.node.ask_all(v1::ListSessionsRequest(), &list);
  return outcome.ok() ? call.show(list, sessions_text(list, call.paint)) : outcome;
}

Outcome close_session(Call& call) {
  std::string bytes;
  Outcome outcome = read_hex("SESSION", call.arguments.session, 8, 8, &bytes);
  if (!outcome.ok()) return outcome;
  uint64_t session = 0;  // written with the most significant digit first
  for (const char c : bytes)
    session = session << 8 | static_cast<unsigned char>(c);
  v1::CloseSessionRequest request;
  request.set_session(session);
  v1::CloseSessionResponse closed;
  outcome = call.node.ask(request, &closed);
  if (!outcome.ok()) return outcome;
  return call.show(closed,
                   "session " + session_text(session) + " is closed; its client may come again\n");
}

}  // namespace

Noun session_noun() {
  return {"sessions",
          "session",
          "The clients that are there: list, close",
          {{"list",
            "Each client: name, domain, peer, ages, what it holds",
            {},
            {"sessions", "--json sessions | jq -r '.sessions[] | .session + \" \" + .client'"},
            list_sessions},
           {"close",
            "End one: its requests end, what it holds is given back",
            {{"SESSION", "HEX", &Arguments::session, "16 hex digits, as kvctl sessions has it",
              Need::kRequired}},
            {"sessions close 3f9a0c55d1e2b784"},
            close_session}}};
}

}  // namespace varve::kvctl
