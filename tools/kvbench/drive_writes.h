// DriveWrites: what the disk takes from a process that does nothing else: the push's ceiling.
//
// O_DIRECT io_uring writes of the size that the reads of DriveCeiling have, to preallocated files
// beside the daemon's targets, run by run to one file after the other, then a flush of each.
#pragma once

#include <string>

#include "common/time/time.h"
#include "tools/kvbench/drive_ceiling.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

struct DriveWritesOptions {
  enum class After : uint8_t { kRemove, kKeep };
  std::string folder;  // made by the call
  uint32_t files = 3;
  uint32_t requests_in_flight = 8;          // at each file: FlashOptions::writes_max
  After after = After::kRemove;             // kKeep: the files stay, 0.dat and so on
  uint32_t run_bytes = kDriveRequestBytes;  // = extent: all of it in one file
  uint32_t requests_in_flight_all = ~0u;    // at all files together, at most
};

// Writes `bytes` once; how long it took until all of it was durable.
Result<Nanos> write_to_drive(const DriveWritesOptions& options, ConstByteSpan bytes);

}  // namespace varve::kvbench
