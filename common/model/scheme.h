// The scheme: how many fragments a block has, and how many of them may be lost
// (docs/FORMAT.md 4.3). A policy of the domain, fixed when a node's targets are formatted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/base.h"

namespace varve {

inline constexpr uint32_t kWidthMax = 11;  // fragments of a block, of the widest scheme offered

struct Scheme {
  uint32_t k = 1;  // data fragments; any k of the fragments are enough
  uint32_t m = 0;  // parity fragments

  uint32_t width() const { return k + m; }
  bool operator==(const Scheme&) const = default;
  // One of the schemes that are offered: 1+0 1+1 2+1 3+1 4+1 4+2 5+2 8+3.
  bool is_offered() const;
  std::string text() const;  // "4+2"
  // kInvalid for what is not offered.
  static Result<Scheme> parse(std::string_view text);
};

}  // namespace varve
