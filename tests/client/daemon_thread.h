// DaemonThread: a scripted daemon on a thread of its own, over TCP on a free loopback port: for
// tests of what callers on other threads are promised.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "common/reactor/io.h"
#include "tests/doubles/scripted_daemon.h"

namespace varve {

inline constexpr Nanos kLong = 20 * kSecond;  // reached only by a failing test

// The daemon and its reactor, on a thread of their own.
class DaemonThread {
 public:
  explicit DaemonThread(const std::string& address = "127.0.0.1:0") {
    auto bound = bound_.get_future();
    thread_ = std::thread([this, address] { run(address); });
    address_ = bound.get();
  }
  ~DaemonThread() {
    call([this](ScriptedDaemon& daemon) {
      daemon.stop();
      poll_timer_.owner = this;
      poll_timer_.on_fire = [](Timer& t) {
        static_cast<DaemonThread*>(t.owner)->stop_when_empty();
      };
      reactor_->arm(poll_timer_, 0);
    });
    thread_.join();
  }
  const std::string& address() const { return address_; }
  // Runs on the daemon's thread; waits for it.
  void call(const std::function<void(ScriptedDaemon&)>& body) {
    struct Call {
      Message message;
      const std::function<void(ScriptedDaemon&)>* body;
      ScriptedDaemon* daemon;
      std::shared_ptr<std::promise<void>> done = std::make_shared<std::promise<void>>();
    } c;
    c.body = &body;
    c.daemon = daemon_;
    c.message.owner = &c;
    c.message.deliver = [](Message& m) {
      auto* call = static_cast<Call*>(m.owner);
      const auto promise = call->done;  // `call` goes with its waiter
      (*call->body)(*call->daemon);
      promise->set_value();
    };
    auto done = c.done->get_future();
    reactor_->post(c.message);
    done.get();
  }

 private:
  void run(const std::string& address) {
    SystemClock clock;
    auto fabric = make_tcp_fabric();
    auto io = make_io_backend(IoBackendPreference::kEpoll, {});
    VARVE_ASSERT(io.has_value());
    Reactor reactor(clock, io->backend.get(), ReactorOptions{});
    ScriptedDaemon::Options options;
    options.address = address;
    ScriptedDaemon daemon(*fabric, reactor, options);
    reactor_ = &reactor;
    daemon_ = &daemon;
    bound_.set_value(daemon.address());
    reactor.run();
  }
  void stop_when_empty() {
    if (daemon_->lanes_open() == 0) return reactor_->stop();
    reactor_->arm(poll_timer_, kMillisecond);
  }
  std::promise<std::string> bound_;
  std::thread thread_;
  std::string address_;
  Reactor* reactor_ = nullptr;
  ScriptedDaemon* daemon_ = nullptr;
  Timer poll_timer_;
};

}  // namespace varve
