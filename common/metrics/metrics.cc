// metrics: where a value falls, how snapshots merge and how they read as Prometheus text.
// Whole numbers only, so equal counts give equal text on every machine.
#include "common/metrics/metrics.h"

#include <algorithm>
#include <bit>

namespace varve {

namespace {

constexpr uint32_t kSteps = Histogram::kSteps;

uint32_t bucket_of(uint64_t value) {
  if (value <= 1) return 0;
  const auto power = static_cast<uint32_t>(std::bit_width(value)) - 1;
  if (power * kSteps >= Histogram::kBuckets) return Histogram::kBuckets - 1;
  // The three bits behind the leading one; power <= 40, so the shift loses nothing.
  const auto step = static_cast<uint32_t>((value * kSteps) >> power) % kSteps;
  return power * kSteps + step;
}

// "12.34" for 12.34e9 nanoseconds; no floating point.
std::string seconds_text(uint64_t nanos) {
  constexpr uint64_t kNanosPerSecond = 1'000'000'000;
  std::string text = std::to_string(nanos / kNanosPerSecond);
  std::string fraction = std::to_string(nanos % kNanosPerSecond);
  fraction.insert(0, 9 - fraction.size(), '0');
  while (!fraction.empty() && fraction.back() == '0')
    fraction.pop_back();
  return fraction.empty() ? text : text + "." + fraction;
}

std::string escaped_help(const std::string& help) {
  std::string text;
  for (char c : help) {
    if (c == '\\')
      text += "\\\\";
    else if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text;
}

std::string sample(const std::string& name, const std::string& labels, const std::string& value) {
  return name + (labels.empty() ? "" : "{" + labels + "}") + " " + value + "\n";
}

const char* kind_name(MetricSnapshot::Value::Kind kind) {
  switch (kind) {
    case MetricSnapshot::Value::Kind::kCounter:
      return "counter";
    case MetricSnapshot::Value::Kind::kGauge:
      return "gauge";
    case MetricSnapshot::Value::Kind::kHistogram:
      return "histogram";
  }
  return "untyped";
}

// One bucket line per power of two: coarser than what is kept, the same at every scrape. The last
// bucket also holds what lies beyond 2^40, so it is only in +Inf.
std::string histogram_text(const MetricName& name, const Histogram& histogram) {
  const bool in_seconds = name.name.ends_with("_seconds");
  const auto number = [&](uint64_t v) { return in_seconds ? seconds_text(v) : std::to_string(v); };
  const std::string prefix = name.labels.empty() ? "" : name.labels + ",";
  std::string text;
  uint64_t below = 0;
  for (uint32_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
    below += histogram.buckets()[bucket];
    const bool is_edge = bucket % kSteps == kSteps - 1 && bucket + kSteps < Histogram::kBuckets;
    if (!is_edge) continue;
    const std::string edge = number(Histogram::bucket_limit(bucket));
    text += sample(name.name + "_bucket", prefix + "le=\"" + edge + "\"", std::to_string(below));
  }
  VARVE_ASSERT(below == histogram.count(), below, histogram.count());
  text += sample(name.name + "_bucket", prefix + "le=\"+Inf\"", std::to_string(below));
  text += sample(name.name + "_sum", name.labels, number(histogram.sum()));
  text += sample(name.name + "_count", name.labels, std::to_string(histogram.count()));
  return text;
}

bool is_same(const MetricName& a, const MetricName& b) {
  return a.name == b.name && a.labels == b.labels;
}

int64_t merged(int64_t mine, int64_t theirs, GaugeMerge merge) {
  switch (merge) {
    case GaugeMerge::kSum:
      return mine + theirs;
    case GaugeMerge::kMin:
      return std::min(mine, theirs);
    case GaugeMerge::kMax:
      return std::max(mine, theirs);
  }
  VARVE_ASSERT(false, static_cast<uint32_t>(merge));
  return 0;
}

}  // namespace

void Histogram::record(uint64_t value) {
  ++buckets_[bucket_of(value)];
  ++count_;
  sum_ += value;
}

uint64_t Histogram::bucket_limit(uint32_t bucket) {
  VARVE_ASSERT(bucket < kBuckets, bucket);
  const uint64_t end = (uint64_t{kSteps} + bucket % kSteps + 1) << (bucket / kSteps);
  return (end + kSteps - 1) / kSteps - 1;
}

uint64_t Histogram::quantile(uint32_t per_mille) const {
  VARVE_ASSERT(per_mille <= 1000, per_mille);
  if (count_ == 0) return 0;
  // The rank of the wanted value, from 1, rounded up: the median of 3 is the second.
  const uint64_t whole = count_ / 1000 * per_mille;
  const uint64_t rank = std::max<uint64_t>(1, whole + (count_ % 1000 * per_mille + 999) / 1000);
  uint64_t below = 0;
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    below += buckets_[bucket];
    if (below >= rank) return bucket_limit(bucket);
  }
  VARVE_ASSERT(false, below, rank);
  return 0;
}

void Histogram::merge(const Histogram& other) {
  for (uint32_t i = 0; i < kBuckets; ++i)
    buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
}

void MetricSnapshot::append(Value value) {
  VARVE_ASSERT(!value.name.name.empty());
  for (const Value& there : values)
    VARVE_ASSERT(!is_same(there.name, value.name));  // M2
  values.push_back(std::move(value));
}

void MetricSnapshot::merge(const MetricSnapshot& other) {
  for (size_t i = 0; i < other.values.size(); ++i) {
    const Value& theirs = other.values[i];
    // Shards register alike, so the same position is tried first.
    auto mine = i < values.size() && is_same(values[i].name, theirs.name)
                    ? values.begin() + static_cast<ptrdiff_t>(i)
                    : std::find_if(values.begin(), values.end(), [&](const Value& value) {
                        return is_same(value.name, theirs.name);
                      });
    if (mine == values.end()) {
      values.push_back(theirs);
      continue;
    }
    VARVE_ASSERT(mine->kind == theirs.kind, static_cast<uint8_t>(mine->kind));
    VARVE_ASSERT(mine->merge == theirs.merge, static_cast<uint8_t>(mine->merge));
    mine->number = merged(mine->number, theirs.number, theirs.merge);
    mine->histogram.merge(theirs.histogram);
  }
}

std::string MetricSnapshot::prometheus_text() const {
  std::string text;
  std::vector<bool> written(values.size(), false);
  for (size_t i = 0; i < values.size(); ++i) {
    if (written[i]) continue;
    // All samples of one name stand together, under the help of its first.
    const std::string& family = values[i].name.name;
    text += "# HELP " + family + " " + escaped_help(values[i].name.help) + "\n";
    text += "# TYPE " + family + " " + kind_name(values[i].kind) + "\n";
    for (size_t j = i; j < values.size(); ++j) {
      const Value& value = values[j];
      if (value.name.name != family) continue;
      written[j] = true;
      text += value.kind == Value::Kind::kHistogram
                  ? histogram_text(value.name, value.histogram)
                  : sample(family, value.name.labels, std::to_string(value.number));
    }
  }
  return text;
}

int64_t MetricSnapshot::number(const std::string& name, const std::string& labels) const {
  for (const Value& value : values) {
    if (value.name.name == name && value.name.labels == labels) return value.number;
  }
  return 0;
}

void MetricSet::add(MetricName name, const Counter* counter) {
  add_entry(std::move(name), MetricSnapshot::Value::Kind::kCounter, counter);
}

void MetricSet::add(MetricName name, const Gauge* gauge, GaugeMerge merge) {
  add_entry(std::move(name), MetricSnapshot::Value::Kind::kGauge, gauge, merge);
}

void MetricSet::add(MetricName name, const Histogram* histogram) {
  add_entry(std::move(name), MetricSnapshot::Value::Kind::kHistogram, histogram);
}

void MetricSet::add_entry(MetricName name, MetricSnapshot::Value::Kind kind, const void* source,
                          GaugeMerge merge) {
  VARVE_ASSERT(source != nullptr);
  VARVE_ASSERT(!name.name.empty());
  for (const Entry& entry : entries_)
    VARVE_ASSERT(!is_same(entry.name, name));  // M2
  entries_.push_back({std::move(name), kind, source, merge});
}

MetricSnapshot MetricSet::snapshot() const {
  MetricSnapshot snapshot;
  snapshot.values.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    MetricSnapshot::Value value{entry.name, entry.kind, 0, {}, entry.merge};
    switch (entry.kind) {
      case MetricSnapshot::Value::Kind::kCounter:
        value.number = static_cast<int64_t>(static_cast<const Counter*>(entry.source)->value());
        break;
      case MetricSnapshot::Value::Kind::kGauge:
        value.number = static_cast<const Gauge*>(entry.source)->value();
        break;
      case MetricSnapshot::Value::Kind::kHistogram:
        value.histogram = *static_cast<const Histogram*>(entry.source);
        break;
    }
    snapshot.values.push_back(std::move(value));
  }
  return snapshot;
}

}  // namespace varve
