// The gate. What a stranger may learn is that a token is needed, and nothing else (C3).
#include "server/control/service.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>

namespace varve::control {

namespace {

constexpr const char* kBearer = "Bearer ";

// "ipv4:127.0.0.1:41234" -> "127.0.0.1", "ipv6:%5B::1%5D:41234" -> "::1"
std::string host_of(const std::string& peer) {
  const size_t begin = peer.find(':');
  const size_t end = peer.rfind(':');
  if (begin == std::string::npos || end <= begin) return {};
  std::string host = peer.substr(begin + 1, end - begin - 1);
  for (const char* bracket : {"%5B", "%5D", "[", "]"}) {
    if (const size_t at = host.find(bracket); at != std::string::npos)
      host.erase(at, std::string(bracket).size());
  }
  return host;
}

const char* code_label(uint32_t code) {
  static constexpr const char* kNames[] = {"ok",
                                           "cancelled",
                                           "unknown",
                                           "invalid_argument",
                                           "deadline_exceeded",
                                           "not_found",
                                           "already_exists",
                                           "permission_denied",
                                           "resource_exhausted",
                                           "failed_precondition",
                                           "aborted",
                                           "out_of_range",
                                           "unimplemented",
                                           "internal",
                                           "unavailable",
                                           "data_loss",
                                           "unauthenticated"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == kCodes);
  VARVE_ASSERT(code < kCodes, code);
  return kNames[code];
}

uint32_t known_code(grpc::StatusCode code) {
  const bool known = code >= 0 && static_cast<uint32_t>(code) < kCodes;
  return static_cast<uint32_t>(known ? code : grpc::StatusCode::UNKNOWN);
}

Caller caller_of(const grpc::ServerContext& context) {
  Caller caller;
  caller.peer = context.peer();
  const auto& metadata = context.client_metadata();
  if (const auto at = metadata.find("authorization"); at != metadata.end()) {
    caller.authorization.assign(at->second.data(), at->second.size());
  }
  const gpr_timespec deadline = context.raw_deadline();
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return caller;
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  if (left.tv_sec < 0) {
    caller.left_ns = 0;
  } else if (left.tv_sec < 3600) {
    caller.left_ns = static_cast<Nanos>(left.tv_sec) * kSecond + static_cast<Nanos>(left.tv_nsec);
  }
  return caller;
}

}  // namespace

const char* rpc_name(Rpc rpc) {
  static constexpr const char* kNames[] = {
#define X(Name, function) #Name,
      VARVE_CONTROL_RPCS(X)
#undef X
  };
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == kRpcs);
  return kNames[static_cast<uint8_t>(rpc)];
}

bool only_looks(Rpc rpc) {
  switch (rpc) {
    case Rpc::kGetStatus:
    case Rpc::kListPolicies:
    case Rpc::kListTiers:
    case Rpc::kListTargets:
    case Rpc::kListDomains:
    case Rpc::kListFormats:
    case Rpc::kGetFormat:
    case Rpc::kDiffFormats:
    case Rpc::kFindBlock:
    case Rpc::kMatchPrefix:
    case Rpc::kListHolds:
    case Rpc::kListSessions:
      return true;
    default:
      return false;
  }
}

bool is_loopback_peer(const std::string& peer) {
  std::string host = host_of(peer);
  if (peer.starts_with("ipv6:") && host.starts_with("::ffff:")) host = host.substr(7);
  if (peer.starts_with("ipv6:") && host == "::1") return true;
  const bool is_ip = peer.starts_with("ipv4:") || peer.starts_with("ipv6:");
  return is_ip && host.starts_with("127.") && host.find(':') == std::string::npos;
}

void Counts::began() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++in_progress_;
}

void Counts::ended(Rpc rpc, grpc::StatusCode code, Nanos took_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  VARVE_ASSERT(in_progress_ > 0);
  --in_progress_;
  ++by_code_[static_cast<uint8_t>(rpc)][known_code(code)];
  took_[static_cast<uint8_t>(rpc)].record(took_ns);
}

MetricSnapshot Counts::snapshot() const {
  using Kind = MetricSnapshot::Value::Kind;
  const std::lock_guard<std::mutex> lock(mutex_);
  MetricSnapshot out;
  out.append({{"varve_control_in_progress", "", "Calls of the control plane now."},
              Kind::kGauge,
              in_progress_,
              {}});
  for (uint32_t rpc = 0; rpc < kRpcs; ++rpc) {
    const std::string label = std::string("rpc=\"") + rpc_name(static_cast<Rpc>(rpc)) + "\"";
    for (uint32_t code = 0; code < kCodes; ++code) {
      const uint64_t count = by_code_[rpc][code];
      if (count == 0) continue;
      out.append({{"varve_control_requests_total", label + ",code=\"" + code_label(code) + "\"",
                   "Calls of the control plane, by name and outcome."},
                  Kind::kCounter,
                  static_cast<int64_t>(count),
                  {}});
    }
  }
  for (uint32_t rpc = 0; rpc < kRpcs; ++rpc) {
    if (took_[rpc].count() == 0) continue;
    out.append(
        {{"varve_control_seconds", std::string("rpc=\"") + rpc_name(static_cast<Rpc>(rpc)) + "\"",
          "From a call's arrival to its answer."},
         Kind::kHistogram,
         0,
         took_[rpc]});
  }
  return out;
}

Service::Service(const Options& options, Ingress& ingress, const Clock& clock)
    : options_(options), ingress_(ingress), clock_(clock) {
  VARVE_ASSERT(options.calls_max > 0 && options.call_ns_max > 0 && options.purge_ns_max > 0);
}

#define X(Name, function)                                                                    \
  grpc::Status Service::Name(grpc::ServerContext* context, const v1::Name##Request* request, \
                             v1::Name##Response* response) {                                 \
    return call<v1::Name##Request, v1::Name##Response>(Rpc::k##Name, caller_of(*context),    \
                                                       function, *request, response);        \
  }
VARVE_CONTROL_RPCS(X)
#undef X

grpc::Status Service::authority(const Caller& caller) {
  Refusal refusal;
  refusal.code = Code::kUnauthorized;
  if (options_.token.empty()) {
    if (is_loopback_peer(caller.peer)) return grpc::Status::OK;
    refusal.text =
        "no token is set, so this node serves its own machine only; start it with "
        "--control-token-file, or ask from there";
  } else {
    const std::string& given = caller.authorization;
    const bool bearer = given.starts_with(kBearer);
    const std::string token = bearer ? given.substr(std::string(kBearer).size()) : std::string();
    if (equal_secret(bytes_of_text(token), bytes_of_text(options_.token)) && bearer) {
      return grpc::Status::OK;
    }
    refusal.text =
        "wrong or missing token; send the metadata \"authorization: Bearer TOKEN\" with the token "
        "of this node's --control-token-file";
  }
  return to_grpc(refusal);
}

grpc::Status Service::admit(const Caller& caller) {
  if (grpc::Status status = authority(caller); !status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t swallowed = 0;
    if (refused_log_.admit(clock_.now_ns(), &swallowed)) {
      logf(LogLevel::kWarn, "control", "call of %s refused: %s (%" PRIu64 " more not logged)",
           caller.peer.c_str(), status.error_message().c_str(), swallowed);
    }
    return status;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return to_grpc(Refusal::of(Code::kUnavailable, "this node is stopping"));
  if (in_progress_ >= options_.calls_max) {
    return to_grpc(Refusal::of(Code::kOverloaded,
                               std::to_string(options_.calls_max) +
                                   " calls are in progress, as many as may be; try again later"));
  }
  ++in_progress_;
  return grpc::Status::OK;
}

void Service::leave() {
  const std::lock_guard<std::mutex> lock(mutex_);
  VARVE_ASSERT(in_progress_ > 0);
  if (--in_progress_ == 0) ended_.notify_all();
}

bool Service::close(Nanos limit_ns) {
  std::unique_lock<std::mutex> lock(mutex_);
  closed_ = true;
  return ended_.wait_for(lock, std::chrono::nanoseconds(limit_ns),
                         [this] { return in_progress_ == 0; });
}

Nanos Service::limit_of(Rpc rpc, const Caller& caller) const {
  const bool purges = rpc == Rpc::kPurge || rpc == Rpc::kDropDomain;
  return std::min(caller.left_ns, purges ? options_.purge_ns_max : options_.call_ns_max);
}

grpc::Status Service::look_at(const google::protobuf::Message& request) {
  const std::string unknown = unknown_in(request);
  if (unknown.empty()) return grpc::Status::OK;
  return invalid(unknown +
                 " is not known to this version of varved, so nothing was done; use a client of "
                 "this version, or leave it out");
}

}  // namespace varve::control
