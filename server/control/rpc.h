// Every call of the control plane, by noun: what it takes, what it answers. One list, so that the
// service, its counters and the fuzzer cannot know different ones.
//
// Each is a function of a checked caller and an unchecked request: it checks the request, asks the
// Ingress and fills the response. No state, any thread.
#pragma once

#include <grpcpp/support/status.h>
#include <varve/v1/control.pb.h>

#include "server/control/control.h"

namespace varve::control {

struct Ask {
  Ingress& ingress;
  Nanos limit_ns;  // of this call, from now
};

// X(name in the proto, function)
#define VARVE_CONTROL_RPCS(X)               \
  X(GetStatus, get_status)                  \
  X(Drain, drain_node)                      \
  X(ListPolicies, list_policies)            \
  X(SetPolicy, set_policy)                  \
  X(ListTiers, list_tiers)                  \
  X(ListTargets, list_targets)              \
  X(DrainTarget, drain_target)              \
  X(UndrainTarget, undrain_target)          \
  X(FailTarget, fail_target)                \
  X(ReplaceTarget, replace_target)          \
  X(StartScrub, start_scrub)                \
  X(ListDomains, list_domains)              \
  X(CreateDomain, create_domain)            \
  X(RotateDomainToken, rotate_domain_token) \
  X(DropDomain, drop_domain)                \
  X(RegisterFormat, register_format)        \
  X(ListFormats, list_formats)              \
  X(GetFormat, get_format)                  \
  X(DiffFormats, diff_formats)              \
  X(FindBlock, find_block)                  \
  X(MatchPrefix, match_prefix)              \
  X(Purge, purge)                           \
  X(ListHolds, list_holds)                  \
  X(ListSessions, list_sessions)            \
  X(CloseSession, close_session)

enum class Rpc : uint8_t {
#define X(Name, function) k##Name,
  VARVE_CONTROL_RPCS(X)
#undef X
};
inline constexpr uint32_t kRpcs = 25;
const char* rpc_name(Rpc rpc);
bool only_looks(Rpc rpc);  // it changes nothing

#define X(Name, function) \
  grpc::Status function(const Ask& ask, const v1::Name##Request& in, v1::Name##Response* out);
VARVE_CONTROL_RPCS(X)
#undef X

}  // namespace varve::control
