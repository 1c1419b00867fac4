// What a header says, checked against the scheme, because it comes from a drive: its own checksum
// has held, but nothing has compared the stripes in its rows with its counts before.
#include "server/op/repair_plan.h"

#include <algorithm>
#include <cstring>

#include "common/placement/placement.h"

namespace varve {

namespace {

// Copies between flat memory and pieces.
void gather(PieceCursor from, std::byte* to, size_t bytes) {
  while (bytes > 0) {
    const ByteSpan here = from.here();
    VARVE_ASSERT(!here.empty(), bytes);
    const size_t count = std::min(bytes, here.size());
    std::memcpy(to, here.data(), count);
    from.skip(count);
    to += count;
    bytes -= count;
  }
}

void scatter(PieceCursor& to, const void* from, size_t bytes) {
  const auto* next = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const ByteSpan here = to.here();
    VARVE_ASSERT(!here.empty(), bytes);
    const size_t count = std::min(bytes, here.size());
    std::memcpy(here.data(), next, count);
    to.skip(count);
    next += count;
    bytes -= count;
  }
}

}  // namespace

RepairPlan::RepairPlan() {
  rows_.reserve(kExtentsMax);
  first_.reserve(kExtentsMax + 1);
}

Status RepairPlan::load(std::span<const iovec> lead, const BlockId& block, Scheme scheme,
                        uint32_t position) {
  VARVE_ASSERT(!lead.empty() && lead.front().iov_len >= sizeof(header_));
  VARVE_ASSERT(scheme.valid(), scheme.k, scheme.m);
  std::memcpy(&header_, lead.front().iov_base, sizeof(header_));
  scheme_ = scheme;
  rows_.clear();
  first_.clear();
  if (BlockId{header_.base, header_.rank, header_.domain} != block ||
      header_.position != position) {
    return Status::corrupt("repair: fragment of another block or position");
  }
  if (header_.k != scheme.k || header_.m != scheme.m) {
    return Status::corrupt("repair: fragment of another scheme");
  }
  if (header_.extent_count > kExtentsMax || header_.data_extent_count == 0 ||
      header_.data_extent_count > header_.extent_count ||
      header_.header_pages != flash::header_pages_of(header_.extent_count)) {
    return Status::corrupt("repair: extent counts");
  }
  rows_.resize(header_.extent_count);
  PieceCursor table(lead);
  table.skip(sizeof(header_));
  gather(table, reinterpret_cast<std::byte*>(rows_.data()), rows_.size() * sizeof(ExtentEntry));
  return find_stripes();
}

Status RepairPlan::find_stripes() {
  for (uint32_t e = 0; e < header_.data_extent_count; ++e) {
    if (rows_[e].stored_bytes == 0 || rows_[e].stored_bytes > kExtentBytesMax) {
      return Status::corrupt("repair: extent size");
    }
    if (rows_[e].stripe == first_.size()) {
      first_.push_back(e);
    } else if (rows_[e].stripe + 1u != first_.size() || e - first_.back() >= scheme_.k) {
      return Status::corrupt("repair: stripes of the table");
    }
  }
  const auto stripes = static_cast<uint32_t>(first_.size());
  first_.push_back(header_.data_extent_count);
  if (header_.extent_count != header_.data_extent_count + stripes * scheme_.m) {
    return Status::corrupt("repair: parity extents and stripes");
  }
  for (uint32_t s = 0; s < stripes; ++s) {
    uint32_t longest = 0;
    for (uint32_t e = first_[s]; e < first_[s + 1]; ++e)
      longest = std::max(longest, rows_[e].stored_bytes);
    for (uint32_t j = 0; j < scheme_.m; ++j) {
      const ExtentEntry& parity = rows_[extent_at(s, scheme_.k + j)];
      if (parity.stripe != s || parity.stored_bytes != longest) {
        return Status::corrupt("repair: parity of another stripe");
      }
    }
  }
  return Status();
}

uint32_t RepairPlan::extent_at(uint32_t stripe, uint32_t place) const {
  VARVE_ASSERT(stripe + 1 < first_.size(), stripe);
  VARVE_ASSERT(place < scheme_.width(), place);
  if (place >= scheme_.k) {
    return header_.data_extent_count + stripe * scheme_.m + (place - scheme_.k);
  }
  const uint32_t extent = first_[stripe] + place;
  return extent < first_[stripe + 1] ? extent : kNoExtent;
}

uint32_t RepairPlan::fragment_of(uint32_t extent) const {
  VARVE_ASSERT(extent < rows_.size(), extent);
  if (extent < header_.data_extent_count) {
    return position_of(extent, header_.rank, header_.base, scheme_.k);
  }
  return scheme_.k + (extent - header_.data_extent_count) % scheme_.m;
}

uint32_t RepairPlan::held_by(uint32_t position, uint32_t stripe) const {
  for (uint32_t place = 0; place < scheme_.width(); ++place) {
    const uint32_t extent = extent_at(stripe, place);
    if (extent != kNoExtent && fragment_of(extent) == position) return extent;
  }
  return kNoExtent;
}

uint32_t RepairPlan::fragment_pages(uint32_t position) const {
  VARVE_ASSERT(position < scheme_.width(), position);
  uint32_t pages = header_.header_pages;
  for (uint32_t e = 0; e < rows_.size(); ++e) {
    if (fragment_of(e) == position) pages += pages_of(rows_[e].stored_bytes);
  }
  return pages;
}

Loss RepairPlan::loss(uint32_t stripe, uint32_t readable, uint32_t wanted) const {
  VARVE_ASSERT((readable & wanted) == 0, readable, wanted);
  Loss loss;
  loss.present = hollow_positions(scheme_, first_[stripe + 1] - first_[stripe]);
  for (uint32_t place = 0; place < scheme_.width(); ++place) {
    const uint32_t extent = extent_at(stripe, place);
    if (extent == kNoExtent) continue;
    const uint32_t fragment = fragment_of(extent);
    if ((readable >> fragment & 1) != 0) loss.present |= static_cast<Positions>(1u << place);
    if ((wanted >> fragment & 1) != 0) loss.wanted |= static_cast<Positions>(1u << place);
  }
  return loss;
}

uint32_t RepairPlan::source_pages(uint32_t readable, uint32_t wanted) const {
  uint32_t most = 0;
  for (uint32_t s = 0; s < stripe_count(); ++s) {
    const Loss of = loss(s, readable, wanted);
    if (of.wanted == 0) continue;
    uint32_t pages = 0;
    uint32_t left = scheme_.k;  // the first that are present, as Coder takes them
    for (uint32_t place = 0; place < scheme_.width() && left > 0; ++place) {
      if ((of.present >> place & 1) == 0) continue;
      --left;
      const uint32_t extent = extent_at(s, place);
      if (extent != kNoExtent) pages += pages_of(rows_[extent].stored_bytes);
    }
    most = std::max(most, pages);
  }
  return most;
}

void RepairPlan::write_header(uint32_t position, bool thin, std::span<const iovec> pages) const {
  VARVE_ASSERT(position < scheme_.width(), position);
  flash::FragmentHeader header = header_;
  header.crc = 0;
  header.position = static_cast<uint8_t>(position);
  header.role = static_cast<uint8_t>(position < scheme_.k ? flash::FragmentRole::kData
                                                          : flash::FragmentRole::kParity);
  header.flags = thin ? flash::kFragmentThin : uint16_t{0};
  PieceCursor to(pages);
  scatter(to, &header, sizeof(header));
  scatter(to, rows_.data(), rows_.size() * sizeof(ExtentEntry));
  for (ByteSpan rest = to.here(); !rest.empty(); rest = to.here()) {
    std::memset(rest.data(), 0, rest.size());
    to.skip(rest.size());
  }
}

ByteSpan PieceCursor::here() const {
  if (pieces_.empty()) return {};
  const iovec& piece = pieces_.front();
  return {static_cast<std::byte*>(piece.iov_base) + offset_, piece.iov_len - offset_};
}

void PieceCursor::skip(size_t bytes) {
  while (bytes > 0) {
    const size_t left = here().size();
    VARVE_ASSERT(left > 0, bytes);
    if (bytes < left) {
      offset_ += bytes;
      return;
    }
    bytes -= left;
    pieces_ = pieces_.subspan(1);
    offset_ = 0;
  }
}

}  // namespace varve
