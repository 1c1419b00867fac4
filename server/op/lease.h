// LeaseTable: the promises that blocks stay readable until released or expired (I4).
//
// A lease belongs to one session and pins base slots of the index, each with its position in the
// request that made it. Bounded in leases, pins and age; one timer ends what is due. Ids carry a
// sequence, so one of an earlier lease is never mistaken for a live one.
#pragma once

#include <vector>

#include "common/base/base.h"
#include "common/reactor/reactor.h"
#include "server/index/index.h"
#include "server/op/metric.h"
#include "server/op/part.h"

namespace varve {

// A run of pins of one lease. Pooled.
struct LeasePins {
  static constexpr uint32_t kMax = 40;
  uint32_t base_slots[kMax];
  uint16_t positions[kMax];
  uint32_t count = 0;
  LeasePins* next = nullptr;
};

struct Lease : ListHook {
  LeaseId id = 0;  // 0 = free
  uint64_t session = 0;
  Nanos expires_ns = 0;
  uint32_t pin_count = 0;
  uint32_t number = 0;  // in the pool; the low bits of the id
  Queue<LeasePins, &LeasePins::next> pins;
};

struct LeaseOptions {
  uint32_t leases_max = 1024;
  uint32_t pins_max = 256 * 1024;
  uint32_t lease_ms_max = 60000;
};

class LeaseTable {
 public:
  LeaseTable(Reactor& reactor, Index& index, OpMetrics& metrics, const LeaseOptions& options);
  ~LeaseTable();
  LeaseTable(const LeaseTable&) = delete;
  LeaseTable& operator=(const LeaseTable&) = delete;

  // A lease over `base_slots[i]` at rising `positions[i]`, for at most lease_ms_max; 0 when the
  // table is full.
  LeaseId grant(uint64_t session, std::span<const uint32_t> base_slots,
                std::span<const uint16_t> positions, uint32_t lease_ms);
  // Live, of this session and not past its time, even if the timer has not run yet.
  bool holds(LeaseId id, uint64_t session) const;
  // It ends `lease_ms` from now (at most lease_ms_max), sooner or later than before. False: it is
  // over, or not of this session.
  [[nodiscard]] bool renew(LeaseId id, uint64_t session, uint32_t lease_ms);
  // Drops the pins at positions >= keep_below; with none left (or keep_below 0) the lease ends.
  // An unknown or ended lease, or one of another session, is left alone: release is idempotent.
  void release(LeaseId id, uint64_t session, uint32_t keep_below);
  void session_gone(uint64_t session);

  uint32_t live() const { return static_cast<uint32_t>(leases_live_.size()); }
  uint32_t pins() const { return pin_count_; }

 private:
  Lease* find(LeaseId id) const;
  void insert_by_expiry(Lease& lease, uint32_t lease_ms);
  void end(Lease& lease);
  void expire_due();
  void arm();

  Reactor& reactor_;
  Index& index_;
  OpMetrics& metrics_;
  LeaseOptions options_;
  Pool<Lease> pool_;
  Pool<LeasePins> pins_pool_;
  std::vector<Lease*> by_number_;
  List<Lease> leases_live_;  // by expiry, first due in front
  uint64_t sequence_ = 0;
  uint32_t pin_count_ = 0;
  Timer timer_;
};

}  // namespace varve
