// One thread that starts ops and takes events; the client's own thread does the work that is
// measured, and its times are those of the events.
#include "tools/kvbench/puller.h"

#include <poll.h>

#include <algorithm>
#include <map>

namespace varve::kvbench {

namespace {
constexpr Nanos kOpDeadline = 120 * kSecond;
// The ceilings burn every core between our pulls, at a real-time priority when so asked: the
// daemon and the client's thread may be starved for longer than the client's usual 20 s of silence.
constexpr Nanos kPingInterval = 60 * kSecond;
constexpr Nanos kConnectMax = 20 * kSecond;
constexpr int kEventWaitMs = 100;

bool is_end(const Event& event) {
  return event.kind == Event::Kind::kPulled || event.kind == Event::Kind::kPushed;
}
}  // namespace

Result<std::unique_ptr<Puller>> Puller::open(const PullerOptions& options, WorkingSet& set) {
  VARVE_ASSERT(options.pushes > 0 && options.cut > 0);
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
  const Format format = set.format(options.cut);
  VARVE_TRY(const RegionId region, c.register_memory(set.memory().data(), set.memory().size()));
  VARVE_TRY(puller->format_, c.format(format));
  puller->layout_ = set.layout(region, options.cut);
  std::vector<uint32_t> tokens(uint64_t{set.shape().blocks} * format.tokens_per_block);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<uint32_t>(i * 2654435761u);
  VARVE_TRY(puller->ids_, c.base_ids(puller->format_, BaseId(), tokens));
  return puller;
}

std::vector<Puller::Range> Puller::ranges(uint32_t blocks_each) const {
  VARVE_ASSERT(blocks_each > 0);
  std::vector<Range> ranges;
  const uint32_t blocks = set_.shape().blocks;
  for (uint32_t at = 0; at < blocks; at += blocks_each)
    ranges.push_back({at, std::min(blocks_each, blocks - at)});
  return ranges;
}

template <class Start, class OnEvent>
Status Puller::run_ops(uint32_t count, uint32_t at_once, Start start, OnEvent on_event) {
  std::map<OpId, uint32_t> under_way;
  const SystemClock clock;
  const Nanos until_ns = clock.now_ns() + 4 * kOpDeadline;
  uint32_t begun = 0;
  while (begun < count || !under_way.empty()) {
    while (begun < count && under_way.size() < at_once) {
      VARVE_TRY(const OpId op, start(begun));
      under_way.emplace(op, begun++);
    }
    Event event;
    if (!client_->poll(event)) {
      if (clock.now_ns() > until_ns) return Status::timed_out("bench: ops that do not end");
      wait_for_event();
      continue;
    }
    const auto found = under_way.find(event.op);
    if (found == under_way.end()) continue;  // of an op that failed before
    const uint32_t index = found->second;
    if (is_end(event)) under_way.erase(found);
    VARVE_RETURN_IF_ERROR(on_event(index, event));
  }
  return {};
}

void Puller::wait_for_event() const {
  pollfd wait = {client_->event_fd(), POLLIN, 0};
  (void)::poll(&wait, 1, kEventWaitMs);
}

Status Puller::check(const Event& end, Range range) const {
  VARVE_RETURN_IF_ERROR(end.status);
  for (const Code code : end.codes) {
    if (code != Code::kOk) return Status(code, "bench: a block was not taken or did not come");
  }
  if (end.codes.size() != range.count) return Status::internal("bench: codes are missing");
  return {};
}

Status Puller::check_whole(const Event& end, uint32_t first, uint32_t count) const {
  VARVE_RETURN_IF_ERROR(check(end, {first, count}));
  const bool whole = end.bytes == count * set_.shape().block_bytes();
  return whole ? Status() : Status::corrupt("bench: bytes are missing");
}

Result<OpId> Puller::start_push(Range range) {
  PushRequest request;
  request.format = format_;
  if (range.first > 0) request.parent = ids_[range.first - 1];
  for (uint32_t i = range.first; i < range.first + range.count; ++i) {
    request.ids.push_back(ids_[i]);
    request.slots.push_back(i);
  }
  request.layout = &layout_;
  request.deadline_ns = kOpDeadline;
  VARVE_TRY(const OpId op, client_->push(std::move(request)));
  VARVE_RETURN_IF_ERROR(client_->push_layer(op, ClientCore::kEveryLayer));
  return op;
}

Status Puller::push() {
  const auto batch = static_cast<uint32_t>(
      std::max<uint64_t>(1, options_.push_batch_bytes / set_.shape().block_bytes()));
  const std::vector<Range> all = ranges(batch);
  return run_ops(
      static_cast<uint32_t>(all.size()), options_.pushes,
      [&](uint32_t i) { return start_push(all[i]); },
      [&](uint32_t i, const Event& event) {
        return is_end(event) ? check(event, all[i]) : Status();
      });
}

PullRequest Puller::pull_request(Range range) const {
  PullRequest request;
  request.format = format_;
  for (uint32_t i = range.first; i < range.first + range.count; ++i) {
    request.ids.push_back(ids_[i]);
    request.slots.push_back(i);
  }
  request.layout = &layout_;
  request.deadline_ns = kOpDeadline;
  return request;
}

Result<std::vector<Puller::Pulled>> Puller::pass(const PassOptions& options) {
  VARVE_ASSERT(options.pulls > 0);
  std::vector<Range> all = ranges(options.pull_blocks);
  Random random(options.seed);
  for (size_t i = all.size(); i > 1; --i)
    std::swap(all[i - 1], all[random.below(i)]);
  std::vector<Pulled> pulled(all.size());
  const SystemClock clock;
  const Nanos begin_ns = clock.now_ns();
  const Status ran = run_ops(
      static_cast<uint32_t>(all.size()), options.pulls,
      [&](uint32_t i) {
        pulled[i].began_ns = clock.now_ns() - begin_ns;
        return client_->pull(pull_request(all[i]));
      },
      [&](uint32_t i, const Event& event) {
        if (event.kind == Event::Kind::kLayer && event.layer == options_.cut - 1)
          pulled[i].first_layer_ns = event.done_ns;
        if (!is_end(event)) return Status();
        pulled[i].took_ns = event.done_ns;
        pulled[i].bytes = event.bytes;
        return check_whole(event, all[i].first, all[i].count);
      });
  VARVE_RETURN_IF_ERROR(ran);
  return pulled;
}

Result<Puller::Pulled> Puller::pull() {
  const SystemClock clock;
  const Nanos begin_ns = clock.now_ns();
  VARVE_TRY(const OpId op, client_->pull(pull_request({0, set_.shape().blocks})));
  VARVE_TRY(const Event event, client_->wait(op, 2 * kOpDeadline));
  Pulled pulled;
  pulled.took_ns = clock.now_ns() - begin_ns;
  pulled.first_layer_ns = event.first_layer_ns;
  pulled.bytes = event.bytes;
  VARVE_RETURN_IF_ERROR(check(event, {0, set_.shape().blocks}));
  if (pulled.bytes != set_.shape().bytes()) return Status::corrupt("bench: bytes are missing");
  return pulled;
}

}  // namespace varve::kvbench
