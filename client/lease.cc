// Leases: kept until they are over and a new one comes, released, or lost with their session.
#include "client/lease.h"

#include <algorithm>
#include <unordered_set>

#include "client/core.h"

namespace varve {

uint64_t ClientLease::part_of(std::span<const BaseId> ids) const {
  VARVE_ASSERT(!parts.empty() && !ids.empty());
  if (parts.size() == 1) return parts.front().lease;
  const ServerLease* covering = nullptr;
  for (const ServerLease& part : parts) {
    const std::unordered_set<uint64_t> covered(part.ids.begin(), part.ids.end());
    const bool covers = std::any_of(
        ids.begin(), ids.end(), [&](const BaseId& id) { return covered.count(id.prefix64()) > 0; });
    if (!covers) continue;
    if (covering != nullptr) return 0;
    covering = &part;
  }
  return covering != nullptr ? covering->lease : parts.front().lease;
}

bool ClientLeases::is_over(const ClientLease& lease) const {
  return lease.expires_ns <= core_.reactor().now_ns();
}

uint64_t ClientLeases::add(ClientLease lease) {
  VARVE_ASSERT(!lease.parts.empty());
  VARVE_ASSERT(lease.renewal == 0);
  std::erase_if(leases_, [this](const auto& held) {
    return held.second.renewal == 0 && is_over(held.second);
  });
  leases_[++last_] = std::move(lease);
  return last_;
}

ClientLease* ClientLeases::find_any(uint64_t lease) {
  const auto found = leases_.find(lease);
  const ClientSession& session = core_.session();
  if (found == leases_.end() || session.state() != SessionState::kReady) return nullptr;
  return found->second.boot_id == session.hello().boot_id ? &found->second : nullptr;
}

ClientLease* ClientLeases::find(uint64_t lease) {
  ClientLease* found = find_any(lease);
  return found != nullptr && !is_over(*found) ? found : nullptr;
}

Nanos ClientLeases::left_ns(uint64_t lease) const {
  const auto found = leases_.find(lease);
  if (found == leases_.end() || is_over(found->second)) return 0;
  return found->second.expires_ns - core_.reactor().now_ns();
}

bool ClientLeases::empty() const {
  return std::all_of(leases_.begin(), leases_.end(),
                     [this](const auto& held) { return is_over(held.second); });
}

bool ClientLeases::is_half_over(uint64_t lease) {
  const ClientLease* held = find(lease);
  return held != nullptr && 2 * left_ns(lease) <= held->lease_ms * kMillisecond;
}

void ClientLeases::release(uint64_t lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return;
  for (const ServerLease& part : found->second.parts)
    release_on_wire(part.lease);
  leases_.erase(found);
}

void ClientLeases::release_on_wire(uint64_t server_lease) {
  VARVE_ASSERT(server_lease != 0);
  ClientSession& session = core_.session();
  if (!session.usable()) return;  // it goes with its session
  if (!session.send_urgent(session.encoder().release(core_.next_wire_op(), {server_lease}))) {
    logf(LogLevel::kDebug, "client", "no room for RELEASE; the lease expires by itself");
  }
}

}  // namespace varve
