// SimFabric: links between reactors of one thread, in virtual time, with faults on command.
//
// Owned by the simulated world, which outlives every reactor and link. Messages are delivered by
// timers on the receiving reactor after a seeded latency, in order per link. A payload is read from
// the sender's memory at delivery and lands in the receiver's placement in shuffled pieces over
// several turns: only completion orders it, as with one-sided writes. Between close() and on_closed
// a piece may still land, which is what the fence is for. It keeps F1 to F5; everything it does is
// a function of its seed and of the calls made.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/fabric.h"

namespace varve {

struct SimFabricOptions {
  Nanos latency_ns_min = 20 * kMicrosecond;  // of one message, one way
  Nanos latency_ns_max = 200 * kMicrosecond;
  Nanos piece_ns_max = 20 * kMicrosecond;  // between the pieces of a payload
  uint32_t pieces_max = 4;
  bool peers_are_loopback = true;
};

class SimLink;
class SimListener;

class SimFabric final : public Fabric {
 public:
  explicit SimFabric(uint64_t seed, const SimFabricOptions& options = {});
  ~SimFabric() override;  // asserts that every link and listener is gone

  const char* name() const override { return "sim"; }
  // Addresses are names; one that ends in ":0" gets a number of its own.
  Result<std::unique_ptr<Listener>> listen(Reactor& reactor, const std::string& address,
                                           const LinkOptions& options) override;
  Result<std::unique_ptr<Link>> connect(Reactor& reactor, const std::string& address,
                                        const LinkOptions& options) override;

  // Faults. A broken connection is reset: both ends hear of it after the latency.
  void break_all();
  bool break_one();  // one connection by seed; false when there is none
  // Half-open: one connection by seed passes nothing any more and reports nothing, for ever.
  bool silence_one();
  // Partition: nothing passes to or from this listen address and nothing is reported, until it
  // ends.
  void partition(const std::string& address, bool on);
  // The process behind `reactor` is gone, without a word to it: its links and listeners make no
  // more upcalls, touch no memory and may be destroyed. Peers hear a reset, or nothing (power cut).
  enum class Death : uint8_t { kReset, kSilent };
  void kill(Reactor& reactor, Death death);

  uint32_t connection_count() const;  // with both ends alive
  uint32_t link_count() const { return static_cast<uint32_t>(links_.size()); }
  struct Counters {
    uint64_t messages = 0, payload_bytes = 0, discarded_bytes = 0;
    uint64_t connects = 0, refusals = 0, breaks = 0, silences = 0, kills = 0;
    uint64_t pieces_after_close = 0;  // writes that only the fence makes harmless
  };
  const Counters& counters() const { return counters_; }

 private:
  friend class SimLink;
  friend class SimListener;
  Nanos latency();
  bool is_partitioned(const std::string& address) const;
  SimLink* pick_connection();
  SimListener* listener_of(const std::string& address);
  void remove(SimLink& link);
  void remove(SimListener& listener);

  const SimFabricOptions options_;
  Random random_;
  std::vector<SimLink*> links_;  // in order of creation
  std::vector<SimListener*> listeners_;
  std::vector<std::string> partitioned_;
  uint64_t link_ids_ = 0;
  uint32_t ports_ = 10000;
  Counters counters_;
};

}  // namespace varve
