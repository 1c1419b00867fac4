// Through the C door: ops end early, blocks end for good, and who holds what.
#include "client/c_border.h"

namespace varve {

namespace {

Status purge(Handle& handle, const varve_purge_request* given, varve_op* out) {
  varve_purge_request in;
  VARVE_RETURN_IF_ERROR(read_sized(given, in));
  if (in.kind < VARVE_PURGE_BLOCKS || in.kind > VARVE_PURGE_DOMAIN) {
    return Status::invalid("purge: of blocks, a lineage or the domain");
  }
  if (in.count > wire::kIdsMax) return Status::invalid("purge: at most 2048 ids");
  if (in.count > 0 && in.ids == nullptr) return Status::invalid("purge: null ids");
  PurgeRequest request;
  request.kind = static_cast<wire::PurgeKind>(in.kind);
  request.format = in.format;
  request.ids = from_c(in.ids, in.count);
  request.deadline_ns = or_default(in.deadline_ns, request.deadline_ns);
  request.tag = in.tag;
  HandleOp op;
  op.kind = VARVE_DONE_PURGE;
  op.tag = in.tag;
  VARVE_TRY(const OpId id, handle.submit(std::move(op), [&](Client& client, const Handle::Where&) {
    return client.purge(std::move(request));
  }));
  if (out != nullptr) *out = id;
  return Status();
}

Status holds(Handle& handle, const HoldsRequest& request, varve_op* out) {
  HandleOp op;
  op.kind = VARVE_DONE_HOLDS;
  op.tag = request.tag;
  VARVE_TRY(const OpId id, handle.submit(std::move(op), [&](Client& client, const Handle::Where&) {
    return client.holds(request);
  }));
  if (out != nullptr) *out = id;
  return Status();
}

static_assert(static_cast<int>(wire::PurgeKind::kBlocks) == VARVE_PURGE_BLOCKS);
static_assert(static_cast<int>(wire::PurgeKind::kLineage) == VARVE_PURGE_LINEAGE);
static_assert(static_cast<int>(wire::PurgeKind::kDomain) == VARVE_PURGE_DOMAIN);

}  // namespace

}  // namespace varve

extern "C" {

varve_status varve_cancel(varve_client* client, varve_op op) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    handle.client().cancel(op);
    return varve::Status();
  });
}

varve_status varve_quiesce(varve_client* client, varve_op op, uint64_t timeout_ns) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return handle.client().quiesce(op, timeout_ns);
  });
}

varve_status varve_purge_submit(varve_client* client, const varve_purge_request* request,
                                varve_op* op) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::purge(handle, request, op);
  });
}

varve_status varve_holds_submit(varve_client* client, uint64_t deadline_ns, uint64_t tag,
                                varve_op* op) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    varve::HoldsRequest request;
    request.deadline_ns = varve::or_default(deadline_ns, request.deadline_ns);
    request.tag = tag;
    return varve::holds(handle, request, op);
  });
}

}  // extern "C"
