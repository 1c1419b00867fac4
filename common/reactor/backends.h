// The two backends behind make_io_backend(), for this room and its tests only.
// Each refuses by Status when the system refuses it; choosing between them is io_backend.cc's work.
#pragma once

#include <memory>

#include "common/reactor/io.h"

namespace varve {

// Tries real submissions (a nop, a read) on each rung of set-up flags, from newest to oldest.
Result<std::unique_ptr<IoBackend>> make_uring_backend(const IoBackendOptions& options);

Result<std::unique_ptr<IoBackend>> make_epoll_backend(const IoBackendOptions& options);

}  // namespace varve
