// The service behind it, on a port of its own, so that the tests need not know gRPC.
#include "tests/tools/kvctl/fake_node.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <varve/v1/control.grpc.pb.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace varve::kvctl {

nlohmann::json Said::json() const {
  return nlohmann::json::parse(out, nullptr, false);
}

nlohmann::json Said::error() const {
  return nlohmann::json::parse(err, nullptr, false)["error"];
}

Said run_kvctl(const std::vector<std::string>& arguments, const std::string& typed) {
  std::ostringstream out, err;
  std::istringstream in(typed);
  Console console{out, err, in};
  console.interactive = !typed.empty();
  Said said;
  said.exit = run(arguments, console);
  said.out = out.str();
  said.err = err.str();
  return said;
}

struct FakeNode::Service final : v1::Control::Service {
  explicit Service(FakeNode& of) : node(of) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server = builder.BuildAndStart();
    node.address = "127.0.0.1:" + std::to_string(port);
  }
  ~Service() override { server->Shutdown(); }

#define X(Name)                                                                     \
  grpc::Status Name(grpc::ServerContext* context, const v1::Name##Request* request, \
                    v1::Name##Response* response) override {                        \
    node.Name##_request = *request;                                                 \
    return answer(#Name, *context, *request, node.Name##_pages, response);          \
  }
  VARVE_KVCTL_RPCS(X)
#undef X

  template <class Request, class Response>
  grpc::Status answer(const std::string& name, grpc::ServerContext& context, const Request& request,
                      const std::vector<Response>& pages, Response* response) {
    node.asked.push_back(name);
    const auto& metadata = context.client_metadata();
    const auto at = metadata.find("authorization");
    node.authorization =
        at == metadata.end() ? "" : std::string(at->second.data(), at->second.size());
    if (name == node.cut_) cut_connections();
    if (const auto refusal = node.refusals_.find(name); refusal != node.refusals_.end()) {
      return refusal_of(refusal->second.first, refusal->second.second);
    }
    size_t page = 0;
    if constexpr (requires { request.cursor(); }) page = request.cursor();
    if (page < pages.size()) *response = pages[page];
    return grpc::Status::OK;
  }

  // Both ends are in this process: those whose peer is this service are shut down.
  void cut_connections() const {
    for (int fd = 3; fd < 1024; ++fd) {
      sockaddr_storage peer = {};
      socklen_t bytes = sizeof(peer);
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) continue;
      // gRPC speaks IPv4 through sockets of IPv6; the port stands at the same place in both.
      const auto& as_v4 = reinterpret_cast<const sockaddr_in&>(peer);
      const bool is_ip = peer.ss_family == AF_INET || peer.ss_family == AF_INET6;
      if (is_ip && ntohs(as_v4.sin_port) == port) (void)::shutdown(fd, SHUT_RDWR);
    }
  }

  static grpc::Status refusal_of(const std::string& code, const std::string& text) {
    static const std::map<std::string, grpc::StatusCode> kCodes = {
        {"INTERNAL", grpc::INTERNAL},
        {"NOT_FOUND", grpc::NOT_FOUND},
        {"UNAVAILABLE", grpc::UNAVAILABLE},
        {"RESOURCE_EXHAUSTED", grpc::RESOURCE_EXHAUSTED},
        {"UNAUTHENTICATED", grpc::UNAUTHENTICATED},
        {"DEADLINE_EXCEEDED", grpc::DEADLINE_EXCEEDED},
        {"FAILED_PRECONDITION", grpc::FAILED_PRECONDITION}};
    const auto at = kCodes.find(code);
    if (at == kCodes.end()) ADD_FAILURE() << "no such code here: " << code;
    return {at == kCodes.end() ? grpc::UNKNOWN : at->second, text};
  }

  FakeNode& node;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

FakeNode::FakeNode() : service_(std::make_unique<Service>(*this)) {}

FakeNode::~FakeNode() = default;

Said FakeNode::kvctl(std::vector<std::string> arguments, const std::string& typed) {
  arguments.insert(arguments.begin(), {"--control", address});
  return run_kvctl(arguments, typed);
}

void FakeNode::refuse(const std::string& rpc, const std::string& code, const std::string& text) {
  if (code == "OK") {
    refusals_.erase(rpc);
  } else {
    refusals_[rpc] = {code, text};
  }
}

}  // namespace varve::kvctl
