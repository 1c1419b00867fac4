// Trace: the JSON lines reader and the generator.
#include "tools/trace/trace.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace varve::trace {

namespace {

Result<TraceRequest> parse_line(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("hash_ids") || !json["hash_ids"].is_array()) {
    return Status::invalid("trace: a line is no object with hash_ids");
  }
  TraceRequest request;
  const auto number = [&](const char* key) -> uint64_t {
    return json.contains(key) && json[key].is_number_unsigned() ? json[key].get<uint64_t>() : 0;
  };
  request.time_ms = number("timestamp");
  request.input_tokens = static_cast<uint32_t>(number("input_length"));
  for (const auto& id : json["hash_ids"]) {
    if (!id.is_number_unsigned()) return Status::invalid("trace: a hash id is no number");
    if (request.ids.size() == kTraceBlocksMax) break;
    request.ids.push_back(id.get<uint64_t>());
  }
  if (request.ids.empty()) return Status::invalid("trace: a request without blocks");
  return request;
}

// Tokens of one input: the published quantiles (p50 6,909, p95 39,552, p99 85,401; mean 12,035),
// joined by lines.
uint32_t draw_tokens(Random& random) {
  struct Point {
    uint32_t per_mille, tokens;
  };
  constexpr Point kPoints[] = {{0, 600}, {500, 6909}, {950, 39552}, {990, 85401}, {1000, 120000}};
  const auto at = static_cast<uint32_t>(random.below(1000));
  for (size_t i = 1; i < std::size(kPoints); ++i) {
    const Point a = kPoints[i - 1], b = kPoints[i];
    if (at >= b.per_mille) continue;
    return a.tokens + (b.tokens - a.tokens) * (at - a.per_mille) / (b.per_mille - a.per_mille);
  }
  return kPoints[std::size(kPoints) - 1].tokens;
}

}  // namespace

uint64_t Trace::blocks() const {
  uint64_t sum = 0;
  for (const TraceRequest& r : requests)
    sum += r.ids.size();
  return sum;
}

uint64_t Trace::hits_possible(uint32_t warm) const {
  std::unordered_set<uint64_t> seen;
  uint64_t hits = 0;
  for (uint32_t i = 0; i < warm && i < requests.size(); ++i) {
    seen.insert(requests[i].ids.begin(), requests[i].ids.end());
  }
  for (const TraceRequest& r : requests) {
    bool prefix = true;
    for (const uint64_t id : r.ids) {
      prefix = prefix && seen.count(id) > 0;
      hits += prefix ? 1 : 0;
    }
    seen.insert(r.ids.begin(), r.ids.end());
  }
  return hits;
}

Result<Trace> read_trace(const std::string& path, uint32_t requests) {
  std::ifstream file(path);
  if (!file) return Status::invalid("trace: the file cannot be opened");
  Trace trace;
  trace.source = path;
  std::string line;
  while (trace.requests.size() < requests && std::getline(file, line)) {
    if (line.empty()) continue;
    VARVE_TRY(TraceRequest request, parse_line(line));
    trace.requests.push_back(std::move(request));
  }
  if (trace.requests.empty()) return Status::invalid("trace: the file has no request");
  return trace;
}

// Conversations: a request starts one or continues an open one, whose blocks it repeats and
// extends. 45 % continue, which gives the published best case of about 37 % of block accesses that
// can hit.
Trace generate_trace(uint32_t requests, uint64_t seed) {
  Trace trace;
  trace.source = "generator (published parameters of a conversation trace)";
  Random random(seed);
  std::vector<std::vector<uint64_t>> open;
  uint64_t next_id = 1;
  uint64_t time_ms = 0;
  for (uint32_t i = 0; i < requests; ++i) {
    TraceRequest request;
    time_ms += random.below(600);
    request.time_ms = time_ms;
    const bool goes_on = !open.empty() && random.chance(450);
    const size_t which = goes_on ? random.below(open.size()) : open.size();
    if (goes_on) request.ids = open[which];
    // All conversations share the first block: the system prompt.
    if (!goes_on) request.ids.push_back(0);
    const uint32_t tokens = goes_on ? draw_tokens(random) / 4 : draw_tokens(random);
    const uint32_t fresh = std::max<uint32_t>(1, tokens / kTraceBlockTokens);
    for (uint32_t b = 0; b < fresh && request.ids.size() < kTraceBlocksMax; ++b) {
      request.ids.push_back(next_id++);
    }
    request.input_tokens = static_cast<uint32_t>(request.ids.size()) * kTraceBlockTokens;
    if (goes_on) {
      open[which] = request.ids;
    } else {
      open.push_back(request.ids);
      if (open.size() > 64) open.erase(open.begin());
    }
    trace.requests.push_back(std::move(request));
  }
  return trace;
}

}  // namespace varve::trace
