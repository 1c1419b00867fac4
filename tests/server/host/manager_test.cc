// Goal: each word arrives at the socket that NOTIFY_SOCKET names, as one datagram, whether that is
// a file or an abstract name; without a manager, or with a bad name, nothing is sent. A signal is
// no reason to say a word less.
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "tests/server/host/host_folder.h"

namespace varve {
namespace {

class Manager {
 public:
  explicit Manager(const std::string& name) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), bytes), 0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() {
    ::unsetenv("NOTIFY_SOCKET");
    ::close(fd_);
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  std::string heard() const {
    char buffer[256];
    const ssize_t n = ::recv(fd_, buffer, sizeof(buffer), 0);
    return n < 0 ? "" : std::string(buffer, static_cast<size_t>(n));
  }

 private:
  int fd_ = -1;
};

TEST(HostManager, EachWordIsOneDatagram) {
  test::HostFolder folder;
  const std::string names[] = {folder.path() + "/notify",
                               "@varve-test-" + std::to_string(::getpid())};
  for (const std::string& name : names) {
    const Manager manager(name);
    EXPECT_EQ(tell_manager("READY=1\nSTATUS=serving"), 0);
    EXPECT_EQ(tell_manager("STOPPING=1"), 0);
    EXPECT_EQ(manager.heard(), "READY=1\nSTATUS=serving");
    EXPECT_EQ(manager.heard(), "STOPPING=1");
    EXPECT_EQ(manager.heard(), "");
  }
}

// The manager reads nothing until its queue is full, so that the next word waits, under signals.
TEST(HostManager, AWordThatWaitsIsNotLostToASignal) {
  struct sigaction nothing = {}, before = {};
  nothing.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &nothing, &before), 0);
  const Manager manager("@varve-test-" + std::to_string(::getpid()));
  uint32_t words = 0;
  while (tell_manager("STATUS=full") == 0)
    ASSERT_LT(++words, 100000u);
  ASSERT_GT(words, 0u);

  std::atomic<bool> answered = false;
  std::thread signals([&, waiting = ::pthread_self()] {
    constexpr uint32_t kSignals = 20;
    for (uint32_t i = 0; i < kSignals && !answered; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ::pthread_kill(waiting, SIGUSR1);
    }
    while (!manager.heard().empty()) {
    }
  });
  const int32_t error = tell_manager("READY=1");
  answered = true;
  signals.join();
  // Where this machine stands still for longer than the word waits, it is EAGAIN.
  EXPECT_TRUE(error == 0 || error == EAGAIN) << std::strerror(error);
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(HostManager, WithoutAManagerNothingIsSent) {
  ::unsetenv("NOTIFY_SOCKET");
  EXPECT_EQ(tell_manager("READY=1"), 0);
  ::setenv("NOTIFY_SOCKET", "no/path", 1);
  EXPECT_EQ(tell_manager("READY=1"), EINVAL);
  ::setenv("NOTIFY_SOCKET", ("/" + std::string(200, 'x')).c_str(), 1);
  EXPECT_EQ(tell_manager("READY=1"), EINVAL);
  ::setenv("NOTIFY_SOCKET", "/nobody/listens", 1);
  EXPECT_EQ(tell_manager("READY=1"), ENOENT);
  ::unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace varve
