// One walk over the pools for every HOLDS: a few thousand objects at most, nothing is kept.
#include "server/session/holds.h"

#include <algorithm>
#include <cstring>

#include "server/session/grants.h"
#include "server/session/leases.h"
#include "server/session/requests.h"

namespace varve {

namespace {

struct Times {
  Nanos began_ns = 0;
  Nanos until_ns = 0;  // in the past: it is on its way home
};

class Rows {
 public:
  Rows(Nanos now_ns, uint32_t domain, uint64_t cursor, std::vector<SessionHold>& rows)
      : now_ns_(now_ns), domain_(domain), cursor_(cursor), rows_(rows) {
    VARVE_ASSERT(rows.capacity() > kHoldRowsMax, rows.capacity());
    rows.clear();
  }

  // `row` names kind, hold, bytes and count.
  void add(wire::Hold row, const SessionScope& scope, const Times& times) {
    if (row.hold < cursor_) return;
    if (domain_ != kEveryDomain && domain_ != scope.domain) return;
    VARVE_ASSERT(row.hold > 0);
    VARVE_ASSERT(times.began_ns <= now_ns_, times.began_ns, now_ns_);
    row.session = scope.id;
    row.age_ns = now_ns_ - times.began_ns;
    row.left_ns = times.until_ns > now_ns_ ? times.until_ns - now_ns_ : 0;
    std::memcpy(row.name, scope.client.data(), std::min(scope.client.size(), sizeof(row.name)));
    rows_.push_back({row, scope.domain});
    std::push_heap(rows_.begin(), rows_.end(), is_before);
    if (rows_.size() <= kHoldRowsMax) return;
    std::pop_heap(rows_.begin(), rows_.end(), is_before);  // the highest number waits
    rows_.pop_back();
    cut_ = true;
  }

  uint64_t finish() {
    std::sort_heap(rows_.begin(), rows_.end(), is_before);
    return cut_ ? rows_.back().hold.hold + 1 : 0;
  }

 private:
  static bool is_before(const SessionHold& a, const SessionHold& b) {
    return a.hold.hold < b.hold.hold;
  }
  const Nanos now_ns_;
  const uint32_t domain_;
  const uint64_t cursor_;
  std::vector<SessionHold>& rows_;
  bool cut_ = false;
};

}  // namespace

uint64_t list_holds(const SessionContext& context, uint32_t domain, uint64_t cursor,
                    std::vector<SessionHold>& rows) {
  Rows out(context.reactor.now_ns(), domain, cursor, rows);
  for (const auto& lease : context.leases->all()) {
    if (lease->id == 0) continue;
    wire::Hold row;
    row.kind = wire::HoldKind::kLease;
    row.hold = lease->hold;
    row.bytes = lease->bytes;
    row.count = lease->count;
    out.add(row, lease->leases->scope(), {lease->began_ns, lease->until_ns});
  }
  for (const auto& grant : context.grants->all()) {
    if (grant->state == Grant::State::kFree) continue;
    wire::Hold row;
    row.kind = wire::HoldKind::kReservation;
    row.hold = grant->hold;
    row.bytes = grant->bytes;
    row.count = 1;
    const bool lent = grant->state == Grant::State::kReceiving;
    out.add(row, grant->grants->scope(), {grant->began_ns, lent ? grant->until_ns : 0});
  }
  for (const auto& pull : context.pulls->all()) {
    if (!pull->linked()) continue;
    wire::Hold row;
    row.kind = pull->follow == nullptr ? wire::HoldKind::kPull : wire::HoldKind::kFollow;
    row.hold = pull->hold;
    row.bytes = pull->bytes;
    row.count = pull->ids.count;
    out.add(row, pull->requests->scope(), {pull->began_ns, pull->until_ns});
  }
  return out.finish();
}

}  // namespace varve
