// liburing, plain reads, submitted in batches as completions come.
#include "tools/kvbench/drive_ceiling.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace varve::kvbench {

struct DriveCeiling::Ring {
  io_uring uring = {};
  bool open = false;
  ~Ring() {
    if (open) io_uring_queue_exit(&uring);
  }
};

Result<uint32_t> drive_request_bytes(uint32_t run_bytes) {
  const uint32_t bytes = std::min(kDriveRequestBytes, run_bytes);
  if (bytes == 0 || run_bytes % bytes != 0) {
    return Status::invalid(
        "bench: an extent above 256 KiB that is read from, or written to, the "
        "drive for a ceiling must be a multiple of 256 KiB");
  }
  return bytes;
}

DriveCeiling::DriveCeiling(const DriveCeilingOptions& options)
    : options_(options), ring_(std::make_unique<Ring>()) {}

DriveCeiling::~DriveCeiling() {
  for (const int fd : files_)
    (void)::close(fd);
}

// A run counts when every page of it has a byte that is not zero at its start: KV bytes do, what
// was never written does not.
Status DriveCeiling::find_runs(uint32_t file) {
  struct stat info = {};
  if (::fstat(files_[file], &info) != 0) return Status::io("bench: fstat", errno);
  const auto end = static_cast<uint64_t>(info.st_size);
  const ByteSpan buffer = buffers_->bytes().first(request_bytes());
  uint64_t found_bytes = 0;  // written in a row, not yet part of a run
  for (uint64_t at = 0; at + buffer.size() <= end; at += buffer.size()) {
    const ssize_t got = ::pread(files_[file], buffer.data(), buffer.size(), static_cast<off_t>(at));
    if (got != static_cast<ssize_t>(buffer.size())) return Status::io("bench: pread", errno);
    bool written = true;
    for (uint64_t page = 0; written && page < buffer.size(); page += kPageBytes) {
      written = load<uint64_t>(buffer, page) != 0;
    }
    found_bytes = written ? found_bytes + buffer.size() : 0;
    if (found_bytes < options_.run_bytes) continue;
    runs_.push_back({file, at + buffer.size() - options_.run_bytes});
    found_bytes = 0;
  }
  return {};
}

Result<std::unique_ptr<DriveCeiling>> DriveCeiling::open(const DriveCeilingOptions& options) {
  if (const auto request = drive_request_bytes(options.run_bytes); !request) return request.error();
  std::unique_ptr<DriveCeiling> ceiling(new DriveCeiling(options));
  VARVE_TRY(ceiling->buffers_, TouchedMemory::map(std::max<uint64_t>(
                                   uint64_t{options.requests_in_flight} * ceiling->request_bytes(),
                                   options.run_bytes)));
  for (const std::string& path : options.paths) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0) return Status::io("bench: open a target, O_DIRECT", errno);
    ceiling->files_.push_back(fd);
    VARVE_RETURN_IF_ERROR(ceiling->find_runs(static_cast<uint32_t>(ceiling->files_.size()) - 1));
  }
  if (ceiling->written_bytes() < options.bytes / 2) {
    return Status::invalid("bench: the targets hold less than half of the working set");
  }
  Random random(17);
  std::vector<Run>& runs = ceiling->runs_;
  for (size_t i = runs.size(); i > 1; --i)
    std::swap(runs[i - 1], runs[random.below(i)]);
  const int made = io_uring_queue_init(2 * options.requests_in_flight, &ceiling->ring_->uring, 0);
  if (made < 0) return Status::io("bench: io_uring is refused", -made);
  ceiling->ring_->open = true;
  return ceiling;
}

void DriveCeiling::submit_one(std::byte* to, uint64_t request) {
  const uint32_t per_run = options_.run_bytes / request_bytes();
  const Run& run = runs_[request / per_run % runs_.size()];
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_->uring);
  VARVE_ASSERT(sqe != nullptr);
  io_uring_prep_read(sqe, files_[run.file], to, request_bytes(),
                     run.offset + request % per_run * uint64_t{request_bytes()});
}

Result<Nanos> DriveCeiling::round(ByteSpan destination) {
  return read(destination, destination.size());
}

Result<Nanos> DriveCeiling::round_in_cache(uint64_t bytes) {
  return read(buffers_->bytes(), bytes);
}

// Request r goes to the r-th place of `destination`, around its end; at most requests_in_flight are
// at the device, so with as many places no two write into one place, nearly: completions come about
// in order, and nobody looks at these bytes.
Result<Nanos> DriveCeiling::read(ByteSpan destination, uint64_t bytes) {
  const SystemClock clock;
  const uint64_t places = destination.size() / request_bytes();
  const uint64_t requests = bytes / request_bytes();
  const auto start = [&](uint64_t request) {
    submit_one(destination.data() + request % places * request_bytes(), first_request_ + request);
  };
  const Nanos begin_ns = clock.now_ns();
  uint64_t started = 0, ended = 0;
  while (started < std::min<uint64_t>(requests, options_.requests_in_flight))
    start(started++);
  while (ended < requests) {
    const int submitted = io_uring_submit_and_wait(&ring_->uring, 1);
    if (submitted < 0 && submitted != -EINTR) return Status::io("bench: submit", -submitted);
    io_uring_cqe* done[64];
    const uint32_t count = io_uring_peek_batch_cqe(&ring_->uring, done, std::size(done));
    for (uint32_t i = 0; i < count; ++i) {
      if (done[i]->res != static_cast<int>(request_bytes())) {
        return Status::io("bench: read", done[i]->res < 0 ? -done[i]->res : EIO);
      }
      ++ended;
      if (started < requests) start(started++);
    }
    io_uring_cq_advance(&ring_->uring, count);
  }
  first_request_ += requests;
  return clock.now_ns() - begin_ns;
}

}  // namespace varve::kvbench
