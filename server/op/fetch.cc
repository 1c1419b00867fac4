// Device reads into DRAM blocks: start, verify the outcome, wake the readers.
//
// Where a target fails while it holds a request (limbo, I8), the readers are told at once, but
// block and pages stay pinned until the device gives them back, which may be never.
#include "server/op/fetch.h"

#include "server/op/extent_op.h"
#include "server/op/op.h"
#include "server/op/pull.h"

namespace varve {

namespace {

constexpr uint32_t kRunsMax = kExtentBytesMax / kPageBytes + flash::header_pages_of(kExtentsMax);
constexpr uint32_t kMeanShift = 3;  // the mean moves by 1/8 of each difference

}  // namespace

ExtentEntry entry_of(const DramTier& tier, const TierBlock& block, uint32_t extent) {
  VARVE_ASSERT(extent < block.extent_count, extent, block.extent_count);
  ExtentEntry entry;
  const uint64_t offset = sizeof(flash::FragmentHeader) + uint64_t{extent} * sizeof(ExtentEntry);
  std::memcpy(&entry, tier.arena().byte_at(block.header, offset), sizeof(entry));
  return entry;
}

FetchTable::FetchTable(OpContext& context, uint32_t fetches_max)
    : context_(context), pool_(fetches_max), targets_(context.flash.target_count()) {
  for (const auto& fetch : pool_.all()) {
    fetch->runs.reserve(kRunsMax);
    fetch->table = this;
    fetch->read.owner = fetch.get();
    fetch->read.on_done = [](flash::Read& read) {
      Fetch& self = *static_cast<Fetch*>(read.owner);
      self.table->done(self);
    };
    fetch->read.limbo.owner = fetch.get();
    fetch->read.limbo.on_returned = [](void* owner) {
      Fetch& self = *static_cast<Fetch*>(owner);
      self.table->returned(self);
    };
  }
}

bool FetchTable::has_share(uint32_t target, uint32_t pages) const {
  Target& of = targets_[target];
  if (of.reads == 0 || !has_peer(context_, target)) return true;  // one read always
  const uint64_t limit = target_share(context_, context_.tier.limit_bytes(Budget::kPull));
  const bool has =
      of.reads < target_share(context_, pool_.capacity()) && bytes_of(of.pages + pages) <= limit;
  of.was_full = of.was_full || !has;
  return has;
}

Fetch* FetchTable::take(uint32_t target, uint32_t pages) {
  Fetch* fetch = pool_.take();
  if (fetch == nullptr) return nullptr;
  fetch->target = target;
  fetch->pages = pages;
  ++targets_[target].reads;
  targets_[target].pages += pages;
  return fetch;
}

void FetchTable::give(Fetch& fetch) {
  VARVE_ASSERT(fetch.block == nullptr);
  share_drop(fetch);
  pool_.give(&fetch);
}

// Pulls that found the share full look again: they stand in no queue, so that others may pass.
void FetchTable::share_drop(const Fetch& fetch) {
  Target& of = targets_[fetch.target];
  VARVE_ASSERT(of.reads > 0 && of.pages >= fetch.pages, of.reads, of.pages);
  --of.reads;
  of.pages -= fetch.pages;
  if (!of.was_full) return;
  of.was_full = false;
  context_.pulls->wake_all();
}

void FetchTable::start(Fetch& fetch, TierBlock& block, const flash::Place& place, Nanos wanted_ns) {
  VARVE_ASSERT(fetch.block == nullptr);
  VARVE_ASSERT(block.state[fetch.read.extent] == ExtentState::kReading, fetch.read.extent);
  VARVE_ASSERT(place.target == fetch.target, place.target, fetch.target);
  context_.tier.pin(block);
  fetch.block = &block;
  fetch.started_ns = context_.reactor.now_ns();
  fetch.given_up = false;
  flash::Read& read = fetch.read;
  read.block = block.block;
  read.place = place;
  read.runs = fetch.runs;
  read.buffer_index = context_.options.buffer_index;
  read.wanted_ns = wanted_ns;
  read.status = Status();
  read.held = false;
  context_.metrics.fetches_live.set(live());
  context_.flash.read(read);
}

void FetchTable::start_lead(Fetch& fetch, TierBlock& block, const flash::Place& place,
                            const Digest& fingerprint, Nanos wanted_ns) {
  VARVE_ASSERT(!block.header_present);
  const Slab& header = block.header;
  VARVE_ASSERT(block.lead_extent < block.extent_count, block.lead_extent);
  const Slab& first = context_.tier.extent(block, block.lead_extent);
  VARVE_ASSERT(header.page_count + first.page_count == place.lead_pages, place.lead_pages);
  fetch.runs.resize(kRunsMax);
  const std::span<iovec> all(fetch.runs);
  const Arena& arena = context_.tier.arena();
  uint32_t count = arena.pieces(header, 0, bytes_of(header.page_count), all);
  count += arena.pieces(first, 0, bytes_of(first.page_count), all.subspan(count));
  fetch.runs.resize(count);
  fetch.read.kind = flash::Read::Kind::kLead;
  fetch.read.attempt = Attempt{};
  fetch.read.fingerprint = fingerprint;
  fetch.read.extent = block.lead_extent;
  fetch.read.header_pages = header.page_count;
  start(fetch, block, place, wanted_ns);
}

void FetchTable::start_extent(Fetch& fetch, TierBlock& block, const flash::Place& place,
                              uint32_t extent, const ExtentEntry& entry, Nanos wanted_ns) {
  VARVE_ASSERT(block.header_present);
  const Slab& slab = context_.tier.extent(block, extent);
  fetch.runs.resize(kRunsMax);
  fetch.runs.resize(context_.tier.arena().pieces(slab, 0, bytes_of(slab.page_count), fetch.runs));
  fetch.read.kind = flash::Read::Kind::kExtent;
  fetch.read.attempt = block.attempt;
  fetch.read.extent = extent;
  fetch.read.entry = entry;
  fetch.read.header_pages = 0;
  start(fetch, block, place, wanted_ns);
}

void FetchTable::done(Fetch& fetch) {
  TierBlock& block = *fetch.block;
  const flash::Read& read = fetch.read;
  const bool lead = read.kind == flash::Read::Kind::kLead;
  const Nanos took_ns = context_.reactor.now_ns() - fetch.started_ns;
  context_.metrics.pull_stage_read.record(took_ns);
  mean_ns_ = mean_ns_ - (mean_ns_ >> kMeanShift) + (took_ns >> kMeanShift);
  if (read.status.ok() && lead && !fetch.given_up) {
    VARVE_ASSERT(!read.attempt.is_none());
    block.attempt = read.attempt;
    block.fingerprint = read.fingerprint;
    block.header_present = true;
  }
  // A block without a header is of no use, nor is one whose header the device still writes to.
  if (!read.status.ok() && lead && !block.doomed) context_.tier.forget(block);
  if (read.held) {
    VARVE_ASSERT(!read.status.ok());
    // Where no other fragment helps, the block is read again whole, in other pages.
    if (context_.options.scheme.m == 0 && !block.doomed) context_.tier.forget(block);
    context_.tier.extent_held(block, read.extent, read.status);
    return;  // the Fetch, its pin and its pages stay until returned()
  }
  context_.tier.extent_read(block, read.extent, read.status);
  end(fetch);
}

void FetchTable::watch() {
  if (context_.options.scheme.m == 0) return;  // nothing else could be read
  const Nanos now_ns = context_.reactor.now_ns();
  bool freed = false;
  for (uint32_t t = 0; t < targets_.size(); ++t) {  // who waits for a share may do without it
    if (!targets_[t].was_full || !context_.flash.target_suspect(t)) continue;
    targets_[t].was_full = false;
    freed = true;
  }
  if (freed) context_.pulls->wake_all();
  for (const auto& fetch : pool_.all()) {
    if (fetch->block == nullptr || fetch->read.held) continue;
    const bool suspect = context_.flash.target_suspect(fetch->target);
    const Nanos since_ns = fetch->read.at_device_ns;
    const bool slow = since_ns > 0 && now_ns - since_ns > context_.options.hedge_ns;
    if (!suspect && !slow) continue;
    if (fetch->read.kind == flash::Read::Kind::kLead) {
      if (suspect) give_up(*fetch);
      continue;
    }
    TierBlock& block = *fetch->block;
    if (suspect && !is_needed(*fetch)) {
      // Not late but lost, as for those who come now; the read goes on for whoever joins it.
      DramTier::wake(block, fetch->read.extent, Status::unavailable("its target is suspect"));
      continue;
    }
    for (ExtentWaiter* waiter = block.waiters.front(); waiter != nullptr; waiter = waiter->next) {
      if (waiter->extent != fetch->read.extent) continue;
      static_cast<ExtentOp*>(waiter->owner)->late();
    }
  }
}

// The block cannot be read without this target, or is not to be read at all any more.
bool FetchTable::is_needed(const Fetch& fetch) const {
  const TierBlock& block = *fetch.block;
  const std::optional<Located> located = context_.index.find(block.block);
  if (block.doomed || !located || located->state != BlockState::kFlash) return true;
  const uint16_t usable = context_.catalog->usable(*located);
  for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
    if ((usable >> p & 1) == 0) continue;
    if (context_.index.place_of(*located, p).target == fetch.target) return true;
  }
  return false;
}

// Other fragments have the header too: who waits for this one looks again. The block stays with the
// read that fills it.
void FetchTable::give_up(Fetch& fetch) {
  TierBlock& block = *fetch.block;
  if (fetch.given_up || is_needed(fetch)) return;
  fetch.given_up = true;
  context_.metrics.pull_leads_given_up.add();
  context_.tier.forget(block);
  context_.tier.wake(block, fetch.read.extent, Status::unavailable("its target is suspect"));
}

void FetchTable::returned(Fetch& fetch) {
  VARVE_ASSERT(fetch.read.held);
  context_.tier.extent_read(*fetch.block, fetch.read.extent, fetch.read.status);
  end(fetch);
}

void FetchTable::end(Fetch& fetch) {
  TierBlock& block = *fetch.block;
  fetch.block = nullptr;
  give(fetch);
  context_.metrics.fetches_live.set(live());
  context_.tier.unpin(block);
  context_.pulls->room_given();
}

}  // namespace varve
