// Catalog pages: the lists of fragments in footers and checkpoints (FORMAT 6.1, 7.5).
//
// Pure functions over page images plus FooterImage, which collects the entries of an open segment
// directly in the pages that sealing will write. Pages from a drive are checked, never asserted on.
#pragma once

#include <memory>
#include <vector>

#include "common/base/base.h"
#include "server/flash/flash.h"
#include "server/flash/segment.h"

namespace varve::flash {

// Page-aligned memory of its owner, zeroed; sized once.
class PageMemory {
 public:
  explicit PageMemory(uint32_t pages);
  std::byte* page(uint32_t index) const { return bytes_.get() + bytes_of(index); }
  ByteSpan span(uint32_t first, uint32_t count) const;
  uint32_t pages() const { return pages_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  uint32_t pages_;
  std::unique_ptr<std::byte, Free> bytes_;
};

uint32_t nonce_seed(uint64_t nonce);

// Prefix of a catalog page: crc over the whole page with the crc field taken as zero.
void seal_page(ByteSpan page, uint32_t seed, uint32_t index, uint64_t tag);
bool check_page(ConstByteSpan page, uint32_t seed, uint32_t index, uint64_t tag);

CatalogEntry entry_of(const FragmentHeader& header);
FragmentInfo info_of(const CatalogEntry& entry, uint32_t target, uint32_t slice, uint32_t segment);
// They say the same of the same place.
bool is_same(const CatalogEntry& a, const CatalogEntry& b);
// What the format promises of an entry: order, bounds, ranks. `after` is the first page it may
// have.
bool check_entry(const CatalogEntry& entry, uint32_t after, uint32_t segment_pages);

class FooterImage {
 public:
  void clear() { count_ = 0; }
  // In the order of pages: a copy is added when it is whole, a record may have been since it began.
  void add(const CatalogEntry& entry);
  uint32_t count() const { return count_; }
  CatalogEntry entry(uint32_t i) const;
  // Fills the trailer, seals every page and answers the pieces in the order of the drive.
  std::span<const iovec> finish(const FooterTrailer& trailer);

 private:
  ByteSpan slot(uint32_t i);
  std::vector<std::unique_ptr<PageMemory>> pages_;  // trailer first; grows to its peak only
  std::vector<iovec> runs_;
  uint32_t count_ = 0;
};

// What a trailer must repeat. A nonce of zero: take the trailer's own (its header is lost).
struct FooterExpect {
  std::span<const std::byte, 16> target_uuid;
  uint32_t slice = 0;
  uint32_t segment = 0;
  uint64_t sequence = 0;
  uint64_t nonce = 0;
  uint32_t segment_pages = 0;
};
// The trailer of the last page, or kCorrupt: then there is no footer.
Result<FooterTrailer> read_trailer(ConstByteSpan page, const FooterExpect& expect);
// Entry pages and trailer in the order of the drive: footer_pages_of(count) pages. True: all
// verify.
bool check_footer(ConstByteSpan pages, const FooterTrailer& trailer, uint32_t segment_pages);
CatalogEntry footer_entry(ConstByteSpan pages, uint32_t count, uint32_t i);

void fill_segment_header(ByteSpan page, const SegmentHeader& header);
enum class HeaderFound : uint8_t { kValid, kZero, kInvalid };
HeaderFound read_segment_header(ConstByteSpan page, const FooterExpect& expect, SegmentHeader* out);
bool all_zero(ConstByteSpan bytes);

}  // namespace varve::flash
