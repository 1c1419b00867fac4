// Goal: frame types have their documented numbers and names, and only two of them carry a payload.
#include "common/wire/frames.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace varve::wire {
namespace {

TEST(Frames, EveryTypeHasItsOwnName) {
  std::set<std::string> names;
  for (int type = 1; type <= 33; ++type) {
    names.insert(frame_type_name(static_cast<FrameType>(type)));
  }
  EXPECT_EQ(names.size(), 33u);
  EXPECT_EQ(names.count("?"), 0u);
  EXPECT_STREQ(frame_type_name(static_cast<FrameType>(0)), "?");
  EXPECT_STREQ(frame_type_name(static_cast<FrameType>(34)), "?");
}

TEST(Frames, OnlyExtentAndDataCarryAPayload) {
  for (int type = 0; type <= 255; ++type) {
    EXPECT_EQ(carries_payload(static_cast<FrameType>(type)), type == 12 || type == 18) << type;
  }
}

}  // namespace
}  // namespace varve::wire
