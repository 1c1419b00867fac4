// BlockDevice: geometry, bounds, short I/O, retries and failure, in one place for every kind of
// drive. An heir only moves bytes; what a result means is decided here.
#include <algorithm>
#include <cerrno>

#include "common/device/device.h"

namespace varve {

namespace {

constexpr Nanos kRetryDelayMin = 100 * kMicrosecond;
constexpr Nanos kRetryDelayMax = 10 * kMillisecond;
constexpr Nanos kNextTurn = 1;  // due this much later, a timer fires in a later turn

bool moves_bytes(DeviceKind kind) {
  return kind == DeviceKind::kRead || kind == DeviceKind::kWrite;
}

IoKind io_kind(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kRead:
      return IoKind::kRead;
    case DeviceKind::kWrite:
      return IoKind::kWrite;
    case DeviceKind::kFlush:
      return IoKind::kFlush;
    case DeviceKind::kDiscard:
      return IoKind::kDiscard;
  }
  VARVE_ASSERT(false, static_cast<uint32_t>(kind));
  return IoKind::kRead;
}

// What a drive says about one place on it; the rest of the drive may be well.
bool is_media_error(DeviceKind kind, int32_t error) {
  return kind == DeviceKind::kRead && (error == EIO || error == ENODATA || error == EILSEQ);
}

}  // namespace

BlockDevice::BlockDevice(Reactor& reactor, std::string name, uint64_t capacity_bytes)
    : reactor_(reactor), name_(std::move(name)), capacity_bytes_(capacity_bytes) {
  VARVE_ASSERT(capacity_bytes > 0 && capacity_bytes % kPageBytes == 0, capacity_bytes);
}

Status BlockDevice::read_now(uint64_t, ByteSpan) {
  return Status::unsupported("this device has no blocking read");
}

Status BlockDevice::write_now(uint64_t, ConstByteSpan) {
  return Status::unsupported("this device has no blocking write");
}

void BlockDevice::check_geometry(const DeviceIo& io) const {
  if (io.kind == DeviceKind::kFlush) return;
  VARVE_ASSERT(io.offset_bytes % kPageBytes == 0, io.offset_bytes);  // D1
  VARVE_ASSERT(io.length_bytes % kPageBytes == 0, io.length_bytes);
  VARVE_ASSERT(io.length_bytes > 0);
  VARVE_ASSERT(io.offset_bytes <= capacity_bytes_, io.offset_bytes, capacity_bytes_);
  VARVE_ASSERT(io.length_bytes <= capacity_bytes_ - io.offset_bytes, io.offset_bytes,
               io.length_bytes, capacity_bytes_);
  if (!moves_bytes(io.kind)) return;
  VARVE_ASSERT(io.iov_count > 0 && io.iov_count <= kIoVectorsMax, io.iov_count);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < io.iov_count; ++i) {
    VARVE_ASSERT(reinterpret_cast<uintptr_t>(io.iov[i].iov_base) % kPageBytes == 0);
    VARVE_ASSERT(io.iov[i].iov_len > 0 && io.iov[i].iov_len % kPageBytes == 0, io.iov[i].iov_len);
    sum += io.iov[i].iov_len;
  }
  VARVE_ASSERT(sum == io.length_bytes, sum, io.length_bytes);
}

void BlockDevice::submit(DeviceIo& io) {
  VARVE_ASSERT(reactor_.on_owner_core());
  VARVE_ASSERT(!io.in_flight);
  VARVE_ASSERT(io.on_done != nullptr);
  check_geometry(io);
  io.in_flight = true;
  io.status = Status();
  io.started_ns = reactor_.now_ns();
  io.device = this;
  io.retries = 0;
  io.moved_bytes = 0;
  io.skipped_bytes = 0;
  ++in_flight_;
  if (failed()) return later(io, kNextTurn);  // D4
  switch (io.kind) {
    case DeviceKind::kRead:
      ++counters_.reads;
      break;
    case DeviceKind::kWrite:
      ++counters_.writes;
      break;
    case DeviceKind::kFlush:
      ++counters_.flushes;
      break;
    case DeviceKind::kDiscard:
      ++counters_.discards;
      break;
  }
  attempt(io);
}

// Describes what remains in io.io and hands it to the heir. When an earlier attempt ended inside an
// iovec, that iovec is moved on for this attempt and restored in progress().
void BlockDevice::attempt(DeviceIo& io) {
  io.io.kind = io_kind(io.kind);
  io.io.offset = io.offset_bytes + io.moved_bytes;
  io.io.bytes = io.length_bytes - io.moved_bytes;
  io.io.iov = nullptr;
  io.io.iov_count = 0;
  io.io.buffer_index = -1;
  if (moves_bytes(io.kind)) {
    uint64_t skip = io.moved_bytes;
    uint32_t first = 0;
    while (skip >= io.iov[first].iov_len)
      skip -= io.iov[first++].iov_len;
    VARVE_ASSERT(first < io.iov_count, first, io.iov_count);
    io.iov[first].iov_base = static_cast<std::byte*>(io.iov[first].iov_base) + skip;
    io.iov[first].iov_len -= skip;
    io.skipped_bytes = skip;
    io.io.iov = io.iov + first;
    io.io.iov_count = io.iov_count - first;
    if (io.io.iov_count == 1) io.io.buffer_index = io.buffer_index;
  }
  VARVE_ASSERT(!starting_);
  starting_ = true;
  start(io);
  starting_ = false;
}

void BlockDevice::progress(DeviceIo& io, int64_t result) {
  VARVE_ASSERT(io.in_flight && io.device == this);
  VARVE_ASSERT(!starting_);  // R1
  if (io.skipped_bytes > 0) {
    io.io.iov->iov_base = static_cast<std::byte*>(io.io.iov->iov_base) - io.skipped_bytes;
    io.io.iov->iov_len += io.skipped_bytes;
    io.skipped_bytes = 0;
  }
  if (result < 0) {
    const auto error = static_cast<int32_t>(-result);
    if (error == EAGAIN || error == EINTR) return retry(io, error);
    return give_up(io, error);
  }
  if (!moves_bytes(io.kind)) return finish(io, Status());
  moved(io, static_cast<uint64_t>(result));
}

void BlockDevice::moved(DeviceIo& io, uint64_t bytes) {
  const uint64_t left = io.length_bytes - io.moved_bytes;
  VARVE_ASSERT(bytes <= left, bytes, left);
  if (bytes == left) {
    if (io.kind == DeviceKind::kRead) media_place_count_ = 0;
    uint64_t& total = io.kind == DeviceKind::kRead ? counters_.read_bytes : counters_.written_bytes;
    total += io.length_bytes;
    return finish(io, Status());
  }
  if (bytes == 0 && io.kind == DeviceKind::kRead) return give_up(io, ENODEV);  // D3: unplugged
  ++counters_.short_ios;
  // The rest must start on a page again, so what was moved of the last page is moved once more.
  const uint64_t whole = round_down(bytes, kPageBytes);
  if (whole == 0) return retry(io, EIO);
  io.moved_bytes += whole;
  attempt(io);
}

// D3: at most kRetriesMax times, with a pause unless a signal was the cause.
void BlockDevice::retry(DeviceIo& io, int32_t error) {
  if (io.retries >= kRetriesMax) return give_up(io, error);
  const Nanos delay_ns = std::min(kRetryDelayMax, kRetryDelayMin << std::min(io.retries, 10u));
  ++io.retries;
  ++counters_.retries;
  later(io, error == EINTR ? kNextTurn : delay_ns);
}

// D4, D5: ends the request with its cause and, unless the error is about one place, the device.
void BlockDevice::give_up(DeviceIo& io, int32_t error) {
  ++counters_.errors;
  // Advice that a drive does not take costs nobody anything; a drive that is gone is gone.
  if (io.kind == DeviceKind::kDiscard && error != ENODEV && error != ENXIO) {
    return finish(io, Status(Code::kUnsupported, "the drive knows no discard", error));
  }
  if (is_media_error(io.kind, error)) {
    note_media_error(io, error);
    return finish(io, Status::io("media error", error));
  }
  Status cause = Status::io("device error", error);
  if (error == ENODEV || error == ENXIO) cause = Status(Code::kUnavailable, "drive lost", error);
  if (error == ENOSPC || error == EDQUOT) cause = Status(Code::kNoSpace, "no space left", error);
  fail(cause);
  finish(io, cause);
}

// A client that asks for one bad block again and again must not take the drive away from all
// others: only distinct places count.
void BlockDevice::note_media_error(const DeviceIo& io, int32_t error) {
  ++counters_.media_errors;
  const uint64_t place_bytes =
      std::clamp<uint64_t>(capacity_bytes_ / (2 * kMediaPlacesMax), kPageBytes, kMediaPlaceBytes);
  const uint64_t place = (io.offset_bytes + io.moved_bytes) / place_bytes;
  uint64_t* const end = media_places_ + media_place_count_;
  if (std::find(media_places_, end, place) != end) return;
  VARVE_ASSERT(media_place_count_ < kMediaPlacesMax);
  media_places_[media_place_count_++] = place;
  if (media_place_count_ == kMediaPlacesMax) {
    media_place_count_ = 0;
    fail(Status::io("media errors in too many places", error));
  }
}

void BlockDevice::later(DeviceIo& io, Nanos delay_ns) {
  io.timer.owner = &io;
  io.timer.on_fire = [](Timer& timer) {
    auto& late = *static_cast<DeviceIo*>(timer.owner);
    BlockDevice& device = *late.device;
    if (device.failed()) return device.finish(late, Status::unavailable("the device has failed"));
    device.attempt(late);
  };
  reactor_.arm(io.timer, delay_ns);
}

void BlockDevice::fail(Status cause) {
  VARVE_ASSERT(!cause.ok());
  if (!failed()) failure_ = cause;  // the first cause is kept
}

void BlockDevice::finish(DeviceIo& io, Status status) {
  VARVE_ASSERT(io.in_flight && in_flight_ > 0);
  io.in_flight = false;
  io.status = status;
  --in_flight_;
  io.on_done(io);
}

}  // namespace varve
