// Accepting: one accept in flight. An error that is about one connection is skipped, one that is
// about the machine is tried again a little later and said in the log.
#include "common/fabric/tcp_listener.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "common/fabric/tcp_link.h"

namespace varve {

AcceptLoop::AcceptLoop(Reactor& reactor, Socket socket, const LinkOptions& options)
    : reactor_(reactor), socket_(std::move(socket)), options_(options) {
  VARVE_ASSERT(socket_.is_open());
  accept_.owner = retry_.owner = this;
  accept_.kind = IoKind::kAccept;
  accept_.fd = socket_.fd();
  accept_.on_done = [](Io& io) { static_cast<AcceptLoop*>(io.owner)->accepted(io.result); };
  retry_.on_fire = [](Timer& timer) { static_cast<AcceptLoop*>(timer.owner)->post(); };
}

AcceptLoop::~AcceptLoop() {
  VARVE_ASSERT(!retry_.armed());
}

void AcceptLoop::start(ListenerUser& user) {
  VARVE_ASSERT(reactor_.on_owner_core());
  VARVE_ASSERT(user_ == nullptr && !stopped_);
  user_ = &user;
  post();
}

void AcceptLoop::stop() {
  if (stopped_) return;
  stopped_ = true;
  reactor_.cancel(retry_);
  (void)::shutdown(socket_.fd(), SHUT_RDWR);  // refuses newcomers now, not when the Io comes back
  if (accept_.in_flight) {
    reactor_.io().cancel(accept_);
  } else {
    socket_.reset();
  }
}

void AcceptLoop::post() {
  VARVE_ASSERT(!stopped_);
  reactor_.io().start(accept_);
}

void AcceptLoop::accepted(int64_t result) {
  Socket accepted_socket(result >= 0 ? static_cast<int>(result) : -1);
  if (stopped_) return socket_.reset();  // a connection that slipped in closes here
  if (result >= 0) {
    hand_out(std::move(accepted_socket));
    if (!stopped_) post();
    return;
  }
  const bool about_one =
      result == -ECONNABORTED || result == -EINTR || result == -EAGAIN || result == -EPROTO;
  if (about_one) return post();
  uint64_t swallowed = 0;
  if (log_limit_.admit(reactor_.now_ns(), &swallowed)) {
    logf(
        LogLevel::kError, "fabric",
        "cannot accept connections: %s (limit of open files or memory?); trying again every 100 ms "
        "(%llu lines like this not shown)",
        std::strerror(static_cast<int>(-result)), static_cast<unsigned long long>(swallowed));
  }
  reactor_.arm(retry_, kRetryNs);
}

void AcceptLoop::hand_out(Socket socket) {
  // The listener's options were inherited, but not all of them on every kernel; a refusal was said
  // when the listener was made.
  (void)set_options(socket, options_).ok();
  const Result<SocketAddress> peer = peer_address(socket);
  if (!peer.has_value()) return;  // it is gone already
  user_->on_accepted(std::make_unique<TcpLink>(reactor_, std::move(socket), *peer,
                                               TcpLink::Begin::kConnected, options_));
}

void TcpListener::stop() {
  if (stopped_) return;
  stopped_ = true;
  loop_.stop();
}

}  // namespace varve
