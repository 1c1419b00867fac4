// Reading twice and comparing; writing without a name and linking.
#include "tools/kvctl/local_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/kvctl/text.h"

namespace varve::kvctl {

namespace {

Outcome file_failed(const std::string& name, int error, const char* remedy) {
  return Outcome::failed(printable(name) + ": " + std::strerror(error) + "; " + remedy);
}

// False with errno, 0 where the file ends before.
bool read_at(int fd, uint64_t offset, ByteSpan out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = 0;
    if (n <= 0) return false;
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return true;
}

}  // namespace

Piece piece_of(const WindowShape& shape, uint64_t window, uint64_t file_bytes) {
  VARVE_ASSERT(shape.head_bytes < shape.window_bytes);
  Piece piece;
  piece.in_window = window == 0 ? shape.head_bytes : 0;
  piece.in_file = window == 0 ? 0 : window * shape.window_bytes - shape.head_bytes;
  VARVE_ASSERT(piece.in_file <= file_bytes, piece.in_file, file_bytes);
  piece.bytes = std::min(shape.window_bytes - piece.in_window, file_bytes - piece.in_file);
  return piece;
}

uint64_t windows_of(const WindowShape& shape, uint64_t file_bytes) {
  return (shape.head_bytes + file_bytes + shape.window_bytes - 1) / shape.window_bytes;
}

// ---- read

SourceFile::~SourceFile() {
  if (fd_ >= 0) ::close(fd_);
}

Outcome SourceFile::open(uint64_t bytes_max) {
  VARVE_ASSERT(fd_ < 0);
  struct stat info = {};
  fd_ = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not be waited for
  if (fd_ < 0 || ::fstat(fd_, &info) != 0) {
    return file_failed(name_, errno, "check path and permissions");
  }
  if (!S_ISREG(info.st_mode)) {
    return Outcome::usage(printable(name_) + " is no regular file; give one");
  }
  bytes_ = static_cast<uint64_t>(info.st_size);
  if (bytes_ <= bytes_max) return Outcome::done();
  return Outcome::usage(printable(name_) + " has " + size_text(bytes_) + "; at most " +
                        size_text(bytes_max) + " are taken: this is for trying a node out");
}

Outcome SourceFile::hash(ByteSpan window, Digest* key) {
  Sha256 all;
  seen_.clear();
  for (uint64_t n = 0; n < windows_of(shape_, bytes_); ++n) {
    Outcome outcome = read_piece(n, window);
    if (!outcome.ok()) return outcome;
    const Piece piece = piece_of(shape_, n, bytes_);
    const ConstByteSpan content = window.subspan(piece.in_window, piece.bytes);
    all.update(content);
    seen_.push_back(Sha256().update(content).finish());
  }
  *key = all.finish();
  return Outcome::done();
}

Outcome SourceFile::read(uint64_t n, ByteSpan window) const {
  VARVE_ASSERT(n < seen_.size(), n);
  Outcome outcome = read_piece(n, window);
  if (!outcome.ok()) return outcome;
  const Piece piece = piece_of(shape_, n, bytes_);
  const ConstByteSpan content = window.subspan(piece.in_window, piece.bytes);
  if (Sha256().update(content).finish() == seen_[n]) return Outcome::done();
  return Outcome::failed(printable(name_) +
                         " changed while it was read; put it again when nobody writes to it");
}

Outcome SourceFile::read_piece(uint64_t n, ByteSpan window) const {
  VARVE_ASSERT(fd_ >= 0 && window.size() == shape_.window_bytes);
  std::fill(window.begin(), window.end(), std::byte{0});
  const Piece piece = piece_of(shape_, n, bytes_);
  if (read_at(fd_, piece.in_file, window.subspan(piece.in_window, piece.bytes))) {
    return Outcome::done();
  }
  if (errno != 0) return file_failed(name_, errno, "check the drive");
  return Outcome::failed(
      printable(name_) +
      " became shorter while it was read; put it again when nobody writes to it");
}

// ---- write

NewFile::~NewFile() {
  if (!beside_.empty()) ::unlink(beside_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

Outcome NewFile::check() const {
  struct stat info = {};
  if (::lstat(name_.c_str(), &info) != 0) {
    return errno == ENOENT ? Outcome::done() : failed(errno);
  }
  // A device, a pipe or a link that is replaced by a file harms whoever uses it.
  if (!S_ISREG(info.st_mode)) {
    return Outcome::usage(printable(name_) + " is there and no regular file; give another name");
  }
  if (replace_ == Replace::kYes) return Outcome::done();
  return Outcome::usage(printable(name_) + " is there already; give another name, or --force");
}

Outcome NewFile::open() {
  VARVE_ASSERT(fd_ < 0);
  const size_t slash = name_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : name_.substr(0, slash + 1);
  // Nobody else's until it is whole: what it takes the place of may be more private than others.
  fd_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
    const std::string beside = name_ + ".kvctl-" + std::to_string(::getpid());
    fd_ = ::open(beside.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd_ >= 0) beside_ = beside;
  }
  return fd_ >= 0 ? Outcome::done() : failed(errno);
}

Outcome NewFile::write(uint64_t offset, ConstByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return Outcome::done();
}

Outcome NewFile::finish() {
  if (::fchmod(fd_, final_mode()) != 0 || ::fsync(fd_) != 0) return failed(errno);
  Outcome outcome = check();  // minutes may have passed
  if (!outcome.ok()) return outcome;
  const int error = replace_ == Replace::kYes ? replace_what_is_there() : link_as(name_);
  if (error == EEXIST) return check();
  return error == 0 ? Outcome::done() : failed(error);
}

// Who may read a file does not change by what is in it.
mode_t NewFile::final_mode() const {
  struct stat info = {};
  if (replace_ == Replace::kYes && ::lstat(name_.c_str(), &info) == 0) return info.st_mode & 07777;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

int NewFile::replace_what_is_there() {
  if (beside_.empty()) {
    const std::string beside = name_ + ".kvctl-" + std::to_string(::getpid());
    if (const int error = link_as(beside); error != 0) return error;
    beside_ = beside;
  }
  if (::rename(beside_.c_str(), name_.c_str()) != 0) return errno;
  beside_.clear();
  return 0;
}

// A link never writes over what is there.
int NewFile::link_as(const std::string& name) const {
  const std::string from = beside_.empty() ? "/proc/self/fd/" + std::to_string(fd_) : beside_;
  return ::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0
                                                                                          : errno;
}

Outcome NewFile::failed(int error) const {
  const char* remedy = error == EPERM ? "where there are no hard links, give --force"
                                      : "check the folder, its permissions and its space";
  return Outcome::failed("making " + printable(name_) + ": " + std::strerror(error) + "; " +
                         remedy);
}

}  // namespace varve::kvctl
