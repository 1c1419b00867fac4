// Small files of the data folder, and the metrics: read whole, replaced whole.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "server/host/host.h"

namespace varve {

namespace {

constexpr const char* kNewSuffix = ".new";  // of a file being made

int32_t write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    content.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

// The folder as it really is, and the name in it; a folder that is not there stays as it is
// written.
std::string place_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  std::string folder = name == 0 ? "." : path.substr(0, name);
  char* real = ::realpath(folder.c_str(), nullptr);
  if (real != nullptr) folder = real;
  std::free(real);
  return folder + "/" + path.substr(name);
}

constexpr off_t kConfigBytesMax = 64 * 1024;

constexpr std::string_view kMetricsBegin = "# HELP ";
// Metrics are for whoever may look into their folder, as they are for whoever reaches --http.
constexpr mode_t kOwnersMode = 0600, kMetricsMode = 0644;
constexpr off_t kCutBytesMax = 16 * 1024 * 1024;

bool is_zeros(int fd) {
  char buffer[4096];
  off_t at = 0;
  ssize_t n = 0;
  while ((n = ::pread(fd, buffer, sizeof(buffer), at)) > 0) {
    if (std::any_of(buffer, buffer + n, [](char c) { return c != 0; })) return false;
    at += n;
  }
  return n == 0;
}

// What is at `path`, or empty when metrics may take its place. Looking must start nothing: a link
// is not followed and a pipe or a device not opened.
std::string no_metrics(const std::string& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? std::string() : "cannot be looked at" + errno_suffix(errno);
  }
  if (!S_ISREG(info.st_mode)) return "is no regular file";
  if (info.st_size == 0) return {};
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return "cannot be read" + errno_suffix(errno);
  char begin[kMetricsBegin.size()];
  const ssize_t n = ::pread(fd, begin, sizeof(begin), 0);
  const std::string_view got(begin, n > 0 ? static_cast<size_t>(n) : 0);
  // A power cut may leave zeros of metrics, which are not flushed; a target is never as small.
  const bool ours = got == kMetricsBegin || (info.st_size < kCutBytesMax && is_zeros(fd));
  ::close(fd);
  return ours ? std::string() : "holds something else than metrics";
}

// At most 1 MiB; false with errno.
bool read_all(int fd, std::string* content) {
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(fd, buffer, sizeof(buffer))) > 0 && content->size() < kMiB) {
    content->append(buffer, static_cast<size_t>(n));
  }
  if (n > 0) errno = EFBIG;
  return n == 0;
}

// systemd hands credentials over in a folder that is only this service's, as root's files which an
// ACL lets it read: their mode then has a group's bit, and no group.
bool is_credential(const std::string& path) {
  const char* folder = std::getenv("CREDENTIALS_DIRECTORY");
  if (folder == nullptr || folder[0] != '/') return false;
  const size_t slash = path.rfind('/');
  return slash != std::string::npos && place_of(path) == place_of(folder + path.substr(slash));
}

// Why what is open there is no secret, empty when it is one.
std::string no_secret(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return " is no regular file; put one there, mode 0600";
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return " is of user " + std::to_string(info.st_uid) +
           ", who may change it; chown it to whoever runs this, or root";
  }
  const uint32_t mode = info.st_mode & 07777u;
  if ((mode & 077u) == 0 || (mode == 0440 && is_credential(path))) return {};
  return " may be read or written by others; chmod 600 it";
}

int32_t replace_with(const std::string& path, std::string_view content, Durability durability,
                     mode_t mode) {
  VARVE_ASSERT(!path.empty());
  const bool durable = durability == Durability::kPowerCut;
  const std::string temporary = path + kNewSuffix;
  // What others may read may lie where others may write: a link there could name whatever this user
  // owns.
  const int no_link = mode == kOwnersMode ? 0 : O_NOFOLLOW;
  const int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | no_link, kOwnersMode);
  if (fd < 0) return errno;
  // Whatever the umask; a file system that has no modes has its own.
  if (mode != kOwnersMode) (void)::fchmod(fd, mode);
  int32_t error = write_all(fd, content);
  if (error == 0 && durable && ::fsync(fd) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    return error;
  }
  if (!durable) return 0;
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const int folder_fd =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) return errno;
  if (::fsync(folder_fd) != 0) error = errno;
  ::close(folder_fd);
  return error;
}

}  // namespace

Failure environment(std::string text) {
  VARVE_ASSERT(!text.empty());
  return {kExitEnvironment, std::move(text)};
}

std::string errno_suffix(int32_t errno_value) {
  VARVE_ASSERT(errno_value >= 0, errno_value);
  return errno_value == 0 ? std::string() : std::string(": ") + std::strerror(errno_value);
}

bool read_file(const std::string& path, std::string* content) {
  VARVE_ASSERT(content != nullptr);
  content->clear();
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool whole = read_all(fd, content);
  const int32_t error = errno;
  ::close(fd);
  errno = error;
  return whole;
}

Failure read_secrets(const std::string& path, std::string* content, bool* found) {
  VARVE_ASSERT(content != nullptr && found != nullptr);
  content->clear();
  // Opened first: what was looked at is what is read. A pipe must not be waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  *found = fd >= 0 || errno != ENOENT;
  if (!*found) return {};
  struct stat info = {};
  if (fd < 0 || ::fstat(fd, &info) != 0) {
    const int32_t error = errno;
    if (fd >= 0) ::close(fd);
    return environment(path + errno_suffix(error) + "; check path and permissions");
  }
  const std::string problem = no_secret(path, info);
  const bool whole = problem.empty() && read_all(fd, content);
  const int32_t error = errno;
  ::close(fd);
  if (whole) return {};
  content->clear();
  if (!problem.empty()) return environment(path + problem);
  return environment(path + errno_suffix(error) + "; restore it or its permissions");
}

Failure load_config(const std::string& config_file, std::string* text) {
  VARVE_ASSERT(text != nullptr && !config_file.empty());
  const auto refused = [&config_file](const std::string& why) {
    return Failure{kExitUsage, "--config " + config_file + why};
  };
  struct stat info = {};
  // Opening a pipe would wait for its writer, and reading a device for whoever types.
  if (::stat(config_file.c_str(), &info) != 0) {
    return refused(errno_suffix(errno) + "; check the path");
  }
  if (S_ISDIR(info.st_mode)) return refused(" is a folder; name the file in it");
  if (!S_ISREG(info.st_mode)) return refused(" is no regular file; copy the settings to one");
  if (info.st_size > kConfigBytesMax) {
    return refused(" has " + std::to_string(info.st_size) + " bytes; settings are at most " +
                   std::to_string(kConfigBytesMax));
  }
  if (!read_file(config_file, text)) {
    return refused(errno_suffix(errno) + "; check its permissions");
  }
  return {};
}

int32_t replace_file(const std::string& path, std::string_view content, Durability durability) {
  return replace_with(path, content, durability, kOwnersMode);
}

Failure check_metrics(const std::string& path) {
  VARVE_ASSERT(!path.empty());
  for (const std::string& place : {path, path + kNewSuffix}) {
    const std::string why = no_metrics(place);
    if (why.empty()) continue;
    return environment("--metrics-file " + path + " is not written: " + place + " " + why +
                       ", and is left as it is; give another path, or remove it");
  }
  return {};
}

Failure replace_metrics(const std::string& path, std::string_view content) {
  VARVE_ASSERT(content.starts_with(kMetricsBegin));  // or the next one would be refused
  if (Failure failure = check_metrics(path); !failure.ok()) return failure;
  const int32_t error = replace_with(path, content, Durability::kNone, kMetricsMode);
  if (error == 0) return {};
  return environment("--metrics-file " + path + " is not written" + errno_suffix(error) +
                     "; free space, or give a path in a folder that exists and may be written");
}

bool exists(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0;
}

std::string absolute(const std::string& path) {
  VARVE_ASSERT(!path.empty());
  if (path.front() == '/') return path;
  char* folder = ::getcwd(nullptr, 0);
  std::string whole = folder == nullptr ? path : std::string(folder) + "/" + path;
  std::free(folder);
  return whole.front() != '/' || whole.find('\n') != std::string::npos ? path : whole;
}

bool same_place(const std::string& one, const std::string& other) {
  return one == other || place_of(one) == place_of(other);
}

uint64_t file_bytes(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace varve
