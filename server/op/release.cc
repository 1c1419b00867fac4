// Release: a lease given back, whole or beyond a position, or made to last longer; and everything
// of a session that is gone.
//
// Giving back is idempotent: a lease that ended by time meanwhile is no error. Renewing says so.
#include "server/op/lease.h"
#include "server/op/op.h"
#include "server/op/request.h"

namespace varve {

void release_lease(OpContext& context, ReleasePart& part) {
  context.leases->release(part.lease, part.session, part.keep_below);
  part_back(part, Status());
}

void renew_lease(OpContext& context, RenewPart& part) {
  const bool renewed = context.leases->renew(part.lease, part.session, part.lease_ms);
  part_back(part, renewed ? Status() : Status::timed_out("the lease is over"));
}

void session_gone(OpContext& context, GonePart& part) {
  context.leases->session_gone(part.session);
  part_back(part, Status());
}

}  // namespace varve
