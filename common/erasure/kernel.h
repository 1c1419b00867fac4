// Kernel: rows of coefficients of GF(256), ready for the inner loop that multiplies columns by
// them.
//
// There are two such loops, which give the same bytes: ISA-L's, which runs on any processor, and
// one over GFNI and AVX-512, which multiplies 64 bytes by one instruction (ISA-L before 2.31 has
// none). Part of Coder; a value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/model/model.h"

namespace varve {

class Kernel {
 public:
  enum class Loop : uint8_t { kIsal, kGfni };
  // Those that this processor can run, the fastest last.
  static std::span<const Loop> loops();

  Kernel() = default;  // of no rows
  // dense[row * columns + column]; at most kParityMax rows of kDataMax.
  Kernel(Loop loop, std::span<const uint8_t> dense, uint32_t columns);

  // to[row][i] = sum over columns of dense[row][column] * from[column][i], for i < bytes. Nothing
  // of `to` overlaps; any alignment.
  void run(size_t bytes, const std::byte* const* from, std::byte* const* to) const;

 private:
  static constexpr size_t kTableBytes = 32;  // of ISA-L, for each coefficient
  static constexpr size_t kCoefficientsMax = size_t{kParityMax} * kDataMax;

  Loop loop_ = Loop::kIsal;
  uint32_t rows_ = 0, columns_ = 0;
  std::array<unsigned char, kTableBytes * kCoefficientsMax> tables_{};  // kIsal
  std::array<uint64_t, kCoefficientsMax> matrices_{};                   // kGfni, [row][column]
};

}  // namespace varve
