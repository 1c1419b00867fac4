// A purge, in one place: drop first, so that nothing is found while the records are written.
//
// A target that fails while records are written was told nothing: all records are written once
// more, with its bit, on those that still work.
#include "server/op/purge.h"

#include <algorithm>
#include <bit>

#include "server/op/extent_op.h"
#include "server/op/lineage.h"
#include "server/op/op.h"
#include "server/op/push.h"

namespace varve {

PurgeOp::PurgeOp(OpContext& context) : context_(context), started_ns_(context.reactor.now_ns()) {
  ids_.reserve(wire::kIdsMax);
  limits_.reserve(wire::kIdsMax);
  seen_.resize(size_t{2} * wire::kIdsMax);
  found_.reserve(size_t{kSlotsPerTurn} * kRanksMax);
  raise_.owner = this;
  raise_.on_done = [](flash::Raise& raise) {
    auto& op = *static_cast<PurgeOp*>(raise.owner);
    op.context_.reactor.make_ready(op);
  };
}

void PurgeOp::begin(PurgePart& part) {
  VARVE_ASSERT(part_ == nullptr && kills_out_ == 0);
  part_ = &part;
  part.blocks = part.bytes = part.erased_ns = 0;
  cursor_ = kill_next_ = kill_target_ = 0;
  away_ = targets_away(context_);
  began_ns_ = context_.reactor.now_ns();
  if (part.what == wire::PurgeKind::kBlocks) {
    VARVE_ASSERT(part.begin <= part.end && part.end - part.begin <= wire::kIdsMax);
    stage_ = Stage::kDrop;
    ids_.clear();
    limits_.clear();
    std::fill(seen_.begin(), seen_.end(), uint16_t{0});
  } else if (part.raise) {
    stage_ = Stage::kRaise;
  } else {
    stage_ = Stage::kWalk;
    // Recovery may still run: it takes nothing of others in.
    flash::DomainIds& domains = context_.options.domains;
    domains.ids = part.domains.ids;
    domains.starts = part.domains.starts;
    domains.last = std::max(domains.last, part.domains.last);
    context_.lineages->purge(part.domain, part.lineage, part.rows);
    context_.pushes->purge(part.domain, part.lineage, [this](const BlockId& block) {
      const std::optional<Located> located = context_.index.find_any(block);
      if (located) drop(block, *located);
    });
  }
  context_.reactor.make_ready(*this);
}

void PurgeOp::run() {
  if (part_ == nullptr) return;  // woken and finished in one turn
  switch (stage_) {
    case Stage::kRaise:
      stage_ = Stage::kRaised;
      return raise();
    case Stage::kRaised:
      if (raise_.status.ok()) part_->rows = raise_.rows;
      return finish(raise_.status);
    case Stage::kDrop:
      if (!drop_some()) return context_.reactor.make_ready(*this);
      stage_ = Stage::kKill;
      [[fallthrough]];
    case Stage::kKill:
      if (!kill_some()) return;  // woken by each that ends
      if (!any_took_part()) {
        return finish(Status::unavailable("no target works: a restart may bring it back"));
      }
      return finish(Status());
    case Stage::kWalk:
      if (!walk_some()) return context_.reactor.make_ready(*this);
      return finish(Status());
  }
}

const BaseId& PurgeOp::id(uint32_t i) const {
  return part_->request->ids[part_->request->positions[part_->begin + i]];
}

// One for all targets of a start.
uint32_t PurgeOp::boot_generation() const {
  uint32_t generation = 0;
  for (uint32_t t = 0; t < context_.flash.target_count(); ++t)
    generation = std::max(generation, context_.flash.boot_generation(t));
  return generation;
}

bool PurgeOp::any_took_part() const {
  const uint64_t here = (1ull << context_.flash.target_count()) - 1;
  return (here & ~uint64_t{away_ | context_.options.drained_targets}) != 0;
}

void PurgeOp::drop(const BlockId& block, const Located& located) {
  const uint64_t pages = context_.catalog->purge(block, located);
  ++part_->blocks;
  part_->bytes += bytes_of(pages);
  context_.metrics.purged_blocks.add();
  context_.metrics.purged_bytes.add(bytes_of(pages));
}

// A record for each would be a page for nothing.
bool PurgeOp::is_again(uint32_t i) {
  static_assert(std::has_single_bit(wire::kIdsMax) && wire::kIdsMax < UINT16_MAX);
  VARVE_ASSERT(ids_.size() < wire::kIdsMax, ids_.size());
  const BlockHash hash{context_.options.hash_seed};
  size_t at = hash({.base = id(i), .rank = 0, .domain = part_->domain});
  for (;; ++at) {
    uint16_t& seen = seen_[at & (seen_.size() - 1)];
    if (seen == 0) {
      ids_.push_back(i);
      seen = static_cast<uint16_t>(ids_.size());
      return false;
    }
    if (id(ids_[seen - 1]) == id(i)) return true;
  }
}

bool PurgeOp::drop_some() {
  const uint32_t count = part_->end - part_->begin;
  const uint32_t end = std::min(count, cursor_ + kIdsPerTurn);
  for (; cursor_ < end; ++cursor_) {
    if (is_again(cursor_)) continue;
    const BaseId& base = id(cursor_);
    context_.pushes->purge(part_->domain, base);
    limits_.push_back(context_.attempts);
    if (const std::optional<uint32_t> slot = context_.index.base_slot(part_->domain, base)) {
      context_.index.for_each_rank(*slot, [&](uint32_t rank, const Located& located) {
        drop({.base = base, .rank = rank, .domain = part_->domain}, located);
      });
    }
    // What recovery has not told of yet is refused by the same limit.
    context_.catalog->killed(
        part_->domain, base,
        {.boot_generation = boot_generation(), .target = 0, .counter = limits_.back()});
    context_.metrics.purge_ids.add();
  }
  context_.sends->drop_unwanted();
  return cursor_ == count;
}

bool PurgeOp::kill_some() {
  const uint32_t targets = context_.flash.target_count();
  while (kill_next_ < ids_.size()) {
    if (kill_target_ == targets) {
      kill_target_ = 0;
      ++kill_next_;
      continue;
    }
    if (((away_ | context_.options.drained_targets) >> kill_target_ & 1) != 0) {
      ++kill_target_;
      continue;
    }
    PurgeKill* record = context_.purges->take_kill();
    if (record == nullptr) return false;
    record->op = this;
    flash::Kill& kill = record->kill;
    kill.target = kill_target_++;
    kill.base = id(ids_[kill_next_]);
    kill.slice = slice_of(kill.base, context_.options.slices);
    kill.limit = {
        .boot_generation = boot_generation(), .target = 0, .counter = limits_[kill_next_]};
    kill.away = away_;
    kill.domain = part_->domain;
    kill.domains = static_cast<uint32_t>(part_->domains.ids.size());
    ++kills_out_;
    context_.flash.kill(kill);
  }
  if (kills_out_ > 0) return false;
  const uint32_t now = targets_away(context_);
  if (now == away_) return true;
  away_ = now;  // more of them than before: at most once for each target
  kill_next_ = 0;
  context_.reactor.make_ready(*this);
  return false;
}

void PurgeOp::killed(PurgeKill& record) {
  VARVE_ASSERT(kills_out_ > 0);
  --kills_out_;
  if (record.kill.status.ok()) context_.metrics.purge_records.add();
  // Without its record the purge does not hold, unless its target has failed.
  if (!record.kill.status.ok() && context_.flash.target_ok(record.kill.target)) {
    failure_ = record.kill.status;
  }
  context_.purges->give_kill(record);
  context_.purges->wake_all();
}

bool PurgeOp::walk_some() {
  struct Step {
    PurgeOp& self;
    static void visit(void* context, const BlockId& block, const Located& located) {
      PurgeOp& self = static_cast<Step*>(context)->self;
      if (self.context_.lineages->is_dead(located.block_slot)) {
        self.found_.push_back({block, located});
      }
    }
  } step{*this};
  cursor_ = context_.index.scan(cursor_, kSlotsPerTurn, Step::visit, &step);
  for (const auto& [block, located] : found_)
    drop(block, located);
  if (!found_.empty()) context_.sends->drop_unwanted();
  found_.clear();
  if (cursor_ != 0) return false;
  context_.lineages->walked();
  return true;
}

void PurgeOp::raise() {
  const flash::DomainIds& domains = part_->domains;
  // Its own row counts on, though it was dropped.
  flash::DomainIds named{.ids = domains.ids, .last = domains.last};
  if (!named.has(part_->domain)) {
    named.ids.insert(std::lower_bound(named.ids.begin(), named.ids.end(), part_->domain),
                     part_->domain);
  }
  const flash::Generations before = flash::kept(context_.lineages->rows(), named);
  const Result<flash::Generations> rows = flash::raised(
      before, part_->domain, part_->lineage, &part_->generation, flash::lineages_max(domains));
  if (!rows && domains.dropped(part_->domain)) {
    // It needs no row, and must not fail for want of one: no start takes it in again.
    part_->generation = flash::domain_generation(before, part_->domain);  // as the drives have it
    part_->rows = flash::kept(before, domains);
    return finish(Status());
  }
  if (!rows) return finish(rows.error());
  raise_.rows = *rows;
  context_.flash.raise(raise_);
}

// When the last of it will have been written over, at the mean rate since the start: the log of a
// slice comes round once. Nothing was written yet: nobody can say.
void PurgeOp::estimate() {
  if (part_->bytes == 0) return;
  for (uint32_t t = 0; t < context_.flash.target_count(); ++t) {
    const flash::Flash::Usage usage = context_.flash.usage(t);
    if (usage.capacity_pages == 0) continue;
    const Nanos up_ns = context_.reactor.now_ns() - started_ns_;
    const uint64_t rounds_left =
        usage.written_pages == 0 ? 0 : usage.capacity_pages / usage.written_pages + 1;
    const bool never = rounds_left == 0 || up_ns > kErasedNever / rounds_left;
    part_->erased_ns = std::max(part_->erased_ns, never ? kErasedNever : up_ns * rounds_left);
  }
}

void PurgeOp::finish(Status status) {
  VARVE_ASSERT(kills_out_ == 0);
  if (status.ok()) status = failure_;
  failure_ = Status();
  estimate();
  (status.ok() ? context_.metrics.purges_done : context_.metrics.purges_failed).add();
  if (away_ != 0 && status.ok()) context_.metrics.purges_away.add();
  context_.metrics.purge_seconds.record(context_.reactor.now_ns() - began_ns_);
  PurgePart& part = *part_;
  part_ = nullptr;
  context_.purges->end(*this);
  part_back(part, status);
}

PurgeTable::PurgeTable(OpContext& context)
    : context_(context), ops_(kOpsMax, context), kills_(kKillsMax) {
  for (const auto& record : kills_.all()) {
    record->kill.owner = record.get();
    record->kill.on_done = [](flash::Kill& kill) {
      auto& done = *static_cast<PurgeKill*>(kill.owner);
      done.op->killed(done);
    };
  }
}

void PurgeTable::begin(PurgePart& part) {
  bool busy = false;
  for (const auto& live : ops_.all())
    busy = busy || (part.raise && live->raises());
  PurgeOp* op = context_.draining || busy ? nullptr : ops_.take();
  if (op != nullptr) return op->begin(part);
  context_.metrics.purges_failed.add();
  part_back(part, context_.draining ? Status::unavailable("the node stops")
                                    : Status::overloaded("too many purges at once"));
}

void PurgeTable::wake_all() {
  for (const auto& op : ops_.all()) {
    if (op->waits()) context_.reactor.make_ready(*op);
  }
}

}  // namespace varve
