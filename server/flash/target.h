// One target as one shard sees it: device, queue, flusher, the logs of the slices it owns there,
// and what is counted. A plain bundle that the parts of this room share; Flash owns it.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "server/flash/flash.h"
#include "server/flash/flusher.h"
#include "server/flash/generation.h"
#include "server/flash/io_queue.h"
#include "server/flash/metric.h"
#include "server/flash/segment.h"

namespace varve::flash {

struct Target {
  Target(Reactor& on_reactor, Entropy& from_entropy, FlashUser& of_user,
         const FlashOptions& with_options, TargetInfo of_info, const TargetGeometry& of_geometry,
         std::unique_ptr<BlockDevice> of_device)
      : reactor(on_reactor),
        entropy(from_entropy),
        user(of_user),
        options(with_options),
        info(std::move(of_info)),
        generations(rows_of(info.super)),
        geometry(of_geometry),
        device(std::move(of_device)),
        io(on_reactor, *device,
           {options.reads_max, options.writes_max, options.io_bytes_max, options.io_ns_max,
            options.read_bytes_max}),
        flusher(on_reactor, io) {}

  uint32_t index() const { return info.super.target_index; }
  bool ok() const { return io.ok(); }
  uint64_t offset(const SliceLog& log, uint32_t segment, uint32_t page) const {
    return bytes_of(geometry.segment_page(log.slice(), segment) + page);
  }

  Reactor& reactor;
  Entropy& entropy;
  FlashUser& user;
  const FlashOptions options;
  const TargetInfo info;
  Generations generations;  // as the superblock says, or the last raise()
  const TargetGeometry geometry;
  std::unique_ptr<BlockDevice> device;
  IoQueue io;
  Flusher flusher;
  std::vector<std::unique_ptr<SliceLog>> logs;  // by slice; null where another shard owns it
  TargetMetrics metrics;
  bool draining = false;
  // The latest start of the KILL records that recovery found here of which each target is said to
  // have missed them; 0: none.
  std::array<uint32_t, kTargetsMax> kills_away = {};
  // A segment was sealed or freed: reclaim and drain look again. Set by Flash.
  void (*on_changed)(void* owner, SliceLog& log) = nullptr;
  void* on_changed_owner = nullptr;

  void changed(SliceLog& log) {
    if (on_changed != nullptr) on_changed(on_changed_owner, log);
  }
};

}  // namespace varve::flash
