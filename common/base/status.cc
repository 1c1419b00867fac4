// Status: the names of the codes, as they appear in logs, metrics and messages.
// The values themselves live in the header and never allocate.
#include "common/base/status.h"

#include <array>

namespace varve {

namespace {

constexpr std::array<const char*, kCodeCount> kCodeNames = {
    "ok",        "invalid", "unauthorized", "quota",    "overloaded",  "unavailable", "timed_out",
    "cancelled", "corrupt", "io",           "no_space", "unsupported", "internal",
};
static_assert(static_cast<uint8_t>(Code::kInternal) + 1 == kCodeCount);
static_assert(kCodeNames.back() != nullptr, "every code has a name");

}  // namespace

const char* code_name(Code code) {
  const auto index = static_cast<uint8_t>(code);
  // A code may have come over the wire; an unknown one is named, not asserted.
  return index < kCodeCount ? kCodeNames[index] : "unknown";
}

}  // namespace varve
