// The main of a fuzz target in ordinary builds: feeds every file of the given folders to it, and
// every truncation of each, so that what a fuzzer once found stays found without a fuzzer.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// Beyond this size only every so many lengths are tried, so that a large file stays cheap.
constexpr size_t kTruncationsMax = 4096;

void replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  const size_t step = bytes.size() / kTruncationsMax + 1;
  for (size_t size = 0; size < bytes.size(); size += step) {
    // A copy of exactly this size: a read past its end is seen by the address sanitizer.
    const std::vector<uint8_t> part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    LLVMFuzzerTestOneInput(part.data(), part.size());
  }
  const std::vector<uint8_t> whole(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(whole.data(), whole.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) continue;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files)
    replay(path);
  std::printf("%zu inputs replayed\n", files.size());
  return files.empty() ? 1 : 0;
}
