// The named list of settings that can be changed while the node runs. Until the next start only:
// what a node should be after it stands in its settings, not in its memory.
#include <algorithm>

#include "server/node/ingress.h"

namespace varve {

namespace {

using control::Refusal;

constexpr const char* kRepair = "repair_mb_per_s";
constexpr const char* kScrub = "scrub_interval_s";
constexpr const char* kSibling = "sibling_ms_max";
constexpr const char* kLog = "log_level";

struct Range {
  uint32_t least, most;
  bool zero;  // also
  std::string text() const {
    const std::string both = std::to_string(least) + " to " + std::to_string(most);
    return zero ? "0 (never), or " + both : both;
  }
};
constexpr Range kRepairRange = {1, 100000, false};
constexpr Range kSiblingRange = {1000, 3600000, false};

Range scrub_range(const ServerConfig& config) {
  return {config.testing ? 1u : 60u, 366 * 24 * 3600, true};
}

control::Answer<uint32_t> number_of(const std::string& name, const std::string& text,
                                    const Range& range) {
  uint64_t value = 0;
  bool good = !text.empty() && text.size() <= 10;
  for (const char c : text) {
    good = good && c >= '0' && c <= '9';
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  good = good && ((value >= range.least && value <= range.most) || (range.zero && value == 0));
  if (good) return static_cast<uint32_t>(value);
  return Refusal::of(Code::kInvalid, name + " is \"" + text + "\"; it must be " + range.text());
}

struct SetPolicy {
  Shard* shard;
  ShardPolicy policy;
  void on_core() { shard->policy_set(policy); }
};

}  // namespace

LogLevel log_level_of(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warn") return LogLevel::kWarn;
  if (name == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

std::vector<control::Policy> NodeIngress::policies() {
  const std::lock_guard<std::mutex> lock(node_.mutex);
  const ServerConfig& config = node_.config;
  const auto text = [](uint32_t number) { return std::to_string(number); };
  return {
      {kRepair, text(values_.repair_mb_per_s), text(config.repair_mb_per_s),
       config.repair_mb_per_s == 0 ? "off until the next start" : kRepairRange.text(),
       "MB that repair and drains write per second, of the whole node, on average"},
      {kScrub, text(values_.scrub_interval_s), text(config.scrub_interval_s),
       scrub_range(config).text(),
       "seconds in which all of the flash is read and verified once, from the change on"},
      {kSibling, text(values_.sibling_ms_max), text(config.sibling_ms_max), kSiblingRange.text(),
       "milliseconds after which a run that lacks a rank is dropped, from the next look on"},
      {kLog, values_.log_level, config.log_level, "debug, info, warn, error",
       "how much the log says"},
  };
}

control::Answer<bool> NodeIngress::tell_policy(const Until& until) {
  ShardPolicy policy;
  policy.repair_bytes_per_s = uint64_t{values_.repair_mb_per_s} * 1000000 / node_.config.shards;
  policy.sibling_ms_max = values_.sibling_ms_max;
  policy.scrub_interval_ns = Nanos{values_.scrub_interval_s} * kSecond;
  for (uint32_t s = 0; s < node_.threads.size(); ++s) {
    auto told = ask(s, SetPolicy{node_.threads[s]->shard.get(), policy}, until);
    if (!told) return told.refusal();
  }
  return true;
}

control::Answer<control::PolicyChange> NodeIngress::policy_set(const std::string& name,
                                                               const std::string& value,
                                                               Nanos limit_ns) {
  const Until until = this->until(limit_ns);
  if (auto refusal = refuse_stopping()) return *refusal;
  std::unique_lock<std::timed_mutex> change(policy_, std::defer_lock);
  if (!change.try_lock_for(std::chrono::nanoseconds(until.left_ns()))) {
    return Refusal::of(Code::kTimedOut,
                       "another policy is being set, and a core is late; try again later, and look "
                       "at varve_shards_stalled");
  }
  const ServerConfig& config = node_.config;
  Values next = values_;
  uint32_t* number = name == kRepair    ? &next.repair_mb_per_s
                     : name == kScrub   ? &next.scrub_interval_s
                     : name == kSibling ? &next.sibling_ms_max
                                        : nullptr;
  if (number == nullptr && name != kLog) {
    return Refusal::not_found("there is no policy \"" + name + "\"; there are " + kRepair + ", " +
                              kScrub + ", " + kSibling + " and " + kLog +
                              "; other settings need a restart");
  }
  if (number == &next.repair_mb_per_s && config.repair_mb_per_s == 0) {
    return Refusal::state(
        "repair is off, because --repair-mb-per-s was 0 at the start: no memory was set aside for "
        "it; restart with a rate");
  }
  if (number == nullptr) {
    const bool known = value == "debug" || value == "info" || value == "warn" || value == "error";
    if (!known) {
      return Refusal::of(Code::kInvalid,
                         "log_level is \"" + value + "\"; it must be debug, info, warn or error");
    }
    next.log_level = value;
  } else {
    const Range range = number == &next.repair_mb_per_s  ? kRepairRange
                        : number == &next.sibling_ms_max ? kSiblingRange
                                                         : scrub_range(config);
    auto parsed = number_of(name, value, range);
    if (!parsed) return parsed.refusal();
    *number = *parsed;
  }
  const std::vector<control::Policy> before = policies();
  {
    const std::lock_guard<std::mutex> lock(node_.mutex);
    values_ = next;
  }
  if (number == nullptr) {
    log_level_set(log_level_of(value));
  } else if (auto told = tell_policy(until); !told) {
    return told.refusal();
  }
  const std::vector<control::Policy> after = policies();
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i].name != name) continue;
    logf(LogLevel::kWarn, "control", "policy %s is %s from now on; it was %s", name.c_str(),
         after[i].value.c_str(), before[i].value.c_str());
    return control::PolicyChange{after[i], before[i].value};
  }
  return Refusal::of(Code::kInternal, "the policy is not listed; report this");
}

}  // namespace varve
