// FaultDevice: a decorator that adds faults to any BlockDevice, and a volatile write cache.
//
// The cache: writes are acknowledged at once and held in an overlay; a completed flush passes on
// exactly the writes that were acknowledged before it was submitted. crash() decides by coin for
// each unflushed page whether it was kept or lost, and may tear a write (a prefix of its 512-byte
// sectors kept). Over a FileDevice the same cache serves the crash ledger: the overlay lives in
// this process and dies with kill -9, so `spill_per_mille` writes unflushed pages through early, in
// random order, partly, to make "kept" and "torn" happen under a real kill too.
#pragma once

#include <memory>

#include "common/device/device.h"

namespace varve {

struct FaultPlan {
  bool volatile_cache = false;
  uint32_t spill_per_mille = 0;       // chance per millisecond that an unflushed page leaks
  uint32_t read_error_per_mille = 0;  // transient media error (EIO) on a read
  uint32_t bit_rot_per_mille = 0;  // one bit flipped in the data that a read returns, persistently
  uint32_t slow_per_mille = 0;     // this request takes slow_ns more
  Nanos slow_ns = 0;
  uint64_t seed = 1;
};

class FaultDevice : public BlockDevice {
 public:
  static std::unique_ptr<FaultDevice> wrap(Reactor& reactor, std::unique_ptr<BlockDevice> inner,
                                           const FaultPlan& plan);
  // Persistent faults, switched at run time. Writing a bad page heals it, as drives remap sectors.
  virtual void sector_error_set(uint64_t offset_bytes,
                                uint64_t length_bytes) = 0;  // reads give EIO
  virtual void stuck_set(bool stuck) = 0;                    // requests are swallowed until unstuck
  virtual void vanish() = 0;             // reads give 0 bytes, writes EIO: hot unplug
  virtual void full_set(bool full) = 0;  // writes give ENOSPC
  // Power cut: unflushed pages (of in-flight writes too, whose memory must still be there) are
  // kept, lost or torn by coin; in-flight requests never complete. The decorator is dead
  // afterwards; open a new one over the same medium. Over a FileDevice the real thing, kill -9, is
  // used instead.
  virtual void crash() = 0;
  struct FaultCounters {
    uint64_t pages_kept = 0, pages_lost = 0, pages_torn = 0, bits_flipped = 0, errors_given = 0;
  };
  virtual const FaultCounters& fault_counters() const = 0;

 protected:
  using BlockDevice::BlockDevice;
};

}  // namespace varve
