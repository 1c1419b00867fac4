// Another drive in the place of a target that has failed, while the shard serves.
//
// The old one is closed when nothing of it is anywhere but here. The new one is read as at a start,
// because what a stranger left behind its first MiB is nobody's fragment but must be erased; and it
// learns of the generations that were raised since it was formatted. Only then may it be given
// anything.
#include <cstring>
#include <memory>
#include <utility>

#include "server/flash/flash_impl.h"
#include "server/flash/generation.h"

namespace varve::flash {

Status FlashImpl::replaceable(uint32_t target) const {
  const Engine& of = engine(target);
  if (of.target.ok()) return Status::invalid("it works");
  if (draining_) return Status::unavailable("the node stops");
  if (recovering()) return Status::unavailable("recovery of the start is not over");
  if (of.target.io.limbo_count() > 0 || of.target.device->in_flight() > 0) {
    return Status::unavailable("its device has not given back what it was asked for");
  }
  for (const auto& log : of.target.logs) {
    if (log != nullptr && log->reserved_pages() > 0) {
      return Status::unavailable("pushes that were promised room on it have not ended");
    }
  }
  if (raise_ != nullptr) return Status::unavailable("a purge is being written to superblocks");
  if (!of.quiet() || !kills_.idle(target) || failures_.owes(target)) {
    return Status::unavailable("what was begun on it has not ended");
  }
  return Status();
}

namespace {

// The path may lead elsewhere than it did when the drive was formatted; whatever lies there is
// somebody's (I12).
Status still_there(BlockDevice& device, const Superblock& expected) {
  PageMemory page(1);
  VARVE_RETURN_IF_ERROR(device.read_now(0, page.span(0, 1)));
  const auto super = load<Superblock>(page.span(0, 1));
  if (super.magic == expected.magic &&
      std::memcmp(super.target_uuid, expected.target_uuid, sizeof(super.target_uuid)) == 0) {
    return Status();
  }
  return Status::invalid("another drive lies there by now");
}

}  // namespace

// In the same memory, because the pump of the records, and the metrics, know where its parts are.
Status FlashImpl::replace(TargetInfo info, std::unique_ptr<BlockDevice> device) {
  VARVE_ASSERT(reactor_.on_owner_core());
  VARVE_ASSERT(device != nullptr && info.formatted_now);
  const uint32_t index = info.super.target_index;
  VARVE_RETURN_IF_ERROR(replaceable(index));
  VARVE_TRY(const TargetGeometry geometry, geometry_of(info.super));
  Engine& engine = this->engine(index);
  if (geometry.slices != engine.target.geometry.slices) {
    return Status::invalid("a target with another number of slices");
  }
  if (geometry.fragment_pages_max() < fragment_pages_max_) {
    return Status::invalid("its segments are too small for the fragments of this node");
  }
  if (device->capacity_bytes() < bytes_of(geometry.pages())) {
    return Status::io("device smaller than its superblock says", 0);
  }
  VARVE_RETURN_IF_ERROR(still_there(*device, info.super));
  // Only the shard that raises may know of more than it was formatted with, and may write there.
  const Generations rows = generations();
  const bool early = raises_ && rows != rows_of(info.super);
  Entropy& entropy = engine.target.entropy;
  const FlashOptions of_target = options_of(info);
  failures_.forget(index);
  std::destroy_at(&engine);
  std::construct_at(&engine, *this, reactor_, entropy, user_, of_target, std::move(info), geometry,
                    std::move(device), recover_work(), checkpoint_work());
  wire(engine);
  make_logs(engine);
  engine.newcomer = true;
  engine.target.metrics.ok.set(0);
  engine.super_early = early;
  if (early) engine.super.write(rows);
  for (const auto& op : engine.recover)
    op->start();
  return Status();
}

void FlashImpl::super_written(Engine& engine, Status status) {
  if (!engine.super_early) return raised(status);
  engine.super_early = false;
  if (std::exchange(engine.raise_waits, false)) {
    VARVE_ASSERT(raise_ != nullptr);
    engine.super.write(raise_->rows);
  }
  settle_in(engine);
}

// One that fails before is told of as any that fails.
void FlashImpl::settle_in(Engine& engine) {
  if (!engine.newcomer || engine.recover_left > 0 || engine.super_early) return;
  engine.newcomer = false;
  if (!engine.target.ok()) return;
  engine.target.metrics.ok.set(1);
  user_.on_target_replaced(engine.target.index());
}

}  // namespace varve::flash
