// Supervisor: the process that stays behind and cleans up after the one that measures.
//
// A run has daemons, senders and GiB of files. However it ends, also by ^C or by an assertion, what
// is left of it is ended and removed by somebody who has nothing else to do. It is a process of its
// own, between the one that was started and the run: what that one had for children before is not
// of the run, and lives on. Only SIGKILL of the supervisor itself leaves the files (or a fault of
// its own); the processes end with it.
#pragma once

#include <optional>
#include <string>

namespace varve::kvbench {

// Forks twice. In the run: nothing, and it goes on. In the caller: the exit code, once the run, and
// all that it started, have ended and `folder` is gone: the run's own; 128 + N when signal N ended
// it, or came from outside: any that ends a process by default (SIGINT, SIGTERM, SIGHUP, SIGQUIT, a
// CPU limit), unless it was ignored from the start. To be called before the process has threads.
std::optional<int> supervise(const std::string& folder);

}  // namespace varve::kvbench
