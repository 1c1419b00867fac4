// What a client is opened with: what cannot work is refused before anything is made.
#include "client/core.h"

namespace varve {

namespace {
Status check_options(const ClientOptions& o) {
  if (o.bulk_lanes < 1 || o.bulk_lanes > wire::kBulkLanesMax) {
    return Status::invalid("client: bulk_lanes is 1 to 4");
  }
  if (o.token.size() > wire::kTokenBytesMax) return Status::invalid("client: token over 256 bytes");
  if (o.name.size() > wire::kTextBytesMax) return Status::invalid("client: name over 256 bytes");
  if (o.pull_credit_bytes < 4 * uint64_t{kExtentBytesMax}) {
    return Status::invalid("client: pull_credit_bytes is at least 16 MiB");
  }
  if (o.parity_scratch_bytes < kParityScratchBytesMin ||
      o.parity_scratch_bytes > kParityScratchBytesMax) {
    return Status::invalid("client: parity_scratch_bytes is 1 MiB to 4 GiB");
  }
  if (o.rebuild_scratch_bytes < kRebuildScratchBytesMin ||
      o.rebuild_scratch_bytes > kRebuildScratchBytesMax) {
    return Status::invalid("client: rebuild_scratch_bytes is 56 to 128 MiB");
  }
  if (o.bounce_bytes != 0 &&
      (o.bounce_bytes < kBounceBytesMin || o.bounce_bytes > kBounceBytesMax)) {
    return Status::invalid("client: bounce_bytes is 1 MiB to 1 GiB, or none");
  }
  if (o.hedge_percent > 100) return Status::invalid("client: hedge_percent is 0 to 100");
  if (o.breaker_failures > 0 && o.breaker_probe_ns == 0) {
    return Status::invalid("client: breaker_probe_ns is above 0");
  }
  if (o.ops_max == 0) return Status::invalid("client: ops_max is at least 1");
  if (o.reconnect_ns_min == 0 || o.reconnect_ns_max < o.reconnect_ns_min) {
    return Status::invalid("client: reconnect_ns_min and _max are out of order");
  }
  if (o.ping_interval_ns == 0) return Status::invalid("client: ping_interval_ns is above 0");
  if (o.lookup_ns_min == 0) return Status::invalid("client: lookup_ns_min is above 0");
  return Status();
}

// TCP would look a name up where it connects, in the reactor's turn, for as long as that takes.
Status check_address(const std::string& address, Names names) {
  VARVE_TRY(const AddressKind kind, address_kind(address));
  if (kind == AddressKind::kNumber || names == Names::kLookedUp) return Status();
  return Status::invalid("client: a core over TCP wants a number or localhost, no other name");
}
}  // namespace

Result<std::unique_ptr<ClientCore>> ClientCore::open(Env& env, Reactor& reactor,
                                                     const ClientOptions& options, Names names) {
  VARVE_RETURN_IF_ERROR(check_options(options));
  if (std::string_view(env.fabric.name()) == "tcp") {
    VARVE_RETURN_IF_ERROR(check_address(options.address, names));
  }
  auto core = std::make_unique<Core>(env, reactor, options, names);
  core->start();
  return std::unique_ptr<ClientCore>(std::move(core));
}

}  // namespace varve
