// SimFabric: lanes between reactors of one thread, in virtual time, with the door's promises (F1 to F5).
//
// A message takes a drawn latency; its payload is copied from the sender's memory into the receiver's placement
// piecemeal over several turns and counts only when on_message says so, as one-sided writes do. Links break on command.
// A link whose process was killed (abandon) never runs again; its peer sees the end after a latency.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/fabric.h"

namespace varve {

class SimLink;
class SimListener;

struct SimFabricOptions {
  Nanos latency_min_ns = 5 * kMicrosecond;
  Nanos latency_max_ns = 60 * kMicrosecond;
  uint32_t copy_bytes_max = 64 * 1024;  // payload copied per step
};

class SimFabric final : public Fabric {
 public:
  // Every reactor that takes part runs on `clock`.
  SimFabric(const Clock& clock, uint64_t seed, const SimFabricOptions& options = {});
  ~SimFabric() override;
  const char* name() const override { return "sim"; }
  Result<std::unique_ptr<Listener>> listen(Reactor& reactor, const std::string& address,
                                           const LinkOptions& options) override;
  Result<std::unique_ptr<Link>> connect(Reactor& reactor, const std::string& address,
                                        const LinkOptions& options) override;

  void break_all();                       // every link, both ends
  void break_client(Reactor& reactor);    // the links of one reactor, both ends
  void abandon(const std::string& address);  // the process behind this listener was killed
  void silence(bool silent) { silent_ = silent; }  // half-open: nothing arrives, nobody is told
  uint32_t link_count() const { return static_cast<uint32_t>(links_.size()); }

 private:
  friend class SimLink;
  friend class SimListener;
  Nanos latency() { return random_.between(options_.latency_min_ns, options_.latency_max_ns); }

  const Clock& clock_;
  Random random_;
  SimFabricOptions options_;
  std::map<std::string, SimListener*> listeners_;
  std::map<uint64_t, SimLink*> links_;  // live ends by number
  uint64_t last_link_ = 0;
  bool silent_ = false;
};

}  // namespace varve
