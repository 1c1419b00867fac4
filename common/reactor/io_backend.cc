// The choice of a backend: io_uring where it works, epoll where it is refused.
// Containers and hardened hosts forbid io_uring often, so a refusal is an answer, not an error.
#include "common/reactor/backends.h"

namespace varve {

Result<IoBackendChoice> make_io_backend(IoBackendPreference preference,
                                        const IoBackendOptions& options) {
  VARVE_ASSERT(options.entries > 0 && options.worker_threads > 0);
  IoBackendChoice choice;
  if (preference != IoBackendPreference::kEpoll) {
    Result<std::unique_ptr<IoBackend>> uring = make_uring_backend(options);
    if (uring) {
      choice.backend = *std::move(uring);
      return choice;
    }
    if (preference == IoBackendPreference::kUring) return uring.error();
    choice.reason = uring.error();
  } else {
    choice.reason = Status::unsupported("the configuration asks for epoll");
  }
  VARVE_TRY(choice.backend, make_epoll_backend(options));
  return choice;
}

}  // namespace varve
