// One background I/O at a time for a long operation of one target.
// Reads and writes go to the background classes, so demand reads and appends stay ahead of them.
#include "server/flash/window_op.h"

#include <algorithm>

namespace varve::flash {

namespace {
constexpr uint32_t kFooterGuess = 4;  // pages: up to 203 fragments
}

WindowOp::WindowOp(Target& target) : Op(target.reactor), target_(target) {
  transfer_.owner = this;
  transfer_.on_done = [](Transfer& transfer) {
    auto& op = *static_cast<WindowOp*>(transfer.owner);
    op.busy_ = false;
    op.completed(transfer.status);
  };
  transfer_.limbo.on_returned = [](void*) {};
  flush_.owner = this;
  flush_.on_done = [](FlushWaiter& waiter) {
    auto& op = *static_cast<WindowOp*>(waiter.owner);
    op.busy_ = false;
    op.completed(waiter.status);
  };
}

void WindowOp::read(uint64_t offset_bytes, uint32_t first_page, uint32_t pages) {
  const ByteSpan memory = window_.span(first_page, pages);
  start(DeviceKind::kRead, offset_bytes, memory.data(), memory.size());
}

void WindowOp::write(uint64_t offset_bytes, uint32_t first_page, uint32_t pages) {
  const ByteSpan memory = window_.span(first_page, pages);
  start(DeviceKind::kWrite, offset_bytes, memory.data(), memory.size());
}

void WindowOp::zero_page(uint64_t offset_bytes) {
  start(DeviceKind::kWrite, offset_bytes, zeros_.page(0), kPageBytes);
}

void WindowOp::discard(uint64_t offset_bytes, uint64_t length_bytes) {
  start(DeviceKind::kDiscard, offset_bytes, nullptr, length_bytes);
}

void WindowOp::start(DeviceKind kind, uint64_t offset_bytes, std::byte* memory,
                     uint64_t length_bytes) {
  VARVE_ASSERT(!busy_);
  busy_ = true;
  run_ = {memory, static_cast<size_t>(length_bytes)};
  transfer_.kind = kind;
  transfer_.offset_bytes = offset_bytes;
  transfer_.length_bytes = length_bytes;
  transfer_.runs = {&run_, 1};
  target_.io.submit(transfer_,
                    kind == DeviceKind::kRead ? IoClass::kBackRead : IoClass::kBackWrite);
}

void WindowOp::flush() {
  VARVE_ASSERT(!busy_);
  busy_ = true;
  target_.flusher.wait(flush_);
}

void WindowOp::footer_read(const SliceLog& log, uint32_t segment) {
  const uint32_t pages = std::min(kFooterGuess, target_.geometry.segment_pages - 1);
  footer_whole_ = false;
  read(target_.offset(log, segment, target_.geometry.segment_pages - pages), 0, pages);
}

WindowOp::Footer WindowOp::footer_take(const SliceLog& log, uint32_t segment, Status status) {
  if (!status.ok()) return Footer::kNone;
  const uint32_t segment_pages = target_.geometry.segment_pages;
  const Segment& known = log.segment(segment);
  uint32_t got = footer_pages_of(trailer_.entry_count);
  if (!footer_whole_) {
    got = std::min(kFooterGuess, segment_pages - 1);
    const FooterExpect expect = {std::span<const std::byte, 16>(target_.info.super.target_uuid),
                                 log.slice(),
                                 segment,
                                 known.sequence,
                                 known.nonce,
                                 segment_pages};
    Result<FooterTrailer> trailer = read_trailer(view(got - 1, 1), expect);
    if (!trailer.has_value()) return Footer::kNone;
    trailer_ = *trailer;
    const uint32_t pages = footer_pages_of(trailer_.entry_count);
    if (pages > got) {
      footer_whole_ = true;
      read(target_.offset(log, segment, segment_pages - pages), 0, pages);
      return Footer::kMore;
    }
  }
  const uint32_t pages = footer_pages_of(trailer_.entry_count);
  footer_first_ = got - pages;
  if (known.nonce != trailer_.nonce || known.sequence != trailer_.sequence) return Footer::kNone;
  return check_footer(view(footer_first_, pages), trailer_, segment_pages) ? Footer::kReady
                                                                           : Footer::kNone;
}

CatalogEntry WindowOp::footer_at(uint32_t i) const {
  VARVE_ASSERT(i < trailer_.entry_count, i);
  const uint32_t pages = footer_pages_of(trailer_.entry_count);
  return footer_entry(view(footer_first_, pages), pages, i);
}

}  // namespace varve::flash
