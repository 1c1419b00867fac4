// Matches and leases through the C door.
#include "client/c_border.h"

namespace varve {

namespace {

constexpr uint32_t kMatchIdsMax = 1u << 20;  // of one request: a prefix of 256 million tokens

Status match(Handle& handle, const varve_match_request* given, varve_op* out) {
  varve_match_request in;
  VARVE_RETURN_IF_ERROR(read_sized(given, in));
  if ((in.flags & VARVE_MATCH_PREFETCH) != 0) {
    return Status::unsupported("match: no prefetch in this version (VARVE_CAN_PREFETCH)");
  }
  VARVE_RETURN_IF_ERROR(check_flags(in.flags, VARVE_MATCH_PEEK_ONLY));
  const bool peek_only = (in.flags & VARVE_MATCH_PEEK_ONLY) != 0;
  if (peek_only && in.tag == 0) return Status::invalid("match: only a peek, without a tag");
  if (in.ids == nullptr || in.count == 0 || in.count > kMatchIdsMax) {
    return Status::invalid("match: 1 to 1048576 ids");
  }
  if (in.reserved != 0) return Status::unsupported("match: reserved is 0");
  MatchRequest request;
  request.format = in.format;
  request.ids = from_c(in.ids, in.count);
  request.lease_ms = in.lease_ms;
  request.deadline_ns = or_default(in.deadline_ns, request.deadline_ns);
  request.tag = in.tag;
  VARVE_TRY(const OpId id, handle.match(std::move(request), peek_only ? kTellNothing : 0));
  if (out != nullptr) *out = id;
  return Status();
}

Status exists(Handle& handle, const varve_exists_request* given, varve_op* out) {
  varve_exists_request in;
  VARVE_RETURN_IF_ERROR(read_sized(given, in));
  if (in.ids == nullptr || in.count == 0 || in.count > kMatchIdsMax) {
    return Status::invalid("exists: 1 to 1048576 ids");
  }
  if (in.reserved != 0) return Status::unsupported("exists: reserved is 0");
  MatchRequest request;
  request.format = in.format;
  request.ids = from_c(in.ids, in.count);
  request.of = MatchOf::kEach;
  request.deadline_ns = or_default(in.deadline_ns, request.deadline_ns);
  request.tag = in.tag;
  VARVE_TRY(const OpId id, handle.match(std::move(request), 0));
  if (out != nullptr) *out = id;
  return Status();
}

Status renew(Handle& handle, const RenewRequest& request, varve_op* out) {
  if (request.lease_ms == 0) return Status::invalid("renew: lease_ms is at least 1");
  HandleOp op;
  op.kind = VARVE_DONE_RENEW;
  op.tag = request.tag;
  VARVE_TRY(const OpId id, handle.submit(std::move(op), [&](Client& client, const Handle::Where&) {
    return client.renew(request);
  }));
  if (out != nullptr) *out = id;
  return Status();
}

}  // namespace

}  // namespace varve

extern "C" {

varve_status varve_match_submit(varve_client* client, const varve_match_request* request,
                                varve_op* op) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::match(handle, request, op);
  });
}

varve_status varve_match_peek(varve_client* client, uint64_t tag, varve_match_answer* answer) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    VARVE_RETURN_IF_ERROR(varve::check_sized(answer));
    if (tag == 0) return varve::Status::invalid("peek: tag 0 is none");
    varve_match_answer now{};
    const varve_status status = handle.peek(tag, now);
    if (status == VARVE_OK) varve::write_sized(now, answer);
    return {status, "no match of that tag is known"};
  });
}

varve_status varve_match_forget(varve_client* client, uint64_t tag) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    handle.forget(tag);
    return varve::Status();
  });
}

varve_status varve_exists_submit(varve_client* client, const varve_exists_request* request,
                                 varve_op* op) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::exists(handle, request, op);
  });
}

varve_status varve_lease_renew(varve_client* client, varve_lease lease, uint32_t lease_ms,
                               uint64_t tag, varve_op* op) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::renew(handle, {.lease = lease, .lease_ms = lease_ms, .tag = tag}, op);
  });
}

varve_status varve_lease_release(varve_client* client, varve_lease lease) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    handle.client().release(lease);
    return varve::Status();
  });
}

varve_status varve_lease_left(varve_client* client, varve_lease lease, uint64_t* left_ns) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    if (left_ns == nullptr) return varve::Status::invalid("lease_left: nowhere to put it");
    *left_ns = handle.client().lease_left_ns(lease);
    return varve::Status();
  });
}

}  // extern "C"
