// Acceptor: takes the connections of the control plane and hands each to gRPC, which has no limit
// of its own; without one, idle peers would use up the descriptors of the data plane.
#pragma once

#include <grpcpp/server_builder.h>
#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/fabric/tcp_socket.h"
#include "common/time/time.h"

namespace varve::control {

class Acceptor {
 public:
  static constexpr int kStallMs = 20000;  // that a peer may leave what it is sent untaken
  using Taker = grpc::experimental::ExternalConnectionAcceptor;
  Acceptor(uint32_t connections_max, const Clock& clock);
  ~Acceptor() { stop(); }

  // The first address of HOST:PORT, as the data plane; port 0: any.
  Status listen(const std::string& address);
  std::string address() const { return address_; }
  // From now on; the server of `taker` runs already, and owns each descriptor that it is given.
  void start(std::unique_ptr<Taker> taker);
  // Before that server ends. Again: nothing.
  void stop();

  struct Numbers {
    uint64_t open = 0, refused = 0;
  };
  Numbers numbers();  // any thread

 private:
  // gRPC closes a connection without a word. Its socket has a number of its own as long as it
  // lives, so what the descriptor is by now tells whether it is still this one.
  struct Connection {
    int fd = -1;
    ino_t socket = 0;
    bool is_open() const;
  };
  void run();
  void take(Socket peer);
  bool enter(const Socket& peer);
  void forget_closed();

  const uint32_t connections_max_;
  const Clock& clock_;
  std::string address_;
  Socket listener_;
  std::unique_ptr<Taker> taker_;
  std::thread thread_;
  LogLimit refused_log_{60 * kSecond};  // its thread's
  std::mutex mutex_;                    // of what follows
  std::vector<Connection> connections_;
  uint64_t refused_ = 0;
};

}  // namespace varve::control
