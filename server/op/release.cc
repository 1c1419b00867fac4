// Release: a lease given back, whole or beyond a position; and everything of a session that is
// gone.
//
// Both are idempotent: a lease that ended by time meanwhile is no error.
#include "server/op/lease.h"
#include "server/op/op.h"
#include "server/op/request.h"

namespace varve {

void release_lease(OpContext& context, ReleasePart& part) {
  context.leases->release(part.lease, part.session, part.keep_below);
  part_back(part, Status());
}

void session_gone(OpContext& context, GonePart& part) {
  context.leases->session_gone(part.session);
  part_back(part, Status());
}

}  // namespace varve
