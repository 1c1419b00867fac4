// Fragment headers, tables and extents: filled once, checked at every read.
// One walk over scattered pages serves writer and reader, so both agree on what the checksum
// covers.
#include "server/flash/fragment.h"

#include <algorithm>
#include <cstring>

namespace varve::flash {

namespace {

std::byte* page_at(std::span<const iovec> pieces, uint32_t page) {
  uint64_t skip = bytes_of(page);
  for (const iovec& piece : pieces) {
    if (skip < piece.iov_len) return static_cast<std::byte*>(piece.iov_base) + skip;
    skip -= piece.iov_len;
  }
  VARVE_ASSERT(false, page);
  return nullptr;
}

bool all_zero_bytes(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// The scheme, the position in it, and the table's division in data and parity.
Status check_stripe_fields(const FragmentHeader& h) {
  const Scheme scheme{.k = h.k, .m = h.m};
  if (!scheme.valid() || h.position >= scheme.width()) {
    return Status::corrupt("fragment: scheme or position");
  }
  const FragmentRole role = h.position < h.k ? FragmentRole::kData : FragmentRole::kParity;
  if (h.matrix != static_cast<uint16_t>(matrix_of(scheme)) ||
      h.role != static_cast<uint8_t>(role)) {
    return Status::corrupt("fragment: matrix or role");
  }
  if (h.data_extent_count == 0 || h.data_extent_count > h.extent_count) {
    return Status::corrupt("fragment: data extent count");
  }
  const uint32_t parity = h.extent_count - h.data_extent_count;
  if (h.m == 0 ? parity != 0 : parity == 0 || parity % h.m != 0) {
    return Status::corrupt("fragment: parity extent count");
  }
  return Status::ok_status();
}

}  // namespace

uint64_t bytes_in(std::span<const iovec> pieces) {
  uint64_t sum = 0;
  for (const iovec& piece : pieces)
    sum += piece.iov_len;
  return sum;
}

uint32_t position_at(const ExtentTable& table, const BlockId& block, uint32_t extent) {
  if (extent < table.data_count()) {
    return position_of(extent, block.rank, block.base, table.scheme.k);
  }
  return table.scheme.k + (extent - table.data_count()) % table.scheme.m;
}

uint32_t fragment_pages_of(const ExtentTable& table, const BlockId& block, uint32_t position) {
  VARVE_ASSERT(position < table.scheme.width(), position);
  uint32_t pages = header_pages_of(table.count());
  for (uint32_t e = 0; e < table.count(); ++e) {
    if (position_at(table, block, e) == position) pages += pages_of(table.bytes_at(e));
  }
  return pages;
}

uint32_t fragment_pages_max_of(const ExtentTable& table) {
  uint32_t pages[kWidthMax] = {};  // by position, but for the rotation, which only permutes them
  for (uint32_t e = 0; e < table.count(); ++e) {
    const uint32_t at = e < table.data_count()
                            ? e % table.scheme.k
                            : table.scheme.k + (e - table.data_count()) % table.scheme.m;
    pages[at] += pages_of(table.bytes_at(e));
  }
  return header_pages_of(table.count()) + *std::max_element(std::begin(pages), std::end(pages));
}

uint32_t position_at(const FragmentHeader& header, uint32_t extent) {
  if (extent < header.data_extent_count) {
    return position_of(extent, header.rank, header.base, header.k);
  }
  return header.k + (extent - header.data_extent_count) % header.m;
}

uint32_t first_held(const FragmentHeader& header, uint32_t from) {
  while (from < header.extent_count && position_at(header, from) != header.position)
    ++from;
  return from;
}

ExtentEntry table_entry(std::span<const iovec> header_pages, uint32_t i) {
  const EntryPosition at = entry_position(i);
  ExtentEntry entry;
  std::memcpy(&entry, page_at(header_pages, at.page) + at.offset_bytes, sizeof(entry));
  return entry;
}

void table_entry_set(std::span<const iovec> header_pages, uint32_t i, const ExtentEntry& entry) {
  const EntryPosition at = entry_position(i);
  std::memcpy(page_at(header_pages, at.page) + at.offset_bytes, &entry, sizeof(entry));
}

uint32_t header_crc(std::span<const iovec> header_pages, const FragmentHeader& header,
                    uint64_t nonce) {
  FragmentHeader copy = header;
  copy.crc = 0;
  uint32_t crc = crc32c(crc32c(0, bytes_view(nonce)), bytes_view(copy));
  const uint64_t end = sizeof(FragmentHeader) + uint64_t{header.extent_count} * sizeof(ExtentEntry);
  VARVE_ASSERT(end <= bytes_in(header_pages), end);
  for (uint64_t at = sizeof(FragmentHeader); at < end;) {  // page by page: pieces hold whole pages
    const auto page = static_cast<uint32_t>(at / kPageBytes);
    const uint64_t in_page = at % kPageBytes;
    const uint64_t bytes = std::min<uint64_t>(kPageBytes - in_page, end - at);
    crc = crc32c(crc, {page_at(header_pages, page) + in_page, static_cast<size_t>(bytes)});
    at += bytes;
  }
  return crc;
}

void lay_out(std::span<const iovec> header_pages, FragmentHeader& header) {
  VARVE_ASSERT(check_stripe_fields(header).ok());
  VARVE_ASSERT(header.extent_count >= 1 && header.extent_count <= kExtentsMax, header.extent_count);
  header.header_pages = header_pages_of(header.extent_count);
  VARVE_ASSERT(bytes_in(header_pages) == bytes_of(header.header_pages));
  uint32_t page[kWidthMax];
  std::fill(std::begin(page), std::end(page), header.header_pages);
  header.first_extent_pages = 0;
  for (uint32_t i = 0; i < header.extent_count; ++i) {
    ExtentEntry entry = table_entry(header_pages, i);
    VARVE_ASSERT(entry.stored_bytes > 0 && entry.stored_bytes <= kExtentBytesMax, i);
    const uint32_t position = position_at(header, i);
    VARVE_ASSERT(position < kWidthMax, position);
    entry.page_offset = page[position];
    table_entry_set(header_pages, i, entry);
    const uint32_t pages = pages_of(entry.stored_bytes);
    const bool first = page[position] == header.header_pages;
    if (first && position == header.position) header.first_extent_pages = pages;
    page[position] += pages;
  }
  header.pages = page[header.position];
}

void seal_header(std::span<const iovec> header_pages, FragmentHeader& header,
                 const HeaderExpect& at) {
  VARVE_ASSERT(at.nonce != 0 && at.segment_page >= 1);
  header.magic = kFragmentMagic;
  header.version = kFormatVersion;
  header.segment_sequence = at.sequence;
  header.segment_page = at.segment_page;
  header.crc = header_crc(header_pages, header, at.nonce);
}

Status check_header_fields(const FragmentHeader& h, const HeaderExpect& expect) {
  if (h.magic != kFragmentMagic) return Status::corrupt("fragment: no header here");
  if (h.version != kFormatVersion) return Status::unsupported("fragment of another version");
  if (h.segment_sequence != expect.sequence || h.segment_page != expect.segment_page) {
    return Status::corrupt("fragment: header of another place");
  }
  if (h.extent_count == 0 || h.extent_count > kExtentsMax ||
      h.header_pages != header_pages_of(h.extent_count)) {
    return Status::corrupt("fragment: extent count");
  }
  if (h.pages < h.header_pages || h.pages > expect.pages_max) {
    return Status::corrupt("fragment: pages");
  }
  if (h.rank_count == 0 || h.rank_count > kRanksMax || h.rank >= h.rank_count) {
    return Status::corrupt("fragment: rank");
  }
  if (h.attempt.is_none() || h.block_bytes_high != 0 || h.block_bytes_low > kBlockBytesMax) {
    return Status::corrupt("fragment: attempt or block bytes");
  }
  if (h.flags > kFragmentThin || !all_zero_bytes(h.reserved)) {
    return Status::corrupt("fragment: unknown flag or reserved byte");
  }
  return check_stripe_fields(h);
}

Status check_header(std::span<const iovec> header_pages, const HeaderExpect& expect) {
  if (bytes_in(header_pages) < kPageBytes) return Status::corrupt("fragment: no header page");
  FragmentHeader header;
  std::memcpy(&header, page_at(header_pages, 0), sizeof(header));
  VARVE_RETURN_IF_ERROR(check_header_fields(header, expect));
  if (bytes_in(header_pages) < bytes_of(header.header_pages)) {
    return Status::corrupt("fragment: header pages");
  }
  if (header_crc(header_pages, header, expect.nonce) != header.crc) {
    return Status::corrupt("fragment: header checksum");
  }
  uint64_t page[kWidthMax];
  std::fill(std::begin(page), std::end(page), uint64_t{header.header_pages});
  const uint32_t first = first_held(header, 0);
  uint32_t first_pages = 0;
  for (uint32_t i = 0; i < header.extent_count; ++i) {
    const ExtentEntry entry = table_entry(header_pages, i);
    uint64_t& next = page[position_at(header, i)];
    if (entry.page_offset != next) return Status::corrupt("fragment: extent offset");
    if (entry.stored_bytes == 0 || entry.stored_bytes > kExtentBytesMax) {
      return Status::corrupt("fragment: extent size");
    }
    if (entry.codec != static_cast<uint8_t>(CodecId::kRaw) || entry.codec_version != 0 ||
        entry.reserved != 0 || entry.decoded_bytes != entry.stored_bytes) {
      return Status::unsupported("fragment: codec, flag or reserved field of an extent");
    }
    next += pages_of(entry.stored_bytes);
    if (i == first) first_pages = pages_of(entry.stored_bytes);
  }
  if (header.first_extent_pages != first_pages) return Status::corrupt("fragment: first extent");
  if (page[header.position] != header.pages) {
    return Status::corrupt("fragment: extents and pages differ");
  }
  return Status::ok_status();
}

Status check_extent(std::span<const iovec> runs, uint64_t skip_bytes, const BlockId& block,
                    uint32_t extent, const Attempt& attempt, const ExtentEntry& entry) {
  uint32_t crc = checksum_seed(block, extent, attempt).stored;
  uint64_t left = entry.stored_bytes;
  for (const iovec& run : runs) {
    if (left == 0) break;
    if (skip_bytes >= run.iov_len) {
      skip_bytes -= run.iov_len;
      continue;
    }
    const uint64_t bytes = std::min<uint64_t>(run.iov_len - skip_bytes, left);
    crc = crc32c(crc, {static_cast<const std::byte*>(run.iov_base) + skip_bytes,
                       static_cast<size_t>(bytes)});
    skip_bytes = 0;
    left -= bytes;
  }
  if (left > 0) return Status::corrupt("extent longer than its pages");
  return crc == entry.stored_crc ? Status::ok_status() : Status::corrupt("extent checksum");
}

Status FragmentCheck::begin(ConstByteSpan pages, const HeaderExpect& expect) {
  VARVE_ASSERT(pages.size() >= kPageBytes);
  header_ = load<FragmentHeader>(pages);
  VARVE_RETURN_IF_ERROR(check_header_fields(header_, expect));
  if (pages.size() < bytes_of(header_.header_pages)) {
    return Status::corrupt("fragment: header cut off");
  }
  const iovec piece = {const_cast<std::byte*>(pages.data()),
                       static_cast<size_t>(bytes_of(header_.header_pages))};
  VARVE_RETURN_IF_ERROR(check_header({&piece, 1}, expect));
  for (uint32_t i = 0; i < header_.extent_count; ++i)
    table_[i] = table_entry({&piece, 1}, i);
  fed_pages_ = header_.header_pages;
  open_extent(0);
  return Status::ok_status();
}

void FragmentCheck::open_extent(uint32_t from) {
  extent_ = first_held(header_, from);
  fed_bytes_ = 0;
  if (!complete()) digest_.emplace(checksum_seed(block(), extent_, header_.attempt));
}

bool FragmentCheck::close_extent() {
  const ExtentEntry& entry = table_[extent_];
  if (digest_->stored_crc() != entry.stored_crc) return false;
  if (digest_->decoded_xxh3() != entry.decoded_xxh3) return false;  // raw: the same bytes
  open_extent(extent_ + 1);
  return true;
}

bool FragmentCheck::feed(ConstByteSpan pages) {
  VARVE_ASSERT(pages.size() % kPageBytes == 0, pages.size());
  VARVE_ASSERT(pages.size() <= bytes_of(pages_left()), pages.size());
  fed_pages_ += pages_of(pages.size());
  while (!pages.empty()) {
    VARVE_ASSERT(!complete());
    const uint32_t left = table_[extent_].stored_bytes - fed_bytes_;
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(left, pages.size()));
    digest_->update(pages.first(bytes));
    fed_bytes_ += bytes;
    if (fed_bytes_ < table_[extent_].stored_bytes) return true;  // all pages were inside it
    pages = pages.subspan(round_up(bytes, kPageBytes));
    if (!close_extent()) return false;
  }
  return true;
}

}  // namespace varve::flash
