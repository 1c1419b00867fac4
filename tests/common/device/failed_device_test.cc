// Goal: a drive that was lost before the start keeps its place and answers every request.
// Method: one request of every kind on a device that is failed from the beginning.
#include "tests/common/device/device_world.h"

namespace varve {
namespace {

using test::AlignedBytes;
using test::Request;
using test::World;

TEST(FailedDevice, AnswersEveryRequestAndKeepsItsCause) {
  World world;
  const auto device = make_failed_device(world.reactor(), "gone", kMiB,
                                         Status(Code::kUnavailable, "does not exist", ENOENT));
  EXPECT_TRUE(device->failed());
  EXPECT_EQ(device->failure().errno_value(), ENOENT);
  EXPECT_EQ(device->capacity_bytes(), kMiB);
  AlignedBytes page(kPageBytes);
  Request read(DeviceKind::kRead), write(DeviceKind::kWrite), flush(DeviceKind::kFlush);
  read.with(page.data(), kPageBytes);
  write.with(page.data(), kPageBytes);
  for (Request* request : {&read, &write, &flush}) {
    device->submit(*request);
    EXPECT_EQ(request->completions, 0u);  // D2
  }
  world.quiesce();
  for (Request* request : {&read, &write, &flush}) {
    EXPECT_EQ(request->completions, 1u);
    EXPECT_EQ(request->status.code(), Code::kUnavailable);
  }
  EXPECT_EQ(device->in_flight(), 0u);
}

}  // namespace
}  // namespace varve
