// Medians, spreads and the two forms in which bars leave the program.
#include "tools/kvbench/bar.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace varve::kvbench {

double median(std::vector<double> values) {
  VARVE_ASSERT(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

Spread spread_of(const std::vector<double>& values) {
  VARVE_ASSERT(!values.empty());
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, median(values), *high};
}

double quantile(std::vector<double> values, uint32_t per_mille) {
  VARVE_ASSERT(!values.empty() && per_mille <= 1000);
  std::sort(values.begin(), values.end());
  const size_t rank = (values.size() * per_mille + 999) / 1000;
  return values[rank == 0 ? 0 : rank - 1];
}

std::string number_text(double value) {
  char text[64];
  const double size = std::fabs(value);
  const int decimals = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

std::string spread_text(const std::vector<double>& values, const char* unit) {
  const Spread s = spread_of(values);
  return number_text(s.middle) + " " + unit + " (" + number_text(s.low) + " .. " +
         number_text(s.high) + ")";
}

bool Bar::is_ok() const {
  if (!has_value()) return false;
  if (sense == Sense::kNoTarget) return true;
  return sense == Sense::kAtLeast ? value() >= target : value() <= target;
}

std::string Bar::line() const {
  if (!has_value()) return "refused " + name + " " + (refused.empty() ? "no rounds" : refused);
  if (sense == Sense::kNoTarget) return "fact " + name + " " + number_text(value());
  return "bar " + name + " " + number_text(value()) + " " + number_text(target) + " " +
         (is_ok() ? "ok" : "short");
}

std::string Bar::details() const {
  std::string out;
  for (const auto& [key, value] : facts)
    out += "  " + name + "." + key + " " + value + "\n";
  if (!has_value()) return out;
  const Spread spread = spread_of(rounds);
  out += "  " + name + ".spread " + number_text(spread.low) + " .. " + number_text(spread.high) +
         " " + unit + " over " + std::to_string(rounds.size()) + " rounds";
  if (sense == Sense::kNoTarget) return out + ", no target\n";
  return out + ", target " + (sense == Sense::kAtLeast ? "at least " : "at most ") +
         number_text(target) + "\n";
}

Json BarSetup::json() const {
  Json json = {{"daemon", has_daemon}};
  const std::pair<const char*, uint64_t> numbers[] = {{"blocks", blocks},
                                                      {"layers", layers},
                                                      {"layer_bytes", layer_bytes},
                                                      {"targets", targets},
                                                      {"target_bytes", target_bytes},
                                                      {"dram_bytes", dram_bytes},
                                                      {"pushed_bytes", pushed_bytes},
                                                      {"client_memory_bytes", client_memory_bytes},
                                                      {"lanes", lanes},
                                                      {"at_once", at_once}};
  for (const auto& [name, value] : numbers) {
    if (value > 0) json[name] = value;
  }
  for (const Scheme& scheme : schemes)
    json["schemes"].push_back(scheme.text());
  if (!fault.empty()) json["fault"] = fault;
  if (!seen.io.empty()) json["io"] = seen.io;
  if (seen.registers) {
    json["registered_bytes"] = seen.registered_bytes;
    json["registered_files"] = seen.registered_files;
  }
  return json;
}

Json Bar::json() const {
  Json json = {{"name", name}, {"unit", unit}, {"setup", setup.json()}};
  if (sense != Sense::kNoTarget) {
    json["target"] = target;
    json["target_is"] = sense == Sense::kAtLeast ? "at_least" : "at_most";
  }
  if (has_value()) {
    const Spread spread = spread_of(rounds);
    json["value"] = spread.middle;
    json["low"] = spread.low;
    json["high"] = spread.high;
    json["rounds"] = rounds;
    json["result"] = sense == Sense::kNoTarget ? "fact" : is_ok() ? "ok" : "short";
  } else {
    json["result"] = "refused";
    json["why"] = refused.empty() ? "no rounds" : refused;
  }
  if (warmup_ns > 0) json["warmup_s"] = static_cast<double>(warmup_ns) / 1e9;
  json["verified_bytes"] = verified_bytes;
  if (!unverified.empty()) json["unverified"] = unverified;
  for (const auto& [key, value] : facts)
    json["facts"][key] = value;
  return json;
}

}  // namespace varve::kvbench
