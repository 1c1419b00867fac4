// FileHandle: blocking page I/O on a target before the shards run, for superblocks.
// The same rules of opening as FileDevice; no reactor, no retries beyond a signal.
#include <unistd.h>

#include <cerrno>

#include "common/device/file_open.h"

namespace varve {

Result<std::unique_ptr<FileHandle>> FileHandle::open(const FileDeviceOptions& options) {
  VARVE_TRY(const OpenedFile opened, open_target_file(options));
  std::unique_ptr<FileHandle> handle(new FileHandle);
  handle->fd_ = opened.fd;
  handle->capacity_bytes_ = opened.capacity_bytes;
  handle->created_ = opened.created;
  handle->is_block_device_ = opened.is_block_device;
  return handle;
}

FileHandle::~FileHandle() {
  if (fd_ >= 0) close(fd_);
}

Status FileHandle::read(uint64_t offset_bytes, ByteSpan pages) {
  VARVE_ASSERT(offset_bytes % kPageBytes == 0 && pages.size() % kPageBytes == 0, offset_bytes);
  VARVE_ASSERT(reinterpret_cast<uintptr_t>(pages.data()) % kPageBytes == 0);
  VARVE_ASSERT(offset_bytes <= capacity_bytes_ && pages.size() <= capacity_bytes_ - offset_bytes);
  return read_pages(fd_, offset_bytes, pages);
}

Status FileHandle::write(uint64_t offset_bytes, ConstByteSpan pages) {
  VARVE_ASSERT(offset_bytes % kPageBytes == 0 && pages.size() % kPageBytes == 0, offset_bytes);
  VARVE_ASSERT(reinterpret_cast<uintptr_t>(pages.data()) % kPageBytes == 0);
  VARVE_ASSERT(offset_bytes <= capacity_bytes_ && pages.size() <= capacity_bytes_ - offset_bytes);
  return write_pages(fd_, offset_bytes, pages);
}

Status FileHandle::flush() {
  return fdatasync(fd_) == 0 ? Status() : Status::io("flush failed", errno);
}

Status FileHandle::fill_holes(uint64_t free_floor_bytes) {
  return varve::fill_holes(fd_, free_floor_bytes);
}

}  // namespace varve
