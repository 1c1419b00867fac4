// Opening (and creating) the file or block device behind a target, for this room only.
// Shared by FileDevice and FileHandle: one place decides what is acceptable as a target.
#pragma once

#include "common/device/device.h"

namespace varve {

struct OpenedFile {
  int fd = -1;  // O_RDWR | O_DIRECT | O_CLOEXEC; the caller closes it
  uint64_t capacity_bytes = 0;
  bool created = false;
  bool is_block_device = false;
};

// The text of a refusal names cause and remedy; nothing is logged here. kIo and a kUnavailable with
// ENOENT or ENODEV say that the drive is lost; everything else, that this is no target for us.
Result<OpenedFile> open_target_file(const FileDeviceOptions& options);

// Whole pages at once, blocking; short I/O continued, EINTR retried. For start-up and fault work
// only.
Status read_pages(int fd, uint64_t offset_bytes, ByteSpan pages);
Status write_pages(int fd, uint64_t offset_bytes, ConstByteSpan pages);

// Allocates what of a file is a hole, so that no write finds the file system full; of a block
// device nothing. Bytes stay as they are. kNoSpace: not within the floor; kUnsupported: this file
// system cannot.
Status fill_holes(int fd, uint64_t free_floor_bytes);

}  // namespace varve
