// What the process may use, asked for once at start: descriptors, memory of the arena, and the
// sentences for the day when memory or threads run out.
#include <cxxabi.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>
#include <typeinfo>

#include "common/base/allocation.h"
#include "server/host/host.h"

namespace varve {

namespace {

// Without memory nothing may be allocated any more, not even for a log line. What can do with one
// answer less says so, and catches (C2, O4).
void say_out_of_memory() {
  if (AllocationsThrow::now()) throw std::bad_alloc();
  constexpr char kText[] =
      "varved: no memory is left for an allocation (limit of this process, container or machine); "
      "lower --dram-bytes or --shards, or raise the limit\n";
  (void)!::write(STDERR_FILENO, kText, sizeof(kText) - 1);
  ::_exit(kExitEnvironment);
}

// What std::thread throws where none is to be had. Everything else that ends the process is a bug
// and aborts as it would.
void say_no_thread() {
  const std::type_info* thrown = abi::__cxa_current_exception_type();
  if (thrown == nullptr || *thrown != typeid(std::system_error)) std::abort();
  constexpr char kText[] =
      "varved: no thread is to be had (limit of this user, process or container); raise it (ulimit "
      "-u, ulimit -v, TasksMax, pids.max) or lower --shards\n";
  (void)!::write(STDERR_FILENO, kText, sizeof(kText) - 1);
  ::_exit(kExitEnvironment);
}

}  // namespace

DescriptorLimit raise_descriptors(uint64_t wanted) {
  VARVE_ASSERT(wanted > 0);
  DescriptorLimit out;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return out;
  out.before = out.now = limit.rlim_cur;
  out.hard = limit.rlim_max;
  if (out.now >= wanted) return out;
  limit.rlim_cur = std::min<uint64_t>(wanted, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) out.now = limit.rlim_cur;
  VARVE_ASSERT(out.now <= out.hard, out.now, out.hard);
  return out;
}

void name_out_of_memory() {
  std::set_new_handler(say_out_of_memory);
  std::set_terminate(say_no_thread);
}

void leave_stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2})
    sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Result<ByteSpan> map_arena(uint64_t bytes) {
  VARVE_ASSERT(bytes > 0 && bytes % kPageBytes == 0, bytes);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Status(Code::kNoSpace, "the DRAM tier could not be mapped; lower --dram-bytes", errno);
  }
  (void)::madvise(memory, bytes, MADV_HUGEPAGE);  // an optimisation: refused is fine
  const ByteSpan span(static_cast<std::byte*>(memory), bytes);
#ifdef MADV_POPULATE_WRITE
  if (::madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return span;
  if (errno == ENOMEM || errno == EFAULT) {
    const int32_t error = errno;
    ::munmap(memory, bytes);
    return Status(Code::kNoSpace, "the DRAM tier found no memory; lower --dram-bytes", error);
  }
#endif
  for (uint64_t at = 0; at < bytes; at += kPageBytes)
    span[at] = std::byte{0};
  return span;
}

}  // namespace varve
