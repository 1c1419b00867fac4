// A snapshot as families of prometheus-cpp, whose serializer knows the text format.
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "server/monitor/monitor.h"

namespace varve {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Kind = MetricSnapshot::Value::Kind;

MetricType type_of(Kind kind) {
  switch (kind) {
    case Kind::kCounter:
      return MetricType::Counter;
    case Kind::kGauge:
      return MetricType::Gauge;
    case Kind::kHistogram:
      return MetricType::Histogram;
  }
  return MetricType::Untyped;
}

// `tier="dram",outcome="hit"`: the rooms write them so; a backslash stands before a quote in a
// value, and before another one.
std::vector<ClientMetric::Label> labels_of(const std::string& text) {
  std::vector<ClientMetric::Label> labels;
  for (size_t at = 0; at < text.size();) {
    const size_t equals = text.find("=\"", at);
    VARVE_ASSERT(equals != std::string::npos, at);
    ClientMetric::Label& label = labels.emplace_back();
    label.name = text.substr(at, equals - at);
    for (at = equals + 2; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      label.value += text[at];
    }
    VARVE_ASSERT(at < text.size());
    at += 1;
    if (at < text.size() && text[at] == ',') ++at;
  }
  return labels;
}

// Coarser than what is kept, the same at every scrape. The last bucket also holds what lies beyond
// 2^40, so it is only in +Inf.
ClientMetric::Histogram histogram_of(const Histogram& histogram, double unit) {
  ClientMetric::Histogram out;
  uint64_t below = 0;
  for (uint32_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
    below += histogram.buckets()[bucket];
    const bool is_edge = bucket % Histogram::kSteps == Histogram::kSteps - 1 &&
                         bucket + Histogram::kSteps < Histogram::kBuckets;
    if (!is_edge) continue;
    out.bucket.push_back({below, static_cast<double>(Histogram::bucket_limit(bucket)) / unit});
  }
  VARVE_ASSERT(below == histogram.count(), below, histogram.count());
  out.bucket.push_back({below, std::numeric_limits<double>::infinity()});
  out.sample_count = histogram.count();
  out.sample_sum = static_cast<double>(histogram.sum()) / unit;
  return out;
}

ClientMetric metric_of(const MetricSnapshot::Value& value) {
  ClientMetric metric;
  metric.label = labels_of(value.name.labels);
  switch (value.kind) {
    case Kind::kCounter:
      metric.counter.value = static_cast<double>(value.number);
      break;
    case Kind::kGauge:
      metric.gauge.value = static_cast<double>(value.number);
      break;
    case Kind::kHistogram:
      metric.histogram =
          histogram_of(value.histogram, value.name.name.ends_with("_seconds") ? 1e9 : 1.0);
      break;
  }
  return metric;
}

}  // namespace

std::string prometheus_text(const MetricSnapshot& snapshot) {
  std::vector<MetricFamily> families;
  for (const MetricSnapshot::Value& value : snapshot.values) {
    auto family = std::find_if(families.begin(), families.end(), [&](const MetricFamily& other) {
      return other.name == value.name.name;
    });
    if (family == families.end()) {
      family = families.insert(families.end(), MetricFamily());
      family->name = value.name.name;
      family->help = value.name.help;
      family->type = type_of(value.kind);
    }
    family->metric.push_back(metric_of(value));
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return text.str();
}

}  // namespace varve
