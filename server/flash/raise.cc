// Write, flush, and only then is it the newest: a torn page leaves the other one, which still has
// the generations before.
#include "server/flash/raise.h"

namespace varve::flash {

SuperWriter::SuperWriter(Target& target)
    : target_(target), super_(target.info.super), page_(target.info.super_page) {
  run_ = {memory_.page(0), kPageBytes};
  transfer_.kind = DeviceKind::kWrite;
  transfer_.runs = {&run_, 1};
  transfer_.length_bytes = kPageBytes;
  transfer_.owner = flush_.owner = this;
  transfer_.limbo.on_returned = [](void*) {};  // the page lives as long as this
  transfer_.on_done = [](Transfer& transfer) {
    static_cast<SuperWriter*>(transfer.owner)->written(transfer.status);
  };
  flush_.on_done = [](FlushWaiter& waiter) {
    static_cast<SuperWriter*>(waiter.owner)->ended(waiter.status);
  };
}

void SuperWriter::write(const Generations& rows) {
  VARVE_ASSERT(!busy_ && on_done != nullptr);
  VARVE_ASSERT(page_ < 2, page_);
  busy_ = true;
  next_ = super_;
  ++next_.write_count;
  rows_set(next_, rows);
  next_.crc = superblock_crc(next_);
  store(memory_.span(0, 1), 0, next_);
  transfer_.offset_bytes = bytes_of(1 - page_);
  target_.io.submit(transfer_, IoClass::kBackWrite);
}

void SuperWriter::written(Status status) {
  if (!status.ok()) return ended(status);
  target_.flusher.wait(flush_);
}

void SuperWriter::ended(Status status) {
  VARVE_ASSERT(busy_);
  busy_ = false;
  if (status.ok()) {
    super_ = next_;
    page_ = 1 - page_;
    target_.generations = rows_of(super_);
    target_.metrics.raises.add();
  }
  on_done(owner, status);
}

}  // namespace varve::flash
