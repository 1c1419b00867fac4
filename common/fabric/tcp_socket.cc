// The system calls around a TCP socket's birth. Errors name the call; the caller knows the address
// and logs it.
#include "common/fabric/tcp_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/fabric/address.h"

namespace varve {

namespace {

constexpr int kBacklog = 512;
constexpr size_t kHostNameBytesMax = 253;  // what a name server can be asked for

struct HostPort {
  std::string host;
  std::string port;
};

Result<HostPort> split(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return Status::invalid("address without a port (host:port)");
  HostPort out{address.substr(0, colon), address.substr(colon + 1)};
  const bool bracketed = out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']';
  if (bracketed) out.host = out.host.substr(1, out.host.size() - 2);
  if (out.host.empty()) return Status::invalid("address without a host (host:port)");
  if (!bracketed && out.host.find(':') != std::string::npos) {
    return Status::invalid("an IPv6 address needs brackets ([host]:port)");
  }
  const bool digits = !out.port.empty() && out.port.size() <= 5 &&
                      out.port.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoul(out.port) > 65535) return Status::invalid("port out of range");
  return out;
}

bool is_all(const std::string& text, const char* of) {
  return text.find_first_not_of(of) == std::string::npos;
}

// What getaddrinfo found.
struct Found {
  int rc = 0;
  addrinfo* first = nullptr;
  Found() = default;
  Found(const Found&) = delete;
  Found& operator=(const Found&) = delete;
  ~Found() {
    if (first != nullptr) freeaddrinfo(first);
  }
  void look_up(const HostPort& parts, int flags) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_family = AF_UNSPEC;
    hints.ai_flags = AI_NUMERICSERV | flags;
    // Machines differ in which of its two addresses this name has first; here it is one.
    const char* host = parts.host == "localhost" ? "127.0.0.1" : parts.host.c_str();
    rc = getaddrinfo(host, parts.port.c_str(), &hints, &first);
    if (rc == 0 && first == nullptr) rc = EAI_NONAME;
  }
};

SocketAddress address_of(const addrinfo& info) {
  SocketAddress out;
  out.bytes = std::min<socklen_t>(info.ai_addrlen, sizeof(out.storage));
  std::memcpy(&out.storage, info.ai_addr, out.bytes);
  return out;
}

Status no_address(int rc) {
  switch (rc) {
    case EAI_NONAME:
    case EAI_NODATA:
      return Status::unavailable("the name cannot be resolved: it has no address");
    case EAI_AGAIN:
      return Status::unavailable("the name cannot be resolved: the resolver has no answer");
    case EAI_SYSTEM:
      return Status(Code::kUnavailable, "the name cannot be resolved: the resolver failed", errno);
    default:
      return Status::unavailable("the name cannot be resolved: the resolver failed");
  }
}

class SystemResolver final : public Resolver {
 public:
  Result<std::vector<std::string>> look_up(const std::string& address) override {
    VARVE_TRY(const HostPort parts, split(address));
    Found found;
    found.look_up(parts, 0);
    if (found.rc != 0) return no_address(found.rc);
    std::vector<std::string> numbers;
    for (const addrinfo* at = found.first; at != nullptr; at = at->ai_next) {
      std::string number = address_of(*at).text();
      const bool fresh = std::find(numbers.begin(), numbers.end(), number) == numbers.end();
      if (fresh && numbers.size() < kNameAddressesMax) numbers.push_back(std::move(number));
    }
    return numbers;
  }
};

Status set_int(const Socket& socket, int level, int option, int value) {
  if (setsockopt(socket.fd(), level, option, &value, sizeof(value)) == 0) return {};
  return Status::io("setsockopt", errno);
}

}  // namespace

std::string SocketAddress::text() const {
  char host[INET6_ADDRSTRLEN] = "?";
  if (storage.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &in.sin_addr, host, sizeof(host));
    return std::string(host) + ":" + std::to_string(ntohs(in.sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(storage);
    inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof(host));
    return "[" + std::string(host) + "]:" + std::to_string(ntohs(in6.sin6_port));
  }
  return "?";
}

bool SocketAddress::is_loopback() const {
  if (storage.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(storage);
    return (ntohl(in.sin_addr.s_addr) >> 24) == 127;
  }
  if (storage.ss_family != AF_INET6) return false;
  const auto& in6 = reinterpret_cast<const sockaddr_in6&>(storage);
  if (IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr)) return true;
  return IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) && in6.sin6_addr.s6_addr[12] == 127;
}

Result<SocketAddress> resolve(const std::string& address) {
  VARVE_TRY(const HostPort parts, split(address));
  Found found;
  found.look_up(parts, 0);
  if (found.rc == EAI_AGAIN) return Status::unavailable("name lookup has no answer yet");
  if (found.rc != 0) return Status::invalid("unknown host in the address");
  return address_of(*found.first);
}

Result<AddressKind> address_kind(const std::string& address) {
  VARVE_TRY(const HostPort parts, split(address));
  Found found;
  found.look_up(parts, AI_NUMERICHOST);
  if (found.rc == 0) return AddressKind::kNumber;
  if (address.front() == '[') return Status::invalid("no IPv6 address between the brackets");
  if (is_all(parts.host, "0123456789.")) return Status::invalid("the host is no IPv4 address");
  const bool name =
      is_all(parts.host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._");
  if (!name || parts.host.size() > kHostNameBytesMax) {
    return Status::invalid("the host is neither an address nor a name");
  }
  return AddressKind::kName;
}

std::unique_ptr<Resolver> make_system_resolver() {
  return std::make_unique<SystemResolver>();
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Socket::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

void Socket::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<Socket> open_socket(const SocketAddress& address) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return Status::io("socket", errno);
  return socket;
}

Status set_options(const Socket& socket, const LinkOptions& options) {
  VARVE_ASSERT(socket.is_open());
  VARVE_RETURN_IF_ERROR(set_int(socket, IPPROTO_TCP, TCP_NODELAY, 1));
  // Bytes that the kernel took but the peer never acknowledges are a stall too (F5).
  const Nanos stall_ms = std::min<Nanos>(options.stall_ns_max / kMillisecond, INT32_MAX);
  const int timeout_ms = static_cast<int>(std::max<Nanos>(stall_ms, 1));
  VARVE_RETURN_IF_ERROR(set_int(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, timeout_ms));
  if (options.socket_buffer_bytes != 0) {
    const int bytes = static_cast<int>(std::min<uint32_t>(options.socket_buffer_bytes, INT32_MAX));
    VARVE_RETURN_IF_ERROR(set_int(socket, SOL_SOCKET, SO_SNDBUF, bytes));
    VARVE_RETURN_IF_ERROR(set_int(socket, SOL_SOCKET, SO_RCVBUF, bytes));
  }
  if (!options.congestion.empty() &&
      setsockopt(socket.fd(), IPPROTO_TCP, TCP_CONGESTION, options.congestion.data(),
                 static_cast<socklen_t>(options.congestion.size())) != 0) {
    return Status(Code::kUnsupported, "TCP_CONGESTION refused", errno);
  }
  return {};
}

Status bind_and_listen(const Socket& socket, const SocketAddress& address) {
  // A daemon that was killed must come back at once on the same port.
  VARVE_RETURN_IF_ERROR(set_int(socket, SOL_SOCKET, SO_REUSEADDR, 1));
  if (bind(socket.fd(), address.get(), address.bytes) != 0) {
    if (errno == EADDRINUSE) return Status(Code::kUnavailable, "address is in use", errno);
    return Status::io("bind", errno);
  }
  if (listen(socket.fd(), kBacklog) != 0) return Status::io("listen", errno);
  return {};
}

Result<SocketAddress> local_address(const Socket& socket) {
  SocketAddress out;
  out.bytes = sizeof(out.storage);
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&out.storage), &out.bytes) != 0) {
    return Status::io("getsockname", errno);
  }
  return out;
}

Result<SocketAddress> peer_address(const Socket& socket) {
  SocketAddress out;
  out.bytes = sizeof(out.storage);
  if (getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&out.storage), &out.bytes) != 0) {
    return Status(Code::kUnavailable, "getpeername", errno);
  }
  return out;
}

}  // namespace varve
