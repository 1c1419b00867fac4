// The common part of this room's long operations (recover, reclaim, checkpoint, scrub): a window of
// pages, one background I/O at a time, the zeroing of a page, a flush.
//
// Each call here starts exactly one completion of the op; the op then waits(1). The window is the
// target's for good when the target gets stuck: such an op never runs there again.
#pragma once

#include "common/reactor/op.h"
#include "server/flash/catalog.h"
#include "server/flash/target.h"

namespace varve::flash {

inline constexpr uint32_t kWindowPages = 256;  // 1 MiB
inline constexpr uint32_t kFooterPages = 192;  // of the window; holds every footer
static_assert(kFooterPages >= footer_pages_of(kSegmentFragmentsMax));

class WindowOp : public Op {
 protected:
  explicit WindowOp(Target& target);
  ~WindowOp() = default;

  void read(uint64_t offset_bytes, uint32_t first_page, uint32_t pages);
  void write(uint64_t offset_bytes, uint32_t first_page, uint32_t pages);
  void zero_page(uint64_t offset_bytes);
  void discard(uint64_t offset_bytes, uint64_t length_bytes);
  void flush();

  // The footer of a sealed segment, verified, in the first pages of the window. footer_read()
  // starts a read of what most footers need; footer_take() looks at it: kMore started the rest,
  // take again.
  enum class Footer : uint8_t { kReady, kMore, kNone };
  void footer_read(const SliceLog& log, uint32_t segment);
  Footer footer_take(const SliceLog& log, uint32_t segment, Status status);
  uint32_t footer_count() const { return trailer_.entry_count; }
  const FooterTrailer& footer_trailer() const { return trailer_; }
  CatalogEntry footer_at(uint32_t i) const;

  ConstByteSpan view(uint32_t first_page, uint32_t pages) const {
    return window_.span(first_page, pages);
  }

  Target& target_;
  PageMemory window_{kWindowPages};

 private:
  void start(DeviceKind kind, uint64_t offset_bytes, std::byte* memory, uint64_t length_bytes);
  PageMemory zeros_{1};
  iovec run_ = {};
  Transfer transfer_;
  FlushWaiter flush_;
  bool busy_ = false;
  FooterTrailer trailer_;
  uint32_t footer_first_ = 0;  // window page where the footer begins
  bool footer_whole_ = false;  // the second read is done
};

}  // namespace varve::flash
