// StripeIn: masks of positions decide, so every question about a stripe is one line of bits.
#include "client/stripe_in.h"

#include <algorithm>
#include <bit>

namespace varve {

namespace {
constexpr Positions bit(uint32_t position) {
  return static_cast<Positions>(1u << position);
}
uint32_t count_of(Positions positions) {
  return static_cast<uint32_t>(std::popcount(positions));
}
}  // namespace

StripeIn::StripeIn(const ExtentTable& table, const Of& of) : table_(&table), of_(of) {
  VARVE_ASSERT(of.stripe < table.stripes.size(), of.stripe);
  // Of the members all that the pull does not bring, and one for each that it may be owed.
  sources_.resize(stripe().count - count_of(of.whole) + table.scheme.m);
}

uint32_t StripeIn::extent_at(uint32_t position) const {
  const uint32_t k = table_->scheme.k;
  VARVE_ASSERT(position < table_->scheme.width(), position);
  return position < k ? stripe().first + position : table_->parity_at(of_.stripe, position - k);
}

uint32_t StripeIn::position_of(uint32_t extent) const {
  VARVE_ASSERT(table_->stripe_at(extent) == of_.stripe, extent, of_.stripe);
  const uint32_t n = table_->data_count();
  if (extent < n) return extent - stripe().first;
  return table_->scheme.k + (extent - n) % table_->scheme.m;
}

StripeIn::Owe StripeIn::owe(uint32_t extent, Why why, const ExtentEntry& entry) {
  if (Owed* known = find_owed(extent); known != nullptr) {
    if (why == Why::kLost) known->why = why;  // a hedge that is needed after all
    settle_if_here(*known);
    return Owe::kTaken;
  }
  Owed* free = nullptr;
  bool waits = false;
  for (uint32_t i = 0; i < table_->scheme.m; ++i) {
    Owed& owed = owed_[i];
    const bool gives_way = why == Why::kLost && owed.why == Why::kLate && !owed.rebuilt;
    if (owed.extent == kNone) {
      free = &owed;
      break;
    }
    if (gives_way) free = &owed;
    waits |= owed.why == Why::kLate;  // one that is rebuilt is a source when it is delivered
  }
  if (free == nullptr) return waits && why == Why::kLost ? Owe::kWait : Owe::kFull;
  *free = Owed();
  free->extent = extent;
  free->why = why;
  free->entry = entry;
  settle_if_here(*free);
  return Owe::kTaken;
}

void StripeIn::settle_if_here(Owed& owed) {
  Source* here = find_source(owed.extent);
  if (here != nullptr && here->state == Source::State::kHere) settle(*here, owed, here->crc);
}

StripeIn::Owed* StripeIn::find_owed(uint32_t extent) {
  const auto found = std::find_if(owed_.begin(), owed_.end(),
                                  [extent](const Owed& o) { return o.extent == extent; });
  return found == owed_.end() ? nullptr : &*found;
}

bool StripeIn::owes(Why why) const {
  return std::any_of(owed_.begin(), owed_.end(),
                     [why](const Owed& o) { return o.extent != kNone && o.why == why; });
}

Positions StripeIn::owed_positions() const {
  Positions positions = 0;
  for (const Owed& owed : owed_)
    positions |= owed.extent == kNone ? Positions{0} : bit(position_of(owed.extent));
  return positions;
}

bool StripeIn::quiet() const {
  return std::none_of(sources_.begin(), sources_.end(), [](const Source& s) {
    return s.receiving || s.state == Source::State::kAsked;
  });
}

uint32_t StripeIn::free_sources() const {
  return static_cast<uint32_t>(std::count_if(sources_.begin(), sources_.end(), [](const Source& s) {
    return s.state == Source::State::kFree && !s.receiving;
  }));
}

Positions StripeIn::here(const Sight& sight) const {
  Positions positions = sight.here | hollow_positions(table_->scheme, stripe().count);
  for (const Source& source : sources_) {
    if (source.state == Source::State::kHere) positions |= bit(position_of(source.extent));
  }
  return positions & static_cast<Positions>(~owed_positions());
}

Positions StripeIn::coming(const Sight& sight) const {
  Positions positions = sight.coming;
  for (const Source& source : sources_) {
    const bool under_way =
        source.state == Source::State::kWanted || source.state == Source::State::kAsked;
    if (under_way) positions |= bit(position_of(source.extent));
  }
  return positions;
}

uint32_t StripeIn::missing(const Sight& sight) const {
  const uint32_t count = count_of(here(sight) | coming(sight));
  return count < table_->scheme.k ? table_->scheme.k - count : 0;
}

Positions StripeIn::idle(const Sight& sight) const {
  const uint32_t all = (1u << table_->scheme.width()) - 1;
  Positions owed = 0;
  for (const Owed& one : owed_) {
    const bool asked = looks_ > 0 && one.why == Why::kLost && !one.rebuilt;
    if (one.extent != kNone && !asked) owed |= bit(position_of(one.extent));
  }
  return static_cast<Positions>(all & ~(here(sight) | coming(sight) | sight.late | gone_ | owed));
}

void StripeIn::want(const Sight& sight, uint32_t count, std::vector<uint32_t>& out) {
  Positions left = idle(sight);
  for (Source& source : sources_) {
    if (count == 0 || left == 0) return;
    if (source.state != Source::State::kFree || source.receiving) continue;
    source.extent = extent_at(static_cast<uint32_t>(std::countr_zero(left)));
    source.state = Source::State::kWanted;
    out.push_back(source.extent);
    left &= static_cast<Positions>(left - 1);
    --count;
  }
}

StripeIn::Source* StripeIn::find_source(uint32_t extent) {
  const auto found = std::find_if(sources_.begin(), sources_.end(), [extent](const Source& s) {
    return s.extent == extent && s.state != Source::State::kFree;
  });
  return found == sources_.end() ? nullptr : &*found;
}

void StripeIn::lose(Source& source) {
  VARVE_ASSERT(source.state != Source::State::kFree && source.extent != kNone);
  gone_ |= bit(position_of(source.extent));
  forget(source);
}

void StripeIn::lose_for_good(Source& source) {
  for_good_ = true;
  lose(source);
}

// The daemon leaves out what is slow where it believes that others suffice, and it may believe so
// of one fragment now and of another then.
bool StripeIn::look_again() {
  if (for_good_ || looks_ == kLooksMax) return false;
  ++looks_;
  gone_ = 0;
  return true;
}

// What was owed came after all, as a source.
void StripeIn::settle(Source& source, Owed& owed, uint32_t stored_crc) {
  if (owed.why != Why::kLost || owed.rebuilt) return;
  if (stored_crc != owed.entry.stored_crc) return lose_for_good(source);  // D1
  const auto first = static_cast<uint32_t>(&source - sources_.data()) * columns_each();
  const uint32_t bytes = table_->bytes_at(owed.extent);
  for (uint32_t at = 0; at < bytes; at += kColumnBytes) {
    std::memcpy(outcome(owed)[at / kColumnBytes], columns_[first + at / kColumnBytes],
                std::min(kColumnBytes, bytes - at));
  }
  owed.rebuilt = true;
  forget(source);
}

void StripeIn::forget(Source& source) {
  VARVE_ASSERT(source.state != Source::State::kFree);
  source = Source{.receiving = source.receiving};
}

void StripeIn::place(Source& source, uint32_t bytes, Placement& where) {
  VARVE_ASSERT(source.state == Source::State::kAsked && !source.receiving);
  VARVE_ASSERT(columns_.size() == columns_needed(), columns_.size());
  VARVE_ASSERT(bytes > 0 && source.received + bytes <= table_->bytes_at(source.extent), bytes);
  if (source.received == 0) {
    source.crc = checksum_seed(of_.id, source.extent, of_.attempt).stored;
  }
  const auto first = static_cast<uint32_t>(&source - sources_.data()) * columns_each();
  for (uint32_t at = source.received; bytes > 0;) {
    const uint32_t inside = at % kColumnBytes;
    const uint32_t length = std::min(bytes, kColumnBytes - inside);
    where.add(columns_[first + at / kColumnBytes] + inside, length);
    at += length;
    bytes -= length;
  }
  source.receiving = true;
}

StripeIn::Source* StripeIn::find_lent(const Placement& where) {
  VARVE_ASSERT(where.count > 0);
  const auto* at = static_cast<const std::byte*>(where.pieces[0].iov_base);
  for (size_t s = 0; s < sources_.size(); ++s) {
    if (!sources_[s].receiving) continue;
    for (uint32_t c = 0; c < columns_each(); ++c) {
      const std::byte* column = columns_[s * columns_each() + c];
      if (at >= column && at < column + kColumnBytes) return &sources_[s];
    }
  }
  return nullptr;
}

bool StripeIn::received(Source& source, const Placement& where, uint32_t stored_crc) {
  VARVE_ASSERT(source.receiving);
  source.receiving = false;
  if (source.state != Source::State::kAsked) return false;  // lost or forgotten meanwhile
  for (uint32_t i = 0; i < where.count; ++i) {
    const iovec& piece = where.pieces[i];
    source.crc = crc32c(source.crc, {static_cast<std::byte*>(piece.iov_base), piece.iov_len});
    source.received += static_cast<uint32_t>(piece.iov_len);
  }
  VARVE_ASSERT(source.received <= table_->bytes_at(source.extent), source.received);
  if (source.received < table_->bytes_at(source.extent)) return false;
  if (source.crc != stored_crc) {
    lose_for_good(source);
    return false;
  }
  source.state = Source::State::kHere;
  if (Owed* owed = find_owed(source.extent)) settle(source, *owed, stored_crc);
  return true;
}

bool StripeIn::ready(const Sight& sight) const {
  const bool rebuilt = std::all_of(owed_.begin(), owed_.end(),
                                   [](const Owed& o) { return o.extent == kNone || o.rebuilt; });
  return !rebuilt && count_of(here(sight)) >= table_->scheme.k;
}

std::span<std::byte* const> StripeIn::outcome(const Owed& owed) const {
  const auto index = static_cast<uint32_t>(&owed - owed_.data());
  VARVE_ASSERT(index < table_->scheme.m && columns_.size() == columns_needed(), index);
  return std::span(columns_).subspan((sources_max() + index) * columns_each(),
                                     columns_of(table_->bytes_at(owed.extent)));
}

// A column at most; empty behind the end of the extent, and where the stripe has no member.
ConstByteSpan StripeIn::source_bytes(uint32_t position, uint32_t offset, const BoundLayout& layout,
                                     ByteSpan gather) const {
  const bool hollow = position < table_->scheme.k && position >= stripe().count;
  if (hollow) return {};
  const uint32_t extent = extent_at(position);
  const uint32_t end = table_->bytes_at(extent);
  if (offset >= end) return {};
  const uint32_t bytes = std::min(kColumnBytes, end - offset);
  for (size_t s = 0; s < sources_.size(); ++s) {
    const Source& source = sources_[s];
    if (source.extent != extent || source.state != Source::State::kHere) continue;
    return {columns_[s * columns_each() + offset / kColumnBytes], bytes};
  }
  VARVE_ASSERT((of_.whole & bit(position)) != 0, position);  // D1: the pull verified it
  return layout.view(of_.slot, table_->extents[extent], offset, bytes, gather);
}

Status StripeIn::rebuild(const Sight& sight, const BoundLayout& layout, ByteSpan gather) {
  VARVE_ASSERT(gather.size() >= size_t{kDataMax} * kColumnBytes, gather.size());
  Loss loss;
  loss.present = here(sight);
  std::array<Owed*, kParityMax> wanted{};
  std::vector<ExtentDigest> digests;
  uint32_t bytes = 0;
  for (Owed& owed : owed_) {
    if (owed.extent == kNone || owed.rebuilt) continue;
    loss.wanted |= bit(position_of(owed.extent));
    bytes = std::max(bytes, table_->bytes_at(owed.extent));
  }
  VARVE_TRY(const Coder coder, Coder::rebuild(table_->scheme, loss));
  VARVE_ASSERT(coder.outputs().size() <= wanted.size() && bytes > 0, bytes);
  for (const uint8_t position : coder.outputs()) {
    wanted[digests.size()] = find_owed(extent_at(position));
    digests.emplace_back(checksum_seed(of_.id, extent_at(position), of_.attempt));
  }
  for (uint32_t offset = 0; offset < bytes; offset += kColumnBytes) {
    ConstByteSpan sources[kDataMax];
    ByteSpan outputs[kParityMax];
    for (size_t s = 0; s < coder.sources().size(); ++s) {
      sources[s] = source_bytes(coder.sources()[s], offset, layout,
                                gather.subspan(s * kColumnBytes, kColumnBytes));
    }
    for (size_t o = 0; o < digests.size(); ++o) {
      const uint32_t end = table_->bytes_at(wanted[o]->extent);
      if (offset >= end) continue;
      outputs[o] = {outcome(*wanted[o])[offset / kColumnBytes],
                    std::min(kColumnBytes, end - offset)};
    }
    coder.run({sources, coder.sources().size()}, {outputs, digests.size()}, digests);
  }
  for (size_t o = 0; o < digests.size(); ++o) {
    const ExtentEntry& entry = wanted[o]->entry;
    const bool sound = digests[o].stored_crc() == entry.stored_crc &&
                       digests[o].decoded_xxh3() == entry.decoded_xxh3;
    if (!sound) return Status::corrupt("a rebuilt extent is not what was committed");  // D1
    wanted[o]->rebuilt = true;
  }
  return Status();
}

}  // namespace varve
