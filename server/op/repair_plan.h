// RepairPlan: a block as the header of one of its fragments tells it, stripe by stripe: which
// extent is where, what is needed to rebuild what. Pure.
//
// An extent has two positions: that of the fragment which holds it, rotated from block to block,
// and its place in its stripe, by which it is coded (docs/FORMAT.md 4.3, 4.4).
#pragma once

#include <sys/uio.h>

#include <vector>

#include "common/base/base.h"
#include "common/erasure/erasure.h"
#include "common/model/model.h"
#include "server/flash/flash.h"

namespace varve {

class RepairPlan {
 public:
  static constexpr uint32_t kNoExtent = ~0u;

  RepairPlan();
  // From the lead of the fragment at `position`, whose own checks have held. kCorrupt: that is not
  // what this header says, or table and scheme do not fit each other.
  Status load(std::span<const iovec> lead, const BlockId& block, Scheme scheme, uint32_t position);

  const Attempt& attempt() const { return header_.attempt; }
  uint32_t header_pages() const { return header_.header_pages; }
  const ExtentEntry& row(uint32_t extent) const { return rows_[extent]; }
  uint32_t stripe_count() const { return static_cast<uint32_t>(first_.size()) - 1; }
  // Pages of the fragment at a position, header included.
  uint32_t fragment_pages(uint32_t position) const;
  // The extent at a place of a stripe, data places first; kNoExtent where it has fewer than k.
  uint32_t extent_at(uint32_t stripe, uint32_t place) const;
  // The extent of a stripe that the fragment at a position holds; kNoExtent: none.
  uint32_t held_by(uint32_t position, uint32_t stripe) const;
  // Which fragment holds it.
  uint32_t fragment_of(uint32_t extent) const;
  // Places of a stripe: present are those in `readable` fragments and those known to be zeros,
  // wanted those of the fragments to write. Bit p of either: position p.
  Loss loss(uint32_t stripe, uint32_t readable, uint32_t wanted) const;
  // Pages of the extents to read at once, for the stripe that takes most.
  uint32_t source_pages(uint32_t readable, uint32_t wanted) const;
  // Header and table as the fragment of `position` begins; flash fills in what names its place.
  void write_header(uint32_t position, bool thin, std::span<const iovec> pages) const;

 private:
  Status find_stripes();
  Scheme scheme_;
  flash::FragmentHeader header_;
  std::vector<ExtentEntry> rows_;  // capacity kExtentsMax from construction
  std::vector<uint32_t> first_;    // data extent of each stripe, and one behind the last
};

// Walks the bytes of pieces: what can be handed out without a gap, and on.
class PieceCursor {
 public:
  PieceCursor() = default;
  explicit PieceCursor(std::span<const iovec> pieces) : pieces_(pieces) {}
  // What lies here in one piece; empty at the end.
  ByteSpan here() const;
  void skip(size_t bytes);  // asserts that there are so many

 private:
  std::span<const iovec> pieces_;  // those not yet walked past
  size_t offset_ = 0;              // into the first of them
};

}  // namespace varve
