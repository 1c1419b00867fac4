// Operator: what whoever operates the node asks of its sessions: rows of what they hold and who
// they are, and purges that no session asked for.
#pragma once

#include "common/reactor/reactor.h"
#include "server/session/formats.h"
#include "server/session/live_session.h"
#include "server/session/purge.h"

namespace varve {

class Operator final : public Task {
 public:
  explicit Operator(SessionContext& context);
  uint64_t list_holds(uint64_t cursor, uint32_t rows_max, std::vector<SessionHold>* rows);
  static uint64_t list_sessions(const DomainPool<LiveSession>& sessions, uint64_t cursor,
                                uint32_t rows_max, std::vector<SessionRow>* rows);
  void purge(NodePurge& purge) { purges_.purge(purge); }
  bool at_rest() const { return purges_.count() == 0; }

  void run() override {}  // it has no end to look for
  const char* name() const override { return "operator"; }

 private:
  SessionContext& context_;
  SessionScope scope_;
  SessionFormats formats_;  // none
  Purges purges_;
};

}  // namespace varve
