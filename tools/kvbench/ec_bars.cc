// Each bar and its ceilings take turns stripe by stripe, on one thread, in that thread's CPU time:
// what the machine does besides slows all of them alike.
#include "tools/kvbench/ec_bars.h"

#include <time.h>

#include <algorithm>
#include <functional>

#include "common/time/time.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

namespace {

constexpr double kEncodeTarget = 0.30;
constexpr double kFusedTarget = 0.10;
constexpr double kDecodeTarget = 0.30;
constexpr double kBytesPerSecond = 4e9;  // of data, what a share of a core is meant for

Nanos thread_cpu_ns() {
  timespec now{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<Nanos>(now.tv_sec) * kSecond + static_cast<Nanos>(now.tv_nsec);
}

// Coded stripes in memory, and the scratch that columns of outputs land in.
class Stripes {
 public:
  static Result<std::unique_ptr<Stripes>> make(const EcBarOptions& options) {
    std::unique_ptr<Stripes> stripes(new Stripes(options));
    VARVE_TRY(stripes->memory_, TouchedMemory::map(stripes->count() * stripes->stripe_bytes()));
    VARVE_TRY(stripes->scratch_, TouchedMemory::map(kParityMax * options.column_bytes));
    stripes->fill();
    return stripes;
  }

  const EcBarOptions& options() const { return options_; }
  uint32_t count() const {
    return static_cast<uint32_t>(options_.data_bytes / data_bytes_per_stripe());
  }
  uint64_t data_bytes_per_stripe() const {
    return uint64_t{options_.scheme.k} * options_.extent_bytes;
  }
  ByteSpan column(uint32_t stripe, uint32_t position, uint32_t offset) const {
    const uint64_t at =
        stripe * stripe_bytes() + uint64_t{position} * options_.extent_bytes + offset;
    return memory_->bytes().subspan(at, options_.column_bytes);
  }
  ByteSpan scratch(uint32_t index) const {
    return scratch_->bytes().subspan(uint64_t{index} * options_.column_bytes,
                                     options_.column_bytes);
  }
  // Calls work(offset) for every column of a stripe.
  template <class Work>
  void each_column(Work work) const {
    for (uint32_t offset = 0; offset < options_.extent_bytes; offset += options_.column_bytes)
      work(offset);
  }

  // Runs `coder` on one column, into scratch or in place.
  enum class Into : uint8_t { kScratch, kMemory };
  void run(const Coder& coder, uint32_t stripe, uint32_t offset, Into into) const {
    std::array<ConstByteSpan, kDataMax> sources;
    std::array<ByteSpan, kParityMax> outputs;
    uint32_t s = 0, o = 0;
    for (const uint8_t position : coder.sources())
      sources[s++] = column(stripe, position, offset);
    for (const uint8_t position : coder.outputs()) {
      outputs[o] = into == Into::kScratch ? scratch(o) : column(stripe, position, offset);
      ++o;
    }
    coder.run(std::span(sources).first(s), std::span(outputs).first(o));
  }

  // Whatever was coded in place came out as it was.
  bool memory_is_right() const { return crc32c(0, memory_->bytes()) == crc_; }
  // The scratch that run() left equals what stands in memory.
  bool scratch_is_right(const Coder& coder, uint32_t stripe, uint32_t offset) const {
    for (uint32_t o = 0; o < coder.outputs().size(); ++o) {
      const ByteSpan right = column(stripe, coder.outputs()[o], offset);
      if (!std::equal(right.begin(), right.end(), scratch(o).begin())) return false;
    }
    return true;
  }

 private:
  explicit Stripes(const EcBarOptions& options) : options_(options) {
    VARVE_ASSERT(options.extent_bytes % options.column_bytes == 0, options.column_bytes);
    VARVE_ASSERT(count() > 0);
  }
  uint64_t stripe_bytes() const {
    return uint64_t{options_.scheme.width()} * options_.extent_bytes;
  }
  void fill() {
    Random random(20261129);
    const ByteSpan bytes = memory_->bytes();
    for (uint64_t at = 0; at < bytes.size(); at += sizeof(uint64_t))
      store(bytes, at, random.next());
    const Coder coder(options_.scheme);
    for (uint32_t stripe = 0; stripe < count(); ++stripe)
      each_column([&](uint32_t offset) { run(coder, stripe, offset, Into::kMemory); });
    crc_ = crc32c(0, memory_->bytes());
  }

  EcBarOptions options_;
  std::unique_ptr<TouchedMemory> memory_, scratch_;
  uint32_t crc_ = 0;  // of all extents as they should be
};

// Something done to a whole stripe; the first of a list is the one that the bar is about.
struct Work {
  const char* name;
  std::function<void(uint32_t stripe)> run;
  std::vector<double> shares;  // of a core at kBytesPerSecond, per round
};

// One round: stripe s is for work (s + round) mod n, so each meets every stripe over n rounds.
void run_round(const Stripes& stripes, uint32_t round, std::vector<Work>& works) {
  std::vector<Nanos> took_ns(works.size());
  std::vector<uint64_t> bytes(works.size());
  for (uint32_t stripe = 0; stripe < stripes.count(); ++stripe) {
    const size_t turn = (stripe + round) % works.size();
    const Nanos begin_ns = thread_cpu_ns();
    works[turn].run(stripe);
    took_ns[turn] += thread_cpu_ns() - begin_ns;
    bytes[turn] += stripes.data_bytes_per_stripe();
  }
  for (size_t i = 0; i < works.size(); ++i) {
    works[i].shares.push_back(static_cast<double>(took_ns[i]) / 1e9 * kBytesPerSecond /
                              static_cast<double>(bytes[i]));
  }
}

void add_facts(const Stripes& stripes, const std::vector<Work>& works, Bar& bar) {
  const EcBarOptions& options = stripes.options();
  bar.fact("set", number_text(static_cast<double>(options.data_bytes) / kMiB) +
                      " MiB of data, extents of " + std::to_string(options.extent_bytes / kKiB) +
                      " KiB, columns of " + std::to_string(options.column_bytes / kKiB) +
                      " KiB, one thread, its CPU time");
  for (const Work& work : works) {
    const Spread spread = spread_of(work.shares);
    bar.fact(work.name, number_text(spread.middle) + " (" + number_text(spread.low) + " .. " +
                            number_text(spread.high) + ") of a core");
  }
}

Bar make_bar(const char* name, const EcBarOptions& options, double target) {
  Bar bar;
  bar.name = std::string(name) + options.scheme.text();
  bar.unit = "of a core per 4 GB/s";
  bar.target = target;
  bar.sense = Sense::kAtMost;
  bar.setup.schemes = {options.scheme};
  bar.setup.layer_bytes = options.extent_bytes;
  return bar;
}

// One word of each line: what it takes to have the bytes come at all.
uint64_t touch(ConstByteSpan bytes) {
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes.size(); at += 64)
    sum += load<uint64_t>(bytes, at);
  return sum;
}

// Works "coding", "coding_into_cold_memory" and "reading_only" of one coder.
Status measure_coder(const EcBarOptions& options, const Coder& coder, Bar& bar) {
  VARVE_TRY(const auto stripes, Stripes::make(options));
  volatile uint64_t sum = 0;  // what is read is used
  const auto code = [&](Stripes::Into into) {
    return [&, into](uint32_t stripe) {
      stripes->each_column([&](uint32_t offset) { stripes->run(coder, stripe, offset, into); });
    };
  };
  const auto read = [&](uint32_t stripe) {
    stripes->each_column([&](uint32_t offset) {
      for (const uint8_t position : coder.sources())
        sum = sum + touch(stripes->column(stripe, position, offset));
    });
  };
  std::vector<Work> works = {{"coding", code(Stripes::Into::kScratch), {}},
                             {"coding_into_cold_memory", code(Stripes::Into::kMemory), {}},
                             {"reading_only", read, {}}};
  for (uint32_t round = 0; round < options.rounds; ++round) {
    run_round(*stripes, round, works);
    const uint32_t stripe = round % stripes->count();
    stripes->run(coder, stripe, 0, Stripes::Into::kScratch);
    if (!stripes->scratch_is_right(coder, stripe, 0)) {
      return Status::corrupt("bench: coded bytes are wrong");
    }
  }
  if (!stripes->memory_is_right()) return Status::corrupt("bench: coded bytes are wrong");
  bar.verified_bytes = stripes->count() * stripes->data_bytes_per_stripe();
  bar.rounds = works[0].shares;
  add_facts(*stripes, works, bar);
  return {};
}

// The digests of all extents of a stripe, with and without the coding in between.
Status measure_fused(const EcBarOptions& options, Bar& bar) {
  VARVE_TRY(const auto stripes, Stripes::make(options));
  const Coder coder(options.scheme);
  volatile uint64_t sum = 0;  // what is digested is used
  enum class Pass : uint8_t { kData, kAll, kAllAndCode };
  const auto digest = [&](Pass pass) {
    return [&, pass](uint32_t stripe) {
      std::vector<ExtentDigest> digests(options.scheme.width(), ExtentDigest({}));
      stripes->each_column([&](uint32_t offset) {
        for (uint32_t p = 0; p < options.scheme.k; ++p)
          digests[p].update(stripes->column(stripe, p, offset));
        if (pass == Pass::kData) return;
        if (pass == Pass::kAllAndCode) stripes->run(coder, stripe, offset, Stripes::Into::kScratch);
        for (uint32_t i = 0; i < options.scheme.m; ++i)
          digests[options.scheme.k + i].update(stripes->scratch(i));
      });
      for (const ExtentDigest& one : digests)
        sum = sum + one.decoded_xxh3();
    };
  };
  std::vector<Work> works = {{"digests_and_coding", digest(Pass::kAllAndCode), {}},
                             {"digests", digest(Pass::kAll), {}},
                             {"digests_of_data", digest(Pass::kData), {}}};
  for (uint32_t round = 0; round < options.rounds; ++round) {
    run_round(*stripes, round, works);
    bar.rounds.push_back(works[0].shares.back() - works[1].shares.back());
    const uint32_t stripe = round % stripes->count();
    bool right = true;
    stripes->each_column([&](uint32_t offset) {
      stripes->run(coder, stripe, offset, Stripes::Into::kScratch);
      right = right && stripes->scratch_is_right(coder, stripe, offset);
    });
    if (!right) return Status::corrupt("bench: coded bytes are wrong");
    bar.verified_bytes += stripes->data_bytes_per_stripe();
  }
  add_facts(*stripes, works, bar);
  return {};
}

Bar refused_or(Status status, Bar bar) {
  if (!status.ok())
    bar.refused = std::string(status.what()) + " (" + code_name(status.code()) + ")";
  return bar;
}

}  // namespace

Bar ec_encode_bar(const EcBarOptions& options) {
  Bar bar = make_bar("ec_encode_", options, kEncodeTarget);
  const Status status = measure_coder(options, Coder(options.scheme), bar);
  return refused_or(status, std::move(bar));
}

Bar ec_fused_bar(const EcBarOptions& options) {
  Bar bar = make_bar("ec_fused_", options, kFusedTarget);
  const Status status = measure_fused(options, bar);
  return refused_or(status, std::move(bar));
}

Bar ec_decode_bar(const EcBarOptions& options) {
  Bar bar = make_bar("ec_decode_", options, kDecodeTarget);
  const auto all = static_cast<Positions>((1u << options.scheme.width()) - 1);
  const auto lost = static_cast<Positions>((1u << options.scheme.m) - 1);
  const Loss loss{static_cast<Positions>(all & ~lost), lost};
  const auto coder = Coder::rebuild(options.scheme, loss);
  if (!coder.has_value()) return refused_or(coder.error(), std::move(bar));
  const Status status = measure_coder(options, *coder, bar);
  return refused_or(status, std::move(bar));
}

}  // namespace varve::kvbench
