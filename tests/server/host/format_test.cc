// Goal: formats come back as they were kept, and nothing else does.
// Method: a folder of its own, with files that are what they should be and files that are not.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "server/host/host.h"
#include "tests/server/host/host_folder.h"

namespace varve {
namespace {

using test::HostFolder;

KeptFormat kept(const std::string& text) {
  KeptFormat format;
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  format.canonical.assign(bytes.begin(), bytes.end());
  format.fingerprint = Sha256().update(bytes).finish();
  return format;
}

std::string path_of(const std::string& folder, const KeptFormat& format) {
  return folder + "/formats/" + to_hex(format.fingerprint.bytes);
}

TEST(KeptFormats, ComeBackInTheOrderOfTheirFingerprints) {
  HostFolder folder;
  std::vector<KeptFormat> formats;
  std::vector<std::string> odd;
  ASSERT_TRUE(load_formats(folder.path(), 8, &formats, &odd).ok());  // none yet
  EXPECT_TRUE(formats.empty());
  for (const char* text : {"one", "two", "three"})
    ASSERT_TRUE(save_format(folder.path(), kept(text)).ok());
  ASSERT_TRUE(save_format(folder.path(), kept("two")).ok());  // again: the same
  ASSERT_TRUE(load_formats(folder.path(), 8, &formats, &odd).ok());
  ASSERT_EQ(formats.size(), 3u);
  EXPECT_TRUE(odd.empty());
  EXPECT_LT(formats[0].fingerprint, formats[1].fingerprint);
  EXPECT_LT(formats[1].fingerprint, formats[2].fingerprint);
  for (const KeptFormat& format : formats)
    EXPECT_EQ(Sha256().update(format.canonical).finish(), format.fingerprint);
}

TEST(KeptFormats, WhatDoesNotVerifyIsNamedAndLeft) {
  HostFolder folder;
  const KeptFormat good = kept("good"), rotten = kept("rotten");
  ASSERT_TRUE(save_format(folder.path(), good).ok());
  ASSERT_TRUE(save_format(folder.path(), rotten).ok());
  ASSERT_EQ(replace_file(path_of(folder.path(), rotten), "rottem", Durability::kNone), 0);
  ASSERT_EQ(
      replace_file(folder.path() + "/formats/" + std::string(64, 'x'), "x", Durability::kNone), 0);
  ASSERT_EQ(replace_file(folder.path() + "/formats/README", "x", Durability::kNone), 0);
  ASSERT_EQ(::mkdir((folder.path() + "/formats/" + std::string(64, 'a')).c_str(), 0700), 0);
  std::vector<KeptFormat> formats;
  std::vector<std::string> odd;
  ASSERT_TRUE(load_formats(folder.path(), 8, &formats, &odd).ok());
  ASSERT_EQ(formats.size(), 1u);
  EXPECT_EQ(formats[0].fingerprint, good.fingerprint);
  EXPECT_EQ(odd.size(), 3u);
  EXPECT_TRUE(exists(path_of(folder.path(), rotten)));
}

TEST(KeptFormats, AreBoundedInNumber) {
  HostFolder folder;
  for (const char* text : {"one", "two", "three"})
    ASSERT_TRUE(save_format(folder.path(), kept(text)).ok());
  std::vector<KeptFormat> formats;
  std::vector<std::string> odd;
  ASSERT_TRUE(load_formats(folder.path(), 2, &formats, &odd).ok());
  EXPECT_EQ(formats.size(), 2u);
  EXPECT_EQ(odd.size(), 1u);
}

TEST(KeptFormats, AFolderThatCannotBeMadeIsSaid) {
  HostFolder folder;
  ASSERT_EQ(replace_file(folder.path() + "/formats", "a file", Durability::kNone), 0);
  EXPECT_FALSE(save_format(folder.path(), kept("one")).ok());
}

}  // namespace
}  // namespace varve
