// Bar: one target of the benchmark, measured, and its line. Pure.
//
// A ratio bar is the median over rounds of ours / ceiling, the two measured beside each other in
// the same run; the spread is what the rounds disagreed by. A bar whose evidence is missing (bytes
// wrong, no hits, not from the device) is refused and has no number.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/base.h"
#include "common/model/scheme.h"
#include "tools/kvbench/declaration.h"
#include "tools/kvbench/process.h"

namespace varve::kvbench {

inline constexpr uint32_t kRoundsMax = 1001;

// The middle one; of an even number the mean of the two middle ones. Not empty.
double median(std::vector<double> values);

struct Spread {
  double low = 0, middle = 0, high = 0;
};
Spread spread_of(const std::vector<double>& values);
// The least value that so many of a thousand are not above. Not empty.
double quantile(std::vector<double> values, uint32_t per_mille);

enum class Sense : uint8_t { kAtLeast, kAtMost, kNoTarget };

// What a bar was measured with; zero or empty: it has none of that.
struct BarSetup {
  bool has_daemon = false;  // false: rooms of the server, called in this process
  uint32_t blocks = 0, layers = 0, layer_bytes = 0;
  std::vector<Scheme> schemes;  // the first is the one that the bar's name, or its text, means
  uint32_t targets = 0;         // of each daemon; of the first scheme
  uint64_t target_bytes = 0, dram_bytes = 0, pushed_bytes = 0;
  uint32_t lanes = 0, at_once = 0;   // pulls, pushes or matches under way
  uint64_t client_memory_bytes = 0;  // into which is pulled
  std::string fault;                 // injected on purpose
  DaemonSeen seen;                   // once it had started; of two daemons the one that is lesser
  Json json() const;
  bool operator==(const BarSetup&) const = default;
};

struct Bar {
  std::string name;
  std::string unit;  // of the value; "ratio" where it is one
  double target = 0;
  Sense sense = Sense::kAtLeast;
  std::vector<double> rounds;
  // What else was measured on the way: shown above the bar.
  std::vector<std::pair<std::string, std::string>> facts;
  BarSetup setup;
  uint64_t verified_bytes = 0;  // compared with what they must be
  std::string unverified;       // why there are none to compare, where that is so
  Nanos warmup_ns = 0;          // what was done first and does not count
  std::string measurement;      // bars of one have it in common, and its bytes; empty: its own
  std::string refused;          // why there is no number; empty = there is one

  bool has_value() const { return refused.empty() && !rounds.empty(); }
  double value() const { return median(rounds); }
  bool is_ok() const;
  void fact(std::string key, std::string value) {
    facts.emplace_back(std::move(key), std::move(value));
  }
  // "bar <name> <value> <target> ok|short", "fact <name> <value>" where there is no target, or
  // "refused <name> <why>".
  std::string line() const;
  // The facts and the spread, each line indented.
  std::string details() const;
  Json json() const;
};

// 4 significant digits, never an exponent: 0.8731, 4.215, 1234567.
std::string number_text(double value);
// "median unit (low .. high)"; not empty.
std::string spread_text(const std::vector<double>& values, const char* unit);

}  // namespace varve::kvbench
