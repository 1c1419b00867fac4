// The checks of HELLO in the order that tells a stranger least.
#include "server/session/hello.h"

namespace varve {

namespace {

Status check_lane(const wire::Hello& body, uint64_t credit_bytes_min) {
  if (body.lane == wire::LaneKind::kBulk) {
    if (body.session == 0) return Status::invalid("a bulk lane names its session");
    if (body.lane_index >= wire::kBulkLanesMax) return Status::invalid("bulk lane index over 3");
    return {};
  }
  if (body.session != 0 || body.session_secret != 0 || body.lane_index != 0) {
    return Status::invalid("an urgent lane opens a session and names none");
  }
  if (body.pull_credit_bytes < credit_bytes_min) {
    return Status::invalid("pull_credit_bytes is less than one window (4 MiB)");
  }
  return {};
}

}  // namespace

Result<uint32_t> check_hello(const wire::HelloView& hello, const Domains& domains,
                             uint64_t credit_bytes_min, PeerPlace peer) {
  const wire::Hello& body = hello.body;
  // Who comes from elsewhere needs a token even where that of a domain would do: without one of the
  // default domain nothing is served beyond loopback.
  if (!domains.by_default().has_token && peer != PeerPlace::kLoopback) {
    return Status::unauthorized("no token is set: loopback peers only");
  }
  const Domain* domain = domains.of_token(hello.token);
  if (domain == nullptr) return Status::unauthorized("wrong or missing token");
  if (body.version_min > wire::kVersion || body.version_max < wire::kVersion) {
    return Status::unsupported("no version of the wire in common");  // see version_text()
  }
  VARVE_RETURN_IF_ERROR(check_lane(body, credit_bytes_min));
  return domain->id;
}

std::string version_text(uint16_t client_min, uint16_t client_max) {
  return "this server speaks version " + std::to_string(wire::kVersion) +
         " of the wire, the client " + std::to_string(client_min) + " to " +
         std::to_string(client_max) + ": update the older of the two";
}

std::string printable_name(std::string_view name) {
  constexpr size_t kNameMax = 64;
  std::string text(name.substr(0, kNameMax));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

}  // namespace varve
