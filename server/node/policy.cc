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
  const char* zero;  // what 0 means; null: it is not taken
  std::string text() const {
    const std::string both = std::to_string(least) + " to " + std::to_string(most);
    return zero != nullptr ? "0 (" + std::string(zero) + "), or " + both : both;
  }
};
constexpr Range kRepairRange = {1, 100000, "paused"};
constexpr Range kSiblingRange = {1000, 3600000, nullptr};

Range scrub_range(const ServerConfig& config) {
  return {config.testing ? 1u : 60u, 366 * 24 * 3600, "never"};
}

control::Answer<uint32_t> number_of(const std::string& name, const std::string& text,
                                    const Range& range) {
  uint64_t value = 0;
  bool good = !text.empty() && text.size() <= 10;
  for (const char c : text) {
    good = good && c >= '0' && c <= '9';
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  good = good &&
         ((value >= range.least && value <= range.most) || (range.zero != nullptr && value == 0));
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

// Each core is told, whichever of them is late, and no late one uses up the time of the others.
std::optional<Refusal> NodeIngress::tell_policy(const Until& until) {
  ShardPolicy policy;
  policy.repair_bytes_per_s = uint64_t{values_.repair_mb_per_s} * 1000000 / node_.config.shards;
  policy.sibling_ms_max = values_.sibling_ms_max;
  policy.scrub_interval_ns = Nanos{values_.scrub_interval_s} * kSecond;
  const auto shards = static_cast<uint32_t>(node_.threads.size());
  std::optional<Refusal> why;
  std::string late;
  for (uint32_t s = 0; s < shards; ++s) {
    const Until share = this->until(until.left_ns() / (shards - s));
    auto told = ask(s, SetPolicy{node_.threads[s]->shard.get(), policy}, share);
    if (told) continue;
    late += (late.empty() ? "" : ", ") + std::to_string(s);
    if (!why) why = told.refusal();
  }
  if (!why) return std::nullopt;
  return Refusal::of(why->code, "it is set, but not known yet to shards " + late + ": " +
                                    why->text + "; to be sure, set it again");
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
  return policy_apply(name, next, until);
}

// Under policy_.
control::Answer<control::PolicyChange> NodeIngress::policy_apply(const std::string& name,
                                                                 const Values& next,
                                                                 const Until& until) {
  const std::vector<control::Policy> before = policies();
  {
    const std::lock_guard<std::mutex> lock(node_.mutex);
    values_ = next;
  }
  const std::vector<control::Policy> after = policies();
  size_t i = 0;
  while (i < after.size() && after[i].name != name)
    ++i;
  VARVE_ASSERT(i < after.size(), i);  // it was found by its name
  if (name == kLog) log_level_set(log_level_of(next.log_level));
  logf(LogLevel::kWarn, "control", "policy %s is %s from now on; it was %s", name.c_str(),
       after[i].value.c_str(), before[i].value.c_str());
  if (name != kLog) {
    if (auto late = tell_policy(until)) return *late;
  }
  return control::PolicyChange{after[i], before[i].value};
}

}  // namespace varve
