// text: how numbers, ages and names are written for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/time/time.h"

namespace varve::kvctl {

// "12 B", "1.5 MiB", "2.0 GiB": one decimal, of the largest unit that gives at least 1.
std::string size_text(uint64_t bytes);
// "850 us", "12 ms", "3.4 s", "3 min 20 s", "5 h 2 min", "3 d 4 h".
std::string age_text(Nanos ns);
// "1,234,567"
std::string count_text(uint64_t count);
// "80.1 %", "-" of nothing.
std::string share_text(uint64_t part, uint64_t whole);
// "1 block", "2 blocks"
std::string plural(uint64_t count, const std::string& noun);
// What a client or file said, so that it cannot steer a terminal: control characters are '?'.
std::string printable(std::string_view text);
// The first `bytes_max` bytes in hex, "..." behind them where there are more.
std::string hex_text(std::string_view bytes, size_t bytes_max = ~size_t{0});
// 16 hex digits, as the log of varved writes sessions.
std::string session_text(uint64_t session);
// Columns that it takes on a terminal: one for each code point.
size_t columns_of(std::string_view text);
// Pieces of at most `columns`, broken at blanks.
std::string wrapped(std::string_view text, size_t columns, std::string_view indent);

// Whether text goes to a terminal that shows colours; never the only thing that says something.
enum class Tone : uint8_t { kPlain, kGood, kWarn, kBad, kDim };
class Paint {
 public:
  explicit Paint(bool on) : on_(on) {}
  std::string operator()(Tone tone, std::string_view text) const;

 private:
  bool on_;
};

}  // namespace varve::kvctl
