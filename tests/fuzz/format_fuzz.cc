// Feeds arbitrary bytes to the format decoder: what it accepts must encode to those very bytes (M2)
// and must give an extent table or a refusal for every scheme, never an assertion.
#include <cstdint>
#include <cstdlib>

#include "common/model/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  const auto bytes = std::as_bytes(std::span<const uint8_t>(data, size));
  const Result<Format> format = Format::decode(bytes);
  if (!format.has_value()) return 0;
  const std::vector<std::byte> encoded = format->encode();
  if (!std::equal(encoded.begin(), encoded.end(), bytes.begin(), bytes.end())) std::abort();
  if (!format_diff(*format, *format).empty()) std::abort();
  for (const auto& layers : format->ranks) {
    for (uint32_t k : {1u, 2u, 3u, 4u, 5u, 8u}) {
      const Result<ExtentTable> table = ExtentTable::of(layers, Scheme{.k = k});
      if (table.has_value() && table->layer_last_extent.size() != layers.size()) std::abort();
    }
  }
  return 0;
}
