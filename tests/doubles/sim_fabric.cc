// The world's side of the simulated fabric: addresses, faults, the list of ends.
#include "tests/doubles/sim_fabric.h"

#include <algorithm>

#include "tests/doubles/sim_link.h"

namespace varve {

SimFabric::SimFabric(uint64_t seed, const SimFabricOptions& options)
    : options_(options), random_(seed) {
  VARVE_ASSERT(options.latency_ns_min > 0);
  VARVE_ASSERT(options.latency_ns_min <= options.latency_ns_max);
  VARVE_ASSERT(options.pieces_max > 0);
}

SimFabric::~SimFabric() {
  VARVE_ASSERT(links_.empty(), links_.size());
  VARVE_ASSERT(listeners_.empty(), listeners_.size());
}

Result<std::unique_ptr<Listener>> SimFabric::listen(Reactor& reactor, const std::string& address,
                                                    const LinkOptions& options) {
  std::string bound = address;
  if (bound.ends_with(":0")) bound = bound.substr(0, bound.size() - 1) + std::to_string(++ports_);
  if (listener_of(bound) != nullptr) return Status::unavailable("address is in use");
  return std::unique_ptr<Listener>(
      std::make_unique<SimListener>(*this, reactor, std::move(bound), options));
}

Result<std::unique_ptr<Link>> SimFabric::connect(Reactor& reactor, const std::string& address,
                                                 const LinkOptions& options) {
  auto link = std::make_unique<SimLink>(*this, reactor, address, options);
  link->connects_ = true;
  return std::unique_ptr<Link>(std::move(link));
}

void SimFabric::break_all() {
  // By copy: what hears of it may close, but nothing is destroyed before a later turn.
  const std::vector<SimLink*> links = links_;
  for (SimLink* link : links) {
    if (link->peer_ == nullptr) continue;
    ++counters_.breaks;
    link->sever();
  }
}

bool SimFabric::break_one() {
  SimLink* link = pick_connection();
  if (link == nullptr) return false;
  ++counters_.breaks;
  link->sever();
  return true;
}

bool SimFabric::silence_one() {
  SimLink* link = pick_connection();
  if (link == nullptr) return false;
  ++counters_.silences;
  link->silenced_ = true;
  link->peer_->silenced_ = true;
  return true;
}

void SimFabric::partition(const std::string& address, bool on) {
  std::erase(partitioned_, address);
  if (on) {
    partitioned_.push_back(address);
    return;
  }
  for (SimLink* link : links_) {
    if (link->address_ != address) continue;
    link->expect();
    if (!link->lost_.ok() && !link->silenced_) {
      link->reactor_.timers().arm(link->lost_timer_, link->reactor_.now_ns() + latency());
    }
  }
}

void SimFabric::kill(Reactor& reactor, Death death) {
  ++counters_.kills;
  for (SimListener* listener : std::vector<SimListener*>(listeners_)) {
    if (&listener->reactor_ == &reactor) listener->die();
  }
  for (SimLink* link : std::vector<SimLink*>(links_)) {
    if (&link->reactor_ != &reactor) continue;
    SimLink* peer = link->peer_;
    link->peer_ = nullptr;
    if (peer != nullptr) {
      peer->peer_ = nullptr;
      if (death == Death::kSilent) peer->silenced_ = true;
      peer->lose_peer(Status::unavailable("connection reset"), peer->reactor_.now_ns());
    }
    link->die();
  }
}

uint32_t SimFabric::connection_count() const {
  uint32_t ends = 0;
  for (const SimLink* link : links_)
    ends += link->peer_ != nullptr ? 1 : 0;
  return ends / 2;
}

Nanos SimFabric::latency() {
  return random_.between(options_.latency_ns_min, options_.latency_ns_max);
}

bool SimFabric::is_partitioned(const std::string& address) const {
  return std::find(partitioned_.begin(), partitioned_.end(), address) != partitioned_.end();
}

SimLink* SimFabric::pick_connection() {
  std::vector<SimLink*> connected;
  for (SimLink* link : links_) {
    if (link->peer_ != nullptr && !link->silenced_) connected.push_back(link);
  }
  return connected.empty() ? nullptr : connected[random_.below(connected.size())];
}

SimListener* SimFabric::listener_of(const std::string& address) {
  for (SimListener* listener : listeners_) {
    if (listener->address_ == address && !listener->stopped_) return listener;
  }
  return nullptr;
}

void SimFabric::remove(SimLink& link) {
  for (SimListener* listener : listeners_)
    listener->forget(link);
  std::erase(links_, &link);
}

void SimFabric::remove(SimListener& listener) {
  std::erase(listeners_, &listener);
}

}  // namespace varve
