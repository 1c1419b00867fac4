// Service: the generated one, of which every method goes through one gate: who calls, how many, how
// long, what does this version not know, and what came of it.
#pragma once

#include <grpcpp/grpcpp.h>
#include <varve/v1/control.grpc.pb.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>

#include "common/base/allocation.h"
#include "server/control/check.h"
#include "server/control/rpc.h"

namespace varve::control {

// What a call brings beside its request.
struct Caller {
  std::string peer;           // as gRPC names it: "ipv4:127.0.0.1:41234"
  std::string authorization;  // the metadata of that name, empty: none
  Nanos left_ns = kNever;     // until the client's own deadline
};
bool is_loopback_peer(const std::string& peer);

inline constexpr uint32_t kCodes = 17;                // of gRPC, OK counted
inline constexpr char kNoMemory[] = "no memory now";  // short: held without an allocation
inline constexpr char kThrown[] = "internal error";
static_assert(sizeof(kNoMemory) <= 16 && sizeof(kThrown) <= 16);

// Calls by name and outcome, and how long they took. Any thread.
class Counts {
 public:
  void began();
  void ended(Rpc rpc, grpc::StatusCode code, Nanos took_ns);
  MetricSnapshot snapshot() const;

 private:
  mutable std::mutex mutex_;
  int64_t in_progress_ = 0;
  std::array<std::array<uint64_t, kCodes>, kRpcs> by_code_ = {};
  std::array<Histogram, kRpcs> took_;
};

class Service final : public v1::Control::Service {
 public:
  Service(const Options& options, Ingress& ingress, const Clock& clock);

#define X(Name, function)                                                           \
  grpc::Status Name(grpc::ServerContext* context, const v1::Name##Request* request, \
                    v1::Name##Response* response) override;
  VARVE_CONTROL_RPCS(X)
#undef X

  template <class Request, class Response>
  using Method = grpc::Status (*)(const Ask&, const Request&, Response*);
  // One call, whatever brought it. What is thrown in it ends here: its place is given back (C2). A
  // change for which there is no memory ends the process: half of it would be a state of its own.
  template <class Request, class Response>
  grpc::Status call(Rpc rpc, const Caller& caller, Method<Request, Response> method,
                    const Request& request, Response* response) {
    const Nanos began_ns = clock_.now_ns();
    bool admitted = false;
    grpc::Status status;
    counts_.began();
    try {
      status = admit(caller);
      admitted = status.ok();
      if (admitted) status = look_at(request);
      const Ask ask{ingress_, limit_of(rpc, caller)};
      std::optional<AllocationsThrow> throws;
      if (only_looks(rpc)) throws.emplace();
      if (status.ok()) status = method(ask, request, response);
    } catch (const std::bad_alloc&) {
      status = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, kNoMemory);
    } catch (...) {
      status = grpc::Status(grpc::StatusCode::INTERNAL, kThrown);
    }
    if (admitted) leave();
    counts_.ended(rpc, status.error_code(), clock_.now_ns() - began_ns);
    return status;
  }

  // From now on every call is refused; true when the last one has ended within `limit_ns`.
  bool close(Nanos limit_ns);
  MetricSnapshot metrics() const {
    return counts_.snapshot();
  }

 private:
  grpc::Status authority(const Caller& caller);
  grpc::Status admit(const Caller& caller);
  void leave();
  Nanos limit_of(Rpc rpc, const Caller& caller) const;
  static grpc::Status look_at(const google::protobuf::Message& request);

  const Options options_;
  Ingress& ingress_;
  const Clock& clock_;
  Counts counts_;
  std::mutex mutex_;
  std::condition_variable ended_;
  uint32_t in_progress_ = 0;
  bool closed_ = false;
  LogLimit refused_log_{kSecond};
};

}  // namespace varve::control
