// Budgets and blocks in DRAM: what a grant or a read may take, and what stays when it is done.
//
// Every page is charged to exactly one budget from the moment it is taken to the moment it is given
// back. Blocks at work are charged to their own budget (push, pull, follow, repair); clean blocks
// that nobody uses, and those just written that readers hold, are charged to kResident; the former
// wait in one list for the next reader or the next eviction. Only that list is ever evicted from,
// so D5 holds by construction.
#include <algorithm>
#include <cstring>
#include <memory>

#include "server/tier/tier.h"

namespace varve {

namespace {

constexpr uint32_t kNone = ~0u;
static_assert(kExtentsMax * sizeof(Slab) <= kPageBytes);
constexpr uint32_t kHeaderRunsMax = flash::kHeaderPagesMax * kWidthMax;

constexpr uint32_t index_of(Budget budget) {
  return static_cast<uint32_t>(budget);
}

uint32_t map_buckets(uint32_t blocks_max) {
  return static_cast<uint32_t>(static_cast<uint64_t>(blocks_max) * 3 / 2 + 1);
}
static_assert(sizeof(uint32_t) * 3 / 2 == kTierMapBytesPerBlock);

// Pages of an open block beside its extents: one header and, for many extents, their slabs.
uint32_t overhead_pages(uint32_t extent_count) {
  VARVE_ASSERT(extent_count > 0);
  VARVE_ASSERT(extent_count <= kExtentsMax, extent_count);
  return flash::header_pages_of(extent_count) + (extent_count > TierBlock::kFewExtents ? 1 : 0);
}

// Of a grant beside those: every fragment is appended with a header of its own.
uint32_t spare_header_pages(const ExtentTable& table) {
  return flash::header_pages_of(table.count()) * (table.scheme.width() - 1);
}

}  // namespace

const char* budget_name(Budget budget) {
  static constexpr const char* kNames[kBudgets] = {"push", "pull", "follow", "repair", "resident"};
  VARVE_ASSERT(index_of(budget) < kBudgets, index_of(budget));
  return kNames[index_of(budget)];
}

DramTier::DramTier(Arena& arena, const TierOptions& options)
    : arena_(arena),
      pool_(options.blocks_max),
      slot_to_block_(map_buckets(options.blocks_max), kNone) {
  VARVE_ASSERT(options.blocks_max > 0);
  uint64_t sum = 0;
  for (uint32_t b = 0; b < kBudgets; ++b) {
    VARVE_ASSERT(options.limit_bytes[b] <= arena.memory().size(), b, options.limit_bytes[b]);
    limit_pages_[b] = static_cast<uint32_t>(options.limit_bytes[b] / kPageBytes);
    sum += limit_pages_[b];
  }
  VARVE_ASSERT(sum <= arena.page_count(), sum, arena.page_count());  // D2
  for (uint32_t i = 0; i < pool_.capacity(); ++i) {
    TierBlock& block = *pool_.all()[i];
    block.pool_index = i;
    block.state.reserve(kExtentsMax);  // D1
    block.users.reserve(kExtentsMax);
  }
}

uint32_t DramTier::pages_of_block(const ExtentTable& table) {
  const uint32_t extent_count = table.count();
  uint32_t pages = overhead_pages(extent_count) + spare_header_pages(table);
  for (uint32_t e = 0; e < extent_count; ++e)
    pages += pages_of(table.bytes_at(e));
  return pages;
}

TierBlock* DramTier::grant(const BlockId& id, const Attempt& attempt, const ExtentTable& table,
                           Budget budget) {
  const uint32_t extent_count = table.count();
  TierBlock* block = take_block(pages_of_block(table), budget);
  if (block == nullptr) return nullptr;
  block->block = id;
  block->attempt = attempt;
  block->dirty = true;
  block->extent_count = extent_count;
  block->data_count = table.data_count();
  block->state.assign(extent_count, ExtentState::kReading);
  block->users.assign(extent_count, 0);
  take_overhead(*block);
  zero(block->header);
  if (const uint32_t spare = spare_header_pages(table); spare > 0) {
    block->spare_headers = arena_.take(spare);
    zero(block->spare_headers);
  }
  for (uint32_t e = 0; e < extent_count; ++e) {
    const uint32_t bytes = table.bytes_at(e);
    VARVE_ASSERT(bytes > 0);
    const Slab slab = arena_.take(pages_of(bytes));
    VARVE_ASSERT(!slab.empty());  // D3
    extent(*block, e) = slab;
    const uint32_t pad = static_cast<uint32_t>(bytes_of(slab.page_count)) - bytes;
    if (pad != 0) std::memset(arena_.byte_at(slab, bytes), 0, pad);  // D6
  }
  return block;
}

TierBlock* DramTier::open(const BlockId& id, uint32_t slot, uint32_t extent_count,
                          uint32_t data_count, Budget budget) {
  VARVE_ASSERT(slot != kNone);
  VARVE_ASSERT(data_count > 0);
  VARVE_ASSERT(data_count <= extent_count, data_count, extent_count);
  TierBlock* block = take_block(overhead_pages(extent_count), budget);
  if (block == nullptr) return nullptr;
  block->block = id;
  block->extent_count = extent_count;
  block->data_count = data_count;
  block->state.assign(extent_count, ExtentState::kAbsent);
  block->users.assign(extent_count, 0);
  take_overhead(*block);
  bind(*block, slot);
  return block;
}

bool DramTier::take_extent(TierBlock& block, uint32_t e, uint32_t bytes) {
  VARVE_ASSERT(block.pins > 0);
  VARVE_ASSERT(!block.dirty);
  VARVE_ASSERT(bytes > 0);
  VARVE_ASSERT(bytes <= kExtentBytesMax, bytes);
  VARVE_ASSERT(e < block.extent_count, e, block.extent_count);
  VARVE_ASSERT(block.state[e] == ExtentState::kAbsent, e);
  const uint32_t pages = pages_of(bytes);
  const bool resident = block.budget == Budget::kResident;
  const Budget budget = resident ? Budget::kPull : block.budget;
  if (!make_room(pages, budget)) return false;
  extent(block, e) = arena_.take(pages);
  VARVE_ASSERT(!extent(block, e).empty());  // D3
  charge(budget, pages);
  (resident ? block.extra_pages : block.charged_pages) += pages;
  block.state[e] = ExtentState::kReading;
  return true;
}

void DramTier::drop_extent(TierBlock& block, uint32_t e) {
  VARVE_ASSERT(e < block.extent_count, e, block.extent_count);
  VARVE_ASSERT(!block.dirty && block.lent == 0, block.lent);
  VARVE_ASSERT(block.users[e] == 0, e, block.users[e]);
  VARVE_ASSERT(block.state[e] == ExtentState::kPresent, e);
  if (block.linked()) evictable_pages_ -= extent(block, e).page_count;
  --block.present_count;
  if (e < block.data_count) --block.data_present_count;
  give_extent(block, e);
}

void DramTier::settle_written(TierBlock& block) {
  VARVE_ASSERT(block.pins > 0);
  VARVE_ASSERT(!block.dirty && block.lent == 0, block.lent);
  if (!block.spare_headers.empty()) give_pages(block, block.spare_headers);
  for (uint32_t e = block.data_count; e < block.extent_count; ++e) {
    if (block.state[e] == ExtentState::kPresent && block.users[e] == 0) drop_extent(block, e);
  }
  if (block.budget == Budget::kPush && !block.doomed) charge_resident(block);
}

Slab& DramTier::extent(TierBlock& block, uint32_t e) {
  VARVE_ASSERT(e < block.extent_count, e, block.extent_count);
  if (block.meta.empty()) return block.few[e];
  return reinterpret_cast<Slab*>(arena_.page(block.meta.first_page))[e];
}

TierBlock* DramTier::find(uint32_t slot) {
  const uint32_t bucket = map_find(slot);
  if (bucket == kNone) {
    misses_.add();
    return nullptr;
  }
  hits_.add();
  return pool_.all()[slot_to_block_[bucket]].get();
}

const TierBlock* DramTier::peek(uint32_t slot) const {
  return const_cast<DramTier*>(this)->peek(slot);
}

TierBlock* DramTier::peek(uint32_t slot) {
  const uint32_t bucket = map_find(slot);
  return bucket == kNone ? nullptr : pool_.all()[slot_to_block_[bucket]].get();
}

void DramTier::bind(TierBlock& block, uint32_t slot) {
  VARVE_ASSERT(slot != kNone);
  VARVE_ASSERT(block.slot == kNone, block.slot, slot);
  VARVE_ASSERT(!block.doomed);
  VARVE_ASSERT(map_find(slot) == kNone, slot);  // whoever frees an index slot forgets its block
  uint32_t bucket = map_home(slot);
  while (slot_to_block_[bucket] != kNone) {
    bucket = bucket + 1 == slot_to_block_.size() ? 0 : bucket + 1;
  }
  slot_to_block_[bucket] = block.pool_index;
  block.slot = slot;
  blocks_gauge_.add(1);
}

void DramTier::pin(TierBlock& block) {
  if (block.linked()) {
    resident_.remove(&block);
    evictable_pages_ -= block.charged_pages;
  }
  ++block.pins;
}

void DramTier::unpin(TierBlock& block) {
  VARVE_ASSERT(block.pins > 0);
  if (--block.pins > 0) return;
  if (block.doomed) return free_block(block);
  if (!block.dirty) settle(block);
}

void DramTier::forget(TierBlock& block) {
  VARVE_ASSERT(!block.doomed);
  if (block.linked()) {
    resident_.remove(&block);
    evictable_pages_ -= block.charged_pages;
  }
  if (block.slot != kNone) map_erase(block.slot);
  block.slot = kNone;
  block.doomed = true;
  if (block.pins == 0) free_block(block);
}

void DramTier::extent_read(TierBlock& block, uint32_t e, Status status) {
  VARVE_ASSERT(e < block.extent_count, e, block.extent_count);
  const bool held = block.state[e] == ExtentState::kHeld;
  VARVE_ASSERT(block.state[e] == ExtentState::kReading || (held && !status.ok()), e);
  if (status.ok()) {
    block.state[e] = ExtentState::kPresent;
    ++block.present_count;
    if (e < block.data_count) ++block.data_present_count;
  } else {
    VARVE_ASSERT(!block.dirty);  // pages of a push are lent: only forget() gives them back
    if (held) --block.held_count;
    give_extent(block, e);
  }
  wake(block, e, status);
}

void DramTier::extent_held(TierBlock& block, uint32_t e, Status status) {
  VARVE_ASSERT(e < block.extent_count, e, block.extent_count);
  VARVE_ASSERT(block.state[e] == ExtentState::kReading && block.pins > 0, e);
  VARVE_ASSERT(!status.ok());
  block.state[e] = ExtentState::kHeld;
  ++block.held_count;
  wake(block, e, status);
}

// Sorts the waiters first: on_ready may queue its op's next waiter on this block.
void DramTier::wake(TierBlock& block, uint32_t e, Status status) {
  Queue<ExtentWaiter, &ExtentWaiter::next> woken, waiting;
  while (ExtentWaiter* w = block.waiters.pop())
    (w->extent == e ? woken : waiting).push(w);
  block.waiters.append(waiting);
  while (ExtentWaiter* w = woken.pop())
    w->on_ready(*w, status);
}

Slab DramTier::take_slab(uint32_t pages, Budget budget) {
  VARVE_ASSERT(budget != Budget::kResident);
  VARVE_ASSERT(pages > 0);
  if (!make_room(pages, budget)) {
    refused_[index_of(budget)].add();
    return {};
  }
  const Slab slab = arena_.take(pages);
  VARVE_ASSERT(!slab.empty());  // D3
  charge(budget, pages);
  return slab;
}

void DramTier::give_slab(Slab& slab, Budget budget) {
  VARVE_ASSERT(!slab.empty());
  discharge(budget, slab.page_count);
  arena_.give(slab);
}

bool DramTier::shift_limit(Budget from, Budget to, uint32_t pages) {
  VARVE_ASSERT(from != to && pages > 0, pages);
  const uint32_t f = index_of(from), t = index_of(to);
  const uint64_t fixed = used_pages_[f] - (from == Budget::kResident ? evictable_pages_ : 0);
  VARVE_ASSERT(fixed <= limit_pages_[f], fixed, limit_pages_[f]);
  if (pages > limit_pages_[f] - fixed) return false;
  limit_pages_[f] -= pages;
  limit_pages_[t] += pages;
  while (used_pages_[f] > limit_pages_[f])
    evict_oldest();
  for (const uint32_t b : {f, t})
    limit_gauges_[b].set(static_cast<int64_t>(bytes_of(limit_pages_[b])));
  return true;
}

uint64_t DramTier::used_bytes(Budget budget) const {
  return bytes_of(used_pages_[index_of(budget)]);
}
uint64_t DramTier::limit_bytes(Budget budget) const {
  return bytes_of(limit_pages_[index_of(budget)]);
}
uint64_t DramTier::evictable_bytes() const {
  return bytes_of(evictable_pages_);
}

bool DramTier::at_rest() const {
  return pool_.used() == resident_.size();
}

void DramTier::register_metrics(MetricSet& metrics) {
  for (uint32_t b = 0; b < kBudgets; ++b) {
    const std::string labels =
        std::string("budget=\"") + budget_name(static_cast<Budget>(b)) + "\"";
    metrics.add({"varve_tier_used_bytes", labels, "DRAM pages charged to this budget"},
                &used_gauges_[b]);
    limit_gauges_[b].set(static_cast<int64_t>(bytes_of(limit_pages_[b])));
    metrics.add({"varve_tier_limit_bytes", labels, "What this budget may hold"}, &limit_gauges_[b]);
    metrics.add({"varve_tier_refused_total", labels, "Grants and reads that found no room"},
                &refused_[b]);
  }
  metrics.add({"varve_tier_blocks", "", "Blocks of which DRAM has something, in use or not"},
              &blocks_gauge_);
  metrics.add({"varve_tier_evictions_total", "", "Resident blocks dropped from DRAM for room"},
              &evictions_);
  metrics.add({"varve_tier_hits_total", "", "Blocks found in DRAM"}, &hits_);
  metrics.add({"varve_tier_misses_total", "", "Blocks not found in DRAM"}, &misses_);
}

// A TierBlock with `pages` charged to `budget`; the pages are there to be taken. Null: refused.
TierBlock* DramTier::take_block(uint32_t pages, Budget budget) {
  VARVE_ASSERT(budget != Budget::kResident);
  const bool fits = make_room(pages, budget);
  if (fits && pool_.available() == 0 && !resident_.empty()) evict_oldest();
  TierBlock* block = fits ? pool_.take() : nullptr;
  if (block == nullptr) {
    refused_[index_of(budget)].add();
    return nullptr;
  }
  VARVE_ASSERT(block->charged_pages == 0);
  VARVE_ASSERT(block->pins == 0);
  VARVE_ASSERT(!block->linked());
  block->budget = budget;
  block->charged_pages = pages;
  charge(budget, pages);
  return block;
}

// The pages charged by take_block() for overhead_pages(), with every extent's slab empty.
void DramTier::take_overhead(TierBlock& block) {
  block.header = arena_.take(flash::header_pages_of(block.extent_count));
  VARVE_ASSERT(!block.header.empty());  // D3: make_room() saw the pages
  if (block.extent_count <= TierBlock::kFewExtents) return;
  block.meta = arena_.take(1);
  VARVE_ASSERT(!block.meta.empty());  // D3
  auto* slabs = reinterpret_cast<Slab*>(arena_.page(block.meta.first_page));
  std::uninitialized_default_construct_n(slabs, kExtentsMax);
}

// Headers only: so many pages that their pieces fit on the stack.
void DramTier::zero(const Slab& slab) {
  VARVE_ASSERT(!slab.empty());  // D3
  iovec runs[kHeaderRunsMax];
  const uint32_t count = arena_.pieces(slab, 0, bytes_of(slab.page_count), runs);
  for (uint32_t i = 0; i < count; ++i)
    std::memset(runs[i].iov_base, 0, runs[i].iov_len);
}

// True when `budget` has room for `pages` and they are free, after evicting the oldest resident
// blocks if need be. Evicts nothing when that would not be enough.
bool DramTier::make_room(uint32_t pages, Budget budget) {
  const uint32_t b = index_of(budget);
  VARVE_ASSERT(used_pages_[b] <= limit_pages_[b], b, used_pages_[b], limit_pages_[b]);
  if (pages > limit_pages_[b] - used_pages_[b]) return false;
  if (pages > arena_.free_pages() + evictable_pages_) return false;
  while (arena_.free_pages() < pages)
    evict_oldest();
  return true;
}

void DramTier::charge(Budget budget, uint32_t pages) {
  const uint32_t b = index_of(budget);
  used_pages_[b] += pages;
  VARVE_ASSERT(used_pages_[b] <= limit_pages_[b], b, used_pages_[b], limit_pages_[b]);  // D2
  used_gauges_[b].set(static_cast<int64_t>(bytes_of(used_pages_[b])));
}

void DramTier::discharge(Budget budget, uint32_t pages) {
  const uint32_t b = index_of(budget);
  VARVE_ASSERT(used_pages_[b] >= pages, b, used_pages_[b], pages);
  used_pages_[b] -= pages;
  used_gauges_[b].set(static_cast<int64_t>(bytes_of(used_pages_[b])));
}

void DramTier::discharge_own(const TierBlock& block, uint32_t pages) {
  discharge(block.budget, pages);
  if (block.budget == Budget::kResident) resident_pages_.take(block.block.domain, pages);
}

// A clean block lost its last pin: all its pages become resident, or it goes.
void DramTier::settle(TierBlock& block) {
  VARVE_ASSERT(!block.dirty);
  VARVE_ASSERT(block.pins == 0);
  VARVE_DASSERT(std::count(block.state.begin(), block.state.end(), ExtentState::kReading) == 0);
  VARVE_ASSERT(block.held_count == 0 && block.lent == 0, block.held_count, block.lent);
  const bool worth_keeping =
      block.slot != kNone && (block.header_present || block.present_count > 0);
  if (!worth_keeping || !charge_resident(block)) return free_block(block);
  resident_.push_back(&block);
  evictable_pages_ += block.charged_pages;
}

// All pages of a block that is not in the list go to kResident, which may evict others. False: it
// has no room, and nothing was changed.
bool DramTier::charge_resident(TierBlock& block) {
  VARVE_ASSERT(!block.linked());
  const bool resident = block.budget == Budget::kResident;
  const uint32_t pages = resident ? block.extra_pages : block.charged_pages;
  const uint32_t limit = limit_pages_[index_of(Budget::kResident)];
  uint64_t& used = used_pages_[index_of(Budget::kResident)];
  if (used - evictable_pages_ + pages > limit) return false;
  while (used + pages > limit)
    evict_oldest();
  discharge(resident ? Budget::kPull : block.budget, pages);
  charge(Budget::kResident, pages);
  resident_pages_.add(block.block.domain, pages);
  block.charged_pages += block.extra_pages;
  block.extra_pages = 0;
  block.budget = Budget::kResident;
  return true;
}

void DramTier::evict_oldest() {
  TierBlock* block = resident_.front();
  VARVE_ASSERT(block != nullptr);
  VARVE_ASSERT(block->pins == 0);  // D5
  VARVE_ASSERT(!block->dirty);
  evictions_.add();
  forget(*block);
}

void DramTier::free_block(TierBlock& block) {
  VARVE_ASSERT(block.pins == 0 && block.lent == 0 && block.held_count == 0, block.lent);
  VARVE_ASSERT(block.waiters.empty());
  VARVE_ASSERT(!block.linked());
  VARVE_DASSERT(std::count(block.users.begin(), block.users.end(), 0) == block.extent_count);
  uint32_t pages = block.header.page_count + block.meta.page_count + block.spare_headers.page_count;
  for (uint32_t e = 0; e < block.extent_count; ++e) {
    Slab& slab = extent(block, e);
    if (slab.empty()) continue;
    pages += slab.page_count;
    arena_.give(slab);
  }
  VARVE_ASSERT(pages == block.charged_pages + block.extra_pages, pages, block.charged_pages);
  arena_.give(block.header);
  if (!block.meta.empty()) arena_.give(block.meta);
  if (!block.spare_headers.empty()) arena_.give(block.spare_headers);
  discharge_own(block, block.charged_pages);
  if (block.extra_pages > 0) discharge(Budget::kPull, block.extra_pages);
  if (block.slot != kNone) map_erase(block.slot);
  block.block = BlockId{};
  block.attempt = Attempt{};
  block.fingerprint = Digest{};
  block.state.clear();
  block.users.clear();
  block.extent_count = block.data_count = 0;
  block.present_count = block.data_present_count = 0;
  block.header_present = block.dirty = block.doomed = block.purged = false;
  block.charged_pages = block.extra_pages = 0;
  block.slot = block.lead_extent = kNone;
  pool_.give(&block);
}

// The pages of one extent go back, the extent is absent.
void DramTier::give_extent(TierBlock& block, uint32_t e) {
  give_pages(block, extent(block, e));
  block.state[e] = ExtentState::kAbsent;
}

// Which budget they came from does not matter, only the sum: what a resident block holds on kPull
// goes first.
void DramTier::give_pages(TierBlock& block, Slab& slab) {
  const uint32_t pages = slab.page_count;
  arena_.give(slab);
  const uint32_t extra = std::min(pages, block.extra_pages);
  VARVE_ASSERT(block.charged_pages >= pages - extra, block.charged_pages, pages, extra);
  block.extra_pages -= extra;
  block.charged_pages -= pages - extra;
  discharge(Budget::kPull, extra);
  discharge_own(block, pages - extra);
}

uint32_t DramTier::map_home(uint32_t slot) const {
  const uint32_t hash = slot * 0x9E3779B1u;  // dense slots spread over the table
  return static_cast<uint32_t>((uint64_t{hash} * slot_to_block_.size()) >> 32);
}

// Bucket of a slot in the map; kNone when the slot has no block here. Ends: load <= 2/3.
uint32_t DramTier::map_find(uint32_t slot) const {
  for (uint32_t bucket = map_home(slot); slot_to_block_[bucket] != kNone;) {
    if (pool_.all()[slot_to_block_[bucket]]->slot == slot) return bucket;
    bucket = bucket + 1 == slot_to_block_.size() ? 0 : bucket + 1;
  }
  return kNone;
}

// Linear probing with backward shift: an entry moves back when the hole lies on its way from home.
void DramTier::map_erase(uint32_t slot) {
  const auto size = static_cast<uint32_t>(slot_to_block_.size());
  uint32_t hole = map_find(slot);
  VARVE_ASSERT(hole != kNone, slot);
  for (uint32_t next = hole;;) {
    next = next + 1 == size ? 0 : next + 1;
    if (slot_to_block_[next] == kNone) break;
    const uint32_t home = map_home(pool_.all()[slot_to_block_[next]]->slot);
    const uint32_t from_home = next >= home ? next - home : next + size - home;
    const uint32_t from_hole = next >= hole ? next - hole : next + size - hole;
    if (from_home < from_hole) continue;
    slot_to_block_[hole] = slot_to_block_[next];
    hole = next;
  }
  slot_to_block_[hole] = kNone;
  blocks_gauge_.add(-1);
}

}  // namespace varve
