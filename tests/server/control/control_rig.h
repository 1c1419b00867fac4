// The whole service behind an in-process channel: what a client sees, without a port.
#pragma once

#include <grpcpp/grpcpp.h>
#include <varve/v1/control.grpc.pb.h>

#include <memory>
#include <string>

#include "server/control/service.h"
#include "tests/server/control/fake_ingress.h"

namespace varve::control {

class ControlRig {
 public:
  // A peer in this process is no address that could be on loopback, so there is a token.
  ControlRig() : ControlRig(Options{.address = "", .token = "a token of sixteen"}) {}
  explicit ControlRig(const Options& options)
      : token(options.token), service_(options, node, clock) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
    server_ = builder.BuildAndStart();
    stub = v1::Control::NewStub(server_->InProcessChannel({}));
  }
  ~ControlRig() {
    node.close();
    server_->Shutdown();
  }

  // One call with a context of its own; `Stub::Name` is named by the caller.
  template <class Request, class Response>
  grpc::Status call(grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*, const Request&,
                                                              Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    return ((*stub).*method)(&context, request, response);
  }

  FakeIngress node;
  SystemClock clock;
  std::string token;
  std::unique_ptr<v1::Control::Stub> stub;
  Service& service() { return service_; }

 private:
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

inline std::string bytes32(uint8_t first) {
  return text_of(digest_with(first).bytes);
}

}  // namespace varve::control
