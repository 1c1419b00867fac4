// The gRPC server around the service: its limits, its health, its end.
#include <grpc/support/log.h>

#include "server/control/service.h"

namespace varve::control {

namespace {

constexpr int kThreadsBeside = 8;  // pollers and health, beside one thread for each call
constexpr size_t kMemoryBytesMax = 64 * kMiB;
constexpr int kStreamsMax = 32;  // of one connection
constexpr int kMetadataBytesMax = 8 * 1024;
constexpr int kIdleMs = 300000, kKeepaliveMs = 60000, kKeepaliveTimeoutMs = 20000;
constexpr int kPingMs = 10000, kPingStrikes = 2;
constexpr const char* kServiceName = "varve.v1.Control";
// What gRPC itself takes to end, once no call is left.
constexpr Nanos kEndNanos = kSecond;

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
      : options_(options), ingress_(ingress), service_(options, ingress, clock) {}
  ~ServerImpl() override {
    if (server_ != nullptr) stop(0);
  }

  bool start();
  std::string address() const override { return address_; }
  void readiness_set(Readiness readiness) override;
  void stop(Nanos bound_ns) override;
  MetricSnapshot metrics() const override { return service_.metrics(); }

 private:
  const Options options_;
  Ingress& ingress_;
  Service service_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

bool ServerImpl::start() {
  gpr_set_log_function(log_of_grpc);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options_.address, grpc::InsecureServerCredentials(), &port);
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
  // Two daemons on one port would share its calls between them without a word.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kPingStrikes);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return false;
  readiness_set(Readiness::kNotReady);  // until it is said to be
  const size_t colon = options_.address.rfind(':');
  address_ = options_.address.substr(0, colon + 1) + std::to_string(port);
  return port != 0;
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
  const bool ended = service_.close(bound_ns / 2);
  ingress_.close();  // C2: whoever still waits is answered now
  if (!ended && !service_.close(kEndNanos)) {
    logf(LogLevel::kWarn, "control", "calls are slow to end; waiting for them");
  }
  server_->Shutdown(from_now(kEndNanos));
  server_->Wait();
  server_.reset();
}

}  // namespace

Answer<std::unique_ptr<Server>> Server::open(const Options& options, Ingress& ingress,
                                             const Clock& clock) {
  auto server = std::make_unique<ServerImpl>(options, ingress, clock);
  if (!server->start()) {
    return Refusal::of(Code::kUnavailable,
                       "--control " + options.address +
                           ": cannot listen there: it is taken by another process, or no address "
                           "of this machine; give another one, or none");
  }
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace varve::control
