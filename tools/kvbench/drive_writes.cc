// Run r goes to file r mod files, so that all of them are written at once.
#include "tools/kvbench/drive_writes.h"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

namespace varve::kvbench {

namespace {

class Files {
 public:
  explicit Files(const DriveWritesOptions& options) : options_(options) {}
  ~Files() {
    for (const int fd : fds_)
      (void)::close(fd);
    if (ring_open_) io_uring_queue_exit(&ring_);
    if (options_.after == DriveWritesOptions::After::kKeep) return;
    std::error_code ignored;
    std::filesystem::remove_all(options_.folder, ignored);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  Status open(uint64_t bytes_each) {
    std::error_code error;
    std::filesystem::create_directories(options_.folder, error);
    for (uint32_t i = 0; i < options_.files; ++i) {
      const std::string path = options_.folder + "/" + std::to_string(i) + ".dat";
      const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
      if (fd < 0) return Status::io("bench: create a file, O_DIRECT", errno);
      fds_.push_back(fd);
      const int refused = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes_each));
      if (refused != 0) return Status::io("bench: preallocate", refused);
    }
    const int made = io_uring_queue_init(options_.requests_in_flight * options_.files, &ring_, 0);
    if (made < 0) return Status::io("bench: io_uring is refused", -made);
    ring_open_ = true;
    return {};
  }

  Status write(ConstByteSpan bytes, uint32_t request_bytes) {
    const uint64_t requests = bytes.size() / request_bytes;
    const uint64_t per_run = options_.run_bytes / request_bytes;
    const uint64_t most = std::min<uint64_t>(uint64_t{options_.requests_in_flight} * options_.files,
                                             options_.requests_in_flight_all);
    uint64_t started = 0, ended = 0;
    while (ended < requests) {
      for (; started < requests && started - ended < most; ++started) {
        io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
        VARVE_ASSERT(sqe != nullptr, started);
        const uint64_t run = started / per_run;
        io_uring_prep_write(
            sqe, fds_[run % fds_.size()], bytes.data() + started * request_bytes, request_bytes,
            run / fds_.size() * options_.run_bytes + started % per_run * request_bytes);
      }
      const int submitted = io_uring_submit_and_wait(&ring_, 1);
      if (submitted < 0 && submitted != -EINTR) return Status::io("bench: submit", -submitted);
      io_uring_cqe* done = nullptr;
      while (io_uring_peek_cqe(&ring_, &done) == 0) {
        const int result = done->res;
        io_uring_cqe_seen(&ring_, done);
        if (result != static_cast<int>(request_bytes)) {
          return Status::io("bench: write", result < 0 ? -result : EIO);
        }
        ++ended;
      }
    }
    for (const int fd : fds_) {
      if (::fdatasync(fd) != 0) return Status::io("bench: fdatasync", errno);
    }
    return {};
  }

 private:
  DriveWritesOptions options_;
  std::vector<int> fds_;
  io_uring ring_ = {};
  bool ring_open_ = false;
};

}  // namespace

Result<Nanos> write_to_drive(const DriveWritesOptions& options, ConstByteSpan bytes) {
  VARVE_ASSERT(options.files > 0 && options.requests_in_flight > 0);
  VARVE_ASSERT(options.requests_in_flight_all > 0);
  VARVE_TRY(const uint32_t request_bytes, drive_request_bytes(options.run_bytes));
  if (bytes.size() % options.run_bytes != 0) {
    return Status::invalid("bench: what is written to the drive must be whole extents");
  }
  Files files(options);
  const uint64_t runs = bytes.size() / options.run_bytes;
  VARVE_RETURN_IF_ERROR(files.open((runs / options.files + 1) * options.run_bytes));
  const SystemClock clock;
  const Nanos begin_ns = clock.now_ns();
  VARVE_RETURN_IF_ERROR(files.write(bytes, request_bytes));
  return clock.now_ns() - begin_ns;
}

}  // namespace varve::kvbench
