// Worker: an engine's prefill or decode process without the engine: same calls, bytes that can be
// checked.
//
// Prefill: match the prompt's prefix, pull what hits, make what is new, push it layer by layer.
// Decode: match the whole prompt and pull it layer by layer; or follow what prefill is pushing.
// Every byte that arrives is compared with what its maker wrote.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/varve.h"
#include "tools/trace/trace.h"

namespace varve::demo {

using trace::kTraceBlockTokens;
using trace::TraceRequest;

enum class Role : uint8_t { kPrefill, kDecode };

struct WorkerOptions {
  Role role = Role::kPrefill;
  std::string address = "127.0.0.1:7440";
  std::string token;
  uint32_t layers = 16;
  uint32_t layer_bytes = 32 * 1024;  // of one block of kTraceBlockTokens
  uint32_t blocks_max = 256;         // of one request; longer prompts are cut there
  Nanos layer_compute_ns = 0;        // what a layer of a push takes to compute, at least
  uint32_t retries_max = 120;        // of one request, while the daemon is away
};

// What one request did; printed as one JSON line. Times `_at_ns` are of the machine's monotonic
// clock, so that those of two workers can be compared; 0 = it did not come to that.
struct RequestReport {
  uint32_t blocks = 0, hit_blocks = 0, pulled_blocks = 0, pushed_blocks = 0, existing_blocks = 0;
  uint32_t failed_blocks = 0, wrong_blocks = 0, retries = 0;
  bool matched = false;          // hit_blocks are of the first match, before own blocks could hit
  uint32_t recovering_asks = 0;  // short matches while the daemon recovered, asked again
  Nanos recovering_ns = 0;       // until the last of them
  uint64_t rebuilt_extents = 0;  // lost ones that came as the rest of their stripe
  uint64_t pulled_bytes = 0, pushed_bytes = 0;
  Nanos pull_ns = 0, first_layer_ns = 0;
  Nanos push_ns = 0;            // without the time in which on_granted held it
  Nanos computed_at_ns = 0;     // push: its last layer was handed over
  Nanos first_layer_at_ns = 0;  // follow: the first layer of all its blocks was there
  Nanos done_at_ns = 0;         // push, follow: all was acknowledged, or was there
  std::string error;            // of the last failed try; empty = none
};

class Worker {
 public:
  static Result<std::unique_ptr<Worker>> open(const WorkerOptions& options);
  // Plays one request to its end, again after a lost daemon or a push that was refused in part.
  // `on_granted` is told of blocks which others may follow from now on.
  using OnGranted = std::function<void(const std::vector<FollowTag>&)>;
  RequestReport play(const TraceRequest& request, const OnGranted& on_granted = {});
  // Follows blocks of a request that another worker is pushing, to the end of that push.
  RequestReport follow(const TraceRequest& request, const std::vector<FollowTag>& tags);

 private:
  explicit Worker(const WorkerOptions& options) : options_(options) {}
  Status start();
  Status make_ids(const TraceRequest& request);
  Result<Event> match_recovered(RequestReport& report);
  Status try_once(RequestReport& report, const OnGranted& on_granted);
  Status try_follow(const std::vector<FollowTag>& tags, RequestReport& report);
  Status pull(uint32_t blocks, uint64_t lease, RequestReport& report);
  Status push(uint32_t first, RequestReport& report, const OnGranted& on_granted);
  void compute(uint32_t first, uint32_t layer);
  std::optional<Event> tell_granted(OpId push, const OnGranted& on_granted);
  RequestReport play_to_its_end(const TraceRequest& request, const OnGranted& on_granted);
  void poison(const std::vector<uint32_t>& slots);
  bool check_block(uint32_t slot) const;
  bool check_layer(uint32_t slot, uint32_t layer) const;
  ByteSpan bytes(uint32_t slot, uint32_t layer) const;

  WorkerOptions options_;
  std::unique_ptr<Client> client_;
  std::vector<std::byte> memory_;
  RegionId region_ = 0;
  FormatId format_ = 0;
  Layout layout_;
  std::vector<uint64_t> content_;  // ids of the trace, one per block of the request
  std::vector<BaseId> ids_;
};

}  // namespace varve::demo
