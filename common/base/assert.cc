// The end of a broken program: prints what was asserted, with its operands and where the core
// stood, and aborts. Uses stdio only: the log may be what is broken.
#include "common/base/assert.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace varve {

AssertContext& assert_context() {
  thread_local AssertContext context;
  return context;
}

void assert_fail(const char* expression, const char* file, int line,
                 std::initializer_list<AssertOperand> operands) {
  const AssertContext& context = assert_context();
  std::fprintf(stderr, "varve: assertion failed: %s\n  at %s:%d\n", expression, file, line);
  int index = 0;
  for (const AssertOperand& operand : operands) {
    std::fprintf(stderr, "  operand %d: %" PRIu64, index++, operand.value);
    // A small negative number was widened to a huge unsigned one: show both readings.
    if (static_cast<int64_t>(operand.value) < 0) {
      std::fprintf(stderr, " (%" PRId64 ")", static_cast<int64_t>(operand.value));
    }
    std::fprintf(stderr, "\n");
  }
  std::fprintf(stderr, "  shard: %" PRIu32 ", op: %s, stage: %s\n", context.shard,
               context.op[0] != '\0' ? context.op : "-",
               context.stage[0] != '\0' ? context.stage : "-");
  std::fflush(stderr);
  std::abort();
}

}  // namespace varve
