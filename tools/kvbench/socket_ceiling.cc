// Blocking sockets, one system call a message on both sides: the least that moves these bytes.
//
//   message: [ head, kHeadBytes ][ payload, kPieceBytes or what is left of its extent ]
//   message i travels on connection i % n; it begins when the receiver says how many blocks
#include "tools/kvbench/socket_ceiling.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace varve::kvbench {

namespace {

constexpr uint32_t kHeadBytes = 112;          // prefix, frame head and DATA body, nearly
constexpr Nanos kSenderWait = 600 * kSecond;  // it makes its bytes before it connects
constexpr uint32_t kPiecesMax = kPieceBytes / kPageOfLayerBytes;

Status set_up(int fd, const std::string& congestion) {
  int on = 1;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
      ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                   static_cast<socklen_t>(congestion.size())) != 0) {
    return Status::io("bench: socket option", errno);
  }
  return {};
}

// Until every byte of `iov` was moved; sendmsg and recvmsg alike. False at the end of the stream.
template <class Call>
bool move_all(iovec* iov, uint32_t count, Call call) {
  msghdr message = {};
  message.msg_iov = iov;
  message.msg_iovlen = count;
  while (message.msg_iovlen > 0) {
    const ssize_t moved = call(&message);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    auto left = static_cast<size_t>(moved);
    while (message.msg_iovlen > 0 && left >= message.msg_iov->iov_len) {
      left -= message.msg_iov->iov_len;
      ++message.msg_iov;
      --message.msg_iovlen;
    }
    if (message.msg_iovlen == 0) break;
    message.msg_iov->iov_base = static_cast<std::byte*>(message.msg_iov->iov_base) + left;
    message.msg_iov->iov_len -= left;
  }
  return true;
}

struct Piece {
  uint32_t message = 0;
  uint32_t block = 0, layer = 0, offset = 0, bytes = 0;
};

// Layer-major over the blocks, piece by piece: the order of a pull. Stops when `each` says false.
template <class Each>
bool for_each_piece(const WorkingSetShape& shape, uint32_t blocks, Each each) {
  Piece piece;
  for (piece.layer = 0; piece.layer < shape.layers; ++piece.layer) {
    for (piece.block = 0; piece.block < blocks; ++piece.block) {
      for (piece.offset = 0; piece.offset < shape.layer_bytes; piece.offset += kPieceBytes) {
        piece.bytes = std::min(kPieceBytes, shape.layer_bytes - piece.offset);
        if (!each(piece)) return false;
        ++piece.message;
      }
    }
  }
  return true;
}

bool send_round(const SocketCeilingOptions& options, const std::vector<int>& sockets,
                ByteSpan bytes, uint32_t blocks) {
  std::byte head[kHeadBytes] = {};
  const WorkingSetShape& shape = options.shape;
  return for_each_piece(shape, blocks, [&](const Piece& piece) {
    const uint64_t extent = uint64_t{piece.block} * shape.layers + piece.layer;
    iovec iov[2] = {{head, kHeadBytes},
                    {bytes.data() + extent * shape.layer_bytes + piece.offset, piece.bytes}};
    const int fd = sockets[piece.message % sockets.size()];
    return move_all(iov, 2, [fd](msghdr* m) { return ::sendmsg(fd, m, MSG_NOSIGNAL); });
  });
}

// The sender's life: connect, make the bytes, send them whenever it is told to.
int sender_main(const SocketCeilingOptions& options, const sockaddr_in& address) {
  auto memory = TouchedMemory::map(options.shape.bytes());
  if (!memory) return 1;
  const ByteSpan bytes = (*memory)->bytes();
  const uint32_t extent_bytes = options.shape.layer_bytes;
  for (uint32_t e = 0; e < options.shape.extents(); ++e) {
    WorkingSet::content(e / options.shape.layers, e % options.shape.layers,
                        bytes.subspan(uint64_t{e} * extent_bytes, extent_bytes));
  }
  std::vector<int> sockets;
  for (uint32_t i = 0; i < options.connections; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || !set_up(fd, options.congestion).ok()) return 1;
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return 1;
    sockets.push_back(fd);
  }
  uint32_t blocks = 0;
  while (::recv(sockets[0], &blocks, sizeof(blocks), MSG_WAITALL) == sizeof(blocks)) {
    if (blocks > options.shape.blocks) return 1;
    if (!send_round(options, sockets, bytes, blocks)) return 1;
  }
  return 0;
}

}  // namespace

Result<Nanos> move_compared(WorkingSet& set, uint32_t blocks,
                            const std::function<Result<Nanos>()>& move) {
  set.poison_slots(0, blocks);
  VARVE_TRY(const Nanos took_ns, move());
  for (uint32_t b = 0; b < blocks; ++b) {
    if (!set.slot_is(b, b)) return Status::corrupt("kvbench: the raw socket's bytes differ");
  }
  return took_ns;
}

Result<std::unique_ptr<SocketCeiling>> SocketCeiling::start(const SocketCeilingOptions& options) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0) return Status::io("bench: socket", errno);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  // The accepted sockets take the listener's congestion control.
  if (!set_up(listener, options.congestion).ok() ||
      ::bind(listener, reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      ::listen(listener, 16) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    const int error = errno;
    (void)::close(listener);
    return Status::io("bench: listen", error);
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)::close(listener);
    ::_exit(sender_main(options, address));
  }
  std::unique_ptr<SocketCeiling> ceiling(new SocketCeiling);
  ceiling->options_ = options;
  ceiling->pid_ = pid;
  const Status accepted = pid < 0 ? Status::io("bench: fork", errno) : ceiling->accept(listener);
  (void)::close(listener);
  if (!accepted.ok()) return accepted;
  return ceiling;
}

// A sender that ends before it has connected is an error, not something to wait for.
Status SocketCeiling::accept(int listener) {
  const SystemClock clock;
  const Nanos until_ns = clock.now_ns() + kSenderWait;
  while (sockets_.size() < options_.connections) {
    if (clock.now_ns() > until_ns) return Status::timed_out("bench: the raw sender stays away");
    pollfd wait = {listener, POLLIN, 0};
    if (::poll(&wait, 1, 100) > 0) {
      const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return Status::io("bench: accept", errno);
      sockets_.push_back(fd);
    } else if (::waitpid(pid_, nullptr, WNOHANG) != 0) {
      pid_ = -1;  // nobody's any more
      return Status::unavailable("bench: the raw sender ended before it connected: no memory?");
    }
  }
  return {};
}

SocketCeiling::~SocketCeiling() {
  for (const int fd : sockets_)
    (void)::close(fd);
  if (pid_ > 0) {
    (void)::kill(pid_, SIGKILL);
    (void)::waitpid(pid_, nullptr, 0);
  }
}

Result<Nanos> SocketCeiling::round(const WorkingSet& set, uint32_t blocks) {
  VARVE_ASSERT(blocks > 0 && blocks <= options_.shape.blocks, blocks, options_.shape.blocks);
  VARVE_ASSERT(blocks <= set.shape().blocks, blocks, set.shape().blocks);
  VARVE_ASSERT(set.shape().layers == options_.shape.layers);
  const SystemClock clock;
  std::byte head[kHeadBytes];
  const Nanos begin_ns = clock.now_ns();
  if (::send(sockets_[0], &blocks, sizeof(blocks), MSG_NOSIGNAL) != sizeof(blocks)) {
    return Status::io("bench: send", errno);
  }
  const bool whole = for_each_piece(options_.shape, blocks, [&](const Piece& piece) {
    iovec iov[1 + kPiecesMax] = {{head, kHeadBytes}};
    const uint32_t count =
        1 + set.pieces(piece.block, piece.layer, piece.offset, piece.bytes, iov + 1);
    const int fd = sockets_[piece.message % sockets_.size()];
    return move_all(iov, count, [fd](msghdr* m) { return ::recvmsg(fd, m, MSG_WAITALL); });
  });
  if (!whole) return Status::io("bench: the raw sender went away", errno);
  return clock.now_ns() - begin_ns;
}

}  // namespace varve::kvbench
