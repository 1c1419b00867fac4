// What may be a target: a regular file or a block device, alone, aligned, and with O_DIRECT that
// works.
//
// A new file is made under a temporary name, filled, flushed and only then renamed, so that a kill
// in the middle never leaves a half-made target under the target's name.
#include "common/device/file_open.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace varve {

namespace {

constexpr uint64_t kFillBytes = kMiB;
constexpr uint32_t kInterruptsMax = 100;

// Page-aligned memory for O_DIRECT, zeroed; of operator new, which has a sentence where none is
// left.
constexpr std::align_val_t kPageAlign{kPageBytes};
struct FreeMemory {
  void operator()(std::byte* memory) const { ::operator delete(memory, kPageAlign); }
};
using Pages = std::unique_ptr<std::byte, FreeMemory>;

Pages make_pages(uint64_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new(bytes, kPageAlign));
  std::memset(memory, 0, bytes);
  return Pages(memory);
}

// Closes the descriptor unless it was given away.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int give() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

// Why a path is no target. The text names cause and remedy; who asked says it once, with the path.
Status refuse_no_direct_io(int32_t error) {
  return Status(Code::kUnsupported,
                "O_DIRECT does not work here; put the target on ext4, xfs or a block device",
                error);
}

// What an open() of a target that is there says. kIo: the drive is gone or broken, and only
// then; a setting to correct must not cost the blocks of a target that is sound. The descriptors
// are the process's, not the target's: they have a remedy of their own.
Status refuse_open(int32_t error) {
  if (error == EMFILE || error == ENFILE) {
    return Status(Code::kOverloaded, "no descriptor is left to open it; raise ulimit -n", error);
  }
  switch (error) {
    case EINVAL:
      return refuse_no_direct_io(error);
    case EIO:
    case ENXIO:
    case ENODEV:
    case ENOENT:
    case ENOMEDIUM:
      return Status::io("cannot be opened; check the drive", error);
    case EACCES:
    case EPERM:
    case EROFS:
      return Status(Code::kInvalid,
                    "may not be opened for reading and writing; check owner, permissions and mount",
                    error);
    default:  // a path that leads nowhere, a folder: a setting to correct, no drive that is gone
      return Status(Code::kInvalid, "cannot be opened; check the path", error);
  }
}

// Under /dev a file lies in memory and hides that the drive is not there.
bool is_under_dev(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  char* real = realpath(folder.c_str(), nullptr);
  if (real != nullptr) folder = std::string(real) + "/";
  std::free(real);
  return folder.rfind("/dev/", 0) == 0;
}

// Another process with the same target would overwrite it. The lock is per process, so that every
// shard may have its own descriptor; it goes when the process closes its last one, or any of them,
// and is taken again with the next open.
Status lock(int fd) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(fd, F_SETLK, &whole) == 0) return Status();
  const int32_t error = errno;
  if (error != EACCES && error != EAGAIN) {
    return Status(Code::kUnsupported, "the lock failed; check the file system", error);
  }
  return Status(Code::kUnavailable,
                "another process uses it; stop the other daemon or give this one its own targets",
                error);
}

Status make_full(int fd, uint64_t bytes) {
  if (fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0) return Status();
  const int32_t error = errno;
  if (error == ENOSPC || error == EDQUOT) {
    return Status(Code::kNoSpace,
                  "no room to preallocate it; free space or make the target smaller", error);
  }
  if (error != EOPNOTSUPP && error != ENOSYS) {
    return Status::io("preallocation failed; check the file system", error);
  }
  // A file system without fallocate: real zeros do the same, slowly.
  const Pages zeros = make_pages(kFillBytes);
  for (uint64_t offset = 0; offset < bytes; offset += kFillBytes) {
    const uint64_t piece = std::min(kFillBytes, bytes - offset);
    const Status status = write_pages(fd, offset, {zeros.get(), piece});
    VARVE_RETURN_IF_ERROR(status);
  }
  return Status();
}

Status check_free_space(int fd, uint64_t wanted_bytes, uint64_t floor_bytes, const char* refusal) {
  struct statvfs info {};
  if (fstatvfs(fd, &info) != 0) {
    return Status::io("the free space is unknown; check the file system", errno);
  }
  const uint64_t free_bytes = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  if (free_bytes >= wanted_bytes && free_bytes - wanted_bytes >= floor_bytes) return Status();
  return Status::no_space(refusal);
}

// A new file is ours: zeros are written to its first page and read back.
Status probe_new(int fd) {
  const Pages page = make_pages(kPageBytes);
  Status status = write_pages(fd, 0, {page.get(), kPageBytes});
  std::memset(page.get(), 0xff, kPageBytes);
  if (status.ok()) status = read_pages(fd, 0, {page.get(), kPageBytes});
  if (!status.ok()) return refuse_no_direct_io(status.errno_value());
  const bool zeros = std::all_of(page.get(), page.get() + kPageBytes,
                                 [](std::byte b) { return b == std::byte{0}; });
  return zeros ? Status() : refuse_no_direct_io(0);
}

// Makes the entry of `path` in its folder durable.
Status flush_folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  if (folder.empty()) folder = "/";
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || fsync(fd.get()) != 0) {
    return Status::io("its folder cannot be flushed; check the file system", errno);
  }
  return Status();
}

// Fills the file behind `fd`, still under its temporary name.
Status fill_new(int fd, const FileDeviceOptions& options) {
  if (ftruncate(fd, 0) != 0) {
    return Status::io("truncation failed; check the file system", errno);
  }
  VARVE_RETURN_IF_ERROR(
      check_free_space(fd, options.create_bytes, options.free_floor_bytes,
                       "creating it would go below the free-space floor; free space, make the "
                       "target smaller or lower the floor"));
  VARVE_RETURN_IF_ERROR(make_full(fd, options.create_bytes));
  VARVE_RETURN_IF_ERROR(probe_new(fd));
  if (fsync(fd) != 0) {
    return Status::io("flush failed; check the file system", errno);
  }
  return Status();
}

Result<OpenedFile> create(const FileDeviceOptions& options) {
  const std::string& path = options.path;
  if (options.create_bytes % kPageBytes != 0) {
    return Status::invalid("its size is no multiple of 4096 bytes; round it");
  }
  if (is_under_dev(path)) {
    return Status(Code::kUnavailable,
                  "a file is never created below /dev; check the drive and its name", ENOENT);
  }
  const std::string temporary = path + ".creating";
  Descriptor fd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600));
  if (fd.get() < 0) {
    const int32_t error = errno;
    if (error != EINVAL) {
      if (error == ENOENT) {
        return Status(Code::kInvalid, "its folder does not exist; check the path", error);
      }
      return refuse_open(error);
    }
    unlink(temporary.c_str());  // the name is there although the open was refused
    return refuse_no_direct_io(error);
  }
  VARVE_RETURN_IF_ERROR(lock(fd.get()));
  struct stat ours {};
  struct stat named {};
  if (fstat(fd.get(), &ours) != 0 || stat(temporary.c_str(), &named) != 0 ||
      ours.st_ino != named.st_ino) {
    return Status::unavailable("another process just created it; start again");
  }
  Status status = fill_new(fd.get(), options);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = Status::io("renaming failed; check the folder", errno);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  VARVE_RETURN_IF_ERROR(flush_folder(path));
  OpenedFile opened;
  opened.fd = fd.give();
  opened.capacity_bytes = options.create_bytes;
  opened.created = true;
  return opened;
}

Result<uint64_t> block_device_bytes(const std::string& path, int fd) {
  // A mounted drive refuses an exclusive open; our own, plain ones do not stand in its way.
  const Descriptor exclusive(::open(path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  if (exclusive.get() < 0 && errno == EBUSY) {
    return Status(Code::kUnavailable,
                  "mounted or used by the kernel; unmount it or choose another drive", errno);
  }
  uint64_t bytes = 0;
  int sector_bytes = 0;
  if (ioctl(fd, BLKGETSIZE64, &bytes) != 0 || ioctl(fd, BLKSSZGET, &sector_bytes) != 0) {
    return Status::io("its size is unknown; check the drive", errno);
  }
  if (sector_bytes <= 0 || kPageBytes % static_cast<uint32_t>(sector_bytes) != 0) {
    return Status::unsupported(
        "its sectors do not divide 4096 bytes; format it with sectors of 512 or 4096 bytes");
  }
  return bytes;
}

Result<OpenedFile> open_existing(const FileDeviceOptions& options, const struct stat& info) {
  const std::string& path = options.path;
  if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)) {
    return Status::invalid("neither a file nor a block device; choose another path");
  }
  Descriptor fd(::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (fd.get() < 0) return refuse_open(errno);
  OpenedFile opened;
  opened.is_block_device = S_ISBLK(info.st_mode);
  if (opened.is_block_device) {
    VARVE_TRY(opened.capacity_bytes, block_device_bytes(path, fd.get()));
  } else {
    opened.capacity_bytes = static_cast<uint64_t>(info.st_size);
  }
  opened.capacity_bytes = round_down(opened.capacity_bytes, kPageBytes);
  if (opened.capacity_bytes == 0 && info.st_size > 0) {
    return Status::io("cut short, under 4 KiB; bring back what it held, or remove it", 0);
  }
  if (opened.capacity_bytes == 0) {
    return Status::io("it is empty; bring back what it held, or have it created", 0);
  }
  VARVE_RETURN_IF_ERROR(lock(fd.get()));  // after the last close of another descriptor of it
  const Pages page = make_pages(kPageBytes);
  const Status status = read_pages(fd.get(), 0, {page.get(), kPageBytes});
  if (status.errno_value() == EINVAL) return refuse_no_direct_io(EINVAL);
  VARVE_RETURN_IF_ERROR(status);
  opened.fd = fd.give();
  return opened;
}

}  // namespace

Result<OpenedFile> open_target_file(const FileDeviceOptions& options) {
  VARVE_ASSERT(!options.path.empty());
  struct stat info {};
  const bool named = lstat(options.path.c_str(), &info) == 0;
  // A link stays: what is made in its place would not lie where it leads.
  const bool may_create = options.create_bytes > 0 && !(named && S_ISLNK(info.st_mode));
  const bool is_empty = named && S_ISREG(info.st_mode) && info.st_size == 0;
  if (may_create && is_empty) return create(options);
  if (stat(options.path.c_str(), &info) == 0) return open_existing(options, info);
  if (errno != ENOENT) return refuse_open(errno);
  if (may_create) return create(options);
  return Status(Code::kUnavailable,
                named ? "is a link that leads nowhere; check the drive and the link"
                      : "does not exist; check the drive and the path",
                ENOENT);
}

Status fill_holes(int fd, uint64_t free_floor_bytes) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return Status::io("its size is unknown; check the drive", errno);
  const auto bytes = static_cast<uint64_t>(info.st_size);
  const uint64_t there_bytes = static_cast<uint64_t>(info.st_blocks) * 512;
  if (!S_ISREG(info.st_mode) || there_bytes >= bytes) return Status();
  VARVE_RETURN_IF_ERROR(
      check_free_space(fd, bytes - there_bytes, free_floor_bytes,
                       "the file has holes, and filling them would go below the free-space floor; "
                       "free space on its file system, give a smaller file or lower the floor"));
  if (fallocate(fd, 0, 0, info.st_size) == 0) return Status();
  const int32_t error = errno;
  if (error == ENOSPC || error == EDQUOT) {
    return Status(Code::kNoSpace,
                  "the file has holes and there is no room to fill them; free space on its file "
                  "system or give a smaller file",
                  error);
  }
  if (error == EOPNOTSUPP || error == ENOSYS) {
    return Status(Code::kUnsupported,
                  "the file has holes, or is stored packed, and its file system cannot allocate it",
                  error);
  }
  return Status::io("filling the holes of the file failed; check the file system", error);
}

Status read_pages(int fd, uint64_t offset_bytes, ByteSpan pages) {
  uint64_t done = 0;
  for (uint32_t interrupts = 0; done < pages.size();) {
    const ssize_t result = pread(fd, pages.data() + done, pages.size() - done,
                                 static_cast<off_t>(offset_bytes + done));
    if (result < 0 && errno == EINTR && ++interrupts < kInterruptsMax) continue;
    if (result < 0) return Status::io("read failed", errno);
    // Rest a page, as O_DIRECT wants it; nothing at all is a lost drive.
    if (static_cast<uint64_t>(result) < pages.size() - done &&
        static_cast<uint64_t>(result) < kPageBytes) {
      return Status(Code::kUnavailable, "read gave no bytes: the drive is lost", ENODEV);
    }
    done += round_down(static_cast<uint64_t>(result), kPageBytes);
  }
  return Status();
}

Status write_pages(int fd, uint64_t offset_bytes, ConstByteSpan pages) {
  uint64_t done = 0;
  for (uint32_t interrupts = 0; done < pages.size();) {
    const ssize_t result = pwrite(fd, pages.data() + done, pages.size() - done,
                                  static_cast<off_t>(offset_bytes + done));
    if (result < 0 && errno == EINTR && ++interrupts < kInterruptsMax) continue;
    if (result < 0 && (errno == ENOSPC || errno == EDQUOT)) {
      return Status(Code::kNoSpace, "no space left", errno);
    }
    if (result < 0) return Status::io("write failed", errno);
    if (static_cast<uint64_t>(result) < kPageBytes)
      return Status::io("write made no progress", EIO);
    done += round_down(static_cast<uint64_t>(result), kPageBytes);
  }
  return Status();
}

}  // namespace varve
