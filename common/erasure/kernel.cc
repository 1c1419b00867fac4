// The two inner loops. Multiplying by a coefficient is linear over the bits of a byte: GFNI takes
// it as a matrix of 8 x 8 bits, whatever polynomial the field has.
#include "common/erasure/kernel.h"

#include <immintrin.h>
#include <isa-l/erasure_code.h>

#include <algorithm>

#include "common/base/base.h"

namespace varve {

namespace {

constexpr size_t kVectorBytes = 64;
// Ahead of what is being read: extents are large, and the processor's own prefetch follows several
// streams at once only haltingly.
constexpr size_t kAheadBytes = 512;

// Bit i of a product is the parity of the bits of the operand that row i of this matrix selects;
// the instruction has row i in byte 7 - i.
uint64_t matrix_of(uint8_t coefficient) {
  uint64_t matrix = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    uint64_t row = 0;
    for (uint32_t j = 0; j < 8; ++j)
      row |= (uint64_t{gf_mul(coefficient, static_cast<uint8_t>(1u << j))} >> i & 1) << j;
    matrix |= row << 8 * (7 - i);
  }
  return matrix;
}

struct Job {
  size_t bytes;
  uint32_t columns;
  const uint64_t* matrices;
  const std::byte* const* from;
  std::byte* const* to;
};

// Sums of two vectors of each row are kept in registers while the columns go by once.
template <uint32_t kRows>
__attribute__((target("gfni,avx512f,avx512bw"))) void run_gfni(const Job& job) {
  for (size_t at = 0; at < job.bytes; at += 2 * kVectorBytes) {
    const size_t left = job.bytes - at;
    const auto mask = [left](size_t before) -> __mmask64 {
      if (left >= before + kVectorBytes) return ~__mmask64{0};
      return left <= before ? 0 : ~__mmask64{0} >> (kVectorBytes - (left - before));
    };
    const __mmask64 low = mask(0), high = mask(kVectorBytes);
    __m512i sums[kRows][2];
    for (auto& sum : sums)
      sum[0] = sum[1] = _mm512_setzero_si512();
    for (uint32_t c = 0; c < job.columns; ++c) {
      const std::byte* source = job.from[c] + at;
      const __m512i a = _mm512_maskz_loadu_epi8(low, source);
      const __m512i b = _mm512_maskz_loadu_epi8(high, source + kVectorBytes);
      _mm_prefetch(source + kAheadBytes, _MM_HINT_T0);
      _mm_prefetch(source + kAheadBytes + kVectorBytes, _MM_HINT_T0);
      for (uint32_t r = 0; r < kRows; ++r) {
        const __m512i matrix =
            _mm512_set1_epi64(static_cast<long long>(job.matrices[r * job.columns + c]));
        sums[r][0] = _mm512_xor_si512(sums[r][0], _mm512_gf2p8affine_epi64_epi8(a, matrix, 0));
        sums[r][1] = _mm512_xor_si512(sums[r][1], _mm512_gf2p8affine_epi64_epi8(b, matrix, 0));
      }
    }
    for (uint32_t r = 0; r < kRows; ++r) {
      _mm512_mask_storeu_epi8(job.to[r] + at, low, sums[r][0]);
      _mm512_mask_storeu_epi8(job.to[r] + at + kVectorBytes, high, sums[r][1]);
    }
  }
}

// ISA-L knows no const.
unsigned char* mutable_bytes(const std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes));
}

}  // namespace

std::span<const Kernel::Loop> Kernel::loops() {
  static constexpr std::array kLoops = {Loop::kIsal, Loop::kGfni};
  static const bool has_gfni = __builtin_cpu_supports("gfni") &&
                               __builtin_cpu_supports("avx512f") &&
                               __builtin_cpu_supports("avx512bw");
  return std::span(kLoops).first(has_gfni ? 2 : 1);
}

Kernel::Kernel(Loop loop, std::span<const uint8_t> dense, uint32_t columns)
    : loop_(loop), rows_(static_cast<uint32_t>(dense.size()) / columns), columns_(columns) {
  VARVE_ASSERT(columns > 0 && columns <= kDataMax, columns);
  VARVE_ASSERT(rows_ > 0 && rows_ <= kParityMax, rows_);
  VARVE_ASSERT(dense.size() == size_t{rows_} * columns, dense.size());
  if (loop == Loop::kGfni) {
    for (size_t i = 0; i < dense.size(); ++i)
      matrices_[i] = matrix_of(dense[i]);
    return;
  }
  std::array<unsigned char, kCoefficientsMax> copy{};
  std::copy(dense.begin(), dense.end(), copy.begin());
  ec_init_tables(static_cast<int>(columns), static_cast<int>(rows_), copy.data(), tables_.data());
}

void Kernel::run(size_t bytes, const std::byte* const* from, std::byte* const* to) const {
  VARVE_ASSERT(rows_ > 0 && bytes > 0, rows_, bytes);
  if (loop_ == Loop::kGfni) {
    const Job job = {bytes, columns_, matrices_.data(), from, to};
    static_assert(kParityMax == 3);
    return rows_ == 1 ? run_gfni<1>(job) : rows_ == 2 ? run_gfni<2>(job) : run_gfni<3>(job);
  }
  std::array<unsigned char*, kDataMax> sources{};
  std::array<unsigned char*, kParityMax> outputs{};
  for (uint32_t c = 0; c < columns_; ++c)
    sources[c] = mutable_bytes(from[c]);
  for (uint32_t r = 0; r < rows_; ++r)
    outputs[r] = mutable_bytes(to[r]);
  ec_encode_data(static_cast<int>(bytes), static_cast<int>(columns_), static_cast<int>(rows_),
                 const_cast<unsigned char*>(tables_.data()), sources.data(), outputs.data());
}

}  // namespace varve
