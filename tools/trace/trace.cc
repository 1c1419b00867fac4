// Trace: the two readers and the generator.
#include "tools/trace/trace.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace varve::trace {

namespace {

using Json = nlohmann::json;

constexpr uint32_t kSessionDepthMax = 8;   // sub-agents of sub-agents
constexpr double kSecondsMax = 1e9;        // of a time in a session
constexpr uint32_t kBlockTokensMin = 16;   // of a session
constexpr uint64_t kTokensMax = 1u << 30;  // of one request

uint32_t tokens_of(const Json& json, const char* key) {
  const bool good = json.contains(key) && json[key].is_number_unsigned();
  return good ? static_cast<uint32_t>(std::min(json[key].get<uint64_t>(), kTokensMax)) : 0;
}

// The ids of a request; false when they are none.
bool ids_of(const Json& json, std::vector<uint64_t>& out) {
  if (!json.is_object() || !json.contains("hash_ids") || !json["hash_ids"].is_array()) return false;
  for (const Json& id : json["hash_ids"]) {
    if (!id.is_number_unsigned()) return false;
    out.push_back(id.get<uint64_t>());
  }
  return true;
}

void cut(TraceRequest& request, Trace& trace) {
  if (request.ids.size() <= kTraceBlocksMax) return;
  trace.cut_blocks += request.ids.size() - kTraceBlocksMax;
  request.ids.resize(kTraceBlocksMax);
}

Result<TraceRequest> parse_line(std::string_view line, Trace& trace) {
  const Json json = Json::parse(line, nullptr, false);
  TraceRequest request;
  if (!ids_of(json, request.ids)) {
    return Status::invalid("trace: a line is no object with hash_ids, which are numbers");
  }
  if (json.contains("timestamp") && json["timestamp"].is_number_unsigned()) {
    request.time_ms = json["timestamp"].get<uint64_t>();
  } else {
    trace.timed = false;
  }
  request.input_tokens = tokens_of(json, "input_length");
  request.output_tokens = tokens_of(json, "output_length");
  if (request.ids.empty()) return Status::invalid("trace: a request without blocks");
  return request;
}

// One session after the other, into one trace.
class Sessions {
 public:
  explicit Sessions(Trace& trace) : trace_(trace) {}

  Status read(const std::string& path) {
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(path, error);
    if (error || bytes > kTraceFileBytesMax) {
      return Status::invalid("trace: a session cannot be opened, or is larger than 64 MiB");
    }
    std::ifstream file(path);
    const Json json = Json::parse(file, nullptr, false);
    if (!json.is_object()) return Status::invalid("trace: a session is no JSON object");
    const uint32_t block_tokens = tokens_of(json, "block_size");
    if (block_tokens < kBlockTokensMin || kTraceBlockTokens % block_tokens != 0) {
      return Status::invalid("trace: block_size of a session does not divide 512");
    }
    joined_ = kTraceBlockTokens / block_tokens;
    runs_.clear();
    return read_requests(json, next_session_++, 0, 0);
  }

 private:
  // The ids of a session are its own, so are those of its sub-agents.
  Status read_requests(const Json& json, uint32_t session, double began_s, uint32_t depth) {
    if (depth > kSessionDepthMax) return Status::invalid("trace: sub-agents are nested too deep");
    if (!json.contains("requests") || !json["requests"].is_array()) {
      return Status::invalid("trace: a session without requests");
    }
    for (const Json& one : json["requests"]) {
      if (!one.is_object() || !one.contains("t") || !one["t"].is_number()) {
        return Status::invalid("trace: a request of a session has no time");
      }
      // A sub-agent's times count from its own begin, where they are before it.
      double time_s = one["t"].get<double>();
      if (!(time_s >= 0 && time_s < kSecondsMax)) {
        return Status::invalid("trace: a time of a session is out of bounds");
      }
      if (time_s < began_s) time_s += began_s;
      if (one.contains("requests")) {
        if (next_session_ == kTraceSessionsMax) return Status::invalid("trace: too many sessions");
        VARVE_RETURN_IF_ERROR(read_requests(one, next_session_++, time_s, depth + 1));
        continue;
      }
      VARVE_RETURN_IF_ERROR(add(one, session, time_s));
    }
    return {};
  }

  Status add(const Json& json, uint32_t session, double time_s) {
    std::vector<uint64_t> small;
    if (!ids_of(json, small)) return Status::invalid("trace: hash_ids of a session are no numbers");
    TraceRequest request;
    request.time_ms = static_cast<uint64_t>(time_s * 1000);
    request.input_tokens = tokens_of(json, "in");
    request.output_tokens = tokens_of(json, "out");
    request.session = session;
    for (size_t at = 0; at + joined_ <= small.size(); at += joined_) {
      const std::vector<uint64_t> run(small.begin() + static_cast<ptrdiff_t>(at),
                                      small.begin() + static_cast<ptrdiff_t>(at + joined_));
      request.ids.push_back(runs_.try_emplace(run, next_id_).first->second);
      if (request.ids.back() == next_id_) ++next_id_;
    }
    if (request.ids.empty()) return {};  // shorter than a block: nothing to store
    cut(request, trace_);
    trace_.requests.push_back(std::move(request));
    if (trace_.requests.size() > kTraceRequestsMax)
      return Status::invalid("trace: too many requests");
    return {};
  }

  Trace& trace_;
  uint32_t joined_ = 1;                             // small blocks a block
  std::map<std::vector<uint64_t>, uint64_t> runs_;  // of this session -> id of the trace
  uint64_t next_id_ = 0;
  uint32_t next_session_ = 0;
};

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

bool is_before(const TraceRequest& a, const TraceRequest& b) {
  return a.time_ms < b.time_ms;
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
  std::vector<char> line(kTraceLineBytesMax);
  while (trace.requests.size() < requests) {
    file.getline(line.data(), static_cast<std::streamsize>(line.size()));
    if (file.gcount() == 0) break;
    if (file.fail()) return Status::invalid("trace: a line is longer than 1 MiB");
    const std::string_view text(line.data());
    if (text.empty()) continue;
    VARVE_TRY(TraceRequest request, parse_line(text, trace));
    cut(request, trace);
    trace.requests.push_back(std::move(request));
  }
  if (trace.requests.empty()) return Status::invalid("trace: the file has no request");
  std::stable_sort(trace.requests.begin(), trace.requests.end(), is_before);
  return trace;
}

Result<Trace> read_sessions(const std::string& path, uint32_t requests) {
  std::error_code error;
  std::vector<std::string> paths;
  if (std::filesystem::is_directory(path, error)) {
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("session_") && name.ends_with(".json")) paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
  } else {
    paths.push_back(path);
  }
  if (paths.size() > kTraceSessionsMax) return Status::invalid("trace: too many sessions");
  Trace trace;
  trace.source = path;
  Sessions sessions(trace);
  for (const std::string& one : paths)
    VARVE_RETURN_IF_ERROR(sessions.read(one));
  if (trace.requests.empty()) return Status::invalid("trace: there is no session with a request");
  std::stable_sort(trace.requests.begin(), trace.requests.end(), is_before);
  if (trace.requests.size() > requests) trace.requests.resize(requests);
  return trace;
}

Result<Trace> read_any(const std::string& path, uint32_t requests) {
  std::error_code error;
  const bool sessions = std::filesystem::is_directory(path, error) || path.ends_with(".json");
  return sessions ? read_sessions(path, requests) : read_trace(path, requests);
}

// Conversations: a request starts one or continues an open one, whose blocks it repeats and
// extends. 45 % continue, which gives the published best case of about 37 % of block accesses that
// can hit.
Trace generate_trace(uint32_t requests, uint64_t seed) {
  Trace trace;
  trace.source = "generator (published parameters of a conversation trace)";
  Random random(seed);
  struct Conversation {
    uint32_t session = 0;
    std::vector<uint64_t> ids;
  };
  std::vector<Conversation> open;
  uint32_t next_session = 0;
  uint64_t next_id = 1;
  uint64_t time_ms = 0;
  for (uint32_t i = 0; i < requests; ++i) {
    TraceRequest request;
    time_ms += random.below(600);
    request.time_ms = time_ms;
    const bool goes_on = !open.empty() && random.chance(450);
    const size_t which = goes_on ? random.below(open.size()) : open.size();
    if (goes_on) request.ids = open[which].ids;
    request.session = goes_on ? open[which].session : next_session++;
    // All conversations share the first block: the system prompt.
    if (!goes_on) request.ids.push_back(0);
    const uint32_t tokens = goes_on ? draw_tokens(random) / 4 : draw_tokens(random);
    const uint32_t fresh = std::max<uint32_t>(1, tokens / kTraceBlockTokens);
    for (uint32_t b = 0; b < fresh && request.ids.size() < kTraceBlocksMax; ++b) {
      request.ids.push_back(next_id++);
    }
    request.input_tokens = static_cast<uint32_t>(request.ids.size()) * kTraceBlockTokens;
    if (goes_on) {
      open[which].ids = request.ids;
    } else {
      open.push_back({request.session, request.ids});
      if (open.size() > 64) open.erase(open.begin());
    }
    trace.requests.push_back(std::move(request));
  }
  return trace;
}

}  // namespace varve::trace
