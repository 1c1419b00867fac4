// The double of flash: see the header for what it promises.
//
// Completions come from one timer, latency_ns after the request, in request order.
#include "tests/server/op/fake_flash.h"

#include <algorithm>
#include <cstring>

namespace varve {

namespace {

uint32_t position_of_extent(const flash::FragmentHeader& header, uint32_t extent) {
  if (extent < header.data_extent_count) {
    return position_of(extent, header.rank, header.base, header.k);
  }
  return header.k + (extent - header.data_extent_count) % header.m;
}

// Header and table lie in whole pages.
void store_piece(std::span<const iovec> pages, uint64_t at, const ExtentEntry& entry) {
  for (const iovec& piece : pages) {
    if (at < piece.iov_len) {
      std::memcpy(static_cast<std::byte*>(piece.iov_base) + at, &entry, sizeof(entry));
      return;
    }
    at -= piece.iov_len;
  }
  VARVE_ASSERT(false, at);
}

}  // namespace

FakeFlash::FakeFlash(Reactor& reactor, uint32_t targets, uint32_t slices)
    : ok(targets, true),
      reactor_(reactor),
      slices_(slices),
      used_pages_(targets * slices),
      next_page_(targets * slices) {
  timer_.owner = this;
  timer_.on_fire = [](Timer& timer) { static_cast<FakeFlash*>(timer.owner)->fire(); };
}

FakeFlash::~FakeFlash() {
  reactor_.cancel(timer_);
}

bool FakeFlash::reserve(uint32_t target, uint32_t slice, uint32_t pages) {
  uint32_t& used = used_pages_[target * slices_ + slice];
  if (used + pages > capacity_pages) {
    if (user != nullptr) user->on_room_wanted(target, slice, pages);
    if (used + pages > capacity_pages) return false;
  }
  used += pages;
  reserved_pages += pages;
  return true;
}

void FakeFlash::unreserve(uint32_t target, uint32_t slice, uint32_t pages) {
  VARVE_ASSERT(reserved_pages >= pages);
  reserved_pages -= pages;
  used_pages_[target * slices_ + slice] -= pages;
}

void FakeFlash::append(flash::Append& append) {
  uint64_t bytes = 0;
  for (const iovec& run : append.runs)
    bytes += run.iov_len;
  VARVE_ASSERT(bytes == bytes_of(append.pages), bytes, append.pages);
  VARVE_ASSERT(reserved_pages >= append.pages);
  reserved_pages -= append.pages;
  queue_.push_back(Work{.append = &append, .due_ns = reactor_.now_ns() + latency_ns});
  arm();
}

void FakeFlash::read(flash::Read& read) {
  (read.kind == flash::Read::Kind::kLead ? lead_reads : extent_reads) += 1;
  read_wanted_ns.push_back(read.wanted_ns);
  read.at_device_ns = reactor_.now_ns();
  queue_.push_back(Work{.read = &read, .due_ns = reactor_.now_ns() + latency_ns});
  arm();
}

void FakeFlash::release(const flash::Place& place) {
  const auto it = fragments_.find(key_of(place));
  VARVE_ASSERT(it != fragments_.end());  // released once, and only what was placed
  fragments_.erase(it);
  used_pages_[place.target * slices_ + place.slice] -= place.pages;
  ++releases;
}

void FakeFlash::kill(flash::Kill& kill) {
  VARVE_ASSERT(kill.limit.target == 0 && kill.target < ok.size(), kill.target);
  queue_.push_back(Work{.kill = &kill, .due_ns = reactor_.now_ns() + latency_ns});
  arm();
}

void FakeFlash::raise(flash::Raise& raise) {
  VARVE_ASSERT(raise.rows.size() <= flash::kGenerationsMax);
  queue_.push_back(Work{.raise = &raise, .due_ns = reactor_.now_ns() + latency_ns});
  arm();
}

void FakeFlash::let_go() {
  hold_reads = hold_appends = hold_kills = false;
  arm();
}

void FakeFlash::adopt(const flash::Place& place, const BlockId& block) {
  fragments_[key_of(place)].block = block;
  used_pages_[place.target * slices_ + place.slice] += place.pages;
}

bool FakeFlash::is_whole(const BlockId& block, uint32_t position) const {
  for (const auto& [key, fragment] : fragments_) {
    const auto header = load<flash::FragmentHeader>(fragment.bytes);
    if (fragment.block == block && header.position == position) return true;
  }
  return false;
}

flash::Place FakeFlash::copy_of(const flash::Place& place, uint32_t target) {
  const uint32_t room = target * slices_ + place.slice;
  flash::Place copy = place;
  copy.target = static_cast<uint8_t>(target);
  copy.page = next_page_[room];
  next_page_[room] += place.pages;
  used_pages_[room] += place.pages;
  fragments_[key_of(copy)] = fragments_.at(key_of(place));
  return copy;
}

void FakeFlash::return_limbo() {
  std::vector<flash::Limbo> all;
  all.swap(limbo_);
  for (const flash::Limbo& limbo : all)
    limbo.on_returned(limbo.owner);
}

void FakeFlash::rot(const BlockId& block, int position) {
  for (auto& [key, fragment] : fragments_) {
    const auto header = load<flash::FragmentHeader>(fragment.bytes);
    if (position >= 0 && header.position != position) continue;
    if (fragment.block == block) fragment.bytes.back() ^= std::byte{1};
    if (fragment.block == block) fragment.bytes[fragment.bytes.size() / 2] ^= std::byte{1};
  }
}

bool FakeFlash::is_held(const Work& work) const {
  if (work.raise != nullptr) return false;
  if (work.kill != nullptr) return hold_kills;
  const uint32_t target = work.read != nullptr ? work.read->place.target : work.append->target;
  if ((hold_targets >> target & 1) == 0) return false;
  return work.read != nullptr ? hold_reads : hold_appends;
}

void FakeFlash::arm() {
  Nanos due_ns = kNever;
  for (const Work& work : queue_) {
    if (!is_held(work)) due_ns = std::min(due_ns, work.due_ns);
  }
  if (due_ns == kNever) return reactor_.cancel(timer_);
  const Nanos now_ns = reactor_.now_ns();
  reactor_.arm(timer_, due_ns > now_ns ? due_ns - now_ns : 0);
}

void FakeFlash::fire() {
  std::vector<Work> due;
  for (size_t i = 0; i < queue_.size();) {
    if (is_held(queue_[i]) || queue_[i].due_ns > reactor_.now_ns()) {
      ++i;
      continue;
    }
    due.push_back(queue_[i]);
    queue_.erase(queue_.begin() + static_cast<ptrdiff_t>(i));
  }
  for (const Work& work : due)
    finish(work);
  arm();
}

void FakeFlash::finish(const Work& work) {
  if (work.append != nullptr) return finish_append(*work.append);
  if (work.kill != nullptr) {
    flash::Kill& kill = *work.kill;
    kill.status = ok[kill.target] ? fail_kills : Status::unavailable("target");
    if (kill.status.ok()) {
      killed.push_back({kill.target, kill.slice, kill.away, kill.base, kill.limit, kill.domain});
    }
    return kill.on_done(kill);
  }
  if (work.raise != nullptr) {
    work.raise->status = fail_raise;
    if (fail_raise.ok()) rows = work.raise->rows;
    return work.raise->on_done(*work.raise);
  }
  flash::Read& read = *work.read;
  read.held = false;
  read.status = fail_reads.ok() ? read_now(read) : fail_reads;
  if (!ok[read.place.target]) read.status = Status::unavailable("target");
  if (!read.status.ok() && held_by_device) {
    read.held = true;
    limbo_.push_back(read.limbo);
  }
  read.on_done(read);
}

void FakeFlash::finish_append(flash::Append& append) {
  const uint32_t room = append.target * slices_ + append.slice;
  append.held = false;
  append.status = fail_appends;
  if (!ok[append.target]) append.status = Status::unavailable("target");
  if (!append.status.ok()) {
    used_pages_[room] -= append.pages;
    if (held_by_device) {
      append.held = true;
      limbo_.push_back(append.limbo);
    }
    return append.on_done(append);
  }
  Fragment fragment;
  fragment.block = {append.header->base, append.header->rank, append.header->domain};
  const uint32_t header_pages = flash::header_pages_of(append.header->extent_count);
  append.header->header_pages = header_pages;
  append.header->pages = append.pages;
  for (const iovec& run : append.runs) {
    const auto* data = static_cast<const std::byte*>(run.iov_base);
    fragment.bytes.insert(fragment.bytes.end(), data, data + run.iov_len);
  }
  uint32_t lead_pages = header_pages;
  uint32_t pages[kWidthMax];  // of each position's fragment so far
  std::fill(std::begin(pages), std::end(pages), header_pages);
  const uint32_t own = append.header->position;
  for (uint32_t e = 0; e < append.header->extent_count; ++e) {
    const uint32_t position = position_of_extent(*append.header, e);
    auto entry = load<ExtentEntry>(fragment.bytes, 256 + 32 * e);
    entry.page_offset = pages[position];
    pages[position] += pages_of(entry.stored_bytes);
    if (position == own && entry.page_offset == header_pages) lead_pages = pages[position];
    store(ByteSpan(fragment.bytes), 256 + 32 * e, entry);
    // What the real one lays out in place.
    store_piece(append.header_pages, 256 + 32 * e, entry);
  }
  VARVE_ASSERT(pages[own] == append.pages, pages[own], append.pages);
  append.place = flash::Place{.target = static_cast<uint8_t>(append.target),
                              .slice = static_cast<uint8_t>(append.slice),
                              .segment = 0,
                              .page = next_page_[room],
                              .pages = append.pages,
                              .lead_pages = lead_pages};
  next_page_[room] += append.pages;
  fragments_[key_of(append.place)] = std::move(fragment);
  ++appends_done;
  ++(append.flush == flash::FlushBy::kNow ? appends_now : appends_soon);
  append.on_done(append);
}

Status FakeFlash::read_now(flash::Read& read) {
  const auto it = fragments_.find(key_of(read.place));
  if (it == fragments_.end() || it->second.block != read.block) return Status::corrupt("place");
  const std::vector<std::byte>& bytes = it->second.bytes;
  const auto header = load<flash::FragmentHeader>(bytes);
  const bool lead = read.kind == flash::Read::Kind::kLead;
  if (lead && header.fingerprint != read.fingerprint) return Status::invalid("fingerprint");
  uint32_t extent = read.extent;
  while (lead && extent < header.extent_count &&
         position_of_extent(header, extent) != header.position)
    ++extent;  // (from what the caller believes, which is the first it holds)
  const auto entry = load<ExtentEntry>(bytes, 256 + 32 * extent);
  const uint64_t begin = lead ? 0 : bytes_of(entry.page_offset);
  const uint64_t end = bytes_of(entry.page_offset + pages_of(entry.stored_bytes));
  uint64_t at = begin;
  for (const iovec& run : read.runs) {
    VARVE_ASSERT(at + run.iov_len <= bytes.size());
    std::memcpy(run.iov_base, bytes.data() + at, run.iov_len);
    at += run.iov_len;
  }
  VARVE_ASSERT(at == end, at, end);
  const ChecksumSeed seed = checksum_seed(read.block, extent, header.attempt);
  const ConstByteSpan stored(bytes.data() + bytes_of(entry.page_offset), entry.stored_bytes);
  if (crc32c(seed.stored, stored) != entry.stored_crc) return Status::corrupt("checksum");
  if (lead) {
    read.attempt = header.attempt;
  } else {
    VARVE_ASSERT(read.attempt == header.attempt);
  }
  return Status();
}

}  // namespace varve
