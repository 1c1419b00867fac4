// Numbers for a tired person: three digits that count and a unit.
#include "tools/kvctl/text.h"

#include <cinttypes>
#include <cstdio>

#include "common/base/base.h"

namespace varve::kvctl {

namespace {

constexpr Nanos kMinute = 60 * kSecond, kHour = 60 * kMinute, kDay = 24 * kHour;

std::string two_units(uint64_t large, const char* large_unit, uint64_t small,
                      const char* small_unit) {
  std::string text = std::to_string(large) + " " + large_unit;
  if (small > 0) text += " " + std::to_string(small) + " " + small_unit;
  return text;
}

}  // namespace

std::string size_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < kKiB) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.95 and more would be written as 1024.0 of the smaller unit.
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string age_text(Nanos ns) {
  if (ns == 0) return "0 s";
  if (ns < kMicrosecond) return std::to_string(ns) + " ns";
  if (ns < kMillisecond) return std::to_string(ns / kMicrosecond) + " us";
  if (ns < kSecond) return std::to_string(ns / kMillisecond) + " ms";
  if (ns < 10 * kSecond) {
    char text[32];
    std::snprintf(text, sizeof(text), "%" PRIu64 ".%" PRIu64 " s", ns / kSecond,
                  ns % kSecond / (kSecond / 10));
    return text;
  }
  if (ns < kMinute) return std::to_string(ns / kSecond) + " s";
  if (ns < kHour) return two_units(ns / kMinute, "min", ns % kMinute / kSecond, "s");
  if (ns < kDay) return two_units(ns / kHour, "h", ns % kHour / kMinute, "min");
  return two_units(ns / kDay, "d", ns % kDay / kHour, "h");
}

std::string count_text(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t at = text.size(); at > 3; at -= 3)
    text.insert(at - 3, ",");
  return text;
}

std::string share_text(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%",
                100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

std::string plural(uint64_t count, const std::string& noun) {
  return count_text(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string printable(std::string_view text) {
  std::string out(text);
  for (size_t at = 0; at < out.size(); ++at) {
    const auto byte = static_cast<unsigned char>(out[at]);
    if (byte < 0x20 || byte == 0x7f) out[at] = '?';
    // U+0080 to U+009F steer some terminals as well.
    if (byte == 0xc2 && at + 1 < out.size() && static_cast<unsigned char>(out[at + 1]) < 0xa0) {
      out.replace(at, 2, "?");
    }
  }
  return out;
}

std::string hex_text(std::string_view bytes, size_t bytes_max) {
  const std::string_view shown = bytes.substr(0, bytes_max);
  return to_hex(std::as_bytes(std::span(shown))) + (shown.size() < bytes.size() ? "..." : "");
}

std::string session_text(uint64_t session) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, session);
  return text;
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (const char c : text)
    columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return columns;
}

std::string wrapped(std::string_view text, size_t columns, std::string_view indent) {
  std::string out;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const size_t word = columns_of(text.substr(at, end - at));
    const bool breaks = column > 0 && column + 1 + word > columns;
    if (column > 0) out += breaks ? "\n" + std::string(indent) : " ";
    column = (breaks || column == 0 ? 0 : column + 1) + word;
    out += text.substr(at, end - at);
    at = end + 1;
  }
  return out;
}

std::string Paint::operator()(Tone tone, std::string_view text) const {
  static constexpr const char* kCodes[] = {"", "\033[32m", "\033[33m", "\033[31m", "\033[2m"};
  if (!on_ || tone == Tone::kPlain || text.empty()) return std::string(text);
  return kCodes[static_cast<uint8_t>(tone)] + std::string(text) + "\033[0m";
}

}  // namespace varve::kvctl
