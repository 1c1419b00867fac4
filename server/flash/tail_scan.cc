// Page by page through an unsealed segment; see the header.
// Each page is read at most twice: once inside a fragment that turns out torn, once alone.
#include "server/flash/tail_scan.h"

#include <algorithm>

#include "server/flash/catalog.h"

namespace varve::flash {

void TailScan::begin(uint64_t nonce, uint64_t sequence, uint32_t segment_pages) {
  VARVE_ASSERT(nonce != 0 && segment_pages >= kSegmentPagesMin);
  nonce_ = nonce;
  sequence_ = sequence;
  segment_pages_ = segment_pages;
  want_ = 1;
  verifying_ = false;
  entries_.clear();
  used_pages_ = 1;
  torn_ = 0;
  torn_pages_ = 0;
}

void TailScan::feed(ConstByteSpan pages) {
  VARVE_ASSERT(!pages.empty() && pages.size() % kPageBytes == 0);
  uint32_t left = pages_of(pages.size());
  VARVE_ASSERT(want_ + left <= segment_pages_, want_, left);
  while (left > 0) {
    if (!verifying_) {
      const uint32_t skipped = seek(pages, want_);
      if (skipped == 0 && !verifying_) return;  // a header that the window cuts off: ask again
      pages = pages.subspan(bytes_of(skipped));
      left -= skipped;
      want_ += skipped;
      continue;
    }
    const uint32_t count = std::min(left, check_.pages_left());
    const bool good = check_.feed(pages.first(bytes_of(count)));
    pages = pages.subspan(bytes_of(count));
    left -= count;
    want_ += count;
    if (!good) return give_up();  // back to the page behind the torn header
    if (!check_.complete()) continue;
    VARVE_ASSERT(check_.pages_left() == 0);
    verifying_ = false;
    used_pages_ = want_;
    entries_.push_back(entry_of(check_.header()));
  }
}

// Pages passed over; a header found sets verifying_ and its pages count as passed.
uint32_t TailScan::seek(ConstByteSpan pages, uint32_t first) {
  const uint32_t count = pages_of(pages.size());
  for (uint32_t i = 0; i < count; ++i) {
    const ConstByteSpan rest = pages.subspan(bytes_of(i));
    const auto magic = load<uint64_t>(rest);
    if (magic != kFragmentMagic && magic != kKillMagic) continue;
    const uint32_t page = first + i;
    // Room for the footer stays, as the writer left it: sealing must not depend on what was found.
    const auto found = static_cast<uint32_t>(entries_.size());
    const uint32_t end = segment_pages_ - footer_pages_of(found + 1);
    if (page >= end || found >= kSegmentFragmentsMax) continue;
    const HeaderExpect expect = {nonce_, sequence_, page, end - page};
    if (magic == kKillMagic) {
      if (const std::optional<KillInfo> kill = read_kill_record(rest, expect)) {
        entries_.push_back(entry_of(*kill, page));
        used_pages_ = page + 1;
      }
      continue;
    }
    const auto header = load<FragmentHeader>(rest);
    if (!check_header_fields(header, expect).ok()) continue;
    if (rest.size() < bytes_of(header.header_pages)) {
      return i;  // the next window begins here
    }
    if (!check_.begin(rest, expect).ok()) continue;
    verifying_ = true;
    found_page_ = page;
    return i + header.header_pages;
  }
  return count;
}

void TailScan::give_up() {
  VARVE_ASSERT(verifying_);
  verifying_ = false;
  ++torn_;
  torn_pages_ += check_.header().pages;
  want_ = found_page_ + 1;
}

void TailScan::skip(uint32_t pages) {
  VARVE_ASSERT(pages > 0);
  const uint32_t behind = std::min(want_ + pages, segment_pages_);
  if (verifying_) {
    give_up();
    want_ = std::max(want_, behind);
    return;
  }
  want_ = behind;
}

}  // namespace varve::flash
