// The scan of a segment without a footer: which fragments in it are whole? (FORMAT 8, step 5)
//
// Pure: asks for windows of pages, is fed them, and collects the entries of fragments that verify
// whole, and of KILL records. A page that begins none is skipped alone, so a torn one hides no
// later one; what lies inside a whole fragment is never looked at, so nothing forged in KV data is
// found.
#pragma once

#include <vector>

#include "common/base/base.h"
#include "server/flash/fragment.h"
#include "server/flash/kill.h"

namespace varve::flash {

class TailScan {
 public:
  void begin(uint64_t nonce, uint64_t sequence, uint32_t segment_pages);
  bool done() const { return want_ >= segment_pages_; }
  // The page that the next window must begin at; ask again after each feed().
  uint32_t want_page() const { return want_; }
  // Pages from want_page() on. A header that they cut off is asked for again: when want_page() did
  // not move, feed kHeaderPagesMax of them.
  void feed(ConstByteSpan pages);
  // These pages cannot be read: what covers them is torn.
  void skip(uint32_t pages);

  const std::vector<CatalogEntry>& entries() const { return entries_; }
  uint32_t used_pages() const { return used_pages_; }
  uint32_t torn() const { return torn_; }
  uint64_t torn_pages() const { return torn_pages_; }  // as their headers say

 private:
  uint32_t seek(ConstByteSpan pages, uint32_t first);
  void give_up();

  uint64_t nonce_ = 0;
  uint64_t sequence_ = 0;
  uint32_t segment_pages_ = 0;
  uint32_t want_ = 0;
  uint32_t found_page_ = 0;  // of the fragment being verified
  bool verifying_ = false;
  FragmentCheck check_;
  std::vector<CatalogEntry> entries_;
  uint32_t used_pages_ = 1;
  uint32_t torn_ = 0;
  uint64_t torn_pages_ = 0;
};

}  // namespace varve::flash
