// What a start makes of a target is decided in server/node/target.cc; this says the same without
// doing it, but for what only all targets together show (purges that some missed, slices that
// differ).
#include "tools/kvctl/local_target.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "server/flash/flash.h"
#include "server/host/host.h"
#include "tools/kvctl/finding.h"

namespace varve::kvctl {

namespace {

constexpr uint64_t kSectorBytes = 512;  // in which the kernel counts, whatever the drive has

// What the last start left behind, and what this one is to be.
struct Start {
  const ServerConfig& config;
  Identity identity = {};
  TargetList before = {};

  bool known() const { return !before.records.empty(); }
  const TargetRecord* record(uint32_t index) const {
    const auto is_it = [index](const TargetRecord& record) { return record.index == index; };
    const auto found = std::find_if(before.records.begin(), before.records.end(), is_it);
    return found == before.records.end() ? nullptr : &*found;
  }
  bool makes(uint32_t index) const {
    if (config.create_targets || !known()) return true;
    return config.target_paths.empty() && record(index) == nullptr;
  }
  // This target never was there, nor anywhere else: mistyped, not lost.
  bool is_misnamed(uint32_t index) const {
    const TargetRecord* before_it = record(index);
    if (config.target_paths.empty() || before_it == nullptr) return false;
    return !same_place(config.target_path(index), before_it->path);
  }
};

// That of the data folder, shared, as long as targets are open here. Where there is none yet no
// varved was there.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder)
      : fd_(::open((folder + "/lock").c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) {
    taken_ = fd_ >= 0 && ::flock(fd_, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  }
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  bool taken() const { return taken_; }  // by a varved

 private:
  const int fd_;
  bool taken_ = false;
};

bool may_read(const std::string& path) {
  return ::eaccess(path.c_str(), R_OK) == 0 || errno != EACCES;
}

// Nobody needs to open a drive to know how large it is.
uint64_t drive_bytes(const std::string& root, dev_t drive) {
  std::string content;
  const std::string path = root + "/sys/dev/block/" + std::to_string(::major(drive)) + ":" +
                           std::to_string(::minor(drive)) + "/size";
  if (!read_file(path, &content)) return 0;
  return std::strtoull(content.c_str(), nullptr, 10) * kSectorBytes;
}

void refuse(LocalTarget& target, std::string why) {
  target.fate = TargetFate::kRefused;
  target.why = std::move(why);
}

void note_refusal(const Start& start, Status why, LocalTarget& target) {
  const bool lost = flash::is_lost(why), makes = start.makes(target.index);
  const TargetRecord* record = start.record(target.index);
  const bool misnamed = start.is_misnamed(target.index);
  if (record != nullptr && record->drained && lost && !misnamed && !makes) {
    target.fate = TargetFate::kLeftOut;
  } else if (!target.there && !makes && misnamed) {
    refuse(target, "it is not there, and this node had it at " + record->path +
                       "; correct --target, or give that path to start without it");
  } else if (!target.there && record == nullptr && !makes) {
    refuse(target,
           "it is not there, this node never had it, and a start makes no file of a node that had "
           "targets; correct --target, or give --create-targets for one start");
  } else if (!start.known() || (!target.there && record == nullptr) || !lost) {
    refuse(target, told(why));
  } else {
    target.fate = TargetFate::kLost;
    target.why = told(why);
  }
}

void note_look(const Start& start, const flash::TargetLook& seen, LocalTarget& target) {
  target.bytes = seen.capacity_bytes;
  target.fate = seen.blank ? TargetFate::kFormatted : TargetFate::kUsed;
  const TargetRecord* record = start.record(target.index);
  if (record == nullptr || seen.blank) return;
  if (std::memcmp(record->uuid, seen.target_uuid, sizeof(record->uuid)) != 0) {
    if (seen.boot_generation >= start.before.boot_generation) return;
    return refuse(target, "this node has another one in its place, with uuid " +
                              to_hex(record->uuid) + " at " + record->path +
                              "; give that one, or erase the first MiB of this one");
  }
  if (!record->drained) return;
  const bool stays_out = record->draining || start.config.drains(target.index);
  target.fate = stays_out ? TargetFate::kLeftOut : TargetFate::kFormatted;
}

// Whether a start makes a file under this name, and what is wrong with that.
bool is_to_be_made(const Start& start, const struct stat& info, LocalTarget& target) {
  if (!start.makes(target.index)) return false;
  struct stat link = {};
  const bool is_link = ::lstat(target.path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
  if (is_link || (target.there && (!S_ISREG(info.st_mode) || info.st_size > 0))) return false;
  target.fate = TargetFate::kMade;
  target.bytes = start.config.target_bytes;
  if (target.path.starts_with("/dev/")) {
    refuse(target, "it is not there, and no file is made below /dev; check the drive and its name");
    target.bytes = 0;
  }
  return true;
}

void look_inside(const Start& start, const struct stat& info, LocalTarget& target) {
  if (is_to_be_made(start, info, target)) return;
  flash::TargetOptions options;
  options.file.path = target.path;  // without a size: nothing is made
  options.index = target.index;
  options.geometry.scheme = start.config.scheme;
  const auto seen = flash::look_target(options, start.identity.node_uuid);
  if (seen) {
    note_look(start, *seen, target);
  } else {
    note_refusal(start, seen.error(), target);
  }
}

// What the data folder says of the targets. False: they cannot be judged.
bool read_start(LocalTargets& targets, Start& start) {
  const std::string& folder = start.config.data_dir;
  targets.unseen = !may_read(folder + "/node.id") || !may_read(folder + "/targets.list");
  if (targets.unseen) return false;
  Failure failure = look_identity(folder, &start.identity);
  if (failure.ok()) failure = load_records(folder, &start.before);
  if (failure.ok()) failure = check_salt(folder, start.before, start.identity.domain_salt);
  targets.problem = failure.text;
  return failure.ok();
}

}  // namespace

LocalTargets look_at_targets(const std::string& root, const ServerConfig& config, Looking looking) {
  LocalTargets targets;
  struct stat folder = {};
  const bool seen = ::stat(config.data_dir.c_str(), &folder) == 0;
  const bool is_none = seen ? !S_ISDIR(folder.st_mode) : errno != ENOENT && errno != EACCES;
  if (config.data_dir.empty() || is_none) return targets;  // which is said of the folder
  Start start{config};
  const FolderLock lock(config.data_dir);
  targets.in_use = looking == Looking::kInside && lock.taken();
  const bool judged = looking == Looking::kInside && !targets.in_use && read_start(targets, start);
  // Settings may name more of them, or fewer: that is said of the settings.
  const size_t named = config.target_paths.size();
  const uint32_t count =
      named == 0 ? config.targets : std::min(config.targets, static_cast<uint32_t>(named));
  for (uint32_t t = 0; t < std::min(count, kTargetsMax); ++t) {
    LocalTarget target{.index = t, .path = config.target_path(t)};
    struct stat info = {};
    const bool looked = ::stat(target.path.c_str(), &info) == 0;
    target.there = looked || errno != ENOENT;
    if (looked && S_ISREG(info.st_mode)) target.bytes = static_cast<uint64_t>(info.st_size);
    if (looked && S_ISBLK(info.st_mode)) target.bytes = drive_bytes(root, info.st_rdev);
    if (judged) look_inside(start, info, target);
    targets.list.push_back(std::move(target));
  }
  return targets;
}

uint64_t flash_bytes(const std::vector<LocalTarget>& targets) {
  const auto sized = std::find_if(targets.begin(), targets.end(),
                                  [](const LocalTarget& target) { return target.bytes > 0; });
  uint64_t bytes = 0;
  for (const LocalTarget& target : targets)
    bytes += target.bytes > 0 ? target.bytes : sized == targets.end() ? 0 : sized->bytes;
  return bytes;
}

}  // namespace varve::kvctl
