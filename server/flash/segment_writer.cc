// Appends fragments and seals segments; see the header for when a write counts.
// A failed target needs no path of its own: what is submitted to it ends with its failure.
#include "server/flash/segment_writer.h"

#include <cstring>

#include "server/flash/fragment.h"
#include "server/flash/kill.h"

namespace varve::flash {

SegmentIo::SegmentIo(SegmentWriter& of_writer) : Op(of_writer.target_.reactor), writer(of_writer) {
  header_run = {header.page(0), kPageBytes};
  header_transfer.kind = DeviceKind::kWrite;
  header_transfer.runs = {&header_run, 1};
  header_transfer.length_bytes = kPageBytes;
  header_transfer.owner = this;
  header_transfer.on_done = [](Transfer& transfer) {
    auto& io = *static_cast<SegmentIo*>(transfer.owner);
    io.writer.header_done(io, transfer.status);
  };
  footer_transfer.kind = DeviceKind::kWrite;
  footer_transfer.owner = this;
  footer_transfer.on_done = [](Transfer& transfer) {
    static_cast<SegmentIo*>(transfer.owner)->completed(transfer.status);
  };
  flush.owner = this;
  flush.on_done = [](FlushWaiter& waiter) {
    static_cast<SegmentIo*>(waiter.owner)->completed(waiter.status);
  };
  // This memory lives as long as the writer, and a stuck target gets no more I/O.
  header_transfer.limbo.on_returned = [](void*) {};
  footer_transfer.limbo.on_returned = [](void*) {};
}

void SegmentIo::run() {
  RunScope scope(*this);
  if (Status status = take_failure(); !status.ok()) return writer.seal_done(*this, status);
  Target& target = writer.target_;
  switch (stage) {
    case Stage::kFlush:
      stage = Stage::kFooter;
      target.flusher.wait(flush);
      return wait(1);
    case Stage::kFooter: {
      const Segment& sealed = log->segment(segment);
      FooterTrailer trailer;
      trailer.slice = log->slice();
      trailer.segment = segment;
      trailer.entry_count = footer.count();
      trailer.sequence = sealed.sequence;
      trailer.nonce = sealed.nonce;
      std::memcpy(trailer.target_uuid, target.info.super.target_uuid, 16);
      trailer.used_pages = sealed.used_pages;
      trailer.boot_generation = target.info.super.boot_generation;
      footer_transfer.runs = footer.finish(trailer);
      const auto pages = static_cast<uint32_t>(footer_transfer.runs.size());
      VARVE_ASSERT(sealed.used_pages + pages <= target.geometry.segment_pages);
      footer_transfer.length_bytes = bytes_of(pages);
      footer_transfer.offset_bytes =
          target.offset(*log, segment, target.geometry.segment_pages - pages);
      stage = Stage::kDone;
      target.io.submit(footer_transfer, IoClass::kBackWrite);
      return wait(1);
    }
    case Stage::kDone:
      target.flusher.note_write();
      return writer.seal_done(*this, Status::ok_status());
  }
}

void SegmentWriter::append(SliceLog& log, Append& append) {
  VARVE_ASSERT(append.header != nullptr && append.on_done != nullptr);
  VARVE_ASSERT(!append.runs.empty() && !append.header_pages.empty());
  VARVE_ASSERT(append.runs.front().iov_base == append.header);
  FragmentHeader& header = *append.header;
  lay_out(append.header_pages, header);
  VARVE_ASSERT(header.pages == append.pages, header.pages, append.pages);
  OpenSegment& open_segment = log.take_reserved(append.pages);
  SegmentIo& io = open(log, open_segment);
  append.place =
      log.place(open_segment, append.pages, header.header_pages + header.first_extent_pages);
  append.held = false;
  const Segment& segment = log.segment(open_segment.segment);
  seal_header(append.header_pages, header,
              {segment.nonce, segment.sequence, append.place.page, append.pages});
  io.footer.add(entry_of(header));

  Slot& slot = take_slot();
  slot.append = &append;
  slot.log = &log;
  slot.open = &open_segment;
  slot.started_ns = target_.reactor.now_ns();
  slot.transfer.offset_bytes = target_.offset(log, open_segment.segment, append.place.page);
  slot.transfer.length_bytes = bytes_of(append.pages);
  slot.transfer.runs = append.runs;
  slot.transfer.buffer_index = append.buffer_index;
  slot.transfer.limbo = append.limbo;
  ++appending_;
  target_.metrics.appends.add();
  target_.metrics.append_bytes.add(bytes_of(append.pages));
  target_.io.submit(slot.transfer, IoClass::kAppend);
}

void SegmentWriter::kill(SliceLog& log, OpenSegment& open_segment, Kill& kill) {
  VARVE_ASSERT(kill.on_done != nullptr && kill.limit.target == 0);
  SegmentIo& io = open(log, open_segment);
  const KillInfo info = {.base = kill.base,
                         .limit = kill.limit,
                         .away = kill.away,
                         .domain = kill.domain,
                         .last_sequence = log.last_sequence()};
  const Place place = log.place_kill(open_segment, info.domain, kill_until(info));
  const Segment& segment = log.segment(open_segment.segment);
  Slot& slot = take_slot();
  if (slot.page == nullptr) slot.page = std::make_unique<PageMemory>(1);
  fill_kill_record(slot.page->span(0, 1), info, {segment.nonce, segment.sequence, place.page, 1});
  io.footer.add(entry_of(info, place.page));
  slot.kill = &kill;
  slot.log = &log;
  slot.open = &open_segment;
  slot.started_ns = target_.reactor.now_ns();
  slot.page_run = {slot.page->page(0), kPageBytes};
  slot.transfer.offset_bytes = target_.offset(log, open_segment.segment, place.page);
  slot.transfer.length_bytes = kPageBytes;
  slot.transfer.runs = {&slot.page_run, 1};
  slot.transfer.buffer_index = -1;
  slot.transfer.limbo = {};  // the page lives as long as the writer
  slot.transfer.limbo.on_returned = [](void*) {};
  ++appending_;
  target_.metrics.kills.add();
  target_.metrics.kills_live.add(1);
  target_.io.submit(slot.transfer, IoClass::kAppend);
}

SegmentWriter::Slot& SegmentWriter::take_slot() {
  if (free_slots_ == nullptr) {
    auto slot = std::make_unique<Slot>();
    slot->writer = this;
    slot->transfer.kind = DeviceKind::kWrite;
    slot->transfer.owner = slot->header.owner = slot->flush.owner = slot.get();
    slot->transfer.on_done = [](Transfer& transfer) {
      auto& done = *static_cast<Slot*>(transfer.owner);
      done.writer->write_done(done);
    };
    slot->header.on_done = [](HeaderWaiter& waiter, Status status) {
      auto& done = *static_cast<Slot*>(waiter.owner);
      done.writer->written(done, status);
    };
    slot->flush.on_done = [](FlushWaiter& waiter) {
      auto& done = *static_cast<Slot*>(waiter.owner);
      done.writer->finish(done, waiter.status);
    };
    free_slots_ = slot.get();
    slots_.push_back(std::move(slot));
  }
  Slot& slot = *free_slots_;
  free_slots_ = slot.next_free;
  slot.next_free = nullptr;
  return slot;
}

SegmentIo& SegmentWriter::take_io(SliceLog& log, uint32_t segment) {
  if (free_ios_.empty()) {
    ios_.push_back(std::make_unique<SegmentIo>(*this));
    free_ios_.push_back(ios_.back().get());
  }
  SegmentIo& io = *free_ios_.back();
  free_ios_.pop_back();
  io.log = &log;
  io.segment = segment;
  io.footer.clear();
  io.header_written = false;
  io.header_status = Status();
  io.sealed_waiter = nullptr;
  return io;
}

SegmentIo& SegmentWriter::open(SliceLog& log, OpenSegment& open_segment) {
  if (open_segment.io != nullptr) return *open_segment.io;
  SegmentIo& io = take_io(log, open_segment.segment);
  open_segment.io = &io;
  Segment& segment = log.segment(open_segment.segment);
  segment.sequence = log.take_sequence();
  do {
    segment.nonce = target_.entropy.next64();
  } while (segment.nonce == 0);
  SegmentHeader header;
  std::memcpy(header.target_uuid, target_.info.super.target_uuid, 16);
  header.slice = log.slice();
  header.segment = open_segment.segment;
  header.sequence = segment.sequence;
  header.nonce = segment.nonce;
  header.boot_generation = target_.info.super.boot_generation;
  fill_segment_header(io.header.span(0, 1), header);
  io.header_transfer.offset_bytes = target_.offset(log, open_segment.segment, 0);
  target_.io.submit(io.header_transfer, IoClass::kAppend);
  return io;
}

void SegmentWriter::header_done(SegmentIo& io, Status status) {
  io.header_written = true;
  io.header_status = status;
  while (HeaderWaiter* waiter = io.header_waiters.pop())
    waiter->on_done(*waiter, status);
}

bool SegmentWriter::header_written(SegmentIo& io, HeaderWaiter& waiter) {
  if (io.header_written && io.header_status.ok()) return true;
  VARVE_ASSERT(!io.header_written || !target_.ok());
  if (io.header_written) return true;  // failed with its target: what follows fails by itself
  io.header_waiters.push(&waiter);
  return false;
}

void SegmentWriter::write_done(Slot& slot) {
  if (slot.append != nullptr) slot.append->held = slot.transfer.held;
  if (!slot.transfer.status.ok()) return finish(slot, slot.transfer.status);
  SegmentIo& io = *slot.open->io;
  if (!header_written(io, slot.header)) return;
  written(slot, io.header_status);
}

void SegmentWriter::written(Slot& slot, Status status) {
  if (!status.ok()) return finish(slot, status);
  const bool mutant = slot.kill != nullptr ? target_.options.purge_before_flush_mutant
                                           : target_.options.ack_before_flush_mutant;
  if (!mutant) {
    const FlushBy by = slot.append != nullptr ? slot.append->flush : FlushBy::kNow;
    return target_.flusher.wait(slot.flush, by);
  }
  target_.flusher.note_write();
  finish(slot, Status::ok_status());
}

// The user's on_done comes last: it may call back into Flash.
void SegmentWriter::finish(Slot& slot, Status status) {
  if (slot.kill != nullptr) return finish_kill(slot, status);
  Append& append = *slot.append;
  SliceLog& log = *slot.log;
  VARVE_ASSERT(appending_ > 0);
  --appending_;
  target_.metrics.append_seconds.record(target_.reactor.now_ns() - slot.started_ns);
  log.append_ended(*slot.open);
  slot.append = nullptr;
  slot.next_free = free_slots_;
  free_slots_ = &slot;
  append.status = status.ok() ? status : Status::unavailable("target failed during append");
  append.on_done(append);
  target_.changed(log);
}

void SegmentWriter::finish_kill(Slot& slot, Status status) {
  Kill& kill = *slot.kill;
  SliceLog& log = *slot.log;
  VARVE_ASSERT(appending_ > 0);
  --appending_;
  log.append_ended(*slot.open);
  slot.kill = nullptr;
  slot.next_free = free_slots_;
  free_slots_ = &slot;
  kill.status = status.ok() ? status : Status::unavailable("target failed during a purge");
  kill.on_done(kill);
  target_.changed(log);
}

void SegmentWriter::seal_quiet(SliceLog& log, SealScope scope) {
  while (OpenSegment* open_segment = log.next_to_seal(scope)) {
    SegmentIo& io = *open_segment->io;
    log.sealing(*open_segment);
    seal(io);
  }
}

SegmentIo& SegmentWriter::adopt(SliceLog& log, uint32_t segment) {
  VARVE_ASSERT(log.segment(segment).state == SegmentState::kUnknown, segment);
  SegmentIo& io = take_io(log, segment);
  io.header_written = true;
  return io;
}

void SegmentWriter::seal(SegmentIo& io) {
  VARVE_ASSERT(io.header_written && io.header_waiters.empty());
  io.begin();
  ++sealing_;
  target_.reactor.make_ready(io);
}

void SegmentWriter::seal_done(SegmentIo& io, Status status) {
  VARVE_ASSERT(sealing_ > 0);
  --sealing_;
  SliceLog& log = *io.log;
  Op* waiter = io.sealed_waiter;
  if (status.ok()) {
    log.sealed(io.segment);
    target_.metrics.seals.add();
  }
  free_ios_.push_back(&io);
  if (waiter != nullptr) waiter->completed(status);
  target_.changed(log);
}

}  // namespace varve::flash
