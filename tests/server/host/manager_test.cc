// Goal: each word arrives at the socket that NOTIFY_SOCKET names, as one datagram, whether that is
// a file or an abstract name; without a manager, or with a bad name, nothing is sent.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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
