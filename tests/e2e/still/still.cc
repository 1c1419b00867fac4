// A file system that stands still, preloaded into a daemon under test: rename() waits for as long
// as the file is there that VARVE_TEST_STILL names. Every file that varved replaces ends in one.
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern "C" int rename(const char* from, const char* to) noexcept {
  const char* still = ::getenv("VARVE_TEST_STILL");
  while (still != nullptr && ::access(still, F_OK) == 0)
    (void)::poll(nullptr, 0, 20);
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}
