// The scheme: how many fragments a block has, and how many of them may be lost, as "4+2"; and the
// matrix that codes it (docs/FORMAT.md 4.3, 4.4). Fixed when the targets of a node are formatted.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/base.h"

namespace varve {

// The matrix field of a fragment header (docs/FORMAT.md 7.2).
enum class Matrix : uint16_t { kNone = 0, kXor = 1, kCauchy = 2 };

struct Scheme {
  uint32_t k = 1;  // data fragments; any k of the fragments are enough
  uint32_t m = 0;  // parity fragments

  bool operator==(const Scheme&) const = default;
  uint32_t width() const { return k + m; }
  bool valid() const;                             // one of kSchemes
  std::string text() const;                       // "4+2"
  static Result<Scheme> parse(std::string_view);  // kInvalid for all but the texts of kSchemes
};

// The offered ones; every m-loss pattern of each is tested.
inline constexpr std::array<Scheme, 8> kSchemes = {
    {{1, 0}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {4, 2}, {5, 2}, {8, 3}}};
inline constexpr uint32_t kDataMax = 8;    // k of the widest scheme
inline constexpr uint32_t kParityMax = 3;  // m of it
inline constexpr uint32_t kWidthMax = kDataMax + kParityMax;

// With one parity extent its bytes are the XOR of the others; a copy when k = 1.
Matrix matrix_of(Scheme scheme);

}  // namespace varve
