// StripeIn: one stripe of one block of which a pull does not get everything it asked for, until
// that is rebuilt (docs/FORMAT.md 4.4).
//
// Pure bookkeeping and coding: for each position where its bytes are (nowhere: zeros; in the
// caller's memory, as the pull sees it; in scratch, asked for; gone) and what is owed. Scratch is
// lent by whoever funds it: enough at once for all it can ever need. Owned by Rebuild; one thread.
// Invariants:
//   D1 only verified bytes are sources, and what was rebuilt counts only when both checksums of
//      its row hold (I1).
//   D2 at most m extents are owed, at most k are sources: it never needs more scratch than it was
//      lent, so no stripe waits with a part of what it needs.
//   D3 what the daemon says is lost may only be slow, and be given by the next look: as long as it
//      gives k of the block, a stripe is given up after kLooksMax looks at all of it.
#pragma once

#include <array>
#include <vector>

#include "client/layout.h"
#include "client/scratch.h"

namespace varve {

class StripeIn {
 public:
  struct Of {
    BlockId id;
    Attempt attempt;
    uint32_t block = 0;  // of the pull
    uint32_t slot = 0;   // of its layout
    uint32_t stripe = 0;
    Positions whole = 0;  // members that come to the caller's memory with all their bytes
  };
  struct Sight {  // of those
    Positions here = 0, coming = 0, late = 0;
  };
  enum class Why : uint8_t { kLost, kLate };
  enum class Fence : uint8_t { kOpen, kAsked, kHeld };
  struct Owed {
    uint32_t extent = kNone;
    Why why = Why::kLost;
    Fence fence = Fence::kOpen;  // of a late one; held: nothing more of it is sent
    bool begun = false;          // a late one: it was paid for
    bool rebuilt = false;
    ExtentEntry entry;
  };
  struct Source {
    enum class State : uint8_t { kFree, kWanted, kAsked, kHere };
    State state = State::kFree;
    bool receiving = false;  // lent to a lane
    uint32_t extent = kNone;
    uint32_t received = 0;
    uint32_t crc = 0;
    uint64_t ask = 0;  // the PULL that asks for it
  };
  static constexpr uint32_t kNone = ~0u;
  static constexpr uint32_t kLooksMax = 16;  // where nothing comes, a second: of a retry's pauses

  StripeIn(const ExtentTable& table, const Of& of);
  const Of& of() const { return of_; }
  const Stripe& stripe() const { return table_->stripes[of_.stripe]; }

  // What is owed: m at most, and a hedge gives way to a loss. kFull: all m are losses, or it is a
  // hedge; kWait: one is rebuilt, and a source once it is delivered.
  enum class Owe : uint8_t { kTaken, kFull, kWait };
  Owe owe(uint32_t extent, Why why, const ExtentEntry& entry);
  Owed* find_owed(uint32_t extent);
  std::array<Owed, kParityMax>& owed() { return owed_; }  // those with an extent
  bool owes(Why why) const;
  bool owes() const { return owes(Why::kLost) || owes(Why::kLate); }

  // Scratch: filled by who funds it, given back when quiet.
  uint32_t columns_needed() const { return (sources_max() + table_->scheme.m) * columns_each(); }
  Columns& columns() { return columns_; }
  bool quiet() const;  // nothing is asked for or lent to a lane

  // Sources. `missing`: to k, besides what is here or coming; `idle`: could be asked for.
  uint32_t missing(const Sight& sight) const;
  Positions idle(const Sight& sight) const;
  uint32_t free_sources() const;  // that could be asked for now: no lane writes into their memory
  // Marks up to `count` of the idle as wanted, data before parity; adds their extents to `out`.
  void want(const Sight& sight, uint32_t count, std::vector<uint32_t>& out);
  std::vector<Source>& sources() { return sources_; }
  const std::vector<Source>& sources() const { return sources_; }
  Source* find_source(uint32_t extent);
  void lose(Source& source);  // it will not come, not before another look
  void lose_for_good(Source& source);
  // All that was lost is asked for once more, what is owed too. False: enough of that.
  bool look_again();
  void forget(Source& source);  // it may be asked for again
  // The one whose memory a lane was lent.
  Source* find_lent(const Placement& where);
  // Where [source.received, + bytes) goes.
  void place(Source& source, uint32_t bytes, Placement& where);
  // It is there; true: the source is whole and verified. One that does not verify is lost.
  bool received(Source& source, const Placement& where, uint32_t stored_crc);

  // Rebuilds what is owed: kUnavailable when k are not here yet, kCorrupt when it does not verify.
  bool ready(const Sight& sight) const;
  Status rebuild(const Sight& sight, const BoundLayout& layout, ByteSpan gather);
  std::span<std::byte* const> outcome(const Owed& owed) const;

 private:
  uint32_t sources_max() const { return static_cast<uint32_t>(sources_.size()); }
  uint32_t columns_each() const { return columns_of(stripe().bytes); }
  uint32_t extent_at(uint32_t position) const;
  uint32_t position_of(uint32_t extent) const;
  Positions here(const Sight& sight) const;
  Positions coming(const Sight& sight) const;
  Positions owed_positions() const;
  void settle(Source& source, Owed& owed, uint32_t stored_crc);
  void settle_if_here(Owed& owed);
  ConstByteSpan source_bytes(uint32_t position, uint32_t offset, const BoundLayout& layout,
                             ByteSpan gather) const;

  const ExtentTable* table_;
  Of of_;
  std::array<Owed, kParityMax> owed_;
  std::vector<Source> sources_;
  Positions gone_ = 0;  // asked for in vain, in this look
  uint32_t looks_ = 0;  // after the first
  bool for_good_ = false;
  Columns columns_;  // of the sources, then of what is owed
};

}  // namespace varve
