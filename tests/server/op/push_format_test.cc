// Goal: a format outlives whoever registered it for as long as a push needs it, within a limit.
#include "server/op/push_format.h"

#include <gtest/gtest.h>

#include <string>

namespace varve {
namespace {

SessionFormat numbered(uint32_t number) {
  SessionFormat format;
  format.format.lineage = "line " + std::to_string(number);
  format.fingerprint.bytes[0] = static_cast<std::byte>(number);
  format.fingerprint.bytes[1] = static_cast<std::byte>(number >> 8);
  format.lineage = number;
  format.counts = reinterpret_cast<FormatCounts*>(1);
  return format;
}

TEST(PushFormats, IsACopyOfItsOwn) {
  PushFormats formats;
  auto session = std::make_unique<SessionFormat>(numbered(3));
  const SessionFormat* copy = formats.take(*session);
  ASSERT_NE(copy, nullptr);
  EXPECT_NE(copy, session.get());
  EXPECT_EQ(formats.take(numbered(3)), copy) << "of any session";
  session.reset();
  EXPECT_EQ(copy->format.lineage, "line 3");
  EXPECT_EQ(copy->lineage, 3u);
  EXPECT_EQ(copy->counts, nullptr);
  formats.give(copy);
  EXPECT_EQ(formats.used(), 1u);
  formats.give(copy);
  EXPECT_EQ(formats.used(), 0u);
  EXPECT_EQ(formats.take(numbered(3)), copy) << "kept while there is room";
}

TEST(PushFormats, HasALimitOfThoseInUse) {
  PushFormats formats;
  std::vector<const SessionFormat*> taken;
  for (uint32_t n = 0; n < PushFormats::kMax; ++n)
    taken.push_back(formats.take(numbered(n)));
  EXPECT_FALSE(formats.has_room(numbered(999)));
  EXPECT_EQ(formats.take(numbered(999)), nullptr);
  EXPECT_TRUE(formats.has_room(numbered(7)));
  EXPECT_EQ(formats.take(numbered(7)), taken[7]);
  formats.give(taken[7]);
  formats.give(taken[7]);
  EXPECT_TRUE(formats.has_room(numbered(999)));
  EXPECT_NE(formats.take(numbered(999)), nullptr);
  EXPECT_EQ(formats.take(numbered(7)), nullptr) << "its place is taken";
  EXPECT_EQ(formats.used(), PushFormats::kMax);
}

TEST(PushFormats, KeepsFewThatNobodyUses) {
  PushFormats formats;
  std::vector<const SessionFormat*> taken;
  for (uint32_t n = 0; n < 100; ++n)
    taken.push_back(formats.take(numbered(n)));
  for (const SessionFormat* format : taken)
    formats.give(format);
  EXPECT_EQ(formats.used(), 0u);
  EXPECT_LE(formats.count(), PushFormats::kUnusedMax);
  EXPECT_NE(formats.take(numbered(50)), nullptr);
}

TEST(PushFormats, TellsLineagesApart) {
  PushFormats formats;
  SessionFormat one = numbered(1), other = numbered(1);
  other.lineage = 2;
  EXPECT_NE(formats.take(one), formats.take(other));
}

}  // namespace
}  // namespace varve
