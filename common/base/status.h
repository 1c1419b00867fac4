// Status and Result: how an operating error travels.
//
// Three classes of outcome exist and are never mixed: a miss or a refusal is a value, an operating
// error (disk, peer, quota, corruption) is a Status, a programmer error is a VARVE_ASSERT.
// A Status is 16 bytes, trivially copyable and never allocates; `what` is a string literal.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "common/base/assert.h"

namespace varve {

enum class Code : uint8_t {
  kOk = 0,
  kInvalid,       // the caller's argument, frame or file is wrong
  kUnauthorized,  // no or wrong credential
  kQuota,         // a tenant's or session's limit
  kOverloaded,    // a shared limit; try later
  kUnavailable,   // the peer or the target is gone
  kTimedOut,      // a deadline or a lease passed
  kCancelled,
  kCorrupt,  // a checksum or a structure does not hold
  kIo,       // the device said no; errno inside
  kNoSpace,
  kUnsupported,  // known, but not by this build, kernel or version
  kInternal,
};
inline constexpr uint8_t kCodeCount = 13;

const char* code_name(Code code);

class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  constexpr Status(Code code, const char* what, int32_t errno_value = 0)
      : what_(what), errno_(errno_value), code_(code) {}

  static constexpr Status ok_status() { return {}; }
  static constexpr Status invalid(const char* what) { return {Code::kInvalid, what}; }
  static constexpr Status unauthorized(const char* what) { return {Code::kUnauthorized, what}; }
  static constexpr Status quota(const char* what) { return {Code::kQuota, what}; }
  static constexpr Status overloaded(const char* what) { return {Code::kOverloaded, what}; }
  static constexpr Status unavailable(const char* what) { return {Code::kUnavailable, what}; }
  static constexpr Status timed_out(const char* what) { return {Code::kTimedOut, what}; }
  static constexpr Status cancelled(const char* what) { return {Code::kCancelled, what}; }
  static constexpr Status corrupt(const char* what) { return {Code::kCorrupt, what}; }
  static constexpr Status io(const char* what, int32_t errno_value) {
    return {Code::kIo, what, errno_value};
  }
  static constexpr Status no_space(const char* what) { return {Code::kNoSpace, what}; }
  static constexpr Status unsupported(const char* what) { return {Code::kUnsupported, what}; }
  static constexpr Status internal(const char* what) { return {Code::kInternal, what}; }

  constexpr bool ok() const { return code_ == Code::kOk; }
  constexpr Code code() const { return code_; }
  constexpr int32_t errno_value() const { return errno_; }
  constexpr const char* what() const { return what_; }

 private:
  const char* what_ = "";
  int32_t errno_ = 0;
  Code code_ = Code::kOk;
};
static_assert(sizeof(Status) == 16 && std::is_trivially_copyable_v<Status>);

// A value or the Status that prevented it; the member names are those of std::expected.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(status) {      // NOLINT(google-explicit-constructor)
    VARVE_ASSERT(!status.ok());
  }

  bool has_value() const { return value_.has_value(); }
  explicit operator bool() const { return has_value(); }
  Status error() const { return status_; }
  T& value() & {
    VARVE_ASSERT(has_value());
    return *value_;
  }
  const T& value() const& {
    VARVE_ASSERT(has_value());
    return *value_;
  }
  T&& value() && {
    VARVE_ASSERT(has_value());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

#define VARVE_CONCAT_INNER(a, b) a##b
#define VARVE_CONCAT(a, b) VARVE_CONCAT_INNER(a, b)
// VARVE_TRY(auto x, expr): x = value of expr, or return its Status.
#define VARVE_TRY(declaration, ...) \
  VARVE_TRY_INNER(VARVE_CONCAT(varve_try_, __LINE__), declaration, __VA_ARGS__)
#define VARVE_TRY_INNER(temporary, declaration, ...)    \
  auto temporary = (__VA_ARGS__);                       \
  if (!temporary.has_value()) return temporary.error(); \
  declaration = *std::move(temporary)
#define VARVE_RETURN_IF_ERROR(...)                                                             \
  do {                                                                                         \
    if (::varve::Status varve_failed = (__VA_ARGS__); !varve_failed.ok()) return varve_failed; \
  } while (false)

}  // namespace varve
