// Goal: formats are known in every later life, each once, and never more than may be.
// Method: a folder of the test, and books that are opened on it one after the other.
#include "server/node/format_book.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace varve {
namespace {

Format format_of(uint32_t number) {
  Format format;
  format.model.bytes[0] = static_cast<std::byte>(number);
  format.model.bytes[1] = static_cast<std::byte>(number >> 8);
  format.model.bytes[2] = std::byte{1};  // none is zero
  format.lineage = "main";
  format.ranks = {{{LayerKind::kFull, 4096}}};
  return format;
}

class Books : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "varve-book-XXXXXX";
    folder = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string folder;
};

TEST_F(Books, KeepFormatsOverLives) {
  const Format format = format_of(1);
  {
    FormatBook book;
    ASSERT_TRUE(book.load(folder).ok());
    EXPECT_EQ(book.add(format.encode()), FormatBook::Added::kNew);
    EXPECT_EQ(book.add(format.encode()), FormatBook::Added::kKnown);
    EXPECT_FALSE(book.find(format.fingerprint().bytes)[0].kept) << "no file is waited for";
    book.keep(folder, kSecond, 0);
    EXPECT_TRUE(book.find(format.fingerprint().bytes)[0].kept);
  }
  FormatBook book;
  ASSERT_TRUE(book.load(folder).ok());
  EXPECT_EQ(book.add(format.encode()), FormatBook::Added::kKnown);
  uint64_t next = 1;
  const auto rows = book.rows(0, 10, &next);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(next, 0u);
  EXPECT_EQ(rows[0].format, format);
  EXPECT_TRUE(rows[0].kept);
  EXPECT_EQ(book.fingerprints(), std::vector<Digest>{format.fingerprint()});
}

TEST_F(Books, AreReadInPages) {
  FormatBook book;
  for (uint32_t n = 0; n < 5; ++n)
    book.add(format_of(n).encode());
  uint64_t cursor = 0;
  size_t seen = 0;
  do {
    const auto rows = book.rows(cursor, 2, &cursor);
    EXPECT_LE(rows.size(), 2u);
    for (const auto& row : rows)
      EXPECT_EQ(row.format, format_of(static_cast<uint32_t>(seen++)));
  } while (cursor != 0);
  EXPECT_EQ(seen, 5u);
  EXPECT_TRUE(book.rows(99, 2, &cursor).empty());
}

TEST_F(Books, FindByTheBeginningOfAFingerprint) {
  FormatBook book;
  book.add(format_of(1).encode());
  book.add(format_of(2).encode());
  const Digest one = format_of(1).fingerprint();
  EXPECT_EQ(book.find(one.bytes).size(), 1u);
  EXPECT_EQ(book.find(ConstByteSpan(one.bytes).first(8))[0].format, format_of(1));
  EXPECT_TRUE(book.find(Digest{}.bytes).empty());
}

TEST_F(Books, WhatCannotBeWrittenIsKnownAndTriedAgain) {
  FormatBook book;
  const std::string nowhere = folder + "/nowhere";
  EXPECT_EQ(book.add(format_of(1).encode()), FormatBook::Added::kNew);
  EXPECT_FALSE(book.find(format_of(1).fingerprint().bytes)[0].kept);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(book.keep(nowhere, kSecond, 0));
  book.keep(nowhere, 2 * kSecond, 0);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("not known after a restart"), std::string::npos) << log;
  EXPECT_EQ(log.find("not known"), log.rfind("not known")) << "once a minute";
  std::filesystem::create_directory(nowhere);
  EXPECT_TRUE(book.keep(nowhere, 3 * kSecond, 0));
  EXPECT_TRUE(book.find(format_of(1).fingerprint().bytes)[0].kept);
}

TEST_F(Books, SomeThatCannotBeWrittenKeepNoOtherFromIt) {
  FormatBook book;
  std::vector<std::string> taken;
  for (uint32_t n = 0; n < 7; ++n) {
    const Format format = format_of(n);
    EXPECT_EQ(book.add(format.encode()), FormatBook::Added::kNew);
    if (n == 6) continue;
    taken.push_back(folder + "/formats/" + to_hex(format.fingerprint().bytes));
    std::filesystem::create_directories(taken.back());
  }
  testing::internal::CaptureStderr();
  EXPECT_FALSE(book.keep(folder, kSecond, 0));
  EXPECT_FALSE(book.keep(folder, 2 * kSecond, 0));
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(book.find(format_of(6).fingerprint().bytes)[0].kept);
  EXPECT_FALSE(book.find(format_of(0).fingerprint().bytes)[0].kept);
  for (const std::string& folder_of_one : taken)
    std::filesystem::remove(folder_of_one);
  EXPECT_TRUE(book.keep(folder, 3 * kSecond, 0));
  for (uint32_t n = 0; n < 7; ++n)
    EXPECT_TRUE(book.find(format_of(n).fingerprint().bytes)[0].kept) << n;
}

TEST_F(Books, AreBounded) {
  const std::string nowhere = folder + "/nowhere";  // a thousand files are not the point
  FormatBook book;
  for (uint32_t n = 0; n < FormatBook::kFormatsMax; ++n)
    ASSERT_EQ(book.add(format_of(n).encode()), FormatBook::Added::kNew);
  EXPECT_EQ(book.add(format_of(5000).encode()), FormatBook::Added::kFull);
  EXPECT_EQ(book.refused(), 1u);
  testing::internal::CaptureStderr();
  book.keep(folder, 100 * kSecond, 0);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("1 formats came that are not kept"),
            std::string::npos);
  EXPECT_EQ(book.fingerprints().size(), FormatBook::kFormatsMax);
}

}  // namespace
}  // namespace varve
