// One thread that waits for connections; it reads and writes nothing of them.
#include "server/control/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>

namespace varve::control {

namespace {

constexpr int kRetryMs = 100;  // until there is a descriptor again

}  // namespace

bool Acceptor::Connection::is_open() const {
  struct stat info = {};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) && info.st_ino == socket;
}

Acceptor::Acceptor(uint32_t connections_max, const Clock& clock)
    : connections_max_(connections_max), clock_(clock) {
  VARVE_ASSERT(connections_max > 0);
  connections_.reserve(connections_max);
}

Status Acceptor::listen(const std::string& address) {
  VARVE_ASSERT(!listener_.is_open());
  VARVE_TRY(const SocketAddress wanted, resolve(address));
  VARVE_TRY(Socket socket, open_socket(wanted));
  // What is accepted inherits both: an answer is small and waited for, and a peer that takes none
  // is cut off by the kernel, because gRPC closes nothing while a write of it is pending.
  const int on = 1, stall_ms = kStallMs;
  if (::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
      ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, &stall_ms, sizeof(stall_ms)) != 0) {
    return Status::io("setsockopt", errno);
  }
  VARVE_RETURN_IF_ERROR(bind_and_listen(socket, wanted));
  VARVE_TRY(const SocketAddress bound, local_address(socket));
  const std::string text = bound.text();
  address_ = address.substr(0, address.rfind(':')) + text.substr(text.rfind(':'));
  listener_ = std::move(socket);
  return {};
}

void Acceptor::start(std::unique_ptr<Taker> taker) {
  VARVE_ASSERT(listener_.is_open() && taker != nullptr && !thread_.joinable());
  taker_ = std::move(taker);
  thread_ = std::thread([this] { run(); });
}

void Acceptor::stop() {
  if (!thread_.joinable()) return;
  (void)::shutdown(listener_.fd(), SHUT_RDWR);  // its thread sees that it listens no more
  thread_.join();
  listener_.reset();
}

void Acceptor::run() {
  while (true) {
    pollfd waits = {listener_.fd(), POLLIN, 0};
    (void)::poll(&waits, 1, -1);
    if ((waits.revents & ~POLLIN) != 0) return;
    Socket peer(::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const bool lacks = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (peer.is_open()) {
      take(std::move(peer));
    } else if (lacks) {
      (void)::poll(nullptr, 0, kRetryMs);
    }
  }
}

void Acceptor::take(Socket peer) {
  if (!enter(peer)) {  // closed at once: whoever is one too many must not wait for nothing
    uint64_t swallowed = 0;
    if (!refused_log_.admit(clock_.now_ns(), &swallowed)) return;
    logf(LogLevel::kWarn, "control",
         "a connection is refused: %u are open, as many as may be (%" PRIu64 " more not logged)",
         connections_max_, swallowed);
    return;
  }
  Taker::NewConnectionParameters parameters;
  parameters.listener_fd = listener_.fd();
  parameters.fd = peer.release();
  taker_->HandleNewConnection(&parameters);
}

bool Acceptor::enter(const Socket& peer) {
  struct stat info = {};
  if (::fstat(peer.fd(), &info) != 0) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  forget_closed();
  if (connections_.size() >= connections_max_) {
    ++refused_;
    return false;
  }
  connections_.push_back({peer.fd(), info.st_ino});
  return true;
}

void Acceptor::forget_closed() {
  std::erase_if(connections_, [](const Connection& connection) { return !connection.is_open(); });
}

Acceptor::Numbers Acceptor::numbers() {
  const std::lock_guard<std::mutex> lock(mutex_);
  forget_closed();
  return {connections_.size(), refused_};
}

}  // namespace varve::control
