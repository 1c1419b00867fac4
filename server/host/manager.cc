// Words to the service manager that started us: systemd's protocol for Type=notify, one datagram
// each to the socket that NOTIFY_SOCKET names. Without one there is nobody to tell.
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "server/host/host.h"

namespace varve {

int32_t tell_manager(std::string_view words) {
  VARVE_ASSERT(!words.empty());
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr || name[0] == '\0') return 0;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const size_t length = std::strlen(name);
  if ((name[0] != '/' && name[0] != '@') || length >= sizeof(address.sun_path)) return EINVAL;
  std::memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';  // a name that is no file
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const timeval limit = {1, 0};  // a manager that does not read is no reason to stand still
  (void)::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  ssize_t sent = 0;
  do {  // with a limit set, a process that is stopped and continued meanwhile is told EINTR
    sent = ::sendto(fd, words.data(), words.size(), MSG_NOSIGNAL,
                    reinterpret_cast<const sockaddr*>(&address), bytes);
  } while (sent < 0 && errno == EINTR);
  const int32_t error = sent < 0 ? errno : 0;
  ::close(fd);
  return error;
}

}  // namespace varve
