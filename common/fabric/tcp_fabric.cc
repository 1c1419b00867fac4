// The TCP fabric: makes listeners and links, and keeps the accept loops of listeners that are gone
// until their Io has come back.
#include <cstring>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/fabric/tcp_link.h"
#include "common/fabric/tcp_listener.h"
#include "common/fabric/tcp_socket.h"

namespace varve {

namespace {

class TcpFabric final : public Fabric {
 public:
  const char* name() const override { return "tcp"; }
  Result<std::unique_ptr<Listener>> listen(Reactor& reactor, const std::string& address,
                                           const LinkOptions& options) override;
  Result<std::unique_ptr<Link>> connect(Reactor& reactor, const std::string& address,
                                        const LinkOptions& options) override;

 private:
  // Sets the options; a refused congestion control is said once and otherwise accepted.
  Status prepare(const Socket& socket, const LinkOptions& options);

  std::vector<std::unique_ptr<AcceptLoop>> loops_;
  bool congestion_warned_ = false;
};

Status TcpFabric::prepare(const Socket& socket, const LinkOptions& options) {
  const Status status = set_options(socket, options);
  if (status.code() != Code::kUnsupported) return status;
  if (!congestion_warned_) {
    congestion_warned_ = true;
    logf(LogLevel::kWarn, "fabric",
         "congestion control '%s' refused (%s); using the system's default, which may be several "
         "times slower on a fast network: see net.ipv4.tcp_allowed_congestion_control",
         options.congestion.c_str(), std::strerror(status.errno_value()));
  }
  return {};
}

Result<std::unique_ptr<Listener>> TcpFabric::listen(Reactor& reactor, const std::string& address,
                                                    const LinkOptions& options) {
  std::erase_if(loops_, [](const auto& loop) { return loop->stopped(); });
  VARVE_TRY(const SocketAddress wanted, resolve(address));
  VARVE_TRY(Socket socket, open_socket(wanted));
  VARVE_RETURN_IF_ERROR(prepare(socket, options));
  VARVE_RETURN_IF_ERROR(bind_and_listen(socket, wanted));
  VARVE_TRY(const SocketAddress bound, local_address(socket));
  loops_.push_back(std::make_unique<AcceptLoop>(reactor, std::move(socket), options));
  return std::unique_ptr<Listener>(std::make_unique<TcpListener>(*loops_.back(), bound.text()));
}

Result<std::unique_ptr<Link>> TcpFabric::connect(Reactor& reactor, const std::string& address,
                                                 const LinkOptions& options) {
  VARVE_TRY(const SocketAddress peer, resolve(address));
  VARVE_TRY(Socket socket, open_socket(peer));
  VARVE_RETURN_IF_ERROR(prepare(socket, options));
  return std::unique_ptr<Link>(std::make_unique<TcpLink>(reactor, std::move(socket), peer,
                                                         TcpLink::Begin::kConnect, options));
}

}  // namespace

std::unique_ptr<Fabric> make_tcp_fabric() {
  return std::make_unique<TcpFabric>();
}

}  // namespace varve
