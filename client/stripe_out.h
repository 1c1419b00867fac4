// StripeOut: the parity of one stripe of one block on its way out (docs/FORMAT.md 4.4).
//
// Made from the caller's memory in rounds of one payload for each parity extent, column by column,
// each column digested while it is hot: nothing of a stripe is copied, and a stripe of any length
// takes no more scratch than one round. Owned by a push; one thread.
#pragma once

#include <optional>
#include <vector>

#include "client/layout.h"
#include "client/scratch.h"

namespace varve {

class StripeOut {
 public:
  struct Of {  // whose parity; the rank's table and the push's layout belong to it
    BlockId id;
    Attempt attempt;
    uint32_t slot = 0, stripe = 0;
    bool operator==(const Of&) const = default;
  };
  struct Piece {  // of parity extent j: bytes [offset, offset + bytes)
    uint32_t j = 0, offset = 0, bytes = 0;
    Columns* columns = nullptr;  // to be moved away by whoever sends it
  };
  // Both borrowed; `gather` has kColumnBytes for each data position.
  StripeOut(Scratch& scratch, ByteSpan gather) : scratch_(scratch), gather_(gather) {}
  ~StripeOut() { VARVE_ASSERT(table_ == nullptr); }
  StripeOut(const StripeOut&) = delete;
  StripeOut& operator=(const StripeOut&) = delete;

  bool is(const Of& of) const { return table_ != nullptr && of_ == of; }
  bool is_of(const Attempt& attempt) const { return table_ != nullptr && of_.attempt == attempt; }
  void begin(const ExtentTable& table, const BoundLayout& layout, const Of& of);
  bool under_way() const { return table_ != nullptr && !finished(); }
  bool finished() const { return offset_ == stripe().bytes; }
  // The piece to send next; made when the round before has left. None: the scratch is full.
  std::optional<Piece> piece();
  void sent();                          // that piece left, with its columns
  ExtentEntry entry(uint32_t j) const;  // right for the stripe once the last piece was made
  void drop();                          // gives back what did not leave

 private:
  const Stripe& stripe() const { return table_->stripes[of_.stripe]; }
  uint32_t parity_count() const { return table_->scheme.m; }
  bool make();
  void make_column(uint32_t column, uint32_t bytes);

  Scratch& scratch_;
  ByteSpan gather_;
  const ExtentTable* table_ = nullptr;
  const BoundLayout* layout_ = nullptr;
  Of of_;
  std::optional<Coder> coder_;
  std::vector<ExtentDigest> digests_;  // of the parity extents
  Columns columns_[kParityMax];        // of this round
  uint32_t offset_ = 0, bytes_ = 0;    // of this round; no bytes: it is not made
  uint32_t next_ = 0;                  // parity extent of this round that leaves next
};

}  // namespace varve
