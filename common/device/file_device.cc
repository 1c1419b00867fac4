// FileDevice: a file or a block device through the reactor's IoBackend, O_DIRECT always.
// It only describes the attempt to the backend; what a result means is BlockDevice's business.
#include <sys/stat.h>
#include <unistd.h>

#include "common/device/file_open.h"

namespace varve {

namespace {

class FileDevice final : public BlockDevice {
 public:
  FileDevice(Reactor& reactor, std::string path, const OpenedFile& opened)
      : BlockDevice(reactor, std::move(path), opened.capacity_bytes),
        fd_(opened.fd),
        is_block_device_(opened.is_block_device) {
    reactor_.io().register_file(fd_);
  }

  ~FileDevice() override {
    if (in_flight() > 0) {
      // A drive that gives nothing back at shutdown. The descriptor stays open: its number must not
      // come to name something else while the kernel still holds requests.
      logf(LogLevel::kWarn, "device", "target %s is given up with %u requests in flight",
           name().c_str(), in_flight());
      return;
    }
    reactor_.io().unregister_file(fd_);
    close(fd_);
  }

  Status read_now(uint64_t offset_bytes, ByteSpan pages) override {
    return read_pages(fd_, offset_bytes, pages);
  }
  Status write_now(uint64_t offset_bytes, ConstByteSpan pages) override {
    return write_pages(fd_, offset_bytes, pages);
  }

  Status gone() const override {
    struct stat info = {};
    if (fstat(fd_, &info) != 0) return Status::unavailable("it does not answer (fstat)");
    if (is_block_device_) return {};  // one that is unplugged says so by its errors
    if (info.st_nlink == 0) return Status::unavailable("its file was deleted");
    const bool cut = static_cast<uint64_t>(info.st_size) < capacity_bytes();
    return cut ? Status::unavailable("its file was cut short") : Status();
  }

 protected:
  void start(DeviceIo& io) override {
    io.io.fd = fd_;
    io.io.owner = &io;
    io.io.on_done = [](Io& done) {
      auto& request = *static_cast<DeviceIo*>(done.owner);
      static_cast<FileDevice*>(request.device)->progress(request, done.result);
    };
    // A file keeps the space it was preallocated; a drive is told what it need not keep.
    if (io.kind == DeviceKind::kDiscard && !is_block_device_) io.io.kind = IoKind::kZero;
    reactor_.io().start(io.io);
  }

 private:
  int fd_;
  bool is_block_device_;
};

}  // namespace

Result<std::unique_ptr<BlockDevice>> open_file_device(Reactor& reactor,
                                                      const FileDeviceOptions& options) {
  VARVE_TRY(const OpenedFile opened, open_target_file(options));
  return std::unique_ptr<BlockDevice>(std::make_unique<FileDevice>(reactor, options.path, opened));
}

}  // namespace varve
