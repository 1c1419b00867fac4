// Goal: a Status carries code, errno and text without allocation, and the macros return early.
// Method: direct calls, including a move-only value through VARVE_TRY.
#include "common/base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

namespace varve {
namespace {

TEST(Status, DefaultIsOkAndErrorsCarryTheirParts) {
  EXPECT_TRUE(Status().ok());
  const Status s = Status::io("write failed", 5);
  EXPECT_FALSE(s.ok());
  EXPECT_EQ(s.code(), Code::kIo);
  EXPECT_EQ(s.errno_value(), 5);
  EXPECT_STREQ(s.what(), "write failed");
}

TEST(Status, EveryCodeHasItsOwnNameAndForeignCodesAreUnknown) {
  std::set<std::string> names;
  for (uint8_t i = 0; i < kCodeCount; ++i)
    names.insert(code_name(static_cast<Code>(i)));
  EXPECT_EQ(names.size(), kCodeCount);
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_STREQ(code_name(Code::kTimedOut), "timed_out");
  EXPECT_STREQ(code_name(Code::kInternal), "internal");
  EXPECT_STREQ(code_name(static_cast<Code>(kCodeCount)), "unknown");
  EXPECT_STREQ(code_name(static_cast<Code>(255)), "unknown");
}

Result<std::unique_ptr<int>> make(int value) {
  if (value < 0) return Status::invalid("negative");
  return std::make_unique<int>(value);
}

Result<int> doubled(int value) {
  VARVE_TRY(auto pointer, make(value));
  return *pointer * 2;
}

Status checked(int value, int* steps) {
  VARVE_RETURN_IF_ERROR(make(value).has_value() ? Status() : Status::invalid("negative"));
  ++*steps;
  return {};
}

TEST(Result, TryMovesTheValueOutOrReturnsTheError) {
  EXPECT_EQ(doubled(21).value(), 42);
  const Result<int> bad = doubled(-1);
  EXPECT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code(), Code::kInvalid);
}

TEST(Result, ReturnIfErrorStopsTheFunction) {
  int steps = 0;
  EXPECT_TRUE(checked(1, &steps).ok());
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(checked(-1, &steps).code(), Code::kInvalid);
  EXPECT_EQ(steps, 1);
}

TEST(ResultDeathTest, ReadingTheValueOfAnErrorIsAProgrammerError) {
  const Result<int> bad = Status::invalid("negative");
  EXPECT_DEATH((void)bad.value(), "has_value");
}

}  // namespace
}  // namespace varve
