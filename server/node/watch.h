// What the monitor of a node shows: the numbers of the last second and how the node is, left here
// by main's thread and read by those of HTTP.
#pragma once

#include <mutex>
#include <string>

#include "common/time/time.h"
#include "server/monitor/monitor.h"

namespace varve {

// As of one second.
struct NodeHealth {
  uint32_t shards_stalled = 0, shards_recovering = 0;
  uint32_t targets_work = 0, targets_least = 0;  // at fewer nothing can be stored or read
};

class Watch final : public MonitorSource {
 public:
  // A core that does not answer for this long will hardly do so again.
  static constexpr Nanos kStalledMax = 15 * kSecond;
  explicit Watch(const Clock& clock) : clock_(clock), seen_ns_(clock.now_ns()) {}
  void see(std::string metrics_text, const NodeHealth& health);
  void drains();  // from here on nobody is to be sent here

  std::string metrics_text() const override;
  Health health() const override;

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::string text_;
  NodeHealth last_;
  bool seen_ = false, draining_ = false;
  Nanos seen_ns_;         // of the last see()
  Nanos stalled_ns_ = 0;  // since when a core has not answered; 0: all do
};

}  // namespace varve
