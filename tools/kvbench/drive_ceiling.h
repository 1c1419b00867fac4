// DriveCeiling: O_DIRECT io_uring reads of the same files by a process that does nothing else.
//
// It reads only what was written: a preallocated file gives its unwritten parts without touching
// the drive. Requests have the size that the daemon's device requests have, in runs as long as an
// extent, the runs in random order. The bytes land in memory as large as the pull's: reading again
// and again into a few MiB that stay in the cache is a benchmark's trick, faster by up to 40 %, and
// no reader who wants the bytes can use it. It is measured and declared as well.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/time/time.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

// FlashOptions::io_bytes_max; of extents that are smaller, a request has the extent's size.
inline constexpr uint32_t kDriveRequestBytes = 256 * kKiB;
// Of runs that long: kInvalid where they are no whole number of requests.
Result<uint32_t> drive_request_bytes(uint32_t run_bytes);

struct DriveCeilingOptions {
  std::vector<std::string> paths;
  uint64_t bytes = 0;         // that the targets should hold
  uint32_t run_bytes = kMiB;  // = extent
  uint32_t requests_in_flight = 32;
};

class DriveCeiling {
 public:
  // Looks for the written parts; fails when there are less than half of `bytes`.
  static Result<std::unique_ptr<DriveCeiling>> open(const DriveCeilingOptions& options);
  ~DriveCeiling();
  DriveCeiling(const DriveCeiling&) = delete;
  DriveCeiling& operator=(const DriveCeiling&) = delete;

  // Reads the written bytes, `destination.size()` of them, from where the round before ended (over
  // again where that is more than were written), one request after the other into `destination`;
  // how long it took.
  Result<Nanos> round(ByteSpan destination);
  // The same number of bytes, but each request into a buffer that was just read into.
  Result<Nanos> round_in_cache(uint64_t bytes);
  uint32_t request_bytes() const { return std::min(kDriveRequestBytes, options_.run_bytes); }
  uint64_t written_bytes() const { return uint64_t{options_.run_bytes} * runs_.size(); }

 private:
  struct Run {
    uint32_t file = 0;
    uint64_t offset = 0;
  };
  struct Ring;
  explicit DriveCeiling(const DriveCeilingOptions& options);
  Status find_runs(uint32_t file);
  void submit_one(std::byte* to, uint64_t request);
  Result<Nanos> read(ByteSpan destination, uint64_t bytes);
  DriveCeilingOptions options_;
  std::vector<int> files_;
  std::vector<Run> runs_;
  uint64_t first_request_ = 0;  // of the next round
  std::unique_ptr<TouchedMemory> buffers_;
  std::unique_ptr<Ring> ring_;
};

}  // namespace varve::kvbench
