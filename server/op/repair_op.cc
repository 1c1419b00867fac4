// One visit to one thin block. Nothing is remembered of it: what it could not finish is found again
// by the next pass over the index.
//
// Where a read fails, flash has told the catalog what that means (rot, a lost place, a lost
// target), and the stripe is begun again from what is left. Where what was coded does not verify,
// the sources do not belong together: nothing is written (R1), and the block stays as it is.
#include "server/op/repair_op.h"

#include <algorithm>
#include <bit>

#include "server/op/op.h"
#include "server/op/placer.h"
#include "server/op/repair.h"

namespace varve {

namespace {

constexpr uint32_t kRunsMax = kExtentBytesMax / kPageBytes + flash::kHeaderPagesMax;
constexpr uint32_t kColumnsPerTurn = 4;  // a core has others to serve
constexpr uint32_t kFailuresMax = 2 * kWidthMax;

uint32_t outputs_max(Scheme scheme) {
  return std::max<uint32_t>(scheme.m, 1);  // without parity one can still be moved
}

}  // namespace

uint32_t targets_used(const OpContext& context, const Located& located) {
  uint32_t used = 0;
  for (uint32_t p = 0; p < context.options.scheme.width(); ++p) {
    if (located.has(p)) used |= 1u << context.index.place_of(located, p).target;
  }
  return used;
}

uint32_t positions_leaving(const OpContext& context, const Located& located) {
  uint32_t leaving = 0;
  for (uint32_t p = 0; p < context.options.scheme.width(); ++p) {
    if (!context.catalog->leaves(located, p)) continue;
    const uint32_t target = context.index.place_of(located, p).target;
    if (!context.catalog->is_failed(target)) leaving |= 1u << p;  // else it is lost, not moved
  }
  return leaving;
}

RepairOp::RepairOp(OpContext& context) : Op(context.reactor), context_(context) {
  const Scheme scheme = context.options.scheme;
  digests_.reserve(kParityMax);
  for (uint32_t i = 0; i < scheme.k; ++i) {
    Source& source = sources_[i];
    source.op = this;
    source.runs.reserve(kRunsMax);
    source.read.owner = &source;
    source.read.on_done = [](flash::Read& read) {
      auto& self = *static_cast<Source*>(read.owner);
      self.op->read_done(self);
    };
  }
  for (uint32_t i = 0; i < outputs_max(scheme); ++i) {
    Output& output = outputs_[i];
    output.op = this;
    output.runs.reserve(context.flash.fragment_pages_max());
    output.append.owner = &output;
    output.append.on_done = [](flash::Append& append) {
      auto& self = *static_cast<Output*>(append.owner);
      self.op->append_done(self);
    };
  }
}

void RepairOp::begin(const BlockId& block, uint32_t base_slot, RepairKind kind) {
  VARVE_ASSERT(output_count_ == 0 && base_slot_ == ~0u, output_count_, base_slot_);
  reset();
  kind_ = kind;
  block_ = block;
  base_slot_ = base_slot;
  gone_ = false;
  copying_ = false;
  failures_ = 0;
  written_ = 0;
  written_bytes_ = planned_bytes_ = 0;
  stage_ = Stage::kLead;
  context_.index.lease_add(base_slot);
  again();
}

void RepairOp::run() {
  RunScope scope(*this);
  if (stage_ != Stage::kDone) {
    if (!look()) return finish(RepairOutcome::kGone);
    if (context_.draining) return finish(RepairOutcome::kStopped);
    if (failures_ > kFailuresMax) return finish(RepairOutcome::kFailed);
  }
  std::optional<RepairOutcome> over;
  switch (stage_) {
    case Stage::kLead:
      stage_ = Stage::kPlan;
      if (over = start_lead(); over) return finish(*over);
      return wait(1);
    case Stage::kPlan:
      if (read_failed()) {
        stage_ = Stage::kLead;
        return again();
      }
      if (over = plan(); over) return finish(*over);
      stage_ = Stage::kRead;
      [[fallthrough]];
    case Stage::kRead:
      if (!next_stripe()) {
        stage_ = Stage::kWrite;
        return again();
      }
      stage_ = Stage::kCode;
      if (over = start_reads(); over) return finish(*over);
      return wait(reads_);
    case Stage::kCode:
      if (read_failed()) {
        if (outputs_[0].pages == nullptr) return finish(RepairOutcome::kFailed);  // a device's now
        stage_ = Stage::kRead;
        return again();
      }
      if (copying_) {
        end_copy();
      } else {
        if (code_some()) return again();
        if (!verify()) return finish(RepairOutcome::kCorrupt);
      }
      ++stripe_;
      stage_ = Stage::kRead;
      return again();
    case Stage::kWrite:
      stage_ = Stage::kDone;
      start_appends();
      return wait(output_count_);
    case Stage::kDone:
      if (written_ > 0) return finish(RepairOutcome::kDone);
      return finish(take_failure().ok() ? RepairOutcome::kGone : RepairOutcome::kFailed);
  }
}

// Where the block is in this turn. False: it went, or is another one by now.
bool RepairOp::look() {
  const std::optional<Located> located = context_.index.find(block_);
  if (gone_ || !located || located->state != BlockState::kFlash) return false;
  VARVE_ASSERT(located->base_slot == base_slot_, located->base_slot, base_slot_);  // pinned
  located_ = *located;
  return true;
}

// Positions that this visit is for.
uint32_t RepairOp::wanted() const {
  if (kind_ == RepairKind::kComplete) {
    return ~located_.live & ((1u << context_.options.scheme.width()) - 1);
  }
  const uint32_t leaving = positions_leaving(context_, located_);
  return leaving & (~leaving + 1);  // the first
}

// Fragments that can be read; those at a suspect target only where it does not do without them.
uint32_t RepairOp::readable() const {
  uint32_t all = 0;
  uint32_t quick = 0;
  for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
    if (!located_.has(p)) continue;
    const uint32_t target = context_.index.place_of(located_, p).target;
    if (!context_.flash.target_ok(target) || context_.catalog->is_failed(target)) continue;
    all |= 1u << p;
    if (!context_.flash.target_suspect(target)) quick |= 1u << p;
  }
  return std::popcount(quick) >= static_cast<int>(context_.options.scheme.k) ? quick : all;
}

std::optional<RepairOutcome> RepairOp::start_lead() {
  const uint32_t from = readable();
  if (std::popcount(from) < static_cast<int>(context_.options.scheme.k)) {
    return RepairOutcome::kFailed;
  }
  flash::Place place;
  for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
    if ((from >> p & 1) == 0) continue;
    const flash::Place other = context_.index.place_of(located_, p);
    if (place.pages != 0 && other.lead_pages >= place.lead_pages) continue;  // the shortest
    place = other;
    lead_position_ = p;
  }
  Source& source = sources_[0];
  source.pages = context_.repair->take_pages(place.lead_pages);
  if (source.pages == nullptr) return RepairOutcome::kNoMemory;
  source.read.kind = flash::Read::Kind::kLead;
  source.read.attempt = Attempt{};
  source.read.fingerprint = Digest{};  // whatever it is: nobody is served from here
  aim(source);
  start_read(source, place, source.pages);
  return std::nullopt;
}

// At pages of its own.
void RepairOp::aim(Source& source) {
  const Slab& slab = source.pages->slab;
  source.runs.resize(kRunsMax);
  const uint32_t count =
      context_.tier.arena().pieces(slab, 0, bytes_of(slab.page_count), source.runs);
  source.runs.resize(count);
  source.at = PieceCursor(source.runs);
}

// `pages` are those that `runs` are of.
void RepairOp::start_read(Source& source, const flash::Place& place, RepairPages* pages) {
  flash::Read& read = source.read;
  read.block = block_;
  read.place = place;
  read.header_pages = 0;
  read.runs = source.runs;
  read.buffer_index = context_.options.buffer_index;
  read.wanted_ns = kNever;  // demand first (I11)
  read.status = Status();
  read.held = false;
  read.limbo.owner = pages;
  read.limbo.on_returned = [](void* owner) {
    auto& returned = *static_cast<RepairPages*>(owner);
    returned.table->give_pages(returned);
  };
  uint64_t bytes = 0;
  for (const iovec& run : source.runs)
    bytes += run.iov_len;
  context_.metrics.repair_read_bytes.add(bytes);
  context_.flash.read(read);
}

void RepairOp::read_done(Source& source) {
  if (source.read.held) (copying_ ? outputs_[0].pages : source.pages) = nullptr;  // the device's
  completed(source.read.status);
}

bool RepairOp::read_failed() {
  if (take_failure().ok()) return false;
  give_sources();
  copying_ = false;
  ++failures_;
  return true;
}

// What is to be written, and all that takes but the sources. A value: the visit is over.
std::optional<RepairOutcome> RepairOp::plan() {
  const Status loaded =
      plan_.load(sources_[0].runs, block_, context_.options.scheme, lead_position_);
  give_sources();
  if (!loaded.ok()) {
    context_.repair->say_corrupt(block_, loaded.what());
    return RepairOutcome::kCorrupt;
  }
  stripe_ = 0;
  const uint32_t positions = wanted();
  if (positions == 0) return RepairOutcome::kGone;  // what was found is not so any more
  const uint32_t used = targets_used(context_, located_);
  slice_ = slice_of(block_.base, context_.options.slices);
  const auto reserve = [](void* owner, uint32_t position, uint32_t target) {
    RepairOp& self = *static_cast<RepairOp*>(owner);
    return self.context_.flash.reserve(target, self.slice_, self.plan_.fragment_pages(position));
  };
  const Placer::Spots spots = context_.placer->place(block_.base, positions, used, reserve, this);
  for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
    if (spots.target[p] == Placer::kNone) continue;
    if (!take_output(p, spots.target[p])) {  // the next pass finds it again
      context_.flash.unreserve(spots.target[p], slice_, plan_.fragment_pages(p));
    }
  }
  while (output_count_ > 1 && !sources_fit())  // one after the other, then
    give_output();
  if (output_count_ > 0) {
    planned_bytes_ = 0;
    for (uint32_t i = 0; i < output_count_; ++i)
      planned_bytes_ += bytes_of(outputs_[i].append.pages);
    context_.repair->pace(planned_bytes_);
    return std::nullopt;
  }
  if (spots.count > 0) return RepairOutcome::kNoMemory;
  if ((context_.placer->usable() & ~used) == 0) return RepairOutcome::kUnplaced;
  context_.repair->no_space(slice_);
  return RepairOutcome::kNoSpace;
}

// Pages for a fragment whose space is reserved at `target`. False: no room.
bool RepairOp::take_output(uint32_t position, uint32_t target) {
  VARVE_ASSERT(output_count_ < outputs_max(context_.options.scheme), output_count_);
  Output& output = outputs_[output_count_];
  const uint32_t pages = plan_.fragment_pages(position);
  output.pages = context_.repair->take_pages(pages);
  if (output.pages == nullptr) return false;
  ++output_count_;
  output.position = position;
  output.reserved_pages = pages;
  output.append.target = target;
  output.append.slice = slice_;
  output.append.pages = pages;
  // Header and extents apart: flash wants to know which pieces hold the header.
  const uint64_t header_bytes = bytes_of(plan_.header_pages());
  const Arena& arena = context_.tier.arena();
  const Slab& slab = output.pages->slab;
  output.runs.resize(pages);
  const std::span<iovec> all(output.runs);
  const uint32_t header_count = arena.pieces(slab, 0, header_bytes, all);
  const uint32_t extent_count =
      arena.pieces(slab, header_bytes, bytes_of(pages) - header_bytes, all.subspan(header_count));
  output.runs.resize(header_count + extent_count);
  output.append.header_pages = std::span<const iovec>(output.runs).first(header_count);
  output.append.runs = output.runs;
  output.at = PieceCursor(all.subspan(header_count, extent_count));
  return true;
}

// The last one: what is not appended goes back.
void RepairOp::give_output() {
  VARVE_ASSERT(output_count_ > 0);
  Output& output = outputs_[--output_count_];
  if (output.pages != nullptr) context_.repair->give_pages(*output.pages);
  output.pages = nullptr;
  if (output.reserved_pages > 0) {
    context_.flash.unreserve(output.append.target, slice_, output.reserved_pages);
  }
  output.reserved_pages = 0;
}

bool RepairOp::sources_fit() const {
  const uint64_t limit = context_.tier.limit_bytes(Budget::kRepair);
  const uint64_t used = context_.tier.used_bytes(Budget::kRepair);
  VARVE_ASSERT(used <= limit, used, limit);
  const uint32_t outputs = output_positions();
  return bytes_of(plan_.source_pages(readable() & ~outputs, outputs)) <= limit - used;
}

// The next stripe of which an output holds something. False: none any more.
bool RepairOp::next_stripe() {
  for (; stripe_ < plan_.stripe_count(); ++stripe_) {
    if (plan_.loss(stripe_, 0, output_positions()).wanted != 0) return true;
  }
  return false;
}

uint32_t RepairOp::output_positions() const {
  uint32_t positions = 0;
  for (uint32_t i = 0; i < output_count_; ++i)
    positions |= 1u << outputs_[i].position;
  return positions;
}

// k extents of the stripe, or fewer where the rest is known to be zeros; and what they give. A
// value: the visit is over.
std::optional<RepairOutcome> RepairOp::start_reads() {
  reads_ = 0;
  const uint32_t from = readable();
  if ((from & output_positions()) != 0) {
    start_copy();
    return std::nullopt;
  }
  const Loss loss = plan_.loss(stripe_, from, output_positions());
  const Result<Coder> coder = Coder::rebuild(context_.options.scheme, loss);
  if (!coder) return RepairOutcome::kFailed;
  coder_ = *coder;
  for (size_t i = 0; i < coder_->sources().size(); ++i) {
    Source& source = sources_[i];
    const uint32_t extent = plan_.extent_at(stripe_, coder_->sources()[i]);
    source.bytes_left = 0;
    if (extent == RepairPlan::kNoExtent) continue;
    const ExtentEntry& row = plan_.row(extent);
    source.pages = context_.repair->take_pages(pages_of(row.stored_bytes));
    if (source.pages == nullptr) return RepairOutcome::kNoMemory;
    source.bytes_left = row.stored_bytes;
    source.read.kind = flash::Read::Kind::kExtent;
    source.read.attempt = plan_.attempt();
    source.read.extent = extent;
    source.read.entry = row;
    ++reads_;
  }
  VARVE_ASSERT(reads_ > 0);
  for (size_t i = 0; i < coder_->sources().size(); ++i) {
    Source& source = sources_[i];
    if (source.pages == nullptr) continue;
    const uint32_t fragment = plan_.fragment_of(source.read.extent);
    aim(source);
    start_read(source, context_.index.place_of(located_, fragment), source.pages);
  }
  digests_.clear();
  for (size_t i = 0; i < coder_->outputs().size(); ++i) {
    const uint32_t extent = plan_.extent_at(stripe_, coder_->outputs()[i]);
    const uint32_t fragment = plan_.fragment_of(extent);
    coded_[i] = std::find_if(outputs_, outputs_ + output_count_,
                             [&](const Output& o) { return o.position == fragment; });
    VARVE_ASSERT(coded_[i] != outputs_ + output_count_, fragment);
    coded_[i]->extent = extent;
    coded_[i]->bytes_left = plan_.row(extent).stored_bytes;
    digests_.emplace_back(checksum_seed(block_, extent, plan_.attempt()));
  }
  return std::nullopt;
}

// What moves is read into the pages from which it will be appended, and verified as every read is:
// against its row of the table (R1).
void RepairOp::start_copy() {
  VARVE_ASSERT(kind_ == RepairKind::kMove && output_count_ == 1, output_count_);
  Output& output = outputs_[0];
  Source& source = sources_[0];
  const uint32_t extent = plan_.held_by(output.position, stripe_);
  VARVE_ASSERT(extent != RepairPlan::kNoExtent && source.pages == nullptr, stripe_);
  const ExtentEntry& row = plan_.row(extent);
  output.extent = extent;
  source.runs.clear();
  PieceCursor at = output.at;
  for (uint64_t left = bytes_of(pages_of(row.stored_bytes)); left > 0;) {
    const ByteSpan piece = at.here().first(std::min<uint64_t>(left, at.here().size()));
    VARVE_ASSERT(!piece.empty(), left);
    source.runs.push_back({piece.data(), piece.size()});
    at.skip(piece.size());
    left -= piece.size();
  }
  source.read.kind = flash::Read::Kind::kExtent;
  source.read.attempt = plan_.attempt();
  source.read.extent = extent;
  source.read.entry = row;
  copying_ = true;
  reads_ = 1;
  start_read(source, context_.index.place_of(located_, output.position), output.pages);
}

void RepairOp::end_copy() {
  copying_ = false;
  Output& output = outputs_[0];
  const uint32_t stored = plan_.row(output.extent).stored_bytes;
  output.at.skip(stored);
  pad(output, stored);  // no checksum covers what lay there
}

// Zeros behind an extent, to the end of its page: in one piece.
void RepairOp::pad(Output& output, uint32_t stored_bytes) {
  const size_t bytes = bytes_of(pages_of(stored_bytes)) - stored_bytes;
  if (bytes == 0) return;
  std::memset(output.at.here().first(bytes).data(), 0, bytes);
  output.at.skip(bytes);
}

// Some columns of the stripe. False: that were all, their ends padded.
bool RepairOp::code_some() {
  for (uint32_t i = 0; i < kColumnsPerTurn; ++i) {
    const size_t bytes = column_bytes();
    if (bytes == 0) break;
    code_column(bytes);
  }
  if (column_bytes() > 0) return true;
  for (size_t i = 0; i < coder_->outputs().size(); ++i)
    pad(*coded_[i], plan_.row(coded_[i]->extent).stored_bytes);
  return false;
}

// Of the next column: up to where a piece ends that its extent goes on behind. 0: all is coded.
size_t RepairOp::column_bytes() const {
  size_t bytes = 0;
  size_t gap = kColumnBytes;
  const auto cut = [&](uint64_t bytes_left, const PieceCursor& at) {
    if (at.here().size() < bytes_left) gap = std::min(gap, at.here().size());
  };
  for (size_t i = 0; i < coder_->outputs().size(); ++i) {
    bytes = std::max<size_t>(bytes, coded_[i]->bytes_left);
    cut(coded_[i]->bytes_left, coded_[i]->at);
  }
  for (size_t i = 0; i < coder_->sources().size(); ++i)
    cut(sources_[i].bytes_left, sources_[i].at);
  return std::min(bytes, gap);
}

void RepairOp::code_column(size_t bytes) {
  ConstByteSpan from[kDataMax];
  ByteSpan to[kParityMax];
  const size_t from_count = coder_->sources().size();
  const size_t to_count = coder_->outputs().size();
  for (size_t i = 0; i < from_count; ++i) {
    Source& source = sources_[i];
    const size_t count = std::min<size_t>(bytes, source.bytes_left);
    from[i] = source.at.here().first(count);
    source.at.skip(count);
    source.bytes_left -= count;
  }
  for (size_t i = 0; i < to_count; ++i) {
    Output& output = *coded_[i];
    const size_t count = std::min<size_t>(bytes, output.bytes_left);
    to[i] = output.at.here().first(count);
    output.at.skip(count);
    output.bytes_left -= count;
  }
  coder_->run(std::span<const ConstByteSpan>(from, from_count),
              std::span<const ByteSpan>(to, to_count), digests_);
}

// R1: what was coded is what the writer had.
bool RepairOp::verify() {
  give_sources();
  for (size_t i = 0; i < coder_->outputs().size(); ++i) {
    const uint32_t extent = coded_[i]->extent;
    const ExtentEntry& row = plan_.row(extent);
    if (digests_[i].stored_crc() == row.stored_crc &&
        digests_[i].decoded_xxh3() == row.decoded_xxh3) {
      continue;
    }
    context_.repair->say_corrupt(block_, "what a stripe gives has another checksum");
    return false;
  }
  return true;
}

void RepairOp::start_appends() {
  const uint32_t all = (1u << context_.options.scheme.width()) - 1;
  const bool thin = (located_.live | output_positions()) != all;
  for (uint32_t i = 0; i < output_count_; ++i) {
    Output& output = outputs_[i];
    VARVE_ASSERT(output.at.here().empty(), output.position);  // every extent of it was coded
    flash::Append& append = output.append;
    plan_.write_header(output.position, thin, append.header_pages);
    append.header = reinterpret_cast<flash::FragmentHeader*>(append.runs.front().iov_base);
    append.buffer_index = context_.options.buffer_index;
    append.flush = flash::FlushBy::kSoon;  // nobody waits, and what is there is there already
    append.status = Status();
    append.held = false;
    append.limbo.owner = output.pages;
    append.limbo.on_returned = [](void* owner) {
      auto& pages = *static_cast<RepairPages*>(owner);
      pages.table->give_pages(pages);
    };
    output.reserved_pages = 0;  // the reservation is the append's now
    context_.flash.append(append);
  }
}

// The place is good in this turn only: published here, the rest follows when the op runs.
void RepairOp::append_done(Output& output) {
  const flash::Append& append = output.append;
  if (append.held) output.pages = nullptr;  // the device's, see RepairPages
  if (append.status.ok() && gone_) {
    context_.flash.release(append.place);
  } else if (append.status.ok() &&
             context_.catalog->repaired(block_, plan_.attempt(), output.position, append.place)) {
    ++written_;
    written_bytes_ += bytes_of(append.pages);
  }
  completed(append.status);
}

void RepairOp::give_sources() {
  for (Source& source : sources_) {
    if (source.pages != nullptr) context_.repair->give_pages(*source.pages);
    source.pages = nullptr;
  }
}

void RepairOp::finish(RepairOutcome outcome) {
  give_sources();
  while (output_count_ > 0)
    give_output();
  context_.index.lease_drop(base_slot_);
  base_slot_ = ~0u;
  const uint64_t bytes = outcome == RepairOutcome::kDone ? written_bytes_ : planned_bytes_;
  context_.repair->ended(*this, outcome, bytes);
}

}  // namespace varve
