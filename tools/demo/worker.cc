// Worker: the calls that an engine makes, in the order in which it makes them.
#include "tools/demo/worker.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace varve::demo {

namespace {

constexpr Nanos kOpDeadline = 20 * kSecond;
constexpr Nanos kGrantWait = 5 * kSecond;
constexpr uint32_t kRecoveringAsksMax = 400;  // 50 ms apart

Nanos now_ns() {
  return SystemClock().now_ns();
}

// What block `content` holds in `layer`: a function that both processes know.
uint64_t word(uint64_t content, uint32_t layer, uint64_t i) {
  uint64_t z = (content + 1) * 0x9E3779B97F4A7C15ull + (uint64_t{layer} << 40) + i;
  z = (z ^ (z >> 29)) * 0xBF58476D1CE4E5B9ull;
  return z ^ (z >> 32);
}

Format demo_format(const WorkerOptions& options) {
  Format format;
  format.model.bytes.fill(std::byte{0xDE});
  format.lineage = "demo-1";
  format.tokens_per_block = kTraceBlockTokens;
  format.ranks.emplace_back(options.layers, LayerSpec{LayerKind::kFull, options.layer_bytes});
  return format;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::open(const WorkerOptions& options) {
  if (options.layer_bytes % 8 != 0) return Status::invalid("demo: layer bytes are a multiple of 8");
  std::unique_ptr<Worker> worker(new Worker(options));
  VARVE_RETURN_IF_ERROR(worker->start());
  return worker;
}

Status Worker::start() {
  ClientOptions client;
  client.address = options_.address;
  client.token = options_.token;
  client.name = options_.role == Role::kPrefill ? "demo-prefill" : "demo-decode";
  client.bulk_lanes = 2;
  VARVE_TRY(client_, Client::open(client));
  VARVE_RETURN_IF_ERROR(client_->wait_ready(20 * kSecond));
  const uint64_t block_bytes = uint64_t{options_.layers} * options_.layer_bytes;
  memory_.resize(block_bytes * options_.blocks_max);
  VARVE_TRY(region_, client_->register_memory(memory_.data(), memory_.size()));
  VARVE_TRY(format_, client_->format(demo_format(options_)));
  for (uint32_t l = 0; l < options_.layers; ++l) {
    LayerLayout layer;
    layer.region = region_;
    layer.offset = uint64_t{l} * options_.layer_bytes * options_.blocks_max;
    layer.stride = options_.layer_bytes;
    layout_.layers.push_back(layer);
  }
  return Status();
}

ByteSpan Worker::bytes(uint32_t slot, uint32_t layer) const {
  const LayerLayout& l = layout_.layers[layer];
  auto* base = const_cast<std::byte*>(memory_.data());
  return {base + l.offset + slot * l.stride, options_.layer_bytes};
}

bool Worker::check_layer(uint32_t slot, uint32_t layer) const {
  const ByteSpan data = bytes(slot, layer);
  uint64_t difference = 0;
  for (size_t i = 0; i < data.size() / 8; ++i) {
    difference |= load<uint64_t>(data, i * 8) ^ word(content_[slot], layer, i);
  }
  return difference == 0;
}

// What a pull or a follow does not write must not be taken for what it has: the memory may still
// hold the same block of the request before.
void Worker::poison(const std::vector<uint32_t>& slots) {
  for (const uint32_t slot : slots) {
    for (uint32_t l = 0; l < options_.layers; ++l) {
      for (uint32_t at = 0; at < options_.layer_bytes; at += kPageBytes)
        store(bytes(slot, l), at, ~word(content_[slot], l, at / 8));
    }
  }
}

bool Worker::check_block(uint32_t slot) const {
  bool right = true;
  for (uint32_t l = 0; l < options_.layers; ++l)
    right = right && check_layer(slot, l);
  return right;
}

Status Worker::make_ids(const TraceRequest& request) {
  const size_t blocks = std::min<size_t>(request.ids.size(), options_.blocks_max);
  content_.assign(request.ids.begin(), request.ids.begin() + static_cast<ptrdiff_t>(blocks));
  std::vector<uint32_t> tokens;
  tokens.reserve(blocks * kTraceBlockTokens);
  for (const uint64_t id : content_) {
    for (uint32_t t = 0; t < kTraceBlockTokens; ++t) {
      tokens.push_back(static_cast<uint32_t>(word(id, 0xFFFF, t)));
    }
  }
  VARVE_TRY(ids_, client_->base_ids(format_, BaseId(), tokens));
  return Status();
}

RequestReport Worker::play(const TraceRequest& request, const OnGranted& on_granted) {
  // Late ones that a hedge brought were not lost.
  const auto lost_extents = [this] {
    const ClientCounters counters = client_->counters();
    return counters.rebuilt_extents - counters.hedges_won;
  };
  const uint64_t before = lost_extents();
  RequestReport report = play_to_its_end(request, on_granted);
  report.rebuilt_extents = lost_extents() - before;
  return report;
}

RequestReport Worker::play_to_its_end(const TraceRequest& request, const OnGranted& on_granted) {
  RequestReport report;
  for (uint32_t attempt = 0;; ++attempt) {
    report.retries = attempt;
    Status status = make_ids(request);
    if (status.ok()) status = try_once(report, on_granted);
    if (status.ok()) return report;
    report.error = std::string(code_name(status.code())) + ": " + status.what();
    if (attempt == options_.retries_max) return report;
    // The daemon may be gone: an engine would recompute; we wait, to show that nothing is lost.
    if (!client_->wait_ready(kSecond / 2).ok()) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

RequestReport Worker::follow(const TraceRequest& request, const std::vector<FollowTag>& tags) {
  RequestReport report;
  Status status = make_ids(request);
  if (status.ok()) status = try_follow(tags, report);
  if (!status.ok()) report.error = std::string(code_name(status.code())) + ": " + status.what();
  return report;
}

// A follow that fails is not tried again: once its push has ended, its blocks are found by a match.
Status Worker::try_follow(const std::vector<FollowTag>& tags, RequestReport& report) {
  FollowRequest request;
  request.format = format_;
  request.layout = &layout_;
  request.deadline_ns = kOpDeadline;
  for (const FollowTag& tag : tags) {
    const auto at = std::find(ids_.begin(), ids_.end(), tag.id);
    if (at == ids_.end()) return Status::invalid("demo: a tag of another request");
    request.blocks.push_back(tag);
    request.slots.push_back(static_cast<uint32_t>(at - ids_.begin()));
  }
  const std::vector<uint32_t> slots = request.slots;
  poison(slots);
  report.blocks = static_cast<uint32_t>(tags.size());
  const Nanos started = now_ns();
  VARVE_TRY(const OpId op, client_->follow(std::move(request)));
  VARVE_TRY(const Event followed, client_->wait(op, 2 * kOpDeadline));
  report.done_at_ns = now_ns();
  report.pull_ns = report.done_at_ns - started;
  report.first_layer_ns = followed.first_layer_ns;
  if (followed.first_layer_ns > 0) report.first_layer_at_ns = started + followed.first_layer_ns;
  report.pulled_bytes = followed.bytes;
  VARVE_RETURN_IF_ERROR(followed.status);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (followed.codes[i] != Code::kOk) {
      ++report.failed_blocks;
      continue;
    }
    ++report.pulled_blocks;
    if (!check_block(slots[i])) ++report.wrong_blocks;
  }
  return Status();
}

// A daemon serves while it recovers, and then a match may be short: an engine would recompute, we
// ask again, to see what is really there, and say how long that took.
Result<Event> Worker::match_recovered(RequestReport& report) {
  const Nanos started = now_ns();
  for (uint32_t ask = 0;; ++ask) {
    MatchRequest match;
    match.format = format_;
    match.ids = ids_;
    match.lease_ms = 20000;
    match.deadline_ns = 5 * kSecond;
    VARVE_TRY(const OpId op, client_->match(std::move(match)));
    VARVE_TRY(Event matched, client_->wait(op, kOpDeadline));
    VARVE_RETURN_IF_ERROR(matched.status);
    const bool whole = matched.n_blocks == ids_.size() || !matched.recovering;
    if (whole || ask == kRecoveringAsksMax) {
      if (ask > 0) report.recovering_ns += now_ns() - started;
      return matched;
    }
    ++report.recovering_asks;
    client_->release(matched.lease);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Status Worker::try_once(RequestReport& report, const OnGranted& on_granted) {
  const RequestReport before = report;
  report = RequestReport();
  report.retries = before.retries;
  report.error = before.error;
  report.matched = before.matched;
  report.recovering_asks = before.recovering_asks;
  report.recovering_ns = before.recovering_ns;
  report.hit_blocks = before.hit_blocks;
  report.pushed_blocks = before.pushed_blocks;
  report.pushed_bytes = before.pushed_bytes;
  report.push_ns = before.push_ns;
  report.blocks = static_cast<uint32_t>(ids_.size());
  VARVE_TRY(const Event matched, match_recovered(report));
  if (!report.matched) report.hit_blocks = matched.n_blocks;
  report.matched = true;
  uint32_t have = matched.n_blocks;
  if (have > 0) {
    VARVE_RETURN_IF_ERROR(pull(have, matched.lease, report));
    have = report.pulled_blocks;
  }
  client_->release(matched.lease);
  if (options_.role == Role::kPrefill && have < ids_.size()) {
    return push(have, report, on_granted);
  }
  return Status();
}

Status Worker::pull(uint32_t blocks, uint64_t lease, RequestReport& report) {
  PullRequest request;
  request.format = format_;
  request.ids.assign(ids_.begin(), ids_.begin() + blocks);
  for (uint32_t i = 0; i < blocks; ++i)
    request.slots.push_back(i);
  request.layout = &layout_;
  request.lease = lease;
  request.deadline_ns = kOpDeadline;
  poison(request.slots);
  const Nanos started = now_ns();
  VARVE_TRY(const OpId op, client_->pull(std::move(request)));
  VARVE_TRY(const Event pulled, client_->wait(op, 2 * kOpDeadline));
  report.pull_ns = now_ns() - started;
  report.first_layer_ns = pulled.first_layer_ns;
  report.pulled_bytes = pulled.bytes;
  VARVE_RETURN_IF_ERROR(pulled.status);
  // The usable prefix ends at the first block that did not come.
  bool prefix = true;
  for (uint32_t i = 0; i < blocks; ++i) {
    if (pulled.codes[i] != Code::kOk) {
      ++report.failed_blocks;
      prefix = false;
      continue;
    }
    if (prefix) ++report.pulled_blocks;
    if (!check_block(i)) ++report.wrong_blocks;
  }
  return Status();
}

// What an engine's kernel would do: the bytes of a layer of all new blocks, in the time it takes.
void Worker::compute(uint32_t first, uint32_t layer) {
  const Nanos until = now_ns() + options_.layer_compute_ns;
  for (uint32_t slot = first; slot < ids_.size(); ++slot) {
    const ByteSpan data = bytes(slot, layer);
    for (size_t i = 0; i < data.size() / 8; ++i)
      store(data, i * 8, word(content_[slot], layer, i));
  }
  const Nanos now = now_ns();
  if (now < until) std::this_thread::sleep_for(std::chrono::nanoseconds(until - now));
}

// Its end, when it came already: all of it failed, or existed.
std::optional<Event> Worker::tell_granted(OpId push, const OnGranted& on_granted) {
  Event event;
  while (on_granted && client_->poll(event)) {
    if (event.op != push) continue;
    if (event.kind == Event::Kind::kPushed) return event;
    if (!event.granted.empty()) on_granted(event.granted);
  }
  return std::nullopt;
}

// Computes a layer of all new blocks, hands it over, computes the next while it travels. Blocks
// that were not acknowledged are an error: the caller matches again and pushes what is not there.
Status Worker::push(uint32_t first, RequestReport& report, const OnGranted& on_granted) {
  PushRequest request;
  request.format = format_;
  if (first > 0) request.parent = ids_[first - 1];
  request.ids.assign(ids_.begin() + first, ids_.end());
  for (uint32_t i = first; i < ids_.size(); ++i)
    request.slots.push_back(i);
  request.layout = &layout_;
  request.ack = wire::AckKind::kDurable;
  request.deadline_ns = kOpDeadline;
  const Nanos started = now_ns();
  VARVE_TRY(const OpId op, client_->push(std::move(request)));
  std::optional<Event> pushed;
  uint32_t grants = 0;
  Nanos told_ns = 0;  // whoever is told may hold the push: that time is not the push's
  OnGranted tell;
  if (on_granted) {
    tell = [&](const std::vector<FollowTag>& tags) {
      ++grants;
      const Nanos since = now_ns();
      on_granted(tags);
      told_ns += now_ns() - since;
    };
  }
  for (uint32_t l = 0; l < options_.layers && !pushed; ++l) {
    compute(first, l);
    pushed = tell_granted(op, tell);
    // Whoever is to be told waits for that: on a busy machine all layers may be done before it.
    const Nanos until = l + 1 == options_.layers ? now_ns() + kGrantWait : 0;
    while (tell && grants == 0 && !pushed && now_ns() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      pushed = tell_granted(op, tell);
    }
    if (!pushed) VARVE_RETURN_IF_ERROR(client_->push_layer(op, l));
  }
  report.computed_at_ns = now_ns();
  if (!pushed) {
    VARVE_TRY(pushed, client_->wait(op, 2 * kOpDeadline));
  }
  report.done_at_ns = now_ns();
  report.push_ns += report.done_at_ns - started - told_ns;
  report.pushed_bytes += pushed->bytes;
  VARVE_RETURN_IF_ERROR(pushed->status);
  const auto acknowledged = std::count(pushed->codes.begin(), pushed->codes.end(), Code::kOk);
  report.pushed_blocks += static_cast<uint32_t>(acknowledged);
  report.failed_blocks += static_cast<uint32_t>(pushed->codes.size() - acknowledged);
  if (static_cast<size_t>(acknowledged) == pushed->codes.size()) return Status();
  return Status::unavailable("demo: a part of the push was not acknowledged");
}

}  // namespace varve::demo
