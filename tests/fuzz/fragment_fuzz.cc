// Any bytes as pages of a drive: tail scan, fragment check, footers, segment headers. They refuse
// or they accept, within bounds; what is accepted keeps what its consumers rely on. The first byte
// says whether checksums are repaired first, so that the checks behind them are reached too.
#include <cstdlib>
#include <cstring>

#include "server/flash/catalog.h"
#include "server/flash/fragment.h"
#include "server/flash/tail_scan.h"

namespace {

using namespace varve;
using namespace varve::flash;

constexpr uint64_t kNonce = 0x0123456789ABCDEF;
constexpr uint64_t kSequence = 9;
constexpr uint32_t kPages = 32;

// Gives every page that looks like a header or a trailer the place and checksum it should have.
void repair(PageMemory& image) {
  for (uint32_t page = 0; page < kPages; ++page) {
    const ByteSpan bytes = image.span(page, 1);
    if (load<uint64_t>(bytes) == kFragmentMagic) {
      auto& header = *reinterpret_cast<FragmentHeader*>(bytes.data());
      const uint32_t left = kPages - page;
      if (header.extent_count == 0 || header.extent_count > kExtentsMax) continue;
      if (header_pages_of(header.extent_count) > left) continue;
      header.version = kFormatVersion;
      header.segment_sequence = kSequence;
      header.segment_page = page;
      header.header_pages = header_pages_of(header.extent_count);
      const iovec piece = {bytes.data(), static_cast<size_t>(bytes_of(header.header_pages))};
      header.crc = header_crc({&piece, 1}, header, kNonce);
    }
  }
  const ByteSpan last = image.span(kPages - 1, 1);
  auto trailer = load<FooterTrailer>(last);
  if (trailer.magic != kFooterMagic) return;
  trailer.nonce = kNonce;
  trailer.sequence = kSequence;
  store(last, 0, trailer);
  const uint32_t count = std::min(footer_pages_of(std::min(trailer.entry_count, 1000u)), kPages);
  for (uint32_t i = 0; i < count; ++i) {
    seal_page(image.span(kPages - 1 - i, 1), nonce_seed(kNonce), i, kSequence);
  }
}

void scan(const PageMemory& image, uint32_t window) {
  TailScan scan;
  scan.begin(kNonce, kSequence, kPages);
  uint32_t feeds = 0;
  while (!scan.done()) {
    const uint32_t want = scan.want_page();
    scan.feed(image.span(want, std::min(window, kPages - want)));
    if (++feeds > 4 * kPages * kPages) std::abort();  // it always ends
  }
  uint32_t after = 1;
  for (const CatalogEntry& entry : scan.entries()) {
    if (!check_entry(entry, after, kPages)) std::abort();
    after = uint32_t{entry.page} + entry.pages;
  }
  const auto found = static_cast<uint32_t>(scan.entries().size());
  if (scan.used_pages() + footer_pages_of(found) > kPages) std::abort();
}

void footer(const PageMemory& image) {
  const FooterTrailer seen = load<FooterTrailer>(image.span(kPages - 1, 1));
  const FooterExpect expect = {
      std::span<const std::byte, 16>(seen.target_uuid), seen.slice, seen.segment, 0, 0, kPages};
  const auto trailer = read_trailer(image.span(kPages - 1, 1), expect);
  if (!trailer.has_value()) return;
  const uint32_t pages = footer_pages_of(trailer->entry_count);
  if (pages > kPages) std::abort();
  const ConstByteSpan bytes = image.span(kPages - pages, pages);
  if (!check_footer(bytes, *trailer, kPages)) return;
  for (uint32_t i = 0; i < trailer->entry_count; ++i)
    footer_entry(bytes, pages, i);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 2 + bytes_of(kPages)) return 0;
  static PageMemory image(kPages);
  std::memset(image.page(0), 0, bytes_of(kPages));
  std::memcpy(image.page(0), data + 2, size - 2);
  if (data[0] % 2 == 1) repair(image);
  scan(image, std::max<uint32_t>(kHeaderPagesMax, data[1] % 40));
  footer(image);
  SegmentHeader header;
  std::byte uuid[16] = {};
  read_segment_header(image.span(0, 1), {std::span<const std::byte, 16>(uuid), 0, 0, 0, 0, kPages},
                      &header);
  return 0;
}
