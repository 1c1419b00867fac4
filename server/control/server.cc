// The gRPC server around the service: its limits, its health, its end.
#include <grpc/support/log.h>

#include <algorithm>
#include <cstring>

#include "server/control/acceptor.h"
#include "server/control/service.h"

namespace varve::control {

namespace {

constexpr int kThreadsBeside = 8;  // pollers and health, beside one thread for each call
constexpr size_t kMemoryBytesMax = 64 * kMiB;
constexpr int kStreamsMax = 32;  // of one connection
constexpr int kMetadataBytesMax = 8 * 1024;
// A watcher of the health service is never idle, so there is an age too; a purge may end in it.
constexpr int kIdleMs = 30000, kAgeMs = 600000, kAgeGraceMs = 120000;
constexpr int kKeepaliveMs = 60000, kKeepaliveTimeoutMs = 20000;
constexpr int kPingMs = 10000, kPingStrikes = 2;
constexpr Nanos kGraceMax = kSecond;  // of calls, at a stop
constexpr const char* kServiceName = "varve.v1.Control";

gpr_timespec from_now(Nanos ns) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(static_cast<int64_t>(ns), GPR_TIMESPAN));
}

// What gRPC says of its own: peers can cause such lines as they like, so they are for who looks.
void log_of_grpc(gpr_log_func_args* args) {
  if (args->severity != GPR_LOG_SEVERITY_ERROR) return;
  logf(LogLevel::kDebug, "control", "grpc: %s", args->message);
}

class ServerImpl final : public Server {
 public:
  ServerImpl(const Options& options, Ingress& ingress, const Clock& clock)
      : options_(options),
        clock_(clock),
        ingress_(ingress),
        service_(options, ingress, clock),
        acceptor_(options.connections_max, clock) {}
  ~ServerImpl() override {
    if (server_ != nullptr) stop(0);
  }

  Status start();
  std::string address() const override { return acceptor_.address(); }
  void readiness_set(Readiness readiness) override;
  void stop(Nanos bound_ns) override;
  MetricSnapshot metrics() const override;

 private:
  const Options options_;
  const Clock& clock_;
  Ingress& ingress_;
  Service service_;
  mutable Acceptor acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

Status ServerImpl::start() {
  VARVE_RETURN_IF_ERROR(acceptor_.listen(options_.address));
  gpr_set_log_function(log_of_grpc);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  using From = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  auto taker = builder.experimental().AddExternalConnectionAcceptor(
      From::FROM_FD, grpc::InsecureServerCredentials());
  builder.RegisterService(&service_);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options_.message_bytes_max));
  builder.SetMaxSendMessageSize(static_cast<int>(options_.message_bytes_max));
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  grpc::ResourceQuota quota("varve.control");
  quota.Resize(kMemoryBytesMax);
  quota.SetMaxThreads(static_cast<int>(options_.calls_max) + kThreadsBeside);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(options_.hello_ms_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, kAgeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kAgeGraceMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kPingStrikes);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return Status(Code::kInternal, "gRPC did not start");
  readiness_set(Readiness::kNotReady);  // until it is said to be
  acceptor_.start(std::move(taker));
  return {};
}

void ServerImpl::readiness_set(Readiness readiness) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  VARVE_ASSERT(health != nullptr);
  health->SetServingStatus("", readiness == Readiness::kReady);
  health->SetServingStatus(kServiceName, readiness == Readiness::kReady);
}

void ServerImpl::stop(Nanos bound_ns) {
  if (server_ == nullptr) return;
  readiness_set(Readiness::kNotReady);
  const Nanos until_ns = clock_.now_ns() + bound_ns;
  const auto left_ns = [this, until_ns] {
    const Nanos now_ns = clock_.now_ns();
    return now_ns < until_ns ? until_ns - now_ns : 0;
  };
  const bool ended = service_.close(bound_ns / 2);
  ingress_.close();  // C2: whoever still waits is answered now
  if (!ended && !service_.close(left_ns() / 2)) {
    logf(LogLevel::kWarn, "control", "calls are slow to end; waiting for them");
  }
  acceptor_.stop();
  // Nobody is being answered any more: what still stands are watches, and peers that say nothing.
  server_->Shutdown(from_now(std::min(left_ns(), kGraceMax)));
  server_->Wait();
  server_.reset();
}

MetricSnapshot ServerImpl::metrics() const {
  using Kind = MetricSnapshot::Value::Kind;
  MetricSnapshot out = service_.metrics();
  const Acceptor::Numbers numbers = acceptor_.numbers();
  out.append({{"varve_control_connections", "", "Connections to the control plane now."},
              Kind::kGauge,
              static_cast<int64_t>(numbers.open),
              {}});
  out.append({{"varve_control_connections_refused_total", "",
               "Connections to the control plane that were one too many."},
              Kind::kCounter,
              static_cast<int64_t>(numbers.refused),
              {}});
  return out;
}

}  // namespace

Answer<std::unique_ptr<Server>> Server::open(const Options& options, Ingress& ingress,
                                             const Clock& clock) {
  auto server = std::make_unique<ServerImpl>(options, ingress, clock);
  if (const Status status = server->start(); !status.ok()) {
    return Refusal::of(
        Code::kUnavailable,
        "--control " + options.address + ": cannot listen there (" + status.what() +
            (status.errno_value() == 0 ? std::string()
                                       : std::string(": ") + std::strerror(status.errno_value())) +
            "): it is taken by another process, or no address of this machine; "
            "give another one, or none");
  }
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace varve::control
