// Audit: asks a recovered daemon for every block of the folder and lets the book judge.
//
// Every base id is matched under a lease and pulled rank by rank; what a match denies is pulled
// nevertheless, so that a block which should not be there is seen and match and pull must agree.
#pragma once

#include "tools/ledger/world.h"

namespace varve::ledger {

struct AuditCounts {
  uint64_t blocks_asked = 0, blocks_found = 0, bytes = 0;
  uint64_t broken_hits = 0;    // leased by a match, not delivered by the pull
  uint64_t broken_misses = 0;  // denied by a match, every rank delivered by pulls
  std::string first_broken;
  void merge(const AuditCounts& other);
};

// kTimedOut: still recovering then. kUnavailable: the daemon is gone.
Status wait_recovered(Seat& seat, const World& world, Nanos timeout_ns);

class Audit {
 public:
  Audit(World& world, Seat& seat) : world_(world), seat_(seat) {}
  // Not ok: the daemon could not be asked; what was judged until then stands.
  Status run();
  const AuditCounts& counts() const { return counts_; }

 private:
  Status chain(uint32_t kind, uint32_t first);
  Result<uint32_t> leased(uint32_t kind, uint32_t first, uint32_t count);
  Status denied(uint32_t kind, uint32_t index);
  Result<std::vector<Code>> pull(uint32_t kind, uint32_t rank, uint32_t first, uint32_t count,
                                 uint64_t lease);
  void broken(const BaseId& base, const char* what);

  World& world_;
  Seat& seat_;
  AuditCounts counts_;
};

}  // namespace varve::ledger
