// ForkMark: MADV_WIPEONFORK (Linux 4.14), or getpid().
#include "client/fork_mark.h"

#include <sys/mman.h>
#include <unistd.h>

#include "common/base/base.h"

namespace varve {

ForkMark::ForkMark(By by) : pid_(getpid()) {
  if (by == By::kNumber) return;
  void* page =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, kPageBytes, MADV_WIPEONFORK) != 0) {
    munmap(page, kPageBytes);
    return;
  }
  page_ = static_cast<unsigned char*>(page);
  page_[0] = 1;
}

ForkMark::~ForkMark() {
  if (page_ != nullptr) munmap(const_cast<unsigned char*>(page_), kPageBytes);
}

bool ForkMark::is_forked() const {
  return page_ != nullptr ? page_[0] == 0 : getpid() != pid_;
}

}  // namespace varve
