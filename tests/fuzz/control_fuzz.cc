// The control plane as a peer sees it: requests of every method, as bytes that may be one or not,
// with and without a token. Nothing may crash, every refusal has its sentence, and what has a field
// that this version does not know never reaches the node.
//
// Byte 0 chooses the method, byte 1 the caller; the rest is the request.
#include <cstdlib>
#include <string>

#include "server/control/service.h"
#include "tests/server/control/fake_ingress.h"

namespace varve::control {
namespace {

constexpr size_t kMessageBytesMax = 1024 * 1024;

struct World {
  World() {
    Options options;
    options.token = "a token of sixteen";
    node.format_rows.push_back({digest_with('f'), small_format(), true, 1, 2, 3});
    Block block;
    block.fragments.push_back({});
    node.found.blocks.push_back(block);
    node.target_rows.emplace_back();
    service = std::make_unique<Service>(options, node, clock);
  }
  FakeIngress node;
  ManualClock clock;
  std::unique_ptr<Service> service;
};

template <class Request, class Response>
void ask(World& world, Rpc rpc, Service::Method<Request, Response> method, uint8_t who,
         const std::string& bytes) {
  Request request;
  if (!request.ParseFromString(bytes)) return;  // gRPC answers that by itself
  Caller caller{"ipv4:127.0.0.1:1", "Bearer a token of sixteen", kNever};
  if ((who & 1) != 0) caller.authorization.assign(bytes, 0, 64);
  if ((who & 2) != 0) caller.left_ns = 0;
  world.node.refusal = (who & 4) != 0 ? Code::kOverloaded : Code::kOk;
  Response response;
  const grpc::Status status = world.service->call(rpc, caller, method, request, &response);
  if (!status.ok() && status.error_message().empty()) std::abort();
  if ((who & 1) != 0 && status.ok()) std::abort();
  if (!unknown_in(request).empty() && status.ok()) std::abort();
  if (response.ByteSizeLong() > kMessageBytesMax) std::abort();
  std::string out;
  if (!response.SerializeToString(&out)) std::abort();
}

}  // namespace
}  // namespace varve::control

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve::control;
  static World world;
  if (size < 2 || size > kMessageBytesMax) return 0;
  world.node.asked.clear();
  const std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  switch (static_cast<Rpc>(data[0] % kRpcs)) {
#define X(Name, function)                                                                   \
  case Rpc::k##Name:                                                                        \
    ask<varve::v1::Name##Request, varve::v1::Name##Response>(world, Rpc::k##Name, function, \
                                                             data[1], bytes);               \
    break;
    VARVE_CONTROL_RPCS(X)
#undef X
  }
  return 0;
}
