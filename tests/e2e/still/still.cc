// A file system that stands still, preloaded into a daemon under test: rename() waits for as long
// as the file is there that VARVE_TEST_STILL names, onto names that end in what it holds. Every
// file that varved replaces ends in one.
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool stands_still(const char* still, const char* to) {
  const int fd = still == nullptr ? -1 : ::open(still, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char end[64] = {};
  (void)!::read(fd, end, sizeof(end) - 1);
  ::close(fd);
  const size_t length = ::strlen(end), whole = ::strlen(to);
  return length <= whole && ::strcmp(to + whole - length, end) == 0;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  while (stands_still(::getenv("VARVE_TEST_STILL"), to))
    (void)::poll(nullptr, 0, 20);
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}
