// Geometry of a target and the states of the segments of one slice.
// Free segments are handed out oldest first; the order of everything here is deterministic.
#include "server/flash/segment.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace varve::flash {

namespace {

constexpr uint64_t kSegmentBytesMin = 4 * kMiB;
constexpr uint64_t kSegmentBytesMax = 256 * kMiB;
// Fewer and a reclaim would need a large part of the slice to move what it holds.
constexpr uint32_t kSegmentsWanted = 7;
// A slice of this size has segments of 64 MiB, so that blocks of 32 MiB fit. Small targets get
// fewer slices rather than small ones.
constexpr uint64_t kSliceBytesWanted = 512 * kMiB;

uint32_t checkpoint_pages_for(uint64_t room_pages, uint32_t segment_pages) {
  const uint64_t rows = room_pages / segment_pages;
  const uint64_t least = 1 + (rows + kRowsPerPage - 1) / kRowsPerPage + 2;
  return static_cast<uint32_t>(std::max(room_pages / 1024, least));
}

uint32_t segment_pages_for(uint64_t room_pages) {
  for (uint64_t bytes = kSegmentBytesMax; bytes > kSegmentBytesMin; bytes /= 2) {
    const uint32_t pages = pages_of(bytes);
    const uint64_t areas = 2ull * checkpoint_pages_for(room_pages, pages);
    if (room_pages >= areas + uint64_t{kSegmentsWanted} * pages) return pages;
  }
  return pages_of(kSegmentBytesMin);
}

Status check(const TargetGeometry& g) {
  if (!std::has_single_bit(g.slices) || g.slices > kSlicesMax) {
    return Status::invalid("slices must be a power of two, at most 64");
  }
  if (g.segment_pages < kSegmentPagesMin || g.segment_pages > kSegmentPagesMax) {
    return Status::invalid("segment pages must be 8 .. 65536");
  }
  if (g.segments < kSegmentsMin || g.segments > kSegmentsMax) {
    return Status::invalid("target too small or too large: 6 .. 65535 segments a slice");
  }
  const uint32_t least = 1 + (g.segments + kRowsPerPage - 1) / kRowsPerPage + 1;
  if (g.checkpoint_pages < least || g.checkpoint_pages > (1u << 24)) {
    return Status::invalid("checkpoint pages: room for header, table and entries is needed");
  }
  return Status::ok_status();
}

}  // namespace

uint32_t choose_slices(uint64_t capacity_bytes, uint32_t slices_min) {
  VARVE_ASSERT(slices_min >= 1 && slices_min <= kSlicesMax, slices_min);
  const uint64_t fit = std::clamp<uint64_t>(capacity_bytes / kSliceBytesWanted, 1, kSlicesDefault);
  return std::max(static_cast<uint32_t>(std::bit_floor(fit)), std::bit_ceil(slices_min));
}

Result<TargetGeometry> choose_geometry(uint64_t capacity_bytes, const Geometry& wanted) {
  TargetGeometry g;
  g.slices = wanted.slices != 0 ? wanted.slices : choose_slices(capacity_bytes, 1);
  if (!std::has_single_bit(g.slices) || g.slices > kSlicesMax) {
    return Status::invalid("slices must be a power of two, at most 64");
  }
  const uint64_t pages = capacity_bytes / kPageBytes;
  if (pages <= kHeadPages) return Status::invalid("target smaller than 1 MiB");
  const uint64_t room = (pages - kHeadPages) / g.slices;
  g.segment_pages = wanted.segment_pages != 0 ? wanted.segment_pages : segment_pages_for(room);
  if (g.segment_pages < kSegmentPagesMin || g.segment_pages > kSegmentPagesMax) {
    return Status::invalid("segment pages must be 8 .. 65536");
  }
  g.checkpoint_pages = checkpoint_pages_for(room, g.segment_pages);
  if (room <= 2ull * g.checkpoint_pages) return Status::invalid("target too small");
  g.segments = static_cast<uint32_t>(
      std::min<uint64_t>((room - 2ull * g.checkpoint_pages) / g.segment_pages, kSegmentsMax));
  VARVE_RETURN_IF_ERROR(check(g));
  VARVE_ASSERT(bytes_of(g.pages()) <= capacity_bytes);
  return g;
}

Result<TargetGeometry> geometry_of(const Superblock& super) {
  TargetGeometry g;
  g.slices = super.slices;
  g.segment_pages = super.segment_pages;
  g.segments = super.segments_per_slice;
  g.checkpoint_pages = super.checkpoint_pages;
  VARVE_RETURN_IF_ERROR(check(g));
  if (bytes_of(g.pages()) > super.capacity_bytes) {
    return Status::corrupt("superblock geometry exceeds its capacity");
  }
  if (geometry_hash(super) != super.geometry_hash) {
    return Status::corrupt("superblock geometry does not match its hash");
  }
  return g;
}

Digest geometry_hash(const Superblock& super) {
  std::byte bytes[28] = {};
  store(bytes, 0, super.capacity_bytes);
  store(bytes, 8, super.slices);
  store(bytes, 12, super.segment_pages);
  store(bytes, 16, super.segments_per_slice);
  store(bytes, 20, super.checkpoint_pages);
  store(bytes, 24, super.k);
  store(bytes, 25, super.m);
  return Sha256().update(bytes).finish();
}

SliceLog::SliceLog(const TargetGeometry& geometry, uint32_t target, uint32_t slice,
                   uint32_t kept_free)
    : geometry_(geometry), target_(target), slice_(slice) {
  VARVE_ASSERT(target < kTargetsMax, target);
  VARVE_ASSERT(slice < geometry.slices, slice, geometry.slices);
  VARVE_ASSERT(kept_free >= 1, kept_free);
  // Small slices keep one: two of eight would be a quarter of the target.
  kept_free_ = geometry.segments < 16 ? 1 : std::min(kept_free, geometry.segments / 8);
  low_water_ = kept_free_ + std::max(1u, geometry.segments / 16);
  segments_.resize(geometry.segments);
  free_.reserve(2ull * geometry.segments);
  reservations_.reserve(256);
}

bool SliceLog::fits(const OpenSegment& open, uint32_t pages) const {
  const uint32_t count = open.entries + open.reserved_count + 1;
  if (count > kSegmentFragmentsMax) return false;
  const uint64_t end = uint64_t{open.cursor} + open.reserved_pages + pages + footer_pages_of(count);
  return end <= geometry_.segment_pages;
}

OpenSegment* SliceLog::open_new(SegmentUse use) {
  VARVE_ASSERT(free_count() > 0);
  const uint32_t index = free_[free_head_++];
  Segment& segment = segments_[index];
  VARVE_ASSERT(segment.state == SegmentState::kFree, index);
  VARVE_ASSERT(segment.live_pages == 0 && segment.readers == 0, index);
  if (spare_.empty()) spare_.push_back(std::make_unique<OpenSegment>());
  open_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  OpenSegment& open = *open_.back();
  open = OpenSegment();
  open.segment = index;
  open.use = use;
  segment.state = SegmentState::kOpen;
  segment.open = &open;
  segment.used_pages = 1;
  return &open;
}

bool SliceLog::reserve(uint32_t pages) {
  VARVE_ASSERT(pages >= 1 && pages <= geometry_.fragment_pages_max(), pages);
  if (!ready) return false;
  OpenSegment* found = nullptr;
  for (const auto& open : open_) {
    if (open->use == SegmentUse::kAppend && fits(*open, pages)) {
      found = open.get();
      break;
    }
  }
  if (found == nullptr && free_count() > kept_free_) found = open_new(SegmentUse::kAppend);
  if (found == nullptr) return false;
  VARVE_ASSERT(fits(*found, pages));
  found->reserved_pages += pages;
  ++found->reserved_count;
  reserved_pages_ += pages;
  reservations_.push_back({pages, found});
  return true;
}

void SliceLog::unreserve(uint32_t pages) {
  OpenSegment& open = take_reserved(pages);
  append_ended(open);
}

OpenSegment& SliceLog::take_reserved(uint32_t pages) {
  for (size_t i = 0; i < reservations_.size(); ++i) {
    if (reservations_[i].pages != pages) continue;
    OpenSegment& open = *reservations_[i].open;
    reservations_.erase(reservations_.begin() + static_cast<ptrdiff_t>(i));
    VARVE_ASSERT(open.reserved_pages >= pages && open.reserved_count > 0);
    open.reserved_pages -= pages;
    --open.reserved_count;
    reserved_pages_ -= pages;
    ++open.pending;
    return open;
  }
  VARVE_ASSERT(false, pages);  // L2: nothing of this size was reserved
  return *open_.front();
}

OpenSegment* SliceLog::take_reclaim(uint32_t pages) {
  VARVE_ASSERT(pages <= geometry_.fragment_pages_max(), pages);
  OpenSegment* found = nullptr;
  for (const auto& open : open_) {
    if (open->use == SegmentUse::kReclaim && fits(*open, pages)) found = open.get();
  }
  if (found == nullptr && free_count() > 0) found = open_new(SegmentUse::kReclaim);
  if (found != nullptr) ++found->pending;
  return found;
}

// Reclaim takes victims that gain a sixteenth when it is pressed (reclaim.cc), so a sixteenth of
// its own segment may go to records without stopping it.
OpenSegment* SliceLog::take_kill() {
  OpenSegment* found = nullptr;
  for (const auto& open : open_) {
    const bool appends = open->use == SegmentUse::kAppend;
    if (!appends && (free_count() == 0 || open->kills >= kills_in_reclaim_max())) continue;
    if (fits(*open, 1) && (found == nullptr || appends)) found = open.get();
  }
  if (found == nullptr && free_count() > kept_free_) found = open_new(SegmentUse::kAppend);
  if (found == nullptr) return nullptr;
  ++found->pending;
  ++found->kills;
  return found;
}

SliceLog::Oldest SliceLog::oldest() const {
  Oldest oldest{next_sequence_, segment_count(), next_sequence_};  // of one that will be opened
  for (uint32_t i = 0; i < segment_count(); ++i) {
    const Segment& segment = segments_[i];
    const bool bad = segment.state == SegmentState::kBad;
    if (!bad && (segment.state == SegmentState::kFree || segment.sequence == 0)) continue;
    const uint64_t sequence = bad ? 0 : segment.sequence;
    if (sequence < oldest.sequence) {
      oldest = {sequence, i, oldest.sequence};
    } else {
      oldest.but_for_that = std::min(oldest.but_for_that, sequence);
    }
  }
  return oldest;
}

uint64_t SliceLog::oldest_sequence(uint32_t except) const {
  return oldest().of_others(except);
}

Place SliceLog::place(OpenSegment& open, uint32_t pages, uint32_t lead_pages) {
  VARVE_ASSERT(open.pending > 0);
  VARVE_ASSERT(fits(open, pages), open.cursor, pages);
  VARVE_ASSERT(lead_pages >= 1 && lead_pages <= pages, lead_pages, pages);
  Place place;
  place.target = static_cast<uint8_t>(target_);
  place.slice = static_cast<uint8_t>(slice_);
  place.segment = static_cast<uint16_t>(open.segment);
  place.page = open.cursor;
  place.pages = pages;
  place.lead_pages = lead_pages;
  open.cursor += pages;
  ++open.entries;
  segments_[open.segment].used_pages = open.cursor;
  live_add(open.segment, pages);
  written_pages += pages;
  return place;
}

Place SliceLog::place_kill(OpenSegment& open, uint32_t domain, uint64_t until) {
  const Place place = this->place(open, 1, 1);
  kill_note(segments_[open.segment], domain, until);
  return place;
}

void SliceLog::kill_add(uint32_t index, uint32_t domain, uint64_t until) {
  live_add(index, 1);
  kill_note(segments_[index], domain, until);
}

void SliceLog::kill_note(Segment& segment, uint32_t domain, uint64_t until) {
  ++kill_pages_;
  ++kill_pages_of_[domain];
  ++segment.kill_pages;
  ++segment.kill_pages_of[domain];
  segment.kills_until = std::max(segment.kills_until, until);
}

void SliceLog::kill_drop(uint32_t index, uint32_t domain) {
  Segment& segment = segments_[index];
  VARVE_ASSERT(segment.kill_pages > 0 && segment.kill_pages <= segment.live_pages, index);
  VARVE_ASSERT(kill_pages_ >= segment.kill_pages, kill_pages_);
  const auto in_segment = segment.kill_pages_of.find(domain);
  const auto in_log = kill_pages_of_.find(domain);
  VARVE_ASSERT(in_segment != segment.kill_pages_of.end() && in_log != kill_pages_of_.end(), domain);
  --kill_pages_;
  --segment.kill_pages;
  if (--in_segment->second == 0) segment.kill_pages_of.erase(in_segment);
  if (--in_log->second == 0) kill_pages_of_.erase(in_log);
  live_drop(index, 1);
}

bool SliceLog::has_kill(uint32_t index, uint32_t domain) const {
  return segments_[index].kill_pages_of.contains(domain);
}

bool SliceLog::kills_full(uint32_t domain, uint32_t domains) const {
  VARVE_ASSERT(domains > 0);
  if (kill_pages_ >= kill_pages_max()) return true;
  const auto own = kill_pages_of_.find(domain);
  return own != kill_pages_of_.end() && own->second >= kill_pages_max() / domains;
}

void SliceLog::append_ended(OpenSegment& open) {
  VARVE_ASSERT(open.pending > 0);
  --open.pending;
}

OpenSegment* SliceLog::next_to_seal(SealScope scope) {
  OpenSegment* newest[2] = {nullptr, nullptr};
  for (const auto& open : open_)
    newest[static_cast<size_t>(open->use)] = open.get();
  for (size_t i = 0; i < open_.size();) {
    OpenSegment& open = *open_[i];
    const bool quiet = open.pending == 0 && open.reserved_count == 0;
    const bool newest_kept =
        scope == SealScope::kFull && newest[static_cast<size_t>(open.use)] == &open;
    if (!quiet || newest_kept) {
      ++i;
    } else if (open.io == nullptr) {  // never written: as free as before
      VARVE_ASSERT(open.entries == 0);
      const uint32_t index = open.segment;
      forget(open);
      free_push(index);
    } else {
      return &open;
    }
  }
  return nullptr;
}

void SliceLog::sealing(OpenSegment& open) {
  VARVE_ASSERT(open.pending == 0 && open.reserved_count == 0);
  segments_[open.segment].state = SegmentState::kSealing;
  if (open.use == SegmentUse::kAppend) stalled_ = false;  // reclaim's own copies are no news
  forget(open);
}

void SliceLog::forget(OpenSegment& open) {
  segments_[open.segment].open = nullptr;
  for (size_t i = 0; i < open_.size(); ++i) {
    if (open_[i].get() != &open) continue;
    spare_.push_back(std::move(open_[i]));
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(i));
    return;
  }
  VARVE_ASSERT(false, open.segment);
}

void SliceLog::sealed(uint32_t index) {
  Segment& segment = segments_[index];
  VARVE_ASSERT(segment.state == SegmentState::kSealing || segment.state == SegmentState::kUnknown);
  segment.state = SegmentState::kSealed;
  ++changed_segments;
}

void SliceLog::live_add(uint32_t index, uint32_t pages) {
  Segment& segment = segments_[index];
  segment.live_pages += pages;
  ++segment.live_count;
  live_pages_ += pages;
  VARVE_ASSERT(segment.live_pages < geometry_.segment_pages, index, segment.live_pages);
}

void SliceLog::live_drop(uint32_t index, uint32_t pages) {
  Segment& segment = segments_[index];
  VARVE_ASSERT(segment.live_pages >= pages, index, segment.live_pages, pages);
  VARVE_ASSERT(live_pages_ >= pages);
  VARVE_ASSERT(segment.live_count > 0, index);
  segment.live_pages -= pages;
  --segment.live_count;
  live_pages_ -= pages;
  const uint64_t worth = std::max(1u, geometry_.segment_pages / 16);
  const bool empty = segment.live_count == 0;
  if (stalled_ && (empty || live_pages_ + worth <= stall_live_pages_)) stalled_ = false;
}

uint32_t SliceLog::gain(const Segment& segment) const {
  return gain(segment, oldest());
}

uint32_t SliceLog::gain(const Segment& segment, const Oldest& oldest) const {
  const auto index = static_cast<uint32_t>(&segment - segments_.data());
  const bool over = oldest.of_others(index) > segment.kills_until;
  const uint32_t records = over ? segment.kill_pages : 0;  // of one page each
  const uint32_t usable = geometry_.fragment_pages_max();
  VARVE_ASSERT(records <= segment.live_count, records, segment.live_count);
  const uint32_t count = segment.live_count - records;
  if (count == 0) return usable;
  const uint32_t average = (segment.live_pages - records) / count;
  VARVE_ASSERT(average > 0);
  const uint32_t room = usable / average;
  return room > count ? (room - count) * average : 0;
}

void SliceLog::stall() {
  if (!stalled_) stall_live_pages_ = live_pages_;
  stalled_ = true;
}

std::optional<uint32_t> SliceLog::victim() const {
  const Oldest oldest = this->oldest();
  std::optional<uint32_t> best;
  for (uint32_t i = 0; i < segment_count(); ++i) {
    const Segment& segment = segments_[i];
    if (segment.state != SegmentState::kSealed || segment.footer_rotten) continue;
    if (best.has_value()) {
      const Segment& other = segments_[*best];
      const uint32_t mine = gain(segment, oldest);
      const uint32_t theirs = gain(other, oldest);
      if (mine < theirs) continue;
      if (mine == theirs && segment.sequence > other.sequence) continue;
    }
    best = i;
  }
  return best;
}

void SliceLog::reclaiming(uint32_t index) {
  VARVE_ASSERT(segments_[index].state == SegmentState::kSealed, index);
  segments_[index].state = SegmentState::kReclaiming;
}

void SliceLog::reclaim_given_up(uint32_t index) {
  VARVE_ASSERT(segments_[index].state == SegmentState::kReclaiming, index);
  segments_[index].state = SegmentState::kSealed;
}

void SliceLog::erasing(uint32_t index) {
  Segment& segment = segments_[index];
  VARVE_ASSERT(segment.state == SegmentState::kReclaiming ||
               segment.state == SegmentState::kUnknown);
  VARVE_ASSERT(segment.live_pages == 0, index, segment.live_pages);
  VARVE_ASSERT(segment.readers == 0, index);
  segment.state = SegmentState::kErasing;
}

void SliceLog::erased(uint32_t index) {
  VARVE_ASSERT(segments_[index].state == SegmentState::kErasing, index);
  ++changed_segments;
  free_push(index);
}

void SliceLog::free_found(uint32_t index) {
  VARVE_ASSERT(segments_[index].state == SegmentState::kUnknown, index);
  free_push(index);
}

void SliceLog::free_push(uint32_t index) {
  segments_[index] = Segment();
  segments_[index].state = SegmentState::kFree;
  if (free_head_ > segments_.size()) {  // drop the consumed front now and then
    free_.erase(free_.begin(), free_.begin() + free_head_);
    free_head_ = 0;
  }
  free_.push_back(static_cast<uint16_t>(index));
}

void SliceLog::sequence_seen(uint64_t sequence) {
  if (sequence >= next_sequence_) next_sequence_ = sequence + 1;
}

}  // namespace varve::flash
