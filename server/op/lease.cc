// Leases: granted by a match, kept by expiry order, ended by release, time or their session's end.
//
// The pins themselves are counts in the index; this file is the only one that adds and drops them
// for leases (pulls keep their own, for the time of the pull).
#include "server/op/lease.h"

#include <algorithm>

namespace varve {

namespace {

constexpr uint32_t kNumberBits = 16;
constexpr uint64_t kNumberMask = (1u << kNumberBits) - 1;

uint32_t runs_for(const LeaseOptions& options) {
  // Every lease may end in one run that is not full.
  return options.pins_max / LeasePins::kMax + options.leases_max;
}

}  // namespace

LeaseTable::LeaseTable(Reactor& reactor, Index& index, OpMetrics& metrics,
                       const LeaseOptions& options)
    : reactor_(reactor),
      index_(index),
      metrics_(metrics),
      options_(options),
      pool_(options.leases_max),
      pins_pool_(runs_for(options)) {
  VARVE_ASSERT(options.leases_max > 0);
  VARVE_ASSERT(options.leases_max <= kNumberMask, options.leases_max);
  by_number_.reserve(options.leases_max);
  for (const auto& lease : pool_.all()) {
    lease->number = static_cast<uint32_t>(by_number_.size());
    by_number_.push_back(lease.get());
  }
  timer_.owner = this;
  timer_.on_fire = [](Timer& timer) { static_cast<LeaseTable*>(timer.owner)->expire_due(); };
}

LeaseTable::~LeaseTable() {
  reactor_.cancel(timer_);
}

LeaseId LeaseTable::grant(uint64_t session, std::span<const uint32_t> base_slots,
                          std::span<const uint16_t> positions, uint32_t lease_ms) {
  VARVE_ASSERT(base_slots.size() == positions.size(), base_slots.size(), positions.size());
  if (base_slots.empty() || lease_ms == 0) return 0;
  const auto count = static_cast<uint32_t>(base_slots.size());
  Lease* lease = count <= options_.pins_max - pin_count_ ? pool_.take() : nullptr;
  if (lease == nullptr) {
    metrics_.leases_refused.add();
    return 0;
  }
  lease->id = ++sequence_ << kNumberBits | lease->number;
  lease->session = session;
  LeasePins* run = nullptr;
  for (uint32_t i = 0; i < count; ++i) {
    VARVE_DASSERT(i == 0 ||
                  positions[i - 1] < positions[i]);  // so that a trim leaves one short run
    if (run == nullptr || run->count == LeasePins::kMax) {
      run = pins_pool_.take();
      VARVE_ASSERT(run != nullptr, pin_count_, options_.pins_max);  // runs_for() covers pins_max
      run->count = 0;
      lease->pins.push(run);
    }
    run->base_slots[run->count] = base_slots[i];
    run->positions[run->count++] = positions[i];
    index_.lease_add(base_slots[i]);
  }
  lease->pin_count = count;
  pin_count_ += count;
  insert_by_expiry(*lease, lease_ms);
  metrics_.leases_granted.add();
  metrics_.leases_live.set(live());
  metrics_.lease_pins.set(pin_count_);
  arm();
  return lease->id;
}

void LeaseTable::insert_by_expiry(Lease& lease, uint32_t lease_ms) {
  lease.expires_ns = reactor_.now_ns() + std::min(lease_ms, options_.lease_ms_max) * kMillisecond;
  // Nearly all leases of a node are equally long, so the place is found at the back.
  Lease* after = leases_live_.back();
  while (after != nullptr && after->expires_ns > lease.expires_ns)
    after = leases_live_.previous(after);
  leases_live_.insert_after(after, &lease);
}

Lease* LeaseTable::find(LeaseId id) const {
  const uint64_t number = id & kNumberMask;
  if (id == 0 || number >= by_number_.size()) return nullptr;
  Lease* lease = by_number_[number];
  return lease->id == id ? lease : nullptr;
}

bool LeaseTable::holds(LeaseId id, uint64_t session) const {
  const Lease* lease = find(id);
  return lease != nullptr && lease->session == session && lease->expires_ns > reactor_.now_ns();
}

bool LeaseTable::renew(LeaseId id, uint64_t session, uint32_t lease_ms) {
  VARVE_ASSERT(lease_ms > 0);
  if (!holds(id, session)) return false;
  Lease* lease = find(id);
  VARVE_ASSERT(lease->pin_count > 0);  // one without pins has ended
  leases_live_.remove(lease);
  insert_by_expiry(*lease, lease_ms);
  metrics_.leases_renewed.add();
  arm();
  return true;
}

void LeaseTable::release(LeaseId id, uint64_t session, uint32_t keep_below) {
  Lease* lease = find(id);
  if (lease == nullptr || lease->session != session) return;
  uint32_t kept = 0;
  if (keep_below > 0) {
    Queue<LeasePins, &LeasePins::next> all;
    all.append(lease->pins);
    while (LeasePins* run = all.pop()) {
      uint32_t n = 0;
      for (uint32_t i = 0; i < run->count; ++i) {
        if (run->positions[i] < keep_below) {
          run->base_slots[n] = run->base_slots[i];
          run->positions[n++] = run->positions[i];
        } else {
          index_.lease_drop(run->base_slots[i]);
        }
      }
      pin_count_ -= run->count - n;
      lease->pin_count -= run->count - n;
      run->count = n;
      kept += n;
      if (n > 0) {
        lease->pins.push(run);
      } else {
        pins_pool_.give(run);
      }
    }
  }
  if (kept == 0) {
    metrics_.leases_released.add();
    end(*lease);
  }
  metrics_.lease_pins.set(pin_count_);
}

void LeaseTable::session_gone(uint64_t session) {
  for (Lease* lease = leases_live_.front(); lease != nullptr;) {
    Lease* following = leases_live_.next(lease);
    if (lease->session == session) {
      metrics_.leases_released.add();
      end(*lease);
    }
    lease = following;
  }
}

void LeaseTable::end(Lease& lease) {
  VARVE_ASSERT(lease.id != 0);
  while (LeasePins* run = lease.pins.pop()) {
    for (uint32_t i = 0; i < run->count; ++i)
      index_.lease_drop(run->base_slots[i]);
    VARVE_ASSERT(pin_count_ >= run->count);
    pin_count_ -= run->count;
    lease.pin_count -= run->count;
    pins_pool_.give(run);
  }
  VARVE_ASSERT(lease.pin_count == 0, lease.pin_count);
  leases_live_.remove(&lease);
  lease.id = 0;
  lease.session = 0;
  pool_.give(&lease);
  metrics_.leases_live.set(live());
  metrics_.lease_pins.set(pin_count_);
}

void LeaseTable::expire_due() {
  while (Lease* lease = leases_live_.front()) {
    if (lease->expires_ns > reactor_.now_ns()) break;
    metrics_.leases_expired.add();
    end(*lease);
  }
  arm();
}

void LeaseTable::arm() {
  const Lease* first = leases_live_.front();
  if (first == nullptr) {
    reactor_.cancel(timer_);
    return;
  }
  const Nanos now = reactor_.now_ns();
  reactor_.arm(timer_, first->expires_ns > now ? first->expires_ns - now : 0);
}

}  // namespace varve
