// TcpListener: accepts connections and hands them out as links.
//
// The accept in flight lives in an AcceptLoop that the fabric keeps: a listener may be destroyed at
// any time, the loop goes when the backend has given its Io back.
#pragma once

#include <memory>
#include <string>

#include "common/fabric/fabric.h"
#include "common/fabric/tcp_socket.h"

namespace varve {

class AcceptLoop {
 public:
  AcceptLoop(Reactor& reactor, Socket socket, const LinkOptions& options);
  ~AcceptLoop();
  void start(ListenerUser& user);
  void stop();
  bool stopped() const { return stopped_ && !accept_.in_flight; }

 private:
  static constexpr Nanos kRetryNs = 100 * kMillisecond;  // out of descriptors or memory
  void post();
  void accepted(int64_t result);
  void hand_out(Socket socket);

  Reactor& reactor_;
  Socket socket_;
  const LinkOptions options_;
  ListenerUser* user_ = nullptr;
  bool stopped_ = false;
  Io accept_;
  Timer retry_;
  LogLimit log_limit_{10 * kSecond};
};

class TcpListener final : public Listener {
 public:
  TcpListener(AcceptLoop& loop, std::string address) : loop_(loop), address_(std::move(address)) {}
  ~TcpListener() override { stop(); }
  void start(ListenerUser& user) override { loop_.start(user); }
  void stop() override;
  std::string address() const override { return address_; }

 private:
  AcceptLoop& loop_;  // the fabric's, valid until stop()
  bool stopped_ = false;
  std::string address_;
};

}  // namespace varve
