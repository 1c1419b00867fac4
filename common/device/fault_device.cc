// FaultDevice: what real drives do to us, on demand and by seed.
//
// The volatile cache is a stack of layers. Acknowledged writes go into `fresh_`. A flush takes all
// of fresh_ as one layer; layers are written through oldest first, each followed by a flush of the
// inner device, and then dropped. So a flush covers exactly what was acknowledged before it.
//
//   reads look here first -> fresh_ -> layers_.back() ... layers_.front() -> inner device
//                                                          ^ being written through
//
// Every record that the inner device holds is this object's own, so nothing of a request that
// crash() left behind is touched later.
#include "common/device/fault_device.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <vector>

namespace varve {

namespace {

constexpr uint32_t kSectorBytes = 512;
constexpr uint32_t kSectorsPerPage = kPageBytes / kSectorBytes;
constexpr uint32_t kRunPagesMax = 64;  // one write of the write-through
constexpr uint32_t kRunsInFlightMax = 8;
constexpr uint32_t kSpillPagesMax = 256;  // looked at per tick
constexpr Nanos kSpillTick = kMillisecond;
constexpr Nanos kNextTurn = 1;  // fires in a later turn

struct alignas(kPageBytes) Page {
  std::array<std::byte, kPageBytes> bytes;
};
using PageMap = std::map<uint64_t, std::unique_ptr<Page>>;  // by page number, in order

struct Layer {
  PageMap pages;
  DeviceIo* flush = nullptr;  // the request that made this layer
};

class FaultDeviceImpl final : public FaultDevice {
 public:
  FaultDeviceImpl(Reactor& reactor, std::unique_ptr<BlockDevice> inner, const FaultPlan& plan)
      : FaultDevice(reactor, inner->name(), inner->capacity_bytes()),
        inner_(std::move(inner)),
        plan_(plan),
        random_(plan.seed) {
    spill_timer_.owner = this;
    spill_timer_.on_fire = [](Timer& timer) {
      static_cast<FaultDeviceImpl*>(timer.owner)->spill_tick();
    };
  }
  ~FaultDeviceImpl() override {
    reactor_.cancel(spill_timer_);
    for (auto& record : records_)
      reactor_.cancel(record->io.timer);
  }

  void sector_error_set(uint64_t offset_bytes, uint64_t length_bytes) override;
  void stuck_set(bool stuck) override;
  void vanish() override { vanished_ = true; }
  void full_set(bool full) override { full_ = full; }
  void crash() override;
  const FaultCounters& fault_counters() const override { return fault_counters_; }
  Status gone() const override { return inner_->gone(); }
  Status read_now(uint64_t offset_bytes, ByteSpan pages) override {
    return inner_->read_now(offset_bytes, pages);
  }
  Status write_now(uint64_t offset_bytes, ConstByteSpan pages) override {
    return inner_->write_now(offset_bytes, pages);
  }

 protected:
  void start(DeviceIo& io) override;

 private:
  // One request at the inner device.
  struct Record {
    DeviceIo io;
    DeviceIo* outer = nullptr;  // the request it serves, null for the cache's own work
    FaultDeviceImpl* device = nullptr;
    uint64_t drops = 0;  // of layers, when a read was started
    std::array<iovec, kRunPagesMax> vectors;
    std::unique_ptr<Page> page;   // spill: what leaks
    std::unique_ptr<Page> under;  // spill: what it leaks into
    uint32_t sectors = 0;         // spill: how much of it
    bool used = false;
  };
  struct Held {
    DeviceIo* io = nullptr;
    int64_t result = 0;
  };

  Record& take_record(DeviceIo::Done on_done);
  void give_record(Record& record) { record.used = false; }
  void pass_on(DeviceIo& io);  // the same request, to the inner device
  void answer_later(DeviceIo& io, int64_t result, Nanos delay_ns);
  void answer(DeviceIo& io, int64_t result);
  void answer_maybe_slow(DeviceIo& io, int64_t result);
  static int64_t result_of(const DeviceIo& inner);

  void start_write(DeviceIo& io);
  void acknowledge(DeviceIo& io);
  void passed(Record& record);
  void read_done(Record& record);
  void patch(const DeviceIo& io);
  bool spoil(DeviceIo& io);
  void rot(const DeviceIo& io);
  bool being_written(uint64_t page) const;
  Page* cached(uint64_t page) const;

  void start_flush(DeviceIo& io);
  void write_through();
  void next_runs();
  void run_done(Record& record);
  void layer_done(Record& record);
  void layers_failed(int64_t result);

  void spill_tick();
  void spill(uint64_t page, const Page& content);
  void spill_write(Record& record);
  void spill_done(Record& record);

  void toss(uint64_t page, const std::byte* content);

  std::unique_ptr<BlockDevice> inner_;
  FaultPlan plan_;
  Random random_;
  std::vector<std::unique_ptr<Record>> records_;
  std::vector<DeviceIo*> active_;  // requests not answered yet
  std::vector<DeviceIo*> stuck_requests_;
  std::vector<Held> stuck_answers_;
  bool stuck_ = false;
  bool vanished_ = false;
  bool full_ = false;
  bool dead_ = false;

  PageMap fresh_;
  std::deque<Layer> layers_;
  bool writing_through_ = false;
  int64_t layer_result_ = 0;
  uint64_t layer_drops_ = 0;
  std::vector<std::pair<uint64_t, uint32_t>> runs_;  // first page, pages; still to be written
  uint32_t runs_in_flight_ = 0;
  Timer spill_timer_;
  uint32_t spills_in_flight_ = 0;

  std::set<uint64_t> bad_pages_;
  FaultCounters fault_counters_;
};

// Calls visit(page number, memory) for each page of the attempt.
template <class Visit>
void each_page(const DeviceIo& io, Visit visit) {
  uint64_t page = io.io.offset / kPageBytes;
  for (uint32_t i = 0; i < io.io.iov_count; ++i) {
    auto* memory = static_cast<std::byte*>(io.io.iov[i].iov_base);
    for (uint64_t at = 0; at < io.io.iov[i].iov_len; at += kPageBytes)
      visit(page++, memory + at);
  }
}

// ---- requests

void FaultDeviceImpl::start(DeviceIo& io) {
  if (dead_) return;  // never completes
  if (std::find(active_.begin(), active_.end(), &io) == active_.end()) active_.push_back(&io);
  if (stuck_) {
    stuck_requests_.push_back(&io);
    return;
  }
  if (failed()) return answer_later(io, -EIO, kNextTurn);  // it failed while this request was stuck
  if (vanished_) {
    ++fault_counters_.errors_given;
    return answer_later(io, io.kind == DeviceKind::kRead ? 0 : -EIO, kNextTurn);
  }
  switch (io.kind) {
    case DeviceKind::kRead:
      return pass_on(io);
    case DeviceKind::kWrite:
      return start_write(io);
    case DeviceKind::kFlush:
      return plan_.volatile_cache ? start_flush(io) : pass_on(io);
    case DeviceKind::kDiscard:
      // What the cache still holds of the range is discarded with it; nothing relies on either.
      for (uint64_t at = 0; at < io.io.bytes; at += kPageBytes) {
        fresh_.erase((io.io.offset + at) / kPageBytes);
      }
      return pass_on(io);
  }
}

void FaultDeviceImpl::start_write(DeviceIo& io) {
  if (full_) {
    ++fault_counters_.errors_given;
    return answer_later(io, -ENOSPC, kNextTurn);
  }
  if (!plan_.volatile_cache) return pass_on(io);
  const Nanos slow_ns = random_.chance(plan_.slow_per_mille) ? plan_.slow_ns : 0;
  io.timer.owner = &io;
  io.timer.on_fire = [](Timer& timer) {
    auto& due = *static_cast<DeviceIo*>(timer.owner);
    static_cast<FaultDeviceImpl*>(due.device)->acknowledge(due);
  };
  reactor_.arm(io.timer, kNextTurn + slow_ns);
}

// The write is in the cache from here on, whatever the power does.
void FaultDeviceImpl::acknowledge(DeviceIo& io) {
  each_page(io, [this](uint64_t page, const std::byte* memory) {
    std::unique_ptr<Page>& slot = fresh_[page];
    if (slot == nullptr) slot = std::make_unique<Page>();
    std::memcpy(slot->bytes.data(), memory, kPageBytes);
    bad_pages_.erase(page);
  });
  if (plan_.spill_per_mille > 0 && !spill_timer_.armed()) reactor_.arm(spill_timer_, kSpillTick);
  answer(io, static_cast<int64_t>(io.io.bytes));
}

FaultDeviceImpl::Record& FaultDeviceImpl::take_record(DeviceIo::Done on_done) {
  Record* free = nullptr;
  for (auto& record : records_) {
    if (!record->used) free = record.get();
  }
  if (free == nullptr) {
    records_.push_back(std::make_unique<Record>());
    free = records_.back().get();
    free->device = this;
    free->io.owner = free;
  }
  free->used = true;
  free->outer = nullptr;
  free->io.on_done = on_done;
  free->io.buffer_index = -1;
  return *free;
}

void FaultDeviceImpl::pass_on(DeviceIo& io) {
  Record& record = take_record([](DeviceIo& done) {
    auto& finished = *static_cast<Record*>(done.owner);
    finished.device->passed(finished);
  });
  record.outer = &io;
  record.drops = layer_drops_;
  record.io.kind = io.kind;
  record.io.offset_bytes = io.io.offset;
  record.io.length_bytes = io.io.bytes;
  record.io.iov = io.io.iov;
  record.io.iov_count = io.io.iov_count;
  record.io.buffer_index = io.io.buffer_index;
  inner_->submit(record.io);
}

int64_t FaultDeviceImpl::result_of(const DeviceIo& inner) {
  if (inner.status.ok()) return static_cast<int64_t>(inner.length_bytes);
  if (inner.status.errno_value() != 0) return -inner.status.errno_value();
  return -ENODEV;
}

void FaultDeviceImpl::passed(Record& record) {
  if (dead_) return give_record(record);
  if (record.outer->kind == DeviceKind::kRead) return read_done(record);
  DeviceIo& io = *record.outer;
  const int64_t result = result_of(record.io);
  give_record(record);
  if (io.kind == DeviceKind::kWrite && result >= 0) {
    each_page(io, [this](uint64_t page, const std::byte*) { bad_pages_.erase(page); });
  }
  answer_maybe_slow(io, result);
}

void FaultDeviceImpl::read_done(Record& record) {
  DeviceIo& io = *record.outer;
  // A layer that went to the medium meanwhile may be in neither: not yet in what the inner device
  // read, no more in the cache. Read again.
  const bool again = record.io.status.ok() && record.drops != layer_drops_;
  const int64_t result = result_of(record.io);
  give_record(record);
  if (again) return pass_on(io);
  if (result < 0) return answer_maybe_slow(io, result);
  patch(io);
  if (spoil(io)) {
    ++fault_counters_.errors_given;
    return answer_maybe_slow(io, -EIO);
  }
  if (random_.chance(plan_.bit_rot_per_mille)) rot(io);
  answer_maybe_slow(io, result);
}

Page* FaultDeviceImpl::cached(uint64_t page) const {
  if (const auto found = fresh_.find(page); found != fresh_.end()) return found->second.get();
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    const auto found = layer->pages.find(page);
    if (found != layer->pages.end()) return found->second.get();
  }
  return nullptr;
}

void FaultDeviceImpl::patch(const DeviceIo& io) {
  if (fresh_.empty() && layers_.empty()) return;
  each_page(io, [this](uint64_t page, std::byte* memory) {
    if (const Page* newer = cached(page)) std::memcpy(memory, newer->bytes.data(), kPageBytes);
  });
}

// True when this read fails: a bad sector in its range, or bad luck.
bool FaultDeviceImpl::spoil(DeviceIo& io) {
  const uint64_t first = io.io.offset / kPageBytes;
  const auto bad = bad_pages_.lower_bound(first);
  if (bad != bad_pages_.end() && *bad < first + io.io.bytes / kPageBytes) return true;
  return random_.chance(plan_.read_error_per_mille);
}

bool FaultDeviceImpl::being_written(uint64_t page) const {
  return std::any_of(active_.begin(), active_.end(), [page](const DeviceIo* io) {
    return io->kind == DeviceKind::kWrite && page >= io->io.offset / kPageBytes &&
           page < (io->io.offset + io->io.bytes) / kPageBytes;
  });
}

// Flips one bit of one page in what is returned and in what is kept.
void FaultDeviceImpl::rot(const DeviceIo& io) {
  const uint64_t victim = io.io.offset / kPageBytes + random_.below(io.io.bytes / kPageBytes);
  const uint64_t byte = random_.below(kPageBytes);
  const auto mask = static_cast<std::byte>(1u << random_.below(8));
  if (being_written(victim)) return;  // the damage would hit the new content half the time
  if (Page* page = cached(victim)) {
    page->bytes[byte] ^= mask;
  } else {
    auto page_now = std::make_unique<Page>();
    if (!inner_->read_now(victim * kPageBytes, page_now->bytes).ok()) return;
    page_now->bytes[byte] ^= mask;
    if (!inner_->write_now(victim * kPageBytes, page_now->bytes).ok()) return;
  }
  ++fault_counters_.bits_flipped;
  each_page(io, [&](uint64_t page, std::byte* memory) {
    if (page == victim) memory[byte] ^= mask;
  });
}

void FaultDeviceImpl::answer_maybe_slow(DeviceIo& io, int64_t result) {
  if (plan_.slow_ns > 0 && random_.chance(plan_.slow_per_mille)) {
    return answer_later(io, result, plan_.slow_ns);
  }
  answer(io, result);
}

void FaultDeviceImpl::answer_later(DeviceIo& io, int64_t result, Nanos delay_ns) {
  io.io.result = result;
  io.timer.owner = &io;
  io.timer.on_fire = [](Timer& timer) {
    auto& due = *static_cast<DeviceIo*>(timer.owner);
    static_cast<FaultDeviceImpl*>(due.device)->answer(due, due.io.result);
  };
  reactor_.arm(io.timer, delay_ns);
}

void FaultDeviceImpl::answer(DeviceIo& io, int64_t result) {
  if (dead_) return;
  if (stuck_) {
    stuck_answers_.push_back({&io, result});
    return;
  }
  std::erase(active_, &io);
  progress(io, result);
}

// ---- the volatile cache

void FaultDeviceImpl::start_flush(DeviceIo& io) {
  Layer layer;
  layer.pages = std::move(fresh_);
  layer.flush = &io;
  fresh_.clear();
  layers_.push_back(std::move(layer));
  write_through();
}

void FaultDeviceImpl::write_through() {
  // A spill still under way could land on the medium after the layer's newer content.
  if (dead_ || writing_through_ || layers_.empty() || spills_in_flight_ > 0) return;
  writing_through_ = true;
  layer_result_ = 0;
  VARVE_ASSERT(runs_.empty() && runs_in_flight_ == 0);
  for (const auto& [page, content] : layers_.front().pages) {
    const bool joins = !runs_.empty() && runs_.back().first + runs_.back().second == page &&
                       runs_.back().second < kRunPagesMax;
    if (joins) {
      ++runs_.back().second;
    } else {
      runs_.emplace_back(page, 1);
    }
  }
  // Random order: what a power cut finds written is no prefix of anything.
  for (size_t i = runs_.size(); i > 1; --i)
    std::swap(runs_[i - 1], runs_[random_.below(i)]);
  next_runs();
}

void FaultDeviceImpl::next_runs() {
  while (!runs_.empty() && runs_in_flight_ < kRunsInFlightMax && layer_result_ == 0) {
    const auto [first, count] = runs_.back();
    runs_.pop_back();
    Record& record = take_record([](DeviceIo& done) {
      auto& finished = *static_cast<Record*>(done.owner);
      finished.device->run_done(finished);
    });
    auto content = layers_.front().pages.find(first);
    for (uint32_t i = 0; i < count; ++i, ++content) {
      VARVE_ASSERT(content->first == first + i);
      record.vectors[i] = {content->second->bytes.data(), kPageBytes};
    }
    record.io.kind = DeviceKind::kWrite;
    record.io.offset_bytes = first * kPageBytes;
    record.io.length_bytes = bytes_of(count);
    record.io.iov = record.vectors.data();
    record.io.iov_count = count;
    ++runs_in_flight_;
    inner_->submit(record.io);
  }
  if (runs_in_flight_ > 0) return;
  if (layer_result_ != 0) return layers_failed(layer_result_);
  Record& record = take_record([](DeviceIo& done) {
    auto& finished = *static_cast<Record*>(done.owner);
    finished.device->layer_done(finished);
  });
  record.io.kind = DeviceKind::kFlush;
  record.io.offset_bytes = 0;
  record.io.length_bytes = 0;
  record.io.iov = nullptr;
  record.io.iov_count = 0;
  inner_->submit(record.io);
}

void FaultDeviceImpl::run_done(Record& record) {
  const int64_t result = result_of(record.io);
  give_record(record);
  VARVE_ASSERT(runs_in_flight_ > 0);
  --runs_in_flight_;
  if (dead_) return;
  if (result < 0 && layer_result_ == 0) {
    layer_result_ = result;
    runs_.clear();
  }
  next_runs();
}

void FaultDeviceImpl::layer_done(Record& record) {
  const int64_t result = result_of(record.io);
  give_record(record);
  if (dead_) return;
  if (result < 0) return layers_failed(result);
  DeviceIo* flush = layers_.front().flush;
  layers_.pop_front();
  ++layer_drops_;
  writing_through_ = false;
  write_through();  // before the answer: its owner may do anything
  answer_maybe_slow(*flush, 0);
}

// Every flush that waits fails with the cause; the outer device is failed by that (D5).
void FaultDeviceImpl::layers_failed(int64_t result) {
  VARVE_ASSERT(result < 0);
  std::vector<DeviceIo*> flushes;
  for (Layer& layer : layers_) {
    if (layer.flush != nullptr) flushes.push_back(layer.flush);
    layer.flush = nullptr;
  }
  // writing_through_ stays set: nothing is written any more, reads still find the content.
  for (DeviceIo* flush : flushes)
    answer(*flush, result);
}

// ---- spilling

void FaultDeviceImpl::spill_tick() {
  if (dead_ || failed() || fresh_.empty()) return;  // armed again with the next write
  reactor_.arm(spill_timer_, kSpillTick);
  if (!layers_.empty() || stuck_ || vanished_) return;
  const uint64_t from = fresh_.begin()->first;
  const uint64_t to = fresh_.rbegin()->first;
  auto candidate = fresh_.lower_bound(from + random_.below(to - from + 1));
  for (uint32_t i = 0; i < kSpillPagesMax && candidate != fresh_.end(); ++i, ++candidate) {
    if (random_.chance(plan_.spill_per_mille)) spill(candidate->first, *candidate->second);
  }
}

void FaultDeviceImpl::spill(uint64_t page, const Page& content) {
  Record& record = take_record([](DeviceIo& done) {
    auto& finished = *static_cast<Record*>(done.owner);
    finished.device->spill_write(finished);
  });
  if (record.page == nullptr) record.page = std::make_unique<Page>();
  if (record.under == nullptr) record.under = std::make_unique<Page>();
  *record.page = content;
  record.sectors = static_cast<uint32_t>(random_.between(1, kSectorsPerPage));
  record.vectors[0] = {record.under->bytes.data(), kPageBytes};
  record.io.kind = DeviceKind::kRead;
  record.io.offset_bytes = page * kPageBytes;
  record.io.length_bytes = kPageBytes;
  record.io.iov = record.vectors.data();
  record.io.iov_count = 1;
  ++spills_in_flight_;
  inner_->submit(record.io);
}

// The page's old content is here: the first sectors become new, the rest stays.
void FaultDeviceImpl::spill_write(Record& record) {
  if (dead_ || !record.io.status.ok()) return spill_done(record);
  std::memcpy(record.under->bytes.data(), record.page->bytes.data(),
              record.sectors * size_t{kSectorBytes});
  record.io.kind = DeviceKind::kWrite;
  record.io.on_done = [](DeviceIo& done) {
    auto& finished = *static_cast<Record*>(done.owner);
    finished.device->spill_done(finished);
  };
  inner_->submit(record.io);
}

void FaultDeviceImpl::spill_done(Record& record) {
  give_record(record);
  VARVE_ASSERT(spills_in_flight_ > 0);
  --spills_in_flight_;
  write_through();
}

// ---- faults that are switched

void FaultDeviceImpl::sector_error_set(uint64_t offset_bytes, uint64_t length_bytes) {
  VARVE_ASSERT(length_bytes > 0 && offset_bytes + length_bytes <= capacity_bytes());
  const uint64_t last = (offset_bytes + length_bytes - 1) / kPageBytes;
  for (uint64_t page = offset_bytes / kPageBytes; page <= last; ++page)
    bad_pages_.insert(page);
}

void FaultDeviceImpl::stuck_set(bool stuck) {
  stuck_ = stuck;
  if (stuck) return;
  std::vector<DeviceIo*> requests;
  requests.swap(stuck_requests_);
  std::vector<Held> answers;
  answers.swap(stuck_answers_);
  for (const Held& held : answers)
    answer_later(*held.io, held.result, kNextTurn);
  for (DeviceIo* io : requests)
    start(*io);
}

// One page at a power cut: kept, lost, or its first sectors kept.
void FaultDeviceImpl::toss(uint64_t page, const std::byte* content) {
  Page after;
  const uint64_t coin = random_.below(100);
  if (coin < 45) {
    ++fault_counters_.pages_lost;
    return;
  }
  uint32_t sectors = kSectorsPerPage;
  if (coin < 90) {
    ++fault_counters_.pages_kept;
  } else {
    sectors = static_cast<uint32_t>(random_.between(1, kSectorsPerPage - 1));
    ++fault_counters_.pages_torn;
    const Status read = inner_->read_now(page * kPageBytes, after.bytes);
    VARVE_ASSERT(read.ok());
  }
  std::memcpy(after.bytes.data(), content, sectors * size_t{kSectorBytes});
  const Status written = inner_->write_now(page * kPageBytes, after.bytes);
  VARVE_ASSERT(written.ok());
}

void FaultDeviceImpl::crash() {
  VARVE_ASSERT(!dead_);
  dead_ = true;
  reactor_.cancel(spill_timer_);
  for (DeviceIo* io : active_)
    reactor_.cancel(io->timer);
  // A simulated inner device answers by these timers: what it holds never lands.
  for (auto& record : records_)
    reactor_.cancel(record->io.timer);
  for (const Layer& layer : layers_) {  // oldest first, as they would have reached the medium
    for (const auto& [page, content] : layer.pages)
      toss(page, content->bytes.data());
  }
  for (const auto& [page, content] : fresh_)
    toss(page, content->bytes.data());
  for (DeviceIo* io : active_) {
    if (io->kind != DeviceKind::kWrite || vanished_) continue;
    each_page(*io, [this](uint64_t page, const std::byte* memory) { toss(page, memory); });
  }
  layers_.clear();
  fresh_.clear();
}

}  // namespace

std::unique_ptr<FaultDevice> FaultDevice::wrap(Reactor& reactor, std::unique_ptr<BlockDevice> inner,
                                               const FaultPlan& plan) {
  VARVE_ASSERT(inner != nullptr);
  return std::make_unique<FaultDeviceImpl>(reactor, std::move(inner), plan);
}

}  // namespace varve
