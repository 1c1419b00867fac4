// FailedDevice: the place of a drive that was not there at start. It never moves a byte; what a
// failed device answers is decided by BlockDevice.
#include "common/device/device.h"

namespace varve {

namespace {

class FailedDevice final : public BlockDevice {
 public:
  FailedDevice(Reactor& reactor, const std::string& name, uint64_t capacity_bytes, Status cause)
      : BlockDevice(reactor, name, capacity_bytes) {
    fail(cause);
    VARVE_ASSERT(failed());
  }

 protected:
  void start(DeviceIo& io) override {
    VARVE_ASSERT(false, static_cast<uint32_t>(io.kind));  // D4: a failed device starts nothing
  }
};

}  // namespace

std::unique_ptr<BlockDevice> make_failed_device(Reactor& reactor, const std::string& name,
                                                uint64_t capacity_bytes, Status cause) {
  VARVE_ASSERT(!cause.ok());
  return std::make_unique<FailedDevice>(reactor, name, capacity_bytes, cause);
}

}  // namespace varve
