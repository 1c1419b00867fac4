// Medians, spreads and the two forms in which bars leave the program.
#include "tools/kvbench/bar.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

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

std::string to_json(const std::vector<std::pair<std::string, std::string>>& declaration,
                    const std::vector<Bar>& bars) {
  nlohmann::ordered_json json;
  for (const auto& [key, value] : declaration)
    json["declaration"][key] = value;
  json["bars"] = nlohmann::ordered_json::array();
  for (const Bar& bar : bars) {
    nlohmann::ordered_json one = {{"name", bar.name}, {"unit", bar.unit}, {"target", bar.target}};
    if (bar.has_value()) {
      const Spread spread = spread_of(bar.rounds);
      one["value"] = spread.middle;
      one["low"] = spread.low;
      one["high"] = spread.high;
      one["rounds"] = bar.rounds;
      one["result"] = bar.sense == Sense::kNoTarget ? "fact" : bar.is_ok() ? "ok" : "short";
    } else {
      one["result"] = "refused";
      one["why"] = bar.refused;
    }
    for (const auto& [key, value] : bar.facts)
      one["facts"][key] = value;
    json["bars"].push_back(std::move(one));
  }
  return json.dump(2) + "\n";
}

}  // namespace varve::kvbench
