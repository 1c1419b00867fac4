// Reads fragments and extents and verifies them against nonce, place, id, attempt and checksum.
// A segment with reads under way is not erased: its reader count holds reclaim back.
#include "server/flash/segment_reader.h"

#include <cstring>

#include "server/flash/fragment.h"

namespace varve::flash {

namespace {

IoClass class_of(const Read& read) {
  return read.wanted_ns == kNever ? IoClass::kBackRead : IoClass::kDemand;
}

}  // namespace

SegmentReader::Slot& SegmentReader::take_slot() {
  if (free_ == nullptr) {
    auto slot = std::make_unique<Slot>();
    slot->reader = this;
    slot->transfer.kind = DeviceKind::kRead;
    slot->transfer.owner = slot.get();
    slot->transfer.on_done = [](Transfer& transfer) {
      auto& ended = *static_cast<Slot*>(transfer.owner);
      ended.reader->done(ended);
    };
    free_ = slot.get();
    slots_.push_back(std::move(slot));
  }
  Slot& slot = *free_;
  VARVE_ASSERT(slot.read == nullptr);
  free_ = slot.next;
  slot.next = nullptr;
  return slot;
}

void SegmentReader::read(SliceLog& log, Read& read) {
  VARVE_ASSERT(read.on_done != nullptr && !read.runs.empty());
  VARVE_ASSERT(read.place.slice == log.slice() && read.place.target == log.target());
  VARVE_ASSERT(read.place.segment < log.segment_count(), read.place.segment);
  const bool lead = read.kind == Read::Kind::kLead;
  if (!lead) VARVE_ASSERT(!read.attempt.is_none());
  const Place& place = read.place;
  Slot& slot = take_slot();
  slot.log = &log;
  slot.read = &read;
  slot.started_ns = target_.reactor.now_ns();
  read.held = false;
  read.at_device_ns = 0;
  ++reading_;
  Segment& segment = log.segment(place.segment);
  // A table may come from memory that the caller did not verify, and pages may have been asked for
  // by another format than the fragment's: bounds are values, not asserts.
  const uint64_t first = lead ? 0 : read.entry.page_offset;
  const uint64_t count = lead ? place.lead_pages : pages_of(read.entry.stored_bytes);
  if (!segment.readable() || count == 0 || first + count > place.pages ||
      uint64_t{place.page} + place.pages > segment.used_pages) {
    target_.metrics.reads_stale.add();
    return end_early(slot, Status::corrupt("the place is not readable any more: look it up again"));
  }
  if (bytes_in(read.runs) < bytes_of(count)) {
    return end_early(slot, Status::invalid("fewer pages than what lies there"));
  }
  ++segment.readers;
  slot.nonce = segment.nonce;
  slot.sequence = segment.sequence;
  slot.tries = 1;
  slot.transfer.offset_bytes =
      target_.offset(log, place.segment, place.page + static_cast<uint32_t>(first));
  slot.transfer.length_bytes = bytes_of(count);
  slot.transfer.runs = read.runs;
  slot.transfer.buffer_index = read.buffer_index;
  slot.transfer.wanted_ns = read.wanted_ns;
  slot.transfer.limbo = read.limbo;
  slot.transfer.at_device_ns = &read.at_device_ns;
  target_.io.submit(slot.transfer, class_of(read));
}

void SegmentReader::end_early(Slot& slot, Status why) {
  VARVE_ASSERT(!why.ok());
  slot.early = why;
  early_.push(&slot);
  target_.reactor.make_ready(*this);
}

void SegmentReader::run() {
  for (size_t left = early_.size(); left > 0; --left) {
    Slot& slot = *early_.pop();
    finish(slot, slot.early);
  }
}

void SegmentReader::done(Slot& slot) {
  Read& read = *slot.read;
  Segment& segment = slot.log->segment(read.place.segment);
  VARVE_ASSERT(segment.readers > 0);
  VARVE_ASSERT(segment.nonce == slot.nonce);  // nobody erases under a reader
  const Status moved = slot.transfer.status;
  if (moved.code() == Code::kIo && target_.ok() && slot.tries < kTries) {
    ++slot.tries;
    target_.metrics.reads_retried.add();
    return target_.io.submit(slot.transfer, class_of(read));  // still counted as a reader
  }
  --segment.readers;
  if (segment.readers == 0 && segment.state == SegmentState::kReclaiming) {
    target_.changed(*slot.log);  // reclaim may be waiting for the last reader
  }
  read.held = slot.transfer.held;
  if (!moved.ok()) {
    target_.metrics.reads_failed.add();
    if (!target_.ok()) return finish(slot, Status::unavailable("target failed during read"));
    if (moved.code() != Code::kIo) return finish(slot, moved);
    target_.metrics.reads_media.add();
    return lost(slot, DropReason::kMedia, moved);
  }
  const Status status = verify(slot);
  if (status.ok()) {
    target_.metrics.reads.add();
    target_.metrics.read_bytes.add(slot.transfer.length_bytes);
    target_.metrics.read_seconds.record(target_.reactor.now_ns() - slot.started_ns);
    return finish(slot, status);
  }
  if (status.code() == Code::kInvalid) return finish(slot, status);
  target_.metrics.reads_corrupt.add();
  return lost(slot, DropReason::kRot, Status::corrupt(status.what()));
}

// The user forgets the place: from now on it is a miss, and may be written anew elsewhere.
void SegmentReader::lost(Slot& slot, DropReason reason, Status why) {
  const Read& read = *slot.read;
  VARVE_ASSERT(!why.ok());
  logf(LogLevel::kError, "flash",
       "%s: block %s rank %u on target %u slice %u segment %u page %u: %s; it is forgotten",
       drop_reason_name(reason), short_name(read.block.base).c_str(), read.block.rank,
       read.place.target, read.place.slice, read.place.segment, read.place.page, why.what());
  slot.log->forget_wanted();
  target_.user.on_lost(read.block, read.place, reason);
  target_.changed(*slot.log);
  finish(slot, why);
}

Status SegmentReader::verify(const Slot& slot) const {
  Read& read = *slot.read;
  if (read.kind == Read::Kind::kExtent) {
    return check_extent(read.runs, 0, read.block, read.extent, read.attempt, read.entry);
  }
  const Place& place = read.place;
  VARVE_RETURN_IF_ERROR(
      check_header(read.runs, {slot.nonce, slot.sequence, place.page, place.pages}));
  FragmentHeader header;
  std::memcpy(&header, read.runs.front().iov_base, sizeof(header));
  if (BlockId{header.base, header.rank, header.domain} != read.block) {
    return Status::corrupt("fragment of another block");
  }
  if (!read.fingerprint.is_zero() && header.fingerprint != read.fingerprint) {
    return Status::invalid("fragment of another format");  // the asker is wrong, not the drive
  }
  if (!read.attempt.is_none() && header.attempt != read.attempt) {
    return Status::corrupt("fragment of another attempt");
  }
  if (header.pages != place.pages ||
      header.header_pages + header.first_extent_pages != place.lead_pages) {
    return Status::corrupt("fragment of another size");
  }
  if (read.header_pages != 0 && read.header_pages != header.header_pages) {
    return Status::corrupt("fragment with another extent count");
  }
  const uint32_t first = first_held(header, 0);
  if (first < header.extent_count) {
    VARVE_RETURN_IF_ERROR(check_extent(read.runs, bytes_of(header.header_pages), read.block, first,
                                       header.attempt, table_entry(read.runs, first)));
  }
  read.attempt = header.attempt;
  return {};
}

void SegmentReader::finish(Slot& slot, Status status) {
  Read& read = *slot.read;
  VARVE_ASSERT(reading_ > 0);
  --reading_;
  slot.read = nullptr;
  slot.next = free_;
  free_ = &slot;
  read.status = status;
  read.on_done(read);
}

}  // namespace varve::flash
