// One call after the other; the client's own thread does the work that is measured.
#include "tools/kvbench/puller.h"

#include <algorithm>

namespace varve::kvbench {

namespace {
constexpr Nanos kOpDeadline = 120 * kSecond;
// The ceilings burn every core between our pulls, at a real-time priority when so asked: the
// daemon and the client's thread may be starved for longer than the client's usual 20 s of silence.
constexpr Nanos kPingInterval = 60 * kSecond;
constexpr Nanos kConnectMax = 20 * kSecond;
}  // namespace

Result<std::unique_ptr<Puller>> Puller::open(const PullerOptions& options, WorkingSet& set) {
  std::unique_ptr<Puller> puller(new Puller(options, set));
  ClientOptions client;
  client.address = options.address;
  client.name = "bench";
  client.bulk_lanes = options.bulk_lanes;
  client.ping_interval_ns = kPingInterval;
  client.connect_ns_max = kConnectMax;
  VARVE_TRY(puller->client_, Client::open(client));
  if (Status ready = puller->client_->wait_ready(options.ready_ns_max); !ready.ok()) {
    logf(LogLevel::kError, "bench", "no session: %s", puller->client_->last_error_text().c_str());
    return ready;
  }
  Client& c = *puller->client_;
  VARVE_TRY(const RegionId region, c.register_memory(set.memory().data(), set.memory().size()));
  VARVE_TRY(puller->format_, c.format(set.format()));
  puller->layout_ = set.layout(region);
  std::vector<uint32_t> tokens(uint64_t{set.shape().blocks} * set.format().tokens_per_block);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<uint32_t>(i * 2654435761u);
  VARVE_TRY(puller->ids_, c.base_ids(puller->format_, BaseId(), tokens));
  return puller;
}

Status Puller::push_blocks(uint32_t first, uint32_t count) {
  PushRequest request;
  request.format = format_;
  if (first > 0) request.parent = ids_[first - 1];
  for (uint32_t i = first; i < first + count; ++i) {
    request.ids.push_back(ids_[i]);
    request.slots.push_back(i);
  }
  request.layout = &layout_;
  request.deadline_ns = kOpDeadline;
  VARVE_TRY(const OpId op, client_->push(std::move(request)));
  VARVE_RETURN_IF_ERROR(client_->push_layer(op, ClientCore::kEveryLayer));
  VARVE_TRY(const Event pushed, client_->wait(op, 2 * kOpDeadline));
  VARVE_RETURN_IF_ERROR(pushed.status);
  for (const Code code : pushed.codes) {
    if (code != Code::kOk) return Status(code, "bench: a block was not taken");
  }
  return {};
}

Status Puller::push() {
  const auto batch = static_cast<uint32_t>(
      std::max<uint64_t>(1, options_.push_batch_bytes / set_.shape().block_bytes()));
  for (uint32_t at = 0; at < set_.shape().blocks; at += batch) {
    VARVE_RETURN_IF_ERROR(push_blocks(at, std::min(batch, set_.shape().blocks - at)));
  }
  return {};
}

Result<Puller::Pulled> Puller::pull() {
  PullRequest request;
  request.format = format_;
  request.ids = ids_;
  for (uint32_t i = 0; i < ids_.size(); ++i)
    request.slots.push_back(i);
  request.layout = &layout_;
  request.deadline_ns = kOpDeadline;
  const SystemClock clock;
  const Nanos begin_ns = clock.now_ns();
  VARVE_TRY(const OpId op, client_->pull(std::move(request)));
  VARVE_TRY(const Event event, client_->wait(op, 2 * kOpDeadline));
  Pulled pulled;
  pulled.took_ns = clock.now_ns() - begin_ns;
  pulled.first_layer_ns = event.first_layer_ns;
  pulled.bytes = event.bytes;
  VARVE_RETURN_IF_ERROR(event.status);
  for (const Code code : event.codes) {
    if (code != Code::kOk) return Status(code, "bench: a block did not come");
  }
  if (pulled.bytes != set_.shape().bytes()) return Status::corrupt("bench: bytes are missing");
  return pulled;
}

}  // namespace varve::kvbench
