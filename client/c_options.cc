// Options by name: one table says the name, the place and the kind of text of each.
#include "client/c_options.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>

#include "client/c_border.h"

namespace varve {

namespace {

enum class Kind : uint8_t {
  kText,
  kNumber,
  kNumberOrNone,
  kSwitch,
  kBytes,
  kBytesOrNone,
  kNanos,
  kLog
};

struct Field {
  std::string_view name;
  Kind kind;
  size_t offset;
  size_t bytes;  // in the struct
};

#define VARVE_FIELD(name, kind) \
  { #name, Kind::kind, offsetof(varve_options, name), sizeof(varve_options::name) }
constexpr Field kFields[] = {
    VARVE_FIELD(address, kText),
    VARVE_FIELD(token, kText),
    VARVE_FIELD(name, kText),
    VARVE_FIELD(bulk_lanes, kNumber),
    VARVE_FIELD(pull_credit_bytes, kBytes),
    VARVE_FIELD(parity_scratch_bytes, kBytes),
    VARVE_FIELD(rebuild_scratch_bytes, kBytes),
    VARVE_FIELD(populate_scratch, kSwitch),
    VARVE_FIELD(hedge_percent, kNumberOrNone),
    VARVE_FIELD(ops_max, kNumber),
    VARVE_FIELD(breaker_failures, kNumberOrNone),
    VARVE_FIELD(breaker_probe_ns, kNanos),
    VARVE_FIELD(connect_ns_max, kNanos),
    VARVE_FIELD(reconnect_ns_min, kNanos),
    VARVE_FIELD(reconnect_ns_max, kNanos),
    VARVE_FIELD(fence_ns_max, kNanos),
    VARVE_FIELD(ping_interval_ns, kNanos),
    VARVE_FIELD(log_level, kLog),
    VARVE_FIELD(bounce_bytes, kBytesOrNone),
};
#undef VARVE_FIELD

struct Unit {
  std::string_view name;
  uint64_t factor;
};
constexpr Unit kByteUnits[] = {{"", 1}, {"KiB", kKiB}, {"MiB", kMiB}, {"GiB", kGiB}};
constexpr Unit kTimeUnits[] = {
    {"ns", 1}, {"us", kMicrosecond}, {"ms", kMillisecond}, {"s", kSecond}};
constexpr Unit kNoUnits[] = {{"", 1}};
constexpr Unit kSwitches[] = {{"0", 0}, {"1", 1}, {"false", 0}, {"true", 1}, {"no", 0}, {"yes", 1}};
constexpr Unit kLogLevels[] = {{"debug", VARVE_LOG_DEBUG},
                               {"info", VARVE_LOG_INFO},
                               {"warn", VARVE_LOG_WARN},
                               {"error", VARVE_LOG_ERROR}};

Result<uint64_t> parse_number(std::string_view text, std::span<const Unit> units) {
  uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc()) return Status::invalid("option: not a number");
  const std::string_view unit(read.ptr, static_cast<size_t>(text.data() + text.size() - read.ptr));
  for (const Unit& known : units) {
    if (known.name != unit) continue;
    if (__builtin_mul_overflow(number, known.factor, &number)) {
      return Status::invalid("option: the number is too large");
    }
    if (number == 0) return Status::invalid("option: 0 means its default; leave it out");
    return uint64_t{number};
  }
  return Status::invalid(
      "option: bytes end in nothing, KiB, MiB or GiB, durations in ns, us, ms, s");
}

Result<uint64_t> parse_word(std::string_view text, std::span<const Unit> words) {
  for (const Unit& word : words) {
    if (word.name == text) return uint64_t{word.factor};
  }
  return Status::invalid("option: none of the words that it takes");
}

Result<uint64_t> parse(Kind kind, std::string_view text) {
  switch (kind) {
    case Kind::kNumberOrNone:
      if (text == "none") return uint64_t{VARVE_NONE};
      return parse_number(text, kNoUnits);
    case Kind::kBytesOrNone:
      if (text == "none") return uint64_t{VARVE_NONE};
      return parse_number(text, kByteUnits);
    case Kind::kBytes:
      return parse_number(text, kByteUnits);
    case Kind::kNanos:
      return parse_number(text, kTimeUnits);
    case Kind::kSwitch:
      return parse_word(text, kSwitches);
    case Kind::kLog:
      return parse_word(text, kLogLevels);
    default:
      return parse_number(text, kNoUnits);
  }
}

Status set(varve_options* options, std::string_view name, std::string_view text) {
  const auto* field = std::find_if(std::begin(kFields), std::end(kFields),
                                   [&](const Field& f) { return f.name == name; });
  if (field == std::end(kFields)) return Status::invalid("option: there is none of that name");
  if (field->offset + field->bytes > options->struct_size) {
    return Status::unsupported("option: later than the caller's struct");
  }
  char* place = reinterpret_cast<char*>(options) + field->offset;
  if (field->kind == Kind::kText) {
    if (text.size() >= field->bytes) return Status::invalid("option: the text is too long");
    std::memset(place, 0, field->bytes);
    std::memcpy(place, text.data(), text.size());
    return Status();
  }
  VARVE_TRY(const uint64_t number, parse(field->kind, text));
  if (field->bytes == sizeof(uint64_t)) {
    std::memcpy(place, &number, sizeof number);
    return Status();
  }
  VARVE_ASSERT(field->bytes == sizeof(uint32_t), field->bytes);
  const auto small = static_cast<uint32_t>(number);
  if (small != number) return Status::invalid("option: the number is too large");
  std::memcpy(place, &small, sizeof small);
  return Status();
}

template <size_t N>
Status text_of(const char (&from)[N], std::string& to) {
  const auto* end = static_cast<const char*>(std::memchr(from, 0, N));
  if (end == nullptr) return Status::invalid("options: a text has no ending zero");
  if (end != from) to.assign(from, end);
  return Status();
}

template <class T>
void take(uint64_t given, T& to) {
  if (given != 0) to = static_cast<T>(given);
}

uint32_t none_is_zero(uint32_t given) {
  return given == VARVE_NONE ? 0 : given;
}

}  // namespace

Status client_options(const varve_options& from, ClientOptions& to, LogLevel& log) {
  if (from.log_level > VARVE_LOG_ERROR) return Status::invalid("options: no such log_level");
  if (from.populate_scratch > 1) return Status::invalid("options: populate_scratch is 0 or 1");
  if (from.reserved != 0) return Status::unsupported("options: reserved is 0");
  const uint32_t level = from.log_level == 0 ? uint32_t{VARVE_LOG_WARN} : from.log_level;
  log = static_cast<LogLevel>(level - VARVE_LOG_DEBUG);
  to.name = "engine";
  VARVE_RETURN_IF_ERROR(text_of(from.address, to.address));
  VARVE_RETURN_IF_ERROR(text_of(from.token, to.token));
  VARVE_RETURN_IF_ERROR(text_of(from.name, to.name));
  take(from.bulk_lanes, to.bulk_lanes);
  take(from.pull_credit_bytes, to.pull_credit_bytes);
  take(from.parity_scratch_bytes, to.parity_scratch_bytes);
  take(from.rebuild_scratch_bytes, to.rebuild_scratch_bytes);
  to.populate_scratch = from.populate_scratch == 1;
  if (from.hedge_percent != 0) to.hedge_percent = none_is_zero(from.hedge_percent);
  take(from.ops_max, to.ops_max);
  to.breaker_failures = kBreakerFailuresDefault;
  if (from.breaker_failures != 0) to.breaker_failures = none_is_zero(from.breaker_failures);
  take(from.breaker_probe_ns, to.breaker_probe_ns);
  take(from.connect_ns_max, to.connect_ns_max);
  take(from.reconnect_ns_min, to.reconnect_ns_min);
  take(from.reconnect_ns_max, to.reconnect_ns_max);
  take(from.fence_ns_max, to.fence_ns_max);
  take(from.ping_interval_ns, to.ping_interval_ns);
  const bool bounces = from.bounce_bytes != VARVE_NONE;
  if (from.bounce_bytes != 0) to.bounce_bytes = bounces ? from.bounce_bytes : 0;
  return Status();
}

}  // namespace varve

extern "C" varve_status varve_options_set(varve_options* options, const char* name,
                                          const char* text) {
  return varve::border([&]() -> varve::Outcome {
    VARVE_RETURN_IF_ERROR(varve::check_sized(options));
    if (name == nullptr || text == nullptr) {
      return varve::Status::invalid("option: a null name or text");
    }
    return varve::set(options, name, text);
  });
}
