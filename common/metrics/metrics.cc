// metrics: where a value falls, and how snapshots merge.
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
