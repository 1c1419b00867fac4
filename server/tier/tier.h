// tier: DRAM of one shard as pages, slabs and blocks in memory.
//
// Owns: Arena (pages, registered once), Budgets, TierBlock (one block in DRAM) and DramTier (find,
// make room, keep or free). Called by server/op. Thread rule: owner core; slab *bytes* of a granted
// push are lent to the session's core between grant and commit or abort.
// Invariants:
//   D1 nothing is allocated after construction.
//   D2 pages in all budgets together never exceed the arena (I7); each budget never exceeds its
//      limit.
//   D3 while free or evictable pages suffice, a request inside its budget never fails ("no room
//      while there is room" cannot happen: a slab is a list of pages, contiguous when possible).
//   D4 waste inside a slab is less than one page per extent: <= 6.25 % for extents of 64 KiB and
//      more.
//   D5 a pinned or dirty TierBlock is never evicted; pins are counted and owned.
//   D6 the pad between an extent's end and its last page's end is zero before a page leaves the
//      process: grant() zeroes header pages and pads, and a receiver writes inside the extent only.
//
// The life of a TierBlock: grant() (dirty, push) or open() (clean, pull); nobody gets it pinned, so
// the caller pins it at once. The last unpin() of a clean block makes it resident (findable, the
// only kind that is evicted) or frees it; a dirty block waits until its append clears `dirty` under
// its own pin. forget() ends it from any state. A block that went resident with some extents absent
// is as good as another: whoever finds it pins it and takes the missing ones.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <vector>

#include "common/base/base.h"
#include "common/metrics/metrics.h"
#include "common/model/model.h"
#include "server/flash/flash.h"

namespace varve {

// A run of linked pages. Value; 8 bytes.
struct Slab {
  uint32_t first_page = ~0u;
  uint32_t page_count = 0;
  bool empty() const { return page_count == 0; }
};
static_assert(sizeof(Slab) == 8);

class Arena {
 public:
  // `memory` is page aligned, touched and (if possible) registered by the caller; it outlives the
  // arena.
  explicit Arena(ByteSpan memory);
  uint32_t page_count() const { return page_count_; }
  uint32_t free_pages() const { return free_pages_; }
  // Contiguous when next-fit finds such a run within kRunWordsMax words of the bitmap (256 MiB that
  // are not full), else any pages. Empty when free_pages() < count.
  Slab take(uint32_t count);
  void give(Slab& slab);  // empties it
  std::byte* page(uint32_t index) const { return memory_.data() + bytes_of(index); }
  // Writes the pieces of `slab` covering bytes [offset, offset + length), coalesced; returns pieces
  // written, at most `pieces.size()` (asserts that they suffice).
  uint32_t pieces(const Slab& slab, uint64_t offset, uint64_t length,
                  std::span<iovec> pieces) const;
  uint32_t piece_count(const Slab& slab) const;
  std::byte* byte_at(const Slab& slab, uint64_t offset) const;
  ByteSpan memory() const { return memory_; }

 private:
  static constexpr uint32_t kRunWordsMax = 1024;
  uint32_t find_run(uint32_t count) const;
  uint32_t next_free(uint32_t from) const;
  uint32_t next_open_word(uint32_t word) const;
  void take_page(uint32_t page);
  ByteSpan memory_;
  uint32_t page_count_;
  uint32_t free_pages_;
  uint32_t cursor_ = 0;
  std::vector<uint64_t> used_bits_;  // bit p: page p is taken; the bits past the end are set
  std::vector<uint64_t> full_bits_;  // bit w: word w of used_bits_ is all ones
  std::vector<uint32_t> next_;       // next page of the slab
};

enum class Budget : uint8_t { kPush, kPull, kFollow, kRepair, kResident };
inline constexpr uint32_t kBudgets = 5;
const char* budget_name(Budget budget);

struct TierOptions {
  uint64_t limit_bytes[kBudgets] = {};  // each; their sum is at most the arena
  uint32_t blocks_max = 0;              // TierBlocks, dirty, reading and resident together
};

// kHeld: the read is over without its bytes, and a device still has the pages.
enum class ExtentState : uint8_t { kAbsent, kReading, kPresent, kHeld };

// Waits for an extent that somebody else is reading. Lives in its op; queued by it on the block.
struct ExtentWaiter {
  using Ready = void (*)(ExtentWaiter&, Status);
  Ready on_ready = nullptr;
  void* owner = nullptr;
  uint32_t extent = 0;
  ExtentWaiter* next = nullptr;
};

// One block (or a part of it) in DRAM. Pooled; found by the index's block slot.
struct TierBlock : ListHook {
  BlockId block;
  Attempt attempt;
  Digest fingerprint;
  static constexpr uint32_t kFewExtents = 8;
  Slab header;                     // fragment header pages
  Slab spare_headers;              // of a grant: as many again for each other fragment
  Slab few[kFewExtents];           // the extents' slabs, see DramTier::extent()
  Slab meta;                       // one page for them where they are more than a few
  std::vector<ExtentState> state;  // capacity kExtentsMax from construction (D1)
  std::vector<uint16_t> users;     // per extent: sends that need its bytes; counted by server/op
  uint32_t extent_count = 0;       // of the whole table: data, then parity
  uint32_t data_count = 0;         // of these, data
  uint32_t present_count = 0, data_present_count = 0;
  uint32_t pins = 0;        // readers, appends
  uint16_t lent = 0;        // appends that are over and whose pages a device still reads
  uint16_t held_count = 0;  // extents that are kHeld
  bool header_present = false;
  bool dirty = false;   // not yet on flash
  bool doomed = false;  // freed when the last pin goes
  bool purged = false;  // and nothing of it is sent any more
  Budget budget = Budget::kPull;
  uint32_t charged_pages = 0;  // to `budget`
  uint32_t extra_pages = 0;    // to kPull: so many were taken while the block was resident
  uint32_t slot = ~0u;         // block slot in the index, ~0 when none
  uint32_t lead_extent = ~0u;  // read with the header, ~0 when only the header is; of server/op
  uint32_t pool_index = ~0u;   // of the tier's pool
  Queue<ExtentWaiter, &ExtentWaiter::next> waiters;

  bool whole() const { return data_present_count == data_count; }
};

inline constexpr uint32_t kTierMapBytesPerBlock = 6;  // counted by the index (its IndexBytes)

class DramTier {
 public:
  static constexpr const char* kEviction = "lru";  // the name of what evict_oldest() does
  DramTier(Arena& arena, const TierOptions& options);
  // What a grant of such a block charges: all its extents, parity included, a header for each
  // fragment and its list of slabs.
  static uint32_t pages_of_block(const ExtentTable& table);

  // A block with all its pages (headers, extents) reserved and taken at once: a grant. Dirty, every
  // extent kReading (its bytes are on their way). Null: no room in the budget, or every TierBlock
  // is pinned or dirty (counted as refused).
  TierBlock* grant(const BlockId& block, const Attempt& attempt, const ExtentTable& table,
                   Budget budget);
  // An empty block for reading: one header only; extents come one by one. Null as above.
  TierBlock* open(const BlockId& block, uint32_t slot, uint32_t extent_count, uint32_t data_count,
                  Budget budget);
  // Pages for one absent extent of a pinned, open block; it is kReading from here on. Those of a
  // resident block count as kPull until its last unpin. False: no room now.
  [[nodiscard]] bool take_extent(TierBlock& block, uint32_t extent, uint32_t bytes);
  // Lets the bytes of a present extent without users go, of a clean block that is not lent, pinned
  // or not: how a pull larger than DRAM keeps its headers and streams the rest.
  void drop_extent(TierBlock& block, uint32_t extent);
  // The appends of a granted block are over and it is not lent: spare headers and parity without
  // users go back, and the rest is charged to kResident from here on, where that has room, though
  // it is pinned: who reads it, for however long, holds up no push. Clean, pinned.
  void settle_written(TierBlock& block);
  Slab& extent(TierBlock& block, uint32_t extent);
  // For whom the bytes of a granted block are lent to (server/session).
  const Slab& extent(const TierBlock& block, uint32_t extent) const {
    return const_cast<DramTier*>(this)->extent(const_cast<TierBlock&>(block), extent);
  }

  TierBlock* find(uint32_t slot);  // by index slot; null when not in DRAM; counts a hit or a miss
  const TierBlock* peek(uint32_t slot) const;  // the same, counting nothing (I5): for a lookup,
  TierBlock* peek(uint32_t slot);              // or for whoever does not want its bytes
  void bind(TierBlock& block, uint32_t slot);  // after publish
  void pin(TierBlock& block);
  // Last pin gone: becomes resident (clean) if the resident budget can take it, evicting older
  // ones, else freed.
  void unpin(TierBlock& block);
  // Aborted, evicted or lost: unbound now, freed now (not pinned) or by the last unpin.
  void forget(TierBlock& block);

  // Ends kReading: kPresent on ok, kAbsent (pages freed) otherwise; wakes the waiters of `extent`
  // with `status`. They may not touch the tier from inside on_ready.
  void extent_read(TierBlock& block, uint32_t extent, Status status);
  // The device will not give a read back: kReading becomes kHeld, and the waiters are woken with
  // `status`. extent_read() ends it when the pages come back, which may be never.
  void extent_held(TierBlock& block, uint32_t extent, Status status);

  // Pages without a block, for who keeps them itself (repair). Empty: no room, counted as refused.
  Slab take_slab(uint32_t pages, Budget budget);
  void give_slab(Slab& slab, Budget budget);  // empties it
  // What one budget may hold less another may hold more: what `from` does not use, and of kResident
  // what is evicted for it. False: it uses too much, and nothing changes.
  [[nodiscard]] bool shift_limit(Budget from, Budget to, uint32_t pages);
  // Only wakes them: they need not wait for this read any longer.
  static void wake(TierBlock& block, uint32_t extent, Status status);

  uint64_t used_bytes(Budget budget) const;
  uint64_t limit_bytes(Budget budget) const;
  const DomainSums& resident_pages() const { return resident_pages_; }  // of kResident
  uint64_t evictable_bytes() const;
  Arena& arena() { return arena_; }
  const Arena& arena() const { return arena_; }
  void register_metrics(MetricSet& metrics);
  bool at_rest() const;  // nothing pinned, dirty or reading: for leak checks (I6)

 private:
  bool make_room(uint32_t pages, Budget budget);
  TierBlock* take_block(uint32_t pages, Budget budget);
  void charge(Budget budget, uint32_t pages);
  void discharge(Budget budget, uint32_t pages);
  void settle(TierBlock& block);
  bool charge_resident(TierBlock& block);
  void discharge_own(const TierBlock& block, uint32_t pages);
  void evict_oldest();
  void free_block(TierBlock& block);
  void take_overhead(TierBlock& block);
  void give_extent(TierBlock& block, uint32_t extent);
  void give_pages(TierBlock& block, Slab& slab);
  void zero(const Slab& slab);
  uint32_t map_home(uint32_t slot) const;
  uint32_t map_find(uint32_t slot) const;
  void map_erase(uint32_t slot);
  Arena& arena_;
  uint32_t limit_pages_[kBudgets] = {};
  Pool<TierBlock> pool_;
  List<TierBlock> resident_;             // unpinned, clean, findable; front = oldest
  std::vector<uint32_t> slot_to_block_;  // open addressing by slot: pool index
  uint64_t used_pages_[kBudgets] = {};
  DomainSums resident_pages_;
  uint64_t evictable_pages_ = 0;
  Gauge used_gauges_[kBudgets], limit_gauges_[kBudgets], blocks_gauge_;
  Counter refused_[kBudgets], evictions_, hits_, misses_;
};

}  // namespace varve
