// Harm: plain file calls; rot goes where data is, the files are sparse.
#include "tools/ledger/harm.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "common/base/random.h"

namespace varve::ledger {

namespace {

constexpr uint64_t kHeadBytes = 1 * kMiB;     // superblocks and zeros (docs/FORMAT.md 5)
constexpr uint64_t kSuperblocksBytes = 8192;  // both
constexpr uint32_t kRotPlacesMin = 8, kRotPlacesMax = 64;
constexpr uint64_t kRotBytes[] = {1, 1, 64, 512, 4096, 65536};
constexpr uint32_t kRotHeadPerMille = 250;  // one of the two superblocks as well

class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {
    if (fd_ < 0) status_ = Status::io("ledger: a target file", errno);
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const Status& status() const { return status_; }
  uint64_t size() const {
    struct stat info {};
    return ::fstat(fd_, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
  }
  Status resize(uint64_t bytes) {
    if (::ftruncate(fd_, static_cast<off_t>(bytes)) == 0) return Status();
    return Status::io("ledger: ftruncate of a target", errno);
  }
  Status write(uint64_t at, const std::vector<std::byte>& bytes) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n == static_cast<ssize_t>(bytes.size())) return Status();
    return Status::io("ledger: pwrite to a target", errno);
  }
  // [begin, end) of what was ever written.
  std::vector<std::pair<uint64_t, uint64_t>> data() const {
    std::vector<std::pair<uint64_t, uint64_t>> out;
    const auto size_bytes = static_cast<off_t>(size());
    for (off_t at = 0; at < size_bytes;) {
      const off_t begin = ::lseek(fd_, at, SEEK_DATA);
      if (begin < 0) break;
      const off_t end = ::lseek(fd_, begin, SEEK_HOLE);
      if (end <= begin) break;
      out.emplace_back(begin, end);
      at = end;
    }
    return out;
  }

 private:
  int fd_;
  Status status_;
};

std::vector<std::byte> random_bytes(Random& random, uint64_t count) {
  std::vector<std::byte> out(count);
  for (std::byte& b : out)
    b = static_cast<std::byte>(random.next());
  return out;
}

// Byte `at` of all that is behind the head, counted without the holes; the end of its run too.
struct Spot {
  uint64_t at = 0, end = 0;
};
Spot spot_of(const std::vector<std::pair<uint64_t, uint64_t>>& data, uint64_t at) {
  for (const auto& [begin, end] : data) {
    if (at < end - begin) return {begin + at, end};
    at -= end - begin;
  }
  VARVE_ASSERT(false, at);
  return {};
}

Status rot(const std::string& path, uint64_t seed) {
  File file(path, O_RDWR);
  VARVE_RETURN_IF_ERROR(file.status());
  Random random(seed);
  auto data = file.data();
  uint64_t total = 0;
  for (auto& [begin, end] : data) {
    begin = std::max(begin, kHeadBytes);
    end = std::max(begin, end);
    total += end - begin;
  }
  const auto places = random.between(kRotPlacesMin, kRotPlacesMax);
  for (uint64_t i = 0; i < places && total > 0; ++i) {
    const Spot spot = spot_of(data, random.below(total));
    const uint64_t bytes = kRotBytes[random.below(std::size(kRotBytes))];
    VARVE_RETURN_IF_ERROR(
        file.write(spot.at, random_bytes(random, std::min(bytes, spot.end - spot.at))));
  }
  if (!random.chance(kRotHeadPerMille)) return Status();
  return file.write(random.below(2) * kSuperblocksBytes / 2 + random.below(kSuperblocksBytes / 2),
                    random_bytes(random, 1));
}

// A replaced drive: mostly only its beginning was erased, and old segments lie behind.
Status blank(const std::string& path, uint64_t seed) {
  File file(path, O_RDWR);
  VARVE_RETURN_IF_ERROR(file.status());
  const uint64_t size_bytes = file.size();
  Random random(seed);
  if (random.chance(300)) {
    VARVE_RETURN_IF_ERROR(file.resize(0));
    return file.resize(size_bytes);
  }
  const uint64_t bytes = std::min(size_bytes, kHeadBytes * random.between(1, 8));
  return file.write(0, std::vector<std::byte>(bytes));
}

Status break_head(const std::string& path, uint64_t seed) {
  File file(path, O_RDWR);
  VARVE_RETURN_IF_ERROR(file.status());
  Random random(seed);
  // Behind magic and version: these are ours, and broken.
  for (const uint64_t page : {uint64_t{0}, kSuperblocksBytes / 2}) {
    VARVE_RETURN_IF_ERROR(file.write(page + 64, random_bytes(random, 512)));
  }
  return Status();
}

// In the place of one that is gone, or whose head is broken.
Status replace(const std::string& path, const Deed& deed, uint64_t target_bytes) {
  if (deed.by_daemon) return Status();  // --create-targets
  if (std::filesystem::exists(path)) return blank(path, deed.seed);
  File file(path, O_RDWR | O_CREAT | O_EXCL);
  VARVE_RETURN_IF_ERROR(file.status());
  return file.resize(target_bytes);
}

Status move(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return Status();
  return Status::io("ledger: rename of a target", errno);
}

}  // namespace

Status do_harm(const std::string& folder, const Deed& deed, uint64_t target_bytes) {
  const std::string path = target_file(folder, deed.target);
  switch (deed.harm) {
    case Harm::kDestroy:
    case Harm::kTakeOut:
      if (::unlink(path.c_str()) == 0) return Status();
      return Status::io("ledger: unlink of a target", errno);
    case Harm::kBlank:
      return blank(path, deed.seed);
    case Harm::kBreak:
      return break_head(path, deed.seed);
    case Harm::kRot:
      return rot(path, deed.seed);
    case Harm::kAway:
      return move(path, path + ".away");
    case Harm::kReturn:
      return move(path + ".away", path);
    case Harm::kReplace:
      return replace(path, deed, target_bytes);
    case Harm::kNone:
    case Harm::kSwap:
      break;
  }
  VARVE_ASSERT(false, deed.target);
  return Status();
}

Status swap_targets(const std::string& folder, const Deed& deed) {
  VARVE_ASSERT(deed.harm == Harm::kSwap && deed.target != deed.other, deed.target);
  const std::string one = target_file(folder, deed.target);
  const std::string other = target_file(folder, deed.other);
  VARVE_RETURN_IF_ERROR(move(one, one + ".swap"));
  VARVE_RETURN_IF_ERROR(move(other, one));
  return move(one + ".swap", other);
}

std::map<std::string, std::string> marks_of(const std::string& folder) {
  std::map<std::string, std::string> marks;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    struct stat info {};
    if (name.rfind("target", 0) != 0 || ::stat(entry.path().c_str(), &info) != 0) continue;
    marks[name] = std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + "." +
                  std::to_string(info.st_mtim.tv_nsec);
  }
  return marks;
}

}  // namespace varve::ledger
