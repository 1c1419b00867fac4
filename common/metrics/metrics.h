// metrics: counters, gauges and histograms in the words of the code, plain numbers on their own
// core.
//
// Owns: Counter, Gauge, Histogram (log-linear, fixed size), MetricSet (name, labels, help, pointer)
// and the merged snapshot; its text is server/monitor's. Called by every room that counts. Thread
// rule: a MetricSet belongs to one core; Snapshot is a value that travels by mailbox and merges by
// addition (gauges: see GaugeMerge). Invariants: M1 counting never allocates, throws or locks. M2
// names are registered once, at start; a name with its labels stands once in a snapshot.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/base.h"

namespace varve {

class Counter {
 public:
  void add(uint64_t n = 1) { value_ += n; }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

class Gauge {
 public:
  void set(int64_t v) { value_ = v; }
  void add(int64_t n) { value_ += n; }
  int64_t value() const { return value_; }

 private:
  int64_t value_ = 0;
};

// Nanoseconds or bytes; 8 linear steps per power of two, 1 .. 2^40; quantile error <= 12.5 %.
class Histogram {
 public:
  static constexpr uint32_t kSteps = 8;
  static constexpr uint32_t kBuckets = 41 * kSteps;
  void record(uint64_t value);
  uint64_t count() const { return count_; }
  uint64_t sum() const { return sum_; }
  uint64_t quantile(uint32_t per_mille) const;  // upper edge of the bucket; 0 when empty
  void merge(const Histogram& other);
  static uint64_t bucket_limit(uint32_t bucket);  // the largest value the bucket is for
  const std::array<uint64_t, kBuckets>& buckets() const { return buckets_; }

 private:
  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0, sum_ = 0;
};

struct MetricName {
  std::string name;    // varve_pull_bytes_total
  std::string labels;  // tier="dram",outcome="hit" ; may be empty
  std::string help;
};

// What the gauge of a whole node is, given those of its cores: mostly their sum, but a limit or a
// state that every core must keep is that of the worst.
enum class GaugeMerge : uint8_t { kSum, kMin, kMax };

struct MetricSnapshot {
  struct Value {
    MetricName name;
    enum class Kind : uint8_t { kCounter, kGauge, kHistogram } kind;
    int64_t number = 0;
    Histogram histogram;
    GaugeMerge merge = GaugeMerge::kSum;
  };
  std::vector<Value> values;                // in registration order
  void append(Value value);                 // asserts that name and labels are new (M2)
  void merge(const MetricSnapshot& other);  // adds equal names, appends new ones
  // The number of a counter or gauge, 0 when absent; for tools and tests.
  int64_t number(const std::string& name, const std::string& labels = "") const;
};

class MetricSet {
 public:
  void add(MetricName name, const Counter* counter);
  void add(MetricName name, const Gauge* gauge, GaugeMerge merge = GaugeMerge::kSum);
  void add(MetricName name, const Histogram* histogram);
  MetricSnapshot snapshot() const;

 private:
  struct Entry {
    MetricName name;
    MetricSnapshot::Value::Kind kind;
    const void* source;
    GaugeMerge merge;
  };
  void add_entry(MetricName name, MetricSnapshot::Value::Kind kind, const void* source,
                 GaugeMerge merge = GaugeMerge::kSum);
  std::vector<Entry> entries_;
};

}  // namespace varve
