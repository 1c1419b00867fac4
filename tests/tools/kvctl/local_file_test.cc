// Goal: what is put is what was hashed, or nothing; what is got is there whole, or not at all, and
// nothing else is touched.
#include "tools/kvctl/local_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace varve::kvctl {
namespace {

namespace fs = std::filesystem;

// Small, so that a file of a few bytes has several windows.
constexpr WindowShape kShape = {16, 4};
constexpr uint64_t kBytesMax = 1000;

class LocalFiles : public ::testing::Test {
 protected:
  LocalFiles() : folder(::testing::TempDir() + "kvctl_local_" + std::to_string(::getpid())) {
    fs::create_directories(folder);
  }
  ~LocalFiles() override { fs::remove_all(folder); }
  std::string path(const std::string& name) const { return folder + "/" + name; }
  std::string make(const std::string& name, const std::string& content) const {
    std::ofstream(path(name)) << content;
    return path(name);
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
  }
  static ConstByteSpan bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
  static mode_t mode_of(const std::string& path) {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
  }
  const std::string folder;
};

// Goal: windows and pieces of every length around a border give the file again.
TEST_F(LocalFiles, ComeThroughWindowsAsTheyAre) {
  for (const size_t bytes : {0, 1, 11, 12, 13, 27, 28, 29, 100}) {
    std::string content;
    for (size_t i = 0; i < bytes; ++i)
      content += static_cast<char>('a' + i % 26);
    SourceFile source(make("source", content), kShape);
    ASSERT_TRUE(source.open(kBytesMax).ok());
    ASSERT_EQ(source.bytes(), bytes);
    std::vector<std::byte> window(kShape.window_bytes, std::byte{0xff});
    Digest key;
    ASSERT_TRUE(source.hash(window, &key).ok());
    EXPECT_EQ(key, Sha256().update(bytes_of(content)).finish()) << bytes;
    const std::string name = path("copy" + std::to_string(bytes));
    NewFile copy(name, Replace::kNo);
    ASSERT_TRUE(copy.open().ok());
    for (uint64_t n = 0; n < windows_of(kShape, bytes); ++n) {
      std::fill(window.begin(), window.end(), std::byte{0xff});
      ASSERT_TRUE(source.read(n, window).ok());
      const Piece piece = piece_of(kShape, n, bytes);
      for (uint64_t at = 0; at < window.size(); ++at) {
        if (at >= piece.in_window && at < piece.in_window + piece.bytes) continue;
        EXPECT_EQ(window[at], std::byte{0}) << "around the content, of " << bytes;
      }
      const ConstByteSpan all(window);
      ASSERT_TRUE(copy.write(piece.in_file, all.subspan(piece.in_window, piece.bytes)).ok());
    }
    EXPECT_FALSE(fs::exists(name)) << "not before it is whole";
    ASSERT_TRUE(copy.finish().ok());
    EXPECT_EQ(read(name), content) << bytes;
  }
}

// Goal: no block of a file that changes is pushed under the key of what it was.
TEST_F(LocalFiles, AreNotReadOnceTheyHaveChanged) {
  const std::string file = make("source", std::string(40, 'a'));
  SourceFile source(file, kShape);
  ASSERT_TRUE(source.open(kBytesMax).ok());
  std::vector<std::byte> window(kShape.window_bytes);
  Digest key;
  ASSERT_TRUE(source.hash(window, &key).ok());
  std::fstream(file).seekp(20) << "b";
  EXPECT_TRUE(source.read(0, window).ok()) << "this part is as it was";
  const Outcome changed = source.read(1, window);
  EXPECT_EQ(changed.exit, Exit::kFailed);
  EXPECT_NE(changed.text.find("changed"), std::string::npos) << changed.text;
  ASSERT_EQ(::truncate(file.c_str(), 30), 0);
  const Outcome cut = source.read(2, window);
  EXPECT_EQ(cut.exit, Exit::kFailed);
  EXPECT_NE(cut.text.find("shorter"), std::string::npos) << cut.text;
}

TEST_F(LocalFiles, ThatAreNotFinishedLeaveNothingBehind) {
  {
    NewFile file(path("new"), Replace::kNo);
    ASSERT_TRUE(file.check().ok());
    ASSERT_TRUE(file.open().ok());
    ASSERT_TRUE(file.write(0, bytes_of("half")).ok());
  }
  EXPECT_EQ(count(), 0u);
}

// Goal: what came while the content came is not written over.
TEST_F(LocalFiles, DoNotReplaceWhatCameMeanwhile) {
  {
    NewFile file(path("new"), Replace::kNo);
    ASSERT_TRUE(file.check().ok());
    ASSERT_TRUE(file.open().ok());
    make("new", "another's");
    const Outcome outcome = file.finish();
    EXPECT_EQ(outcome.exit, Exit::kUsage);
    EXPECT_NE(outcome.text.find("--force"), std::string::npos) << outcome.text;
  }
  EXPECT_EQ(read(path("new")), "another's");
  EXPECT_EQ(count(), 1u);
}

TEST_F(LocalFiles, AreReplacedWithTheirRights) {
  const std::string name = make("there", "a longer content than the new one");
  ASSERT_EQ(::chmod(name.c_str(), 0600), 0);
  NewFile file(name, Replace::kYes);
  ASSERT_TRUE(file.check().ok());
  ASSERT_TRUE(file.open().ok());
  ASSERT_TRUE(file.write(0, bytes_of("new")).ok());
  EXPECT_EQ(read(name), "a longer content than the new one");
  ASSERT_TRUE(file.finish().ok());
  EXPECT_EQ(read(name), "new");
  EXPECT_EQ(mode_of(name), 0600u);
  EXPECT_EQ(count(), 1u);
  NewFile first(path("first"), Replace::kYes);  // where there is nothing to be replaced
  ASSERT_TRUE(first.open().ok());
  ASSERT_TRUE(first.finish().ok());
  EXPECT_TRUE(fs::exists(path("first")));
}

// Whoever may not read what is replaced may not read what comes, with or without a name of its own.
TEST_F(LocalFiles, AreNobodyElsesUntilTheyAreWhole) {
  const mode_t mask = ::umask(0022);
  NewFile file(path("new"), Replace::kNo);
  ASSERT_TRUE(file.open().ok());
  uint32_t open_here = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own
    if (!fs::read_symlink(entry.path(), gone).string().starts_with(folder)) continue;
    ++open_here;
    EXPECT_EQ(mode_of(entry.path()), 0600u);
  }
  EXPECT_EQ(open_here, 1u);
  ASSERT_TRUE(file.finish().ok());
  EXPECT_EQ(mode_of(path("new")), 0644u);
  ::umask(mask);
}

TEST_F(LocalFiles, ReplaceNothingButFiles) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_symlink("nowhere", path("dangling"));
  fs::create_symlink(make("there", "kept"), path("link"));
  fs::create_directories(path("folder"));
  for (const std::string name : {"pipe", "dangling", "link", "folder"}) {
    for (const Replace replace : {Replace::kNo, Replace::kYes}) {
      NewFile file(path(name), replace);
      const Outcome outcome = file.check();
      EXPECT_EQ(outcome.exit, Exit::kUsage) << name;
      EXPECT_EQ(outcome.text.find("--force"), std::string::npos) << outcome.text;
    }
  }
  EXPECT_NE(NewFile("/dev/null", Replace::kYes).check().exit, Exit::kDone);
  // Expect: so it is when the pipe came after the first look.
  NewFile late(path("late"), Replace::kYes);
  ASSERT_TRUE(late.open().ok());
  ASSERT_EQ(::mkfifo(path("late").c_str(), 0600), 0);
  EXPECT_EQ(late.finish().exit, Exit::kUsage);
  EXPECT_TRUE(fs::is_fifo(path("late")));
  EXPECT_EQ(read(path("there")), "kept");
}

TEST_F(LocalFiles, ThatCannotBeMadeAreErrors) {
  NewFile file(path("no/such/folder"), Replace::kNo);
  const Outcome outcome = file.open();
  EXPECT_EQ(outcome.exit, Exit::kFailed);
  EXPECT_NE(outcome.text.find("check the folder"), std::string::npos) << outcome.text;
}

}  // namespace
}  // namespace varve::kvctl
