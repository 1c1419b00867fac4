// Fragments as bytes: fill a header before it is appended, check one that was read, verify whole
// fragments piece by piece. Pure; shared by the writer, the reader, the tail scan, reclaim and
// scrub.
//
// Nothing here asserts on bytes of a drive: what does not hold is kCorrupt and says why.
#pragma once

#include <array>
#include <optional>

#include "common/base/base.h"
#include "common/model/model.h"
#include "server/flash/flash.h"

namespace varve::flash {

// The life of the segment and the page that a header must repeat.
struct HeaderExpect {
  uint64_t nonce = 0;
  uint64_t sequence = 0;
  uint32_t segment_page = 0;
  uint32_t pages_max = 0;  // left in the segment
};

// Which of the table's extents this fragment holds, in their order.
uint32_t position_at(const FragmentHeader& header, uint32_t extent);
uint32_t first_held(const FragmentHeader& header, uint32_t from);  // extent_count: none any more

uint64_t bytes_in(std::span<const iovec> pieces);
// Header and table may lie in scattered pages: these walk the pieces.
ExtentEntry table_entry(std::span<const iovec> header_pages, uint32_t i);
void table_entry_set(std::span<const iovec> header_pages, uint32_t i, const ExtentEntry& entry);
uint32_t header_crc(std::span<const iovec> header_pages, const FragmentHeader& header,
                    uint64_t nonce);

// Fills pages, header_pages, first_extent_pages, and the page offsets of all extents, each inside
// its own fragment, from the stored sizes in the table.
void lay_out(std::span<const iovec> header_pages, FragmentHeader& header);
// Place fields and crc: the last thing that happens to a header before it goes to the drive.
void seal_header(std::span<const iovec> header_pages, FragmentHeader& header,
                 const HeaderExpect& at);

// Fixed fields of a header: magic, version, counts, bounds. Before its table is looked at.
Status check_header_fields(const FragmentHeader& header, const HeaderExpect& expect);
// Everything of header and table: fields, checksum, offsets without gaps, codecs known.
Status check_header(std::span<const iovec> header_pages, const HeaderExpect& expect);

// CRC32C of one extent over pieces against its entry.
Status check_extent(std::span<const iovec> runs, uint64_t skip_bytes, const BlockId& block,
                    uint32_t extent, const Attempt& attempt, const ExtentEntry& entry);

// Verifies one fragment as its pages come by, in order.
class FragmentCheck {
 public:
  // `pages` begins at the fragment and holds its whole header. Not ok: this is no fragment.
  Status begin(ConstByteSpan pages, const HeaderExpect& expect);
  // The pages behind the header, page by page or many at a time. False: an extent does not verify.
  [[nodiscard]] bool feed(ConstByteSpan pages);
  bool complete() const { return extent_ == header_.extent_count; }
  uint32_t pages_left() const { return header_.pages - fed_pages_; }
  const FragmentHeader& header() const { return header_; }
  BlockId block() const { return {header_.base, header_.rank, header_.domain}; }

 private:
  void open_extent(uint32_t from);
  bool close_extent();
  FragmentHeader header_;
  std::array<ExtentEntry, kExtentsMax> table_;
  std::optional<ExtentDigest> digest_;
  uint32_t extent_ = 0;     // held, being fed
  uint32_t fed_bytes_ = 0;  // of its stored bytes
  uint32_t fed_pages_ = 0;  // of the fragment, header included
};

}  // namespace varve::flash
