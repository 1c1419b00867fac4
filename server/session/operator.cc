// Pages by numbers that rise: a cursor is good whatever ended between two of them.
#include "server/session/operator.h"

#include <algorithm>

#include "server/session/holds.h"

namespace varve {

Operator::Operator(SessionContext& context)
    : context_(context),
      scope_(context, *this),
      formats_(*context.formats, 0),
      purges_(scope_, formats_) {
  scope_.client = "the control plane";
}

uint64_t Operator::list_holds(uint64_t cursor, uint32_t rows_max, std::vector<SessionHold>* rows) {
  VARVE_ASSERT(rows_max > 0 && rows_max <= kHoldRowsMax, rows_max);
  const uint64_t next = varve::list_holds(context_, kEveryDomain, cursor, context_.hold_rows);
  const std::vector<SessionHold>& all = context_.hold_rows;
  const size_t count = std::min<size_t>(all.size(), rows_max);
  rows->assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  return count < all.size() ? all[count].hold.hold : next;
}

uint64_t Operator::list_sessions(const DomainPool<LiveSession>& sessions, uint64_t cursor,
                                 uint32_t rows_max, std::vector<SessionRow>* rows) {
  VARVE_ASSERT(rows_max > 0);
  std::vector<const LiveSession*> found;
  for (const auto& session : sessions.all()) {
    if (session->in_use() && session->number() >= cursor) found.push_back(session.get());
  }
  std::sort(found.begin(), found.end(),
            [](const LiveSession* a, const LiveSession* b) { return a->number() < b->number(); });
  const size_t count = std::min<size_t>(found.size(), rows_max);
  rows->clear();
  for (size_t i = 0; i < count; ++i)
    rows->push_back(found[i]->row());
  return count < found.size() ? found[count]->number() : 0;
}

}  // namespace varve
