// Schemes are a closed list: what is not in it was never tested, so it is refused by name.
#include "common/model/scheme.h"

#include <algorithm>

namespace varve {

static_assert(std::all_of(kSchemes.begin(), kSchemes.end(), [](Scheme s) {
  return s.k >= 1 && s.k <= kDataMax && s.m <= kParityMax;
}));

bool Scheme::valid() const {
  return std::find(kSchemes.begin(), kSchemes.end(), *this) != kSchemes.end();
}

std::string Scheme::text() const {
  return std::to_string(k) + "+" + std::to_string(m);
}

Result<Scheme> Scheme::parse(std::string_view text) {
  for (const Scheme scheme : kSchemes) {
    if (text == scheme.text()) return scheme;
  }
  return Status::invalid("scheme: must be 1+0, 1+1, 2+1, 3+1, 4+1, 4+2, 5+2 or 8+3");
}

Matrix matrix_of(Scheme scheme) {
  VARVE_ASSERT(scheme.valid(), scheme.k, scheme.m);
  if (scheme.m == 0) return Matrix::kNone;
  return scheme.m == 1 ? Matrix::kXor : Matrix::kCauchy;
}

}  // namespace varve
