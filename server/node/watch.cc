// How a node is, between main's thread, which sees it once a second, and those that ask for it.
#include "server/node/watch.h"

namespace varve {

namespace {

std::string seconds_text(Nanos duration_ns) {
  return std::to_string(duration_ns / kSecond) + " s";
}

}  // namespace

void Watch::see(std::string metrics_text, const NodeHealth& health) {
  const std::lock_guard lock(mutex_);
  text_ = std::move(metrics_text);
  last_ = health;
  seen_ = true;
  seen_ns_ = clock_.now_ns();
  if (health.shards_stalled == 0) {
    stalled_ns_ = 0;
  } else if (stalled_ns_ == 0) {
    stalled_ns_ = seen_ns_;
  }
}

void Watch::drains() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

std::string Watch::metrics_text() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

Health Watch::health() const {
  const std::lock_guard lock(mutex_);
  Health health;
  if (draining_) {  // it is bounded, and a restart would only cut it short
    health.not_ready = "it drains and will stop";
    return health;
  }
  const Nanos now_ns = clock_.now_ns(), age_ns = now_ns - seen_ns_;
  if (age_ns > kStalledMax) {
    health.not_alive = "the node has not looked at its shards for " + seconds_text(age_ns);
  } else if (stalled_ns_ != 0 && now_ns - stalled_ns_ > kStalledMax) {
    health.not_alive = std::to_string(last_.shards_stalled) + " shards have not answered for " +
                       seconds_text(now_ns - stalled_ns_);
  }
  if (!seen_) {
    health.not_ready = "it starts";
  } else if (last_.shards_stalled > 0) {
    health.not_ready = std::to_string(last_.shards_stalled) + " shards do not answer";
  } else if (last_.targets_work < last_.targets_least) {
    health.not_ready = "only " + std::to_string(last_.targets_work) +
                       " targets work, blocks need " + std::to_string(last_.targets_least);
  } else if (last_.shards_recovering > 0) {
    health.not_ready = "it recovers: what is not found yet is a miss";
  }
  return health;
}

}  // namespace varve
