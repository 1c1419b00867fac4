// The table behind the index door: Robin Hood hashing of {tag, slot} buckets over two dense pools.
//
// Buckets are at a load of at most 0.8, sorted by (home, arrival), with backward-shift deletion.
// The home bucket is a function of the tag alone, so neither probing nor deletion touches a base
// entry before the tags agree; a hit costs one bucket line and one entry.
#include "server/index/index.h"

#include <algorithm>
#include <bit>

#include "server/index/entry.h"

namespace varve {

namespace {

constexpr uint32_t kFragmentsLimit = 1u << 31;  // 1.25 buckets each still count in 32 bits
constexpr uint32_t kMatchWindow = 16;           // ids in flight in one match: covers DRAM latency

uint32_t rank_mask(uint32_t rank_count) {
  return rank_count == 32 ? ~0u : (1u << rank_count) - 1;
}

// High and low half of a 128-bit product, folded: every input bit reaches every output bit.
uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

// Everything below the door. A slot goes free list -> entry -> free list; `bases_used` and
// `blocks_used` are the high-water marks up to which the pools were ever touched.
struct Index::State {
  explicit State(const IndexOptions& o)
      : options(o),
        width(o.scheme.width()),
        buckets(static_cast<uint64_t>(o.blocks_max) * 5 / 4 + 1),
        bases(o.blocks_max),
        fragments(static_cast<uint64_t>(o.blocks_max) * width) {
    Random seeds(o.hash_seed);
    for (uint64_t& s : seed)
      s = seeds.next();
  }

  // What a domain adds to the tags of its ids.
  uint64_t salt_of(uint32_t domain) const { return mix(domain ^ seed[4], seed[5]); }
  uint32_t tag_of(uint64_t salt, const BaseId& id) const {
    uint64_t word[4];
    std::memcpy(word, id.bytes.data(), sizeof(word));
    return static_cast<uint32_t>((mix(word[0] ^ seed[0], word[1] ^ seed[1]) ^
                                  mix(word[2] ^ seed[2], word[3] ^ seed[3]) ^ salt) >>
                                 32);
  }
  uint32_t bucket_count() const { return static_cast<uint32_t>(buckets.size()); }
  uint32_t home_of(uint32_t tag) const {
    return static_cast<uint32_t>((static_cast<uint64_t>(tag) * buckets.size()) >> 32);
  }
  uint32_t after(uint32_t bucket) const { return bucket + 1 == bucket_count() ? 0 : bucket + 1; }
  // How far the bucket's content lies behind its home.
  uint32_t distance(uint32_t bucket) const {
    const uint32_t home = home_of(buckets[bucket].tag);
    return bucket >= home ? bucket - home : bucket + bucket_count() - home;
  }

  template <class Same>
  uint32_t probe(uint32_t tag, Same same) const;
  uint32_t find_bucket(uint32_t domain, const BaseId& id) const;
  uint32_t find_slot(uint32_t domain, const BaseId& id) const;
  uint32_t find_slot(const BlockId& block) const { return find_slot(block.domain, block.base); }
  template <class Visit>
  void look_up(uint32_t domain, std::span<const BaseId> ids, uint32_t rank_count,
               Visit visit) const;
  uint32_t find_block(uint32_t slot, uint32_t rank) const;
  void table_insert(uint32_t tag, uint32_t slot);
  void table_erase(uint32_t bucket);
  uint32_t base_take(uint32_t domain, const BaseId& id);
  void base_free(uint32_t slot);
  uint32_t block_take();
  void link(uint32_t slot, uint32_t block);
  void unlink(uint32_t slot, uint32_t block);
  void see(uint32_t slot, uint32_t block) { bases[slot].ranks |= 1u << at(block, 0).rank; }
  void state_set(uint32_t block, BlockState to) {
    BlockState& state = at(block, 0).state;
    const bool was_thin = is_thin(block);
    away_count += (to == BlockState::kAway) - (state == BlockState::kAway);
    state = to;
    thin_changed(was_thin, block);
  }
  const BaseEntry& base(uint32_t slot) const;
  // The fragment of a position; of position 0: with what the block says of itself.
  Fragment& at(uint32_t block, uint32_t position) {
    return fragments[static_cast<size_t>(block) * width + position];
  }
  const Fragment& at(uint32_t block, uint32_t position) const {
    return fragments[static_cast<size_t>(block) * width + position];
  }
  uint16_t live_of(uint32_t block) const;
  bool is_thin(uint32_t block) const;
  void place_store(uint32_t slot, const flash::Place& place, Fragment* fragment) {
    place_clear(slot, fragment);
    place_write(place, fragment);
    ++on_target[fragment->target];
    pages_of.add(bases[slot].domain, fragment->pages);
  }
  void place_clear(uint32_t slot, Fragment* fragment) {
    if (!has_place(*fragment)) return;
    VARVE_ASSERT(on_target[fragment->target] > 0, fragment->target);
    --on_target[fragment->target];
    pages_of.take(bases[slot].domain, fragment->pages);
    fragment->target = kNowhere;
  }
  void thin_changed(bool was, uint32_t block) { thin_count += is_thin(block) - was; }

  IndexOptions options;
  uint32_t width;
  uint64_t seed[6];
  std::vector<Bucket> buckets;
  std::vector<BaseEntry> bases;
  std::vector<Fragment> fragments;
  uint32_t bases_used = 0, blocks_used = 0;
  uint32_t base_free_head = kNone, block_free_head = kNone;
  uint32_t base_count = 0, block_count = 0, thin_count = 0, away_count = 0;
  uint32_t on_target[kTargetsMax] = {};  // fragments
  DomainSums blocks_of, pages_of;
};

const BaseEntry& Index::State::base(uint32_t slot) const {
  VARVE_ASSERT(slot < bases_used, slot, bases_used);
  VARVE_ASSERT(bases[slot].live == 1, slot);
  return bases[slot];
}

// The first bucket with `tag` for whose slot `same` holds; kNone when there is none. Ends: the
// load is below 1, and a content nearer to its home than the probe is to its own proves absence.
template <class Same>
uint32_t Index::State::probe(uint32_t tag, Same same) const {
  uint32_t bucket = home_of(tag);
  for (uint32_t probed = 0;; ++probed, bucket = after(bucket)) {
    const Bucket& b = buckets[bucket];
    if (b.slot == kNone) return kNone;
    if (b.tag == tag && same(b.slot)) return bucket;
    if (distance(bucket) < probed) return kNone;
  }
}

uint32_t Index::State::find_bucket(uint32_t domain, const BaseId& id) const {
  return probe(tag_of(salt_of(domain), id),
               [&](uint32_t slot) { return bases[slot].is(domain, id); });  // X2
}

uint32_t Index::State::find_slot(uint32_t domain, const BaseId& id) const {
  const uint32_t bucket = find_bucket(domain, id);
  return bucket == kNone ? kNone : buckets[bucket].slot;
}

uint32_t Index::State::find_block(uint32_t slot, uint32_t rank) const {
  uint32_t b = bases[slot].first;
  while (b != kNone && at(b, 0).rank != rank)
    b = at(b, 0).next;
  return b;
}

uint16_t Index::State::live_of(uint32_t block) const {
  uint16_t live = 0;
  for (uint32_t p = 0; p < width; ++p)
    live = static_cast<uint16_t>(live | (has_place(at(block, p)) ? 1u << p : 0u));
  return live;
}

bool Index::State::is_thin(uint32_t block) const {
  return at(block, 0).state == BlockState::kFlash && live_of(block) != (1u << width) - 1;
}

void Index::State::table_insert(uint32_t tag, uint32_t slot) {
  Bucket moving{.tag = tag, .slot = slot};
  uint32_t bucket = home_of(tag);
  for (uint32_t probed = 0;; ++probed, bucket = after(bucket)) {
    if (buckets[bucket].slot == kNone) break;
    const uint32_t there = distance(bucket);
    if (there >= probed) continue;
    std::swap(moving, buckets[bucket]);  // the richer one moves on
    probed = there;
  }
  buckets[bucket] = moving;
}

void Index::State::table_erase(uint32_t bucket) {
  for (;;) {
    const uint32_t next = after(bucket);
    if (buckets[next].slot == kNone || distance(next) == 0) break;
    buckets[bucket] = buckets[next];
    bucket = next;
  }
  buckets[bucket] = Bucket{};
}

uint32_t Index::State::base_take(uint32_t domain, const BaseId& id) {
  uint32_t slot = base_free_head;
  if (slot != kNone) {
    base_free_head = bases[slot].first;
  } else if (bases_used < bases.size()) {
    slot = bases_used++;
  } else {
    return kNone;
  }
  bases[slot] =
      BaseEntry{.id = id, .ranks = 0, .first = kNone, .domain = domain, .leases = 0, .live = 1};
  table_insert(tag_of(salt_of(domain), id), slot);
  ++base_count;
  return slot;
}

void Index::State::base_free(uint32_t slot) {
  BaseEntry& entry = bases[slot];
  VARVE_ASSERT(entry.first == kNone && entry.ranks == 0, slot);
  VARVE_ASSERT(entry.leases == 0, slot);  // X3
  const uint32_t bucket = find_bucket(entry.domain, entry.id);
  VARVE_ASSERT(bucket != kNone, slot);
  VARVE_ASSERT(buckets[bucket].slot == slot, slot);
  table_erase(bucket);
  entry = BaseEntry{};
  entry.first = base_free_head;
  base_free_head = slot;
  --base_count;
}

// The caller has checked that one is free.
uint32_t Index::State::block_take() {
  VARVE_ASSERT(block_count < options.blocks_max);
  uint32_t b = block_free_head;
  if (b != kNone) {
    block_free_head = at(b, 0).next;
  } else {
    b = blocks_used++;
  }
  for (uint32_t p = 0; p < width; ++p)
    at(b, p) = Fragment{};
  ++block_count;
  return b;
}

// Into the base's chain, by rising rank, so that the order of insertion never shows.
void Index::State::link(uint32_t slot, uint32_t block) {
  BaseEntry& entry = bases[slot];
  Fragment& added = at(block, 0);
  uint32_t* link = &entry.first;
  while (*link != kNone && at(*link, 0).rank < added.rank)
    link = &at(*link, 0).next;
  added.next = *link;
  *link = block;
  blocks_of.add(entry.domain, 1);
}

// Out of the chain and back to the free list.
void Index::State::unlink(uint32_t slot, uint32_t block) {
  BaseEntry& entry = bases[slot];
  state_set(block, BlockState::kMemory);  // counted as nothing
  for (uint32_t p = 0; p < width; ++p)
    place_clear(slot, &at(block, p));
  blocks_of.take(entry.domain, 1);
  Fragment& gone = at(block, 0);
  uint32_t* link = &entry.first;
  while (*link != block)
    link = &at(*link, 0).next;
  *link = gone.next;
  entry.ranks &= ~(1u << gone.rank);
  gone = Fragment{};
  gone.next = block_free_head;
  block_free_head = block;
  --block_count;
}

Index::Index(const IndexOptions& options) {
  VARVE_ASSERT(options.blocks_max > 0 && options.scheme.valid(), options.scheme.width());
  VARVE_ASSERT(options.blocks_max <= kFragmentsLimit / options.scheme.width(), options.blocks_max);
  VARVE_ASSERT(options.slice_count > 0);
  VARVE_ASSERT(options.slice_count <= kSlicesMax, options.slice_count);
  state_ = std::make_unique<State>(options);
}

Index::~Index() = default;

uint32_t Index::ranks_of(uint32_t domain, const BaseId& id) const {
  const uint32_t slot = state_->find_slot(domain, id);
  return slot == kNone ? 0 : state_->bases[slot].ranks;
}

// Three passes over a window of ids, each touching only what the pass before asked the memory for:
// bucket lines, then base entries, then the exact comparison. Goes on while visit(i, slot) says so;
// slot is kNone where not all ranks are there.
template <class Visit>
void Index::State::look_up(uint32_t domain, std::span<const BaseId> ids, uint32_t rank_count,
                           Visit visit) const {
  VARVE_ASSERT(rank_count > 0);
  VARVE_ASSERT(rank_count <= kRanksMax, rank_count);
  const uint32_t mask = rank_mask(rank_count);
  const uint64_t salt = salt_of(domain);
  uint32_t tag[kMatchWindow];
  uint32_t slot[kMatchWindow];
  for (size_t start = 0; start < ids.size(); start += kMatchWindow) {
    const auto window = static_cast<uint32_t>(std::min<size_t>(kMatchWindow, ids.size() - start));
    for (uint32_t i = 0; i < window; ++i) {
      tag[i] = tag_of(salt, ids[start + i]);
      __builtin_prefetch(&buckets[home_of(tag[i])]);
    }
    for (uint32_t i = 0; i < window; ++i) {
      const uint32_t bucket = probe(tag[i], [](uint32_t) { return true; });
      slot[i] = bucket == kNone ? kNone : buckets[bucket].slot;
      if (slot[i] == kNone) continue;
      __builtin_prefetch(&bases[slot[i]].id);
      __builtin_prefetch(&bases[slot[i]].ranks);  // half of the entries straddle two lines
    }
    for (uint32_t i = 0; i < window; ++i) {
      const BaseId& id = ids[start + i];
      // Two ids may share a tag: the first with the tag is then not the one asked for.
      if (slot[i] != kNone && !bases[slot[i]].is(domain, id)) slot[i] = find_slot(domain, id);
      const bool whole = slot[i] != kNone && (bases[slot[i]].ranks & mask) == mask;
      if (!visit(static_cast<uint32_t>(start + i), whole ? slot[i] : kNone)) return;
    }
  }
}

uint32_t Index::match(uint32_t domain, std::span<const BaseId> ids, uint32_t rank_count) const {
  uint32_t found = 0;
  state_->look_up(domain, ids, rank_count, [&found](uint32_t, uint32_t slot) {
    found += slot == kNone ? 0 : 1;
    return slot != kNone;
  });
  return found;
}

void Index::match_each(uint32_t domain, std::span<const BaseId> ids, uint32_t rank_count,
                       std::span<uint32_t> base_slots) const {
  VARVE_ASSERT(base_slots.size() == ids.size(), base_slots.size(), ids.size());
  state_->look_up(domain, ids, rank_count, [base_slots](uint32_t i, uint32_t slot) {
    base_slots[i] = slot;
    return true;
  });
}

void Index::prefetch(uint32_t domain, const BaseId& id) const {
  const State& s = *state_;
  __builtin_prefetch(&s.buckets[s.home_of(s.tag_of(s.salt_of(domain), id))], 1);
}

std::optional<Located> Index::find(const BlockId& block) const {
  std::optional<Located> found = find_any(block);
  if (found && found->state == BlockState::kAway) found.reset();  // X5
  return found;
}

std::optional<Located> Index::find_any(const BlockId& block) const {
  VARVE_ASSERT(block.rank < kRanksMax, block.rank);
  const uint32_t slot = state_->find_slot(block);
  if (slot == kNone) return std::nullopt;
  const uint32_t b = state_->find_block(slot, block.rank);
  if (b == kNone) return std::nullopt;
  return located(slot, b);
}

flash::Place Index::place_of(const Located& located, uint32_t position) const {
  VARVE_ASSERT(position < state_->width, position);
  const Fragment& fragment = state_->at(located.block_slot, position);
  VARVE_ASSERT(has_place(fragment), located.block_slot, position);
  return place_load(fragment);
}

std::optional<uint32_t> Index::position_of(const Located& located,
                                           const flash::Place& place) const {
  for (uint32_t p = 0; p < state_->width; ++p) {
    const Fragment& fragment = state_->at(located.block_slot, p);
    if (has_place(fragment) && place_load(fragment) == place) return p;
  }
  return std::nullopt;
}

std::optional<uint32_t> Index::base_slot(uint32_t domain, const BaseId& id) const {
  const uint32_t slot = state_->find_slot(domain, id);
  if (slot == kNone || state_->bases[slot].first == kNone) return std::nullopt;
  return slot;
}

BlockId Index::block_at(uint32_t base_slot, uint32_t rank) const {
  const BaseEntry& entry = state_->base(base_slot);
  return {.base = entry.id, .rank = rank, .domain = entry.domain};
}

Index::Insert Index::insert(const BlockId& block, BlockState state, Located* out) {
  VARVE_ASSERT(block.rank < kRanksMax, block.rank);
  VARVE_ASSERT(state != BlockState::kFlash);  // it has no place yet
  State& s = *state_;
  uint32_t slot = s.find_slot(block);
  if (slot != kNone) {
    const uint32_t there = s.find_block(slot, block.rank);
    if (there != kNone) {
      if (out != nullptr) *out = located(slot, there);
      return Insert::kExists;
    }
  }
  if (s.block_count == s.options.blocks_max) return Insert::kFull;
  if (slot == kNone) slot = s.base_take(block.domain, block.base);
  if (slot == kNone) return Insert::kFull;  // leased entries without ranks hold the last slots
  const uint32_t b = s.block_take();
  s.at(b, 0).rank = static_cast<uint8_t>(block.rank);
  s.state_set(b, state);
  s.link(slot, b);
  if (state == BlockState::kMemory) s.see(slot, b);
  if (out != nullptr) *out = located(slot, b);
  return Insert::kDone;
}

void Index::place_add(const Located& located, uint32_t position, const flash::Place& to) {
  State& s = *state_;
  VARVE_ASSERT(position < s.width, position, s.width);
  VARVE_ASSERT(to.slice < s.options.slice_count, to.slice);
  Fragment& fragment = s.at(located.block_slot, position);
  VARVE_ASSERT(!has_place(fragment), located.block_slot, position);
  const bool was_thin = s.is_thin(located.block_slot);
  s.place_store(located.base_slot, to, &fragment);
  s.thin_changed(was_thin, located.block_slot);
}

bool Index::place_move(const BlockId& block, const flash::Place& from, const flash::Place& to) {
  VARVE_ASSERT(to.slice < state_->options.slice_count, to.slice);
  const std::optional<Located> found = find_any(block);
  if (!found) return false;
  const std::optional<uint32_t> position = position_of(*found, from);
  if (!position) return false;
  state_->place_store(found->base_slot, to, &state_->at(found->block_slot, *position));
  return true;
}

void Index::settle(const Located& located) {
  State& s = *state_;
  VARVE_ASSERT(s.at(located.block_slot, 0).state != BlockState::kFlash, located.block_slot);
  VARVE_ASSERT(std::popcount(s.live_of(located.block_slot)) >= static_cast<int>(s.options.scheme.k),
               located.block_slot);
  s.state_set(located.block_slot, BlockState::kFlash);
  s.see(located.base_slot, located.block_slot);
}

void Index::hide(const Located& located) {
  State& s = *state_;
  const Fragment& first = s.at(located.block_slot, 0);
  VARVE_ASSERT(first.state == BlockState::kFlash, located.block_slot);
  s.state_set(located.block_slot, BlockState::kAway);
  s.bases[located.base_slot].ranks &= ~(1u << first.rank);
}

void Index::lose(const Located& located, uint32_t position) {
  State& s = *state_;
  VARVE_ASSERT(position < s.width, position, s.width);
  Fragment& fragment = s.at(located.block_slot, position);
  VARVE_ASSERT(has_place(fragment), located.block_slot, position);
  const bool was_thin = s.is_thin(located.block_slot);
  s.place_clear(located.base_slot, &fragment);
  s.thin_changed(was_thin, located.block_slot);
}

std::optional<Located> Index::remove(const BlockId& block) {
  VARVE_ASSERT(block.rank < kRanksMax, block.rank);
  const uint32_t slot = state_->find_slot(block);
  if (slot == kNone) return std::nullopt;
  VARVE_ASSERT(state_->bases[slot].leases == 0, slot, state_->bases[slot].leases);  // X3
  return take_out(slot, block.rank);
}

std::optional<Located> Index::drop(const BlockId& block) {
  VARVE_ASSERT(block.rank < kRanksMax, block.rank);
  const uint32_t slot = state_->find_slot(block);
  if (slot == kNone) return std::nullopt;
  return take_out(slot, block.rank);
}

std::optional<Located> Index::take_out(uint32_t base_slot, uint32_t rank) {
  State& s = *state_;
  const uint32_t b = s.find_block(base_slot, rank);
  if (b == kNone) return std::nullopt;
  const Located was = located(base_slot, b);
  s.unlink(base_slot, b);
  const BaseEntry& entry = s.bases[base_slot];
  if (entry.first == kNone && entry.leases == 0) s.base_free(base_slot);
  return was;
}

void Index::lease_add(uint32_t base_slot) {
  VARVE_ASSERT(state_->base(base_slot).leases < kLeasesLimit, base_slot);
  ++state_->bases[base_slot].leases;
}

void Index::lease_drop(uint32_t base_slot) {
  VARVE_ASSERT(state_->base(base_slot).leases > 0, base_slot);
  BaseEntry& entry = state_->bases[base_slot];
  --entry.leases;
  if (entry.leases == 0 && entry.first == kNone) state_->base_free(base_slot);
}

uint32_t Index::leases(uint32_t base_slot) const {
  return state_->base(base_slot).leases;
}

uint32_t Index::base_count() const {
  return state_->base_count;
}
uint32_t Index::block_count() const {
  return state_->block_count;
}
uint32_t Index::blocks_max() const {
  return state_->options.blocks_max;
}
uint32_t Index::base_slots_max() const {
  return blocks_max();
}
uint32_t Index::thin_count() const {
  return state_->thin_count;
}
uint32_t Index::away_count() const {
  return state_->away_count;
}

uint32_t Index::fragments_on(uint32_t target) const {
  VARVE_ASSERT(target < kTargetsMax, target);
  return state_->on_target[target];
}

const DomainSums& Index::blocks_by_domain() const {
  return state_->blocks_of;
}
const DomainSums& Index::pages_by_domain() const {
  return state_->pages_of;
}

uint64_t Index::memory_bytes() const {
  const State& s = *state_;
  const uint64_t elsewhere =
      IndexBytes::kPolicy + IndexBytes::kTierMap + IndexBytes::kLineage + IndexBytes::kSiblings;
  return s.buckets.capacity() * sizeof(Bucket) + s.bases.capacity() * sizeof(BaseEntry) +
         s.fragments.capacity() * sizeof(Fragment) + s.options.blocks_max * elsewhere +
         sizeof(State);
}

uint32_t Index::scan(uint32_t cursor, uint32_t limit, ScanVisit visit, void* context) const {
  VARVE_ASSERT(limit > 0);
  VARVE_ASSERT(visit != nullptr);
  const State& s = *state_;
  if (cursor >= s.bases_used) return 0;
  const uint32_t end = s.bases_used - cursor <= limit ? s.bases_used : cursor + limit;
  for (uint32_t slot = cursor; slot < end; ++slot) {
    const BaseEntry& entry = s.bases[slot];
    if (entry.live == 0 || entry.first == kNone) continue;
    for_each_rank(slot, [&](uint32_t rank, const Located& where) {
      visit(context, block_at(slot, rank), where);
    });
  }
  return end == s.bases_used ? 0 : end;
}

uint32_t Index::first_block(uint32_t base_slot) const {
  return state_->base(base_slot).first;
}

uint32_t Index::next_block(uint32_t block_slot) const {
  return state_->at(block_slot, 0).next;
}

uint32_t Index::rank_of(uint32_t block_slot) const {
  return state_->at(block_slot, 0).rank;
}

Located Index::located(uint32_t base_slot, uint32_t block_slot) const {
  return {.base_slot = base_slot,
          .block_slot = block_slot,
          .state = state_->at(block_slot, 0).state,
          .live = state_->live_of(block_slot)};
}

}  // namespace varve
