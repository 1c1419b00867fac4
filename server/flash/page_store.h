// Plain synchronous pages of a target before its shards run: a file or a simulated platter.
// For superblocks and for the synthetic target of the recovery bench; nothing of it is on the data
// path.
#pragma once

#include <cstring>

#include "common/base/base.h"
#include "common/device/device.h"

namespace varve::flash {

class PageStore {
 public:
  virtual ~PageStore() = default;
  virtual uint64_t capacity_bytes() const = 0;
  virtual Status read(uint64_t offset_bytes, ByteSpan pages) = 0;
  virtual Status write(uint64_t offset_bytes, ConstByteSpan pages) = 0;
  virtual Status flush() = 0;
  virtual Status fill_holes(uint64_t free_floor_bytes) = 0;  // as of a FileHandle
};

class FileStore final : public PageStore {
 public:
  explicit FileStore(FileHandle& file) : file_(file) {}
  uint64_t capacity_bytes() const override { return file_.capacity_bytes(); }
  Status read(uint64_t offset_bytes, ByteSpan pages) override {
    return file_.read(offset_bytes, pages);
  }
  Status write(uint64_t offset_bytes, ConstByteSpan pages) override {
    return file_.write(offset_bytes, pages);
  }
  Status flush() override { return file_.flush(); }
  Status fill_holes(uint64_t free_floor_bytes) override {
    return file_.fill_holes(free_floor_bytes);
  }

 private:
  FileHandle& file_;
};

class PlatterStore final : public PageStore {
 public:
  explicit PlatterStore(MemoryPlatter& platter) : platter_(platter) {}
  uint64_t capacity_bytes() const override { return platter_.capacity_bytes(); }
  Status read(uint64_t offset_bytes, ByteSpan pages) override {
    VARVE_ASSERT(offset_bytes + pages.size() <= platter_.capacity_bytes());
    std::memcpy(pages.data(), platter_.bytes().data() + offset_bytes, pages.size());
    return Status::ok_status();
  }
  Status write(uint64_t offset_bytes, ConstByteSpan pages) override {
    VARVE_ASSERT(offset_bytes + pages.size() <= platter_.capacity_bytes());
    std::memcpy(platter_.bytes().data() + offset_bytes, pages.data(), pages.size());
    return Status::ok_status();
  }
  Status flush() override { return Status::ok_status(); }
  Status fill_holes(uint64_t) override { return Status::ok_status(); }

 private:
  MemoryPlatter& platter_;
};

}  // namespace varve::flash
