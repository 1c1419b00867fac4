// Encoding and rebuilding: the rows of the wanted positions, written in terms of the
// positions that are there. Ragged columns are coded segment by segment, each with only those
// sources and outputs that reach into it, so nothing is padded and nothing is copied.
#include "common/erasure/coder.h"

#include <isa-l/erasure_code.h>  // its matrices

#include <algorithm>
#include <bit>
#include <cstring>

namespace varve {

namespace {

static_assert(kWidthMax <= 8 * sizeof(Positions));

using Square = std::array<unsigned char, size_t{kDataMax} * kDataMax>;
using Generator = std::array<unsigned char, size_t{kWidthMax} * kDataMax>;

constexpr Positions first_positions(uint32_t count) {
  return static_cast<Positions>((1u << count) - 1);
}

constexpr bool has(Positions positions, uint32_t position) {
  return (positions >> position & 1) != 0;
}

// Row p, k coefficients wide, makes position p of the data: the unit matrix above the parity rows.
Generator generator_of(Scheme scheme) {
  Generator rows{};
  gf_gen_cauchy1_matrix(rows.data(), static_cast<int>(scheme.width()), static_cast<int>(scheme.k));
  if (matrix_of(scheme) == Matrix::kXor) {
    std::fill_n(rows.begin() + scheme.k * scheme.k, scheme.k, static_cast<unsigned char>(1));
  }
  return rows;
}

// The matrix that gives the data from the positions present, k by k.
Square data_from(Scheme scheme, const Generator& generator, std::span<const uint8_t> present) {
  VARVE_ASSERT(present.size() == scheme.k, present.size(), scheme.k);
  Square rows{}, inverse{};
  for (uint32_t i = 0; i < scheme.k; ++i)
    std::copy_n(generator.begin() + present[i] * scheme.k, scheme.k, rows.begin() + i * scheme.k);
  const int singular = gf_invert_matrix(rows.data(), inverse.data(), scheme.k);
  VARVE_ASSERT(singular == 0, present[0]);  // E1: every k rows of the generator are independent
  return inverse;
}

}  // namespace

Positions hollow_positions(Scheme scheme, uint32_t members) {
  VARVE_ASSERT(scheme.valid(), scheme.k, scheme.m);
  VARVE_ASSERT(members >= 1 && members <= scheme.k, members, scheme.k);
  return first_positions(scheme.k) & static_cast<Positions>(~first_positions(members));
}

Coder::Coder(Scheme scheme)
    : Coder(scheme, {first_positions(scheme.k),
                     static_cast<Positions>(first_positions(scheme.m) << scheme.k)}) {}

Result<Coder> Coder::rebuild(Scheme scheme, Loss loss) {
  VARVE_ASSERT(scheme.valid(), scheme.k, scheme.m);
  VARVE_ASSERT((loss.present & loss.wanted) == 0, loss.present, loss.wanted);
  VARVE_ASSERT((loss.present | loss.wanted) <= first_positions(scheme.width()), loss.wanted);
  if (static_cast<uint32_t>(std::popcount(loss.present)) < scheme.k) {
    return Status::unavailable("erasure: fewer extents of a stripe are left than it takes");
  }
  while (static_cast<uint32_t>(std::popcount(loss.present)) > scheme.k)
    loss.present ^= std::bit_floor(loss.present);
  return Coder(scheme, loss);
}

Coder::Coder(Scheme scheme, Loss loss) {
  VARVE_ASSERT(scheme.valid(), scheme.k, scheme.m);
  VARVE_ASSERT(static_cast<uint32_t>(std::popcount(loss.present)) == scheme.k, loss.present);
  VARVE_ASSERT(static_cast<uint32_t>(std::popcount(loss.wanted)) <= scheme.m, loss.wanted);
  for (uint8_t p = 0; p < scheme.width(); ++p) {
    if (has(loss.present, p)) sources_[source_count_++] = p;
    if (has(loss.wanted, p)) outputs_[output_count_++] = p;
  }
  const Generator generator = generator_of(scheme);
  const Square inverse = data_from(scheme, generator, sources());
  if (output_count_ == 0) return;
  std::array<uint8_t, size_t{kParityMax} * kDataMax> dense{};
  for (uint32_t o = 0; o < output_count_; ++o) {
    for (uint32_t s = 0; s < source_count_; ++s) {
      uint8_t sum = 0;
      for (uint32_t d = 0; d < scheme.k; ++d)
        sum ^= gf_mul(generator[outputs_[o] * scheme.k + d], inverse[d * scheme.k + s]);
      coefficients_[o][s] = dense[o * source_count_ + s] = sum;
    }
  }
  all_ = Kernel(Kernel::loops().back(), std::span(dense).first(output_count_ * source_count_),
                source_count_);
}

// Bytes [begin, end) of a column, into which the same spans reach from the first to the last.
struct Coder::Segment {
  std::span<const ConstByteSpan> sources;
  std::span<const ByteSpan> outputs;
  size_t begin, end;
};

void Coder::run(std::span<const ConstByteSpan> sources, std::span<const ByteSpan> outputs) const {
  VARVE_ASSERT(sources.size() == source_count_, sources.size(), source_count_);
  VARVE_ASSERT(outputs.size() == output_count_, outputs.size(), output_count_);
  size_t bytes = 0;
  for (const ByteSpan output : outputs)
    bytes = std::max(bytes, output.size());
  VARVE_ASSERT(bytes <= kColumnBytes, bytes);
  size_t end = 0;
  for (size_t begin = 0; begin < bytes; begin = end) {
    end = bytes;
    const auto cut = [&](size_t size) {
      if (size > begin) end = std::min(end, size);
    };
    for (const ConstByteSpan source : sources)
      cut(source.size());
    for (const ByteSpan output : outputs)
      cut(output.size());
    run_segment({sources, outputs, begin, end});
  }
}

void Coder::run(std::span<const ConstByteSpan> sources, std::span<const ByteSpan> outputs,
                std::span<ExtentDigest> digests) const {
  VARVE_ASSERT(digests.size() == output_count_, digests.size(), output_count_);
  run(sources, outputs);
  for (size_t o = 0; o < outputs.size(); ++o)
    digests[o].update(outputs[o]);
}

void Coder::run_segment(const Segment& segment) const {
  VARVE_ASSERT(segment.begin < segment.end, segment.begin, segment.end);
  std::array<const std::byte*, kDataMax> from{};
  std::array<std::byte*, kParityMax> to{};
  std::array<uint8_t, kDataMax> columns{};
  std::array<uint8_t, kParityMax> rows{};
  uint32_t from_count = 0, to_count = 0;
  for (uint8_t s = 0; s < source_count_; ++s) {
    if (segment.sources[s].size() < segment.end) continue;  // zero from here on
    columns[from_count] = s;
    from[from_count++] = segment.sources[s].data() + segment.begin;
  }
  for (uint8_t o = 0; o < output_count_; ++o) {
    if (segment.outputs[o].size() < segment.end) continue;
    rows[to_count] = o;
    to[to_count++] = segment.outputs[o].data() + segment.begin;
  }
  VARVE_ASSERT(to_count > 0);
  const size_t bytes = segment.end - segment.begin;
  if (from_count == 0) {
    for (uint32_t i = 0; i < to_count; ++i)
      std::memset(to[i], 0, bytes);
    return;
  }
  if (from_count == source_count_ && to_count == output_count_) {
    return all_.run(bytes, from.data(), to.data());
  }
  std::array<uint8_t, size_t{kParityMax} * kDataMax> dense{};  // made anew: below 0.5 us
  for (uint32_t r = 0; r < to_count; ++r) {
    for (uint32_t c = 0; c < from_count; ++c)
      dense[r * from_count + c] = coefficients_[rows[r]][columns[c]];
  }
  const Kernel some(Kernel::loops().back(), std::span(dense).first(to_count * from_count),
                    from_count);
  some.run(bytes, from.data(), to.data());
}

}  // namespace varve
