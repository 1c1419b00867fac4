// A client through the C door: opened, looked at, closed.
#include "client/c_border.h"
#include "client/c_options.h"

namespace varve {

namespace {

constexpr uint64_t kCapabilities = VARVE_CAN_MATCH | VARVE_CAN_EXISTS | VARVE_CAN_PULL |
                                   VARVE_CAN_FOLLOW | VARVE_CAN_PUSH | VARVE_CAN_BUFFERS |
                                   VARVE_CAN_PURGE | VARVE_CAN_HOLDS | VARVE_CAN_BREAKER |
                                   VARVE_CAN_TCP | VARVE_CAN_BOUNCE | VARVE_CAN_PULL_TIERS;

static_assert(static_cast<int>(SessionState::kConnecting) == VARVE_STATE_CONNECTING);
static_assert(static_cast<int>(SessionState::kReady) == VARVE_STATE_READY);
static_assert(static_cast<int>(SessionState::kWaiting) == VARVE_STATE_WAITING);
static_assert(static_cast<int>(SessionState::kClosed) == VARVE_STATE_CLOSED);

Status open(const varve_options* given, varve_client** out) {
  if (out == nullptr) return Status::invalid("open: nowhere to put the client");
  varve_options options{};
  if (given != nullptr) VARVE_RETURN_IF_ERROR(read_sized(given, options));
  ClientOptions settings;
  LogLevel log = LogLevel::kWarn;
  VARVE_RETURN_IF_ERROR(client_options(options, settings, log));
  log_level_set(log);
  std::unique_ptr<Handle> handle;
  VARVE_RETURN_IF_ERROR(Handle::open(settings, handle));
  *out = handle.release();
  return Status();
}

varve_stats stats_of(const ClientCounters& c) {
  varve_stats s{};
#define VARVE_COPY(field) s.field = c.field
  VARVE_COPY(matches), VARVE_COPY(match_ids), VARVE_COPY(hit_ids);
  VARVE_COPY(pulls), VARVE_COPY(pulled_blocks), VARVE_COPY(pulled_bytes);
  VARVE_COPY(failed_blocks), VARVE_COPY(corrupt_extents);
  VARVE_COPY(follows), VARVE_COPY(followed_blocks), VARVE_COPY(followed_bytes);
  VARVE_COPY(renewed_leases), VARVE_COPY(lapsed_leases);
  VARVE_COPY(pushes), VARVE_COPY(pushed_blocks), VARVE_COPY(pushed_bytes);
  VARVE_COPY(existing_blocks), VARVE_COPY(refused_blocks);
  VARVE_COPY(parity_bytes), VARVE_COPY(parity_waits);
  VARVE_COPY(rebuilt_extents), VARVE_COPY(rebuilt_bytes);
  VARVE_COPY(hedges), VARVE_COPY(hedges_won), VARVE_COPY(hedges_refused);
  VARVE_COPY(hedged_bytes), VARVE_COPY(retries), VARVE_COPY(retried_blocks);
  VARVE_COPY(identity_changes), VARVE_COPY(connects), VARVE_COPY(disconnects);
  VARVE_COPY(timeouts), VARVE_COPY(cancels), VARVE_COPY(discarded_bytes);
  VARVE_COPY(breaker_opens), VARVE_COPY(breaker_answers), VARVE_COPY(breaker_probes);
  VARVE_COPY(bounced_ops), VARVE_COPY(bounced_bytes), VARVE_COPY(bounce_waits);
#undef VARVE_COPY
  return s;
}
// All of them: one that is added to either side does not fit any more.
static_assert(sizeof(varve_stats) == sizeof(ClientCounters) + 2 * sizeof(uint64_t));

}  // namespace

}  // namespace varve

extern "C" {

const char* varve_version(void) {
  return VARVE_VERSION;
}

uint64_t varve_capabilities(void) {
  return varve::kCapabilities;
}

varve_status varve_open(const varve_options* options, varve_client** client) {
  return varve::border([&]() -> varve::Outcome { return varve::open(options, client); });
}

// Not inside of border(): it waits until nobody is.
varve_status varve_close(varve_client* client) {
  if (client == nullptr) return varve::tell({VARVE_INVALID, "a null client"});
  auto* handle = static_cast<varve::Handle*>(client);
  if (handle->is_forked()) {
    return varve::tell({VARVE_FORKED, "the client belongs to the parent process"});
  }
  return varve::border([&]() -> varve::Outcome { return handle->close(); });
}

// In a forked child nothing is given back: locks may be held by threads that are not there (H1).
void varve_free(varve_client* client) {
  auto* handle = static_cast<varve::Handle*>(client);
  if (handle != nullptr && !handle->is_forked()) delete handle;
}

varve_status varve_wait_ready(varve_client* client, uint64_t timeout_ns) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return handle.wait_ready(timeout_ns);
  });
}

varve_status varve_state(varve_client* client, uint32_t* state, char* why, size_t why_bytes) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    if (state == nullptr || (why == nullptr) != (why_bytes == 0)) {
      return varve::Status::invalid("state: nowhere to put it");
    }
    *state = static_cast<uint32_t>(handle.client().state());
    if (why_bytes == 0) return varve::Status();
    const std::string text = handle.client().last_error_text();
    const size_t bytes = std::min(text.size(), why_bytes - 1);
    std::memcpy(why, text.data(), bytes);
    why[bytes] = 0;
    return varve::Status();
  });
}

varve_status varve_stats_read(varve_client* client, varve_stats* stats) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    VARVE_RETURN_IF_ERROR(varve::check_sized(stats));
    varve_stats now = varve::stats_of(handle.client().counters());
    now.tags_forgotten = handle.tags_forgotten();
    varve::write_sized(now, stats);
    return varve::Status();
  });
}

}  // extern "C"
