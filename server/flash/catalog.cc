// Catalog pages, footers and segment headers as bytes: fill and check, no I/O.
// Every check answers a value; a page that does not hold is simply not there.
#include "server/flash/catalog.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "server/flash/kill.h"

namespace varve::flash {

namespace {

// Of operator new, so that the lack of memory is said as that of any other allocation is.
constexpr std::align_val_t kPageAlign{kPageBytes};

uint32_t page_crc(ConstByteSpan page, uint32_t seed) {
  const uint32_t zero = 0;
  return crc32c(crc32c(seed, bytes_view(zero)), page.subspan(4));
}

uint32_t header_crc(SegmentHeader header) {
  header.crc = 0;
  return crc32c(0, bytes_view(header));
}

// Where entry i stands, counted in pages from the trailer downwards.
struct Slot {
  uint32_t page;
  uint32_t offset_bytes;
};
Slot slot_of(uint32_t i) {
  if (i < kEntriesInTrailer) {
    return {0, static_cast<uint32_t>(sizeof(FooterTrailer) + i * sizeof(CatalogEntry))};
  }
  const uint32_t rest = i - kEntriesInTrailer;
  return {
      1 + rest / kEntriesPerPage,
      static_cast<uint32_t>(sizeof(PagePrefix) + (rest % kEntriesPerPage) * sizeof(CatalogEntry))};
}

}  // namespace

void PageMemory::Free::operator()(std::byte* bytes) const {
  ::operator delete(bytes, kPageAlign);
}

PageMemory::PageMemory(uint32_t pages)
    : pages_(pages), bytes_(static_cast<std::byte*>(::operator new(bytes_of(pages), kPageAlign))) {
  VARVE_ASSERT(pages > 0, pages);
  std::memset(bytes_.get(), 0, bytes_of(pages));
}

ByteSpan PageMemory::span(uint32_t first, uint32_t count) const {
  VARVE_ASSERT(uint64_t{first} + count <= pages_, first, count);
  return {page(first), static_cast<size_t>(bytes_of(count))};
}

uint32_t nonce_seed(uint64_t nonce) {
  return crc32c(0, bytes_view(nonce));
}

void seal_page(ByteSpan page, uint32_t seed, uint32_t index, uint64_t tag) {
  VARVE_ASSERT(page.size() == kPageBytes);
  PagePrefix prefix;
  prefix.index = index;
  prefix.tag = tag;
  store(page, 0, prefix);
  prefix.crc = page_crc(page, seed);
  store(page, 0, prefix);
}

bool check_page(ConstByteSpan page, uint32_t seed, uint32_t index, uint64_t tag) {
  VARVE_ASSERT(page.size() == kPageBytes);
  const auto prefix = load<PagePrefix>(page);
  if (prefix.index != index || prefix.tag != tag) return false;
  return prefix.crc == page_crc(page, seed);
}

CatalogEntry entry_of(const FragmentHeader& header) {
  CatalogEntry entry;
  entry.base = header.base;
  entry.attempt = header.attempt;
  entry.page = static_cast<uint16_t>(header.segment_page);
  entry.pages = static_cast<uint16_t>(header.pages);
  entry.lead_pages = static_cast<uint16_t>(header.header_pages + header.first_extent_pages);
  entry.which = pack({.rank = header.rank,
                      .rank_count = header.rank_count,
                      .position = header.position,
                      .thin = (header.flags & kFragmentThin) != 0});
  entry.block_bytes = header.block_bytes_low;
  entry.domain = header.domain;
  entry.domain_generation = header.domain_generation;
  entry.lineage_generation = header.lineage_generation;
  entry.lineage = header.lineage;
  return entry;
}

FragmentInfo info_of(const CatalogEntry& entry, uint32_t target, uint32_t slice, uint32_t segment) {
  const Which which = unpack(entry.which);
  FragmentInfo info;
  info.block = {entry.base, which.rank, entry.domain};
  info.rank_count = which.rank_count;
  info.position = which.position;
  info.attempt = entry.attempt;
  info.place.target = static_cast<uint8_t>(target);
  info.place.slice = static_cast<uint8_t>(slice);
  info.place.segment = static_cast<uint16_t>(segment);
  info.place.page = entry.page;
  info.place.pages = entry.pages;
  info.place.lead_pages = entry.lead_pages;
  info.block_bytes = entry.block_bytes;
  info.mark = {.domain = entry.domain,
               .domain_generation = entry.domain_generation,
               .lineage = entry.lineage,
               .lineage_generation = entry.lineage_generation};
  return info;
}

bool is_same(const CatalogEntry& a, const CatalogEntry& b) {
  return a.page == b.page && a.pages == b.pages && a.base == b.base && a.domain == b.domain &&
         a.which == b.which && a.attempt == b.attempt;
}

bool check_entry(const CatalogEntry& entry, uint32_t after, uint32_t segment_pages) {
  if (entry.page < after || entry.page < 1) return false;
  if (entry.pages < 1 || uint32_t{entry.page} + entry.pages >= segment_pages) return false;
  if (is_kill(entry)) return check_kill(entry);
  if (entry.lead_pages < 1 || entry.lead_pages > entry.pages) return false;
  const Which which = unpack(entry.which);
  if (which.rank >= which.rank_count || which.position >= kWidthMax) return false;
  return !entry.attempt.is_none();
}

ByteSpan FooterImage::slot(uint32_t i) {
  const Slot at = slot_of(i);
  while (pages_.size() <= at.page)
    pages_.push_back(std::make_unique<PageMemory>(1));
  return pages_[at.page]->span(0, 1).subspan(at.offset_bytes, sizeof(CatalogEntry));
}

void FooterImage::add(const CatalogEntry& entry) {
  VARVE_ASSERT(count_ < kSegmentFragmentsMax, count_);
  uint32_t at = count_++;
  for (; at > 0 && this->entry(at - 1).page > entry.page; --at)
    store(slot(at), 0, this->entry(at - 1));
  store(slot(at), 0, entry);
}

CatalogEntry FooterImage::entry(uint32_t i) const {
  VARVE_ASSERT(i < count_, i, count_);
  const Slot at = slot_of(i);
  return load<CatalogEntry>(pages_[at.page]->span(0, 1), at.offset_bytes);
}

std::span<const iovec> FooterImage::finish(const FooterTrailer& trailer) {
  VARVE_ASSERT(trailer.entry_count == count_ && trailer.nonce != 0);
  if (pages_.empty()) pages_.push_back(std::make_unique<PageMemory>(1));
  const uint32_t pages = footer_pages_of(count_);
  VARVE_ASSERT(pages <= pages_.size());
  for (uint32_t i = 0; i < pages; ++i) {  // nothing of an earlier use stays behind the entries
    const ByteSpan page = pages_[i]->span(0, 1);
    const uint32_t first = i == 0 ? 0 : kEntriesInTrailer + (i - 1) * kEntriesPerPage;
    const uint32_t room = i == 0 ? kEntriesInTrailer : kEntriesPerPage;
    const uint32_t used = std::min(room, count_ - std::min(count_, first));
    const size_t head = i == 0 ? sizeof(FooterTrailer) : sizeof(PagePrefix);
    const size_t end = head + used * sizeof(CatalogEntry);
    std::memset(page.data() + end, 0, kPageBytes - end);
    if (i == 0) store(page, 0, trailer);
    seal_page(page, nonce_seed(trailer.nonce), i, trailer.sequence);
  }
  runs_.clear();
  for (uint32_t i = pages; i > 0; --i)
    runs_.push_back({pages_[i - 1]->page(0), kPageBytes});
  return runs_;
}

Result<FooterTrailer> read_trailer(ConstByteSpan page, const FooterExpect& expect) {
  VARVE_ASSERT(page.size() == kPageBytes);
  const auto trailer = load<FooterTrailer>(page);
  if (trailer.magic != kFooterMagic) return Status::corrupt("no footer");
  if (trailer.version != kFormatVersion) return Status::unsupported("footer of another version");
  if (expect.nonce != 0 && (trailer.nonce != expect.nonce || trailer.sequence != expect.sequence)) {
    return Status::corrupt("footer of an earlier life");
  }
  if (trailer.nonce == 0 || trailer.sequence > kSequenceMax || trailer.slice != expect.slice ||
      trailer.segment != expect.segment ||
      std::memcmp(trailer.target_uuid, expect.target_uuid.data(), 16) != 0) {
    return Status::corrupt("footer of another segment");
  }
  if (trailer.entry_count > kSegmentFragmentsMax ||
      uint64_t{trailer.used_pages} + footer_pages_of(trailer.entry_count) > expect.segment_pages) {
    return Status::corrupt("footer counts do not fit");
  }
  if (!check_page(page, nonce_seed(trailer.nonce), 0, trailer.sequence)) {
    return Status::corrupt("footer checksum");
  }
  return trailer;
}

bool check_footer(ConstByteSpan pages, const FooterTrailer& trailer, uint32_t segment_pages) {
  const uint32_t count = footer_pages_of(trailer.entry_count);
  VARVE_ASSERT(pages.size() == bytes_of(count));
  for (uint32_t i = 0; i < count; ++i) {
    const ConstByteSpan page = pages.subspan(bytes_of(count - 1 - i), kPageBytes);
    if (!check_page(page, nonce_seed(trailer.nonce), i, trailer.sequence)) return false;
  }
  uint32_t after = 1;
  for (uint32_t i = 0; i < trailer.entry_count; ++i) {
    const CatalogEntry entry = footer_entry(pages, count, i);
    if (!check_entry(entry, after, segment_pages)) return false;
    after = uint32_t{entry.page} + entry.pages;
  }
  return true;
}

CatalogEntry footer_entry(ConstByteSpan pages, uint32_t count, uint32_t i) {
  const Slot at = slot_of(i);
  VARVE_ASSERT(at.page < count, at.page, count);
  return load<CatalogEntry>(pages, bytes_of(count - 1 - at.page) + at.offset_bytes);
}

void fill_segment_header(ByteSpan page, const SegmentHeader& header) {
  VARVE_ASSERT(page.size() == kPageBytes);
  VARVE_ASSERT(header.nonce != 0 && header.sequence != 0);
  std::memset(page.data(), 0, page.size());
  SegmentHeader sealed = header;
  sealed.crc = header_crc(header);
  store(page, 0, sealed);
}

HeaderFound read_segment_header(ConstByteSpan page, const FooterExpect& expect,
                                SegmentHeader* out) {
  VARVE_ASSERT(page.size() == kPageBytes && out != nullptr);
  *out = load<SegmentHeader>(page);
  if (out->magic == kSegmentMagic && out->version == kFormatVersion &&
      out->crc == header_crc(*out) && out->slice == expect.slice &&
      out->segment == expect.segment && out->nonce != 0 && out->sequence != 0 &&
      out->sequence <= kSequenceMax &&
      std::memcmp(out->target_uuid, expect.target_uuid.data(), 16) == 0) {
    return HeaderFound::kValid;
  }
  return all_zero(page) ? HeaderFound::kZero : HeaderFound::kInvalid;
}

bool all_zero(ConstByteSpan bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace varve::flash
