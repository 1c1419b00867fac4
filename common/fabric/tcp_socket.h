// TCP sockets: addresses as text, and descriptors with the options a link wants. Everything here
// runs when a link or listener is made, nothing on the data path.
#pragma once

#include <sys/socket.h>

#include <string>

#include "common/base/base.h"
#include "common/fabric/fabric.h"

namespace varve {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;
  std::string text() const;  // "127.0.0.1:4711", "[::1]:4711"
  bool is_loopback() const;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// "host:port"; host is a number, "[v6]" or a name. A name is looked up here and now, which may
// block for as long as the resolver takes: give numbers where that matters. Of several addresses it
// is the first; "localhost" is 127.0.0.1.
Result<SocketAddress> resolve(const std::string& address);

// Owns a descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { reset(); }
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release();
  void reset();  // closes

 private:
  int fd_ = -1;
};

// A new non-blocking socket for the family of `address`.
Result<Socket> open_socket(const SocketAddress& address);
// No delay, buffers, user timeout. kUnsupported when only the congestion control was refused: the
// socket works, with the system's default.
Status set_options(const Socket& socket, const LinkOptions& options);
Status bind_and_listen(const Socket& socket, const SocketAddress& address);
Result<SocketAddress> local_address(const Socket& socket);
Result<SocketAddress> peer_address(const Socket& socket);

}  // namespace varve
