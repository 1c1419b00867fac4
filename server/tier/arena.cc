// Pages of the arena: a bitmap of taken pages, a second level that skips full words, and one link
// per page that makes a slab out of any pages.
//
// Contiguous runs are worth having (one I/O vector, one registered-buffer request) but never a
// condition: when no run is found nearby, the next free pages in address order do (D3). Sweeping up
// the dust in order beats assembling a slab from the longest runs left: 15 against 60 pieces a slab
// in a full 1 GiB arena with slabs of 17 to 257 pages.
#include <algorithm>
#include <bit>

#include "server/tier/tier.h"

namespace varve {

namespace {

constexpr uint32_t kNone = ~0u;
constexpr uint32_t kWordBits = 64;

constexpr uint32_t words_of(uint32_t bits) {
  return (bits + kWordBits - 1) / kWordBits;
}
constexpr uint64_t bit_of(uint32_t index) {
  return uint64_t{1} << (index % kWordBits);
}
// All bits at and above `index` in its word.
constexpr uint64_t bits_from(uint32_t index) {
  return ~uint64_t{0} << (index % kWordBits);
}

// Pages 0 .. count - 1 free, the rest of the last word taken.
void mark_tail(std::vector<uint64_t>* bits, uint32_t count) {
  if (count % kWordBits != 0) bits->back() = bits_from(count);
}

}  // namespace

Arena::Arena(ByteSpan memory)
    : memory_(memory),
      page_count_(pages_of(memory.size())),
      free_pages_(page_count_),
      used_bits_(words_of(page_count_)),
      full_bits_(words_of(static_cast<uint32_t>(used_bits_.size()))),
      next_(page_count_, kNone) {
  VARVE_ASSERT(!memory.empty());
  VARVE_ASSERT(memory.size() % kPageBytes == 0, memory.size());
  VARVE_ASSERT(reinterpret_cast<uintptr_t>(memory.data()) % kPageBytes == 0);
  VARVE_ASSERT(memory.size() / kPageBytes < kNone, memory.size());
  mark_tail(&used_bits_, page_count_);
  mark_tail(&full_bits_, static_cast<uint32_t>(used_bits_.size()));
}

// First word at or after `word` with a free page; the word count when there is none.
uint32_t Arena::next_open_word(uint32_t word) const {
  const auto words = static_cast<uint32_t>(used_bits_.size());
  if (word >= words) return words;
  uint64_t open = ~full_bits_[word / kWordBits] & bits_from(word);
  for (uint32_t i = word / kWordBits;;) {
    if (open != 0) return i * kWordBits + static_cast<uint32_t>(std::countr_zero(open));
    if (++i == full_bits_.size()) return words;
    open = ~full_bits_[i];
  }
}

// First free page at or after `from`; kNone when there is none up to the end.
uint32_t Arena::next_free(uint32_t from) const {
  if (from >= page_count_) return kNone;
  const uint64_t here = ~used_bits_[from / kWordBits] & bits_from(from);
  if (here != 0)
    return from / kWordBits * kWordBits + static_cast<uint32_t>(std::countr_zero(here));
  const uint32_t word = next_open_word(from / kWordBits + 1);
  if (word == used_bits_.size()) return kNone;
  return word * kWordBits + static_cast<uint32_t>(std::countr_zero(~used_bits_[word]));
}

// Start of `count` free pages in a row at or after the cursor, then from the beginning; kNone when
// none shows up within kRunWordsMax words that have a free page.
uint32_t Arena::find_run(uint32_t count) const {
  uint32_t words_left = kRunWordsMax;
  for (const uint32_t begin : {cursor_, 0u}) {
    uint32_t start = next_free(begin);
    while (start != kNone && page_count_ - start >= count) {
      // Walk to the end of this run, a word at a time.
      uint32_t end = start;
      while (end - start < count) {
        const uint64_t taken = used_bits_[end / kWordBits] & bits_from(end);
        if (taken != 0) {
          end = end / kWordBits * kWordBits + static_cast<uint32_t>(std::countr_zero(taken));
          break;
        }
        end = (end / kWordBits + 1) * kWordBits;
      }
      if (end - start >= count) return start;
      const uint32_t words = (end - start) / kWordBits + 1;
      if (words >= words_left) return kNone;
      words_left -= words;
      start = next_free(end);
    }
    if (cursor_ == 0) break;
  }
  return kNone;
}

void Arena::take_page(uint32_t page) {
  uint64_t& word = used_bits_[page / kWordBits];
  VARVE_ASSERT((word & bit_of(page)) == 0, page);
  word |= bit_of(page);
  if (word == ~uint64_t{0}) full_bits_[page / kWordBits / kWordBits] |= bit_of(page / kWordBits);
}

Slab Arena::take(uint32_t count) {
  VARVE_ASSERT(count > 0);
  if (count > free_pages_) return {};
  const uint32_t run = find_run(count);
  uint32_t page = run;
  if (run == kNone) {
    page = next_free(cursor_);
    if (page == kNone) page = next_free(0);
  }
  const Slab slab{.first_page = page, .page_count = count};
  for (uint32_t left = count;;) {
    VARVE_ASSERT(page < page_count_, page, left);
    take_page(page);
    if (--left == 0) break;
    uint32_t following = run != kNone ? page + 1 : next_free(page + 1);
    if (following == kNone) following = next_free(0);
    next_[page] = following;
    page = following;
  }
  next_[page] = kNone;
  free_pages_ -= count;
  cursor_ = page + 1 == page_count_ ? 0 : page + 1;
  return slab;
}

void Arena::give(Slab& slab) {
  VARVE_ASSERT(!slab.empty());
  uint32_t page = slab.first_page;
  for (uint32_t i = 0; i < slab.page_count; ++i) {
    VARVE_ASSERT(page < page_count_, page, i);
    uint64_t& word = used_bits_[page / kWordBits];
    VARVE_ASSERT((word & bit_of(page)) != 0, page);
    word &= ~bit_of(page);
    full_bits_[page / kWordBits / kWordBits] &= ~bit_of(page / kWordBits);
    const uint32_t following = next_[page];
    next_[page] = kNone;
    page = following;
  }
  VARVE_ASSERT(page == kNone, page);
  free_pages_ += slab.page_count;
  slab = Slab{};
}

uint32_t Arena::pieces(const Slab& slab, uint64_t offset, uint64_t length,
                       std::span<iovec> out) const {
  VARVE_ASSERT(offset <= bytes_of(slab.page_count), offset, slab.page_count);
  VARVE_ASSERT(length <= bytes_of(slab.page_count) - offset, offset, length, slab.page_count);
  if (length == 0) return 0;
  uint32_t page_index = slab.first_page;
  for (uint64_t skip = offset / kPageBytes; skip > 0; --skip)
    page_index = next_[page_index];
  uint64_t inside = offset % kPageBytes;
  uint32_t count = 0;
  std::byte* end = nullptr;  // of the last piece
  while (length > 0) {
    std::byte* from = page(page_index) + inside;
    const uint64_t bytes = std::min<uint64_t>(length, kPageBytes - inside);
    if (from == end) {
      out[count - 1].iov_len += bytes;
    } else {
      VARVE_ASSERT(count < out.size(), count, out.size());
      out[count++] = {.iov_base = from, .iov_len = bytes};
    }
    end = from + bytes;
    length -= bytes;
    inside = 0;
    page_index = next_[page_index];
  }
  return count;
}

uint32_t Arena::piece_count(const Slab& slab) const {
  uint32_t count = 0;
  uint32_t expected = kNone;
  uint32_t page_index = slab.first_page;
  for (uint32_t i = 0; i < slab.page_count; ++i) {
    if (page_index != expected) ++count;
    expected = page_index + 1;
    page_index = next_[page_index];
  }
  return count;
}

std::byte* Arena::byte_at(const Slab& slab, uint64_t offset) const {
  VARVE_ASSERT(offset < bytes_of(slab.page_count), offset, slab.page_count);
  uint32_t page_index = slab.first_page;
  for (uint64_t skip = offset / kPageBytes; skip > 0; --skip)
    page_index = next_[page_index];
  return page(page_index) + offset % kPageBytes;
}

}  // namespace varve
