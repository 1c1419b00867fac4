// VARVE_ASSERT: always on, prints the expression and its operands, then aborts.
// VARVE_DASSERT: debug and simulation only, for O(n) checks and inner loops.
//
// Only for programmer errors. What a disk, peer, user or file told us is a Status, never an assert.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace varve {

// One operand of a failed assertion, printed as a signed or unsigned number.
struct AssertOperand {
  template <class T>
  AssertOperand(T v) : value(static_cast<uint64_t>(v)) {}  // NOLINT(google-explicit-constructor)
  uint64_t value;
};

[[noreturn]] void assert_fail(const char* expression, const char* file, int line,
                              std::initializer_list<AssertOperand> operands);

// What the core is doing, for the message: set by the reactor's turn, read by assert_fail.
struct AssertContext {
  uint32_t shard = 0;
  const char* op = "";
  const char* stage = "";
};
AssertContext& assert_context();

}  // namespace varve

#define VARVE_ASSERT(condition, ...)                                       \
  do {                                                                     \
    if (!(condition)) [[unlikely]]                                         \
      ::varve::assert_fail(#condition, __FILE__, __LINE__, {__VA_ARGS__}); \
  } while (false)

#ifdef VARVE_DEBUG
#define VARVE_DASSERT(condition, ...) VARVE_ASSERT(condition, ##__VA_ARGS__)
#else
#define VARVE_DASSERT(condition, ...) \
  do {                                \
  } while (false && (condition))
#endif
