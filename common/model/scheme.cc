// The offered schemes, as a list: what is not on it is refused, so that every loss pattern of what
// is can be tested.
#include "common/model/scheme.h"

#include <algorithm>
#include <iterator>

namespace varve {

namespace {

constexpr Scheme kOffered[] = {{1, 0}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {4, 2}, {5, 2}, {8, 3}};
static_assert(8 + 3 == kWidthMax);

}  // namespace

bool Scheme::is_offered() const {
  return std::find(std::begin(kOffered), std::end(kOffered), *this) != std::end(kOffered);
}

std::string Scheme::text() const {
  return std::to_string(k) + "+" + std::to_string(m);
}

Result<Scheme> Scheme::parse(std::string_view text) {
  for (const Scheme& scheme : kOffered) {
    if (scheme.text() == text) return scheme;
  }
  return Status::invalid("scheme: not one of 1+0 1+1 2+1 3+1 4+1 4+2 5+2 8+3");
}

}  // namespace varve
