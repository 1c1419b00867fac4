// Statuses as texts, and the last error of each thread.
#include "client/c_border.h"

namespace varve {

namespace {

// The structs of version 0.1, as callers were compiled with them. One that grows keeps its number
// as its kFirstBytes. Where each field lies stands in tests/vectors/c_abi_0.txt.
static_assert(kFirstBytes<varve_options> == 888);
static_assert(kFirstBytes<varve_stats> == 312);
static_assert(kFirstBytes<varve_format_desc> == 112);
static_assert(kFirstBytes<varve_tokens> == 72);
static_assert(kFirstBytes<varve_region_desc> == 24);
static_assert(kFirstBytes<varve_layout_desc> == 24);
static_assert(kFirstBytes<varve_match_request> == 48);
static_assert(kFirstBytes<varve_match_answer> == 72);
static_assert(kFirstBytes<varve_exists_request> == 40);
static_assert(kFirstBytes<varve_pull_request> == 96);
static_assert(kFirstBytes<varve_follow_request> == 96);
static_assert(kFirstBytes<varve_push_request> == 96);
static_assert(kFirstBytes<varve_purge_request> == 40);
static_assert(kFirstBytes<varve_completion> == 200);
// Those without struct_size never change.
static_assert(sizeof(varve_options) == 896 && sizeof(varve_stats) == 336);
static_assert(sizeof(varve_completion) == 208);
static_assert(sizeof(varve_hold) == 104);
static_assert(sizeof(varve_blocks) == 40);
static_assert(sizeof(varve_layer_layout) == 32);

// A literal, never freed: the only state that belongs to a thread of the caller's.
thread_local const char* last_error = "";
}  // namespace

varve_status tell(const Outcome& outcome) {
  const bool failed = outcome.status != VARVE_OK && outcome.status != VARVE_PENDING &&
                      outcome.status != VARVE_PARTIAL;
  if (failed) last_error = outcome.why;
  return outcome.status;
}

}  // namespace varve

extern "C" {

const char* varve_last_error(void) {
  return varve::last_error;
}

const char* varve_strerror(varve_status status) {
  switch (status) {
    case VARVE_OK:
      return "ok";
    case VARVE_INVALID:
      return "invalid: an argument is wrong";
    case VARVE_UNAUTHORIZED:
      return "unauthorized: no token, or a wrong one";
    case VARVE_QUOTA:
      return "quota: a limit of this tenant or session";
    case VARVE_OVERLOADED:
      return "overloaded: a shared limit; later";
    case VARVE_UNAVAILABLE:
      return "unavailable: no session with a daemon";
    case VARVE_TIMED_OUT:
      return "timed out: a deadline, a timeout or a lease passed";
    case VARVE_CANCELLED:
      return "cancelled";
    case VARVE_CORRUPT:
      return "corrupt: a checksum or a structure does not hold";
    case VARVE_IO:
      return "io: a device or the system said no";
    case VARVE_NO_SPACE:
      return "no space";
    case VARVE_UNSUPPORTED:
      return "unsupported by this library or daemon";
    case VARVE_INTERNAL:
      return "internal: a fault of the library";
    case VARVE_MISS:
      return "miss: not there, or not there any more";
    case VARVE_PARTIAL:
      return "partial: of some blocks";
    case VARVE_PENDING:
      return "pending: not answered yet";
    case VARVE_UNKNOWN:
      return "unknown: no such op or tag, or its completion was taken";
    case VARVE_CLOSED:
      return "closed: the client was closed";
    case VARVE_FORKED:
      return "forked: this is a child of the process that opened the client";
    default:
      return "no status of this version";
  }
}

}  // extern "C"
