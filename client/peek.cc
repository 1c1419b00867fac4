// PeekTable: open addressing with linear probing under one version number. Words are stored with
// release and loaded with acquire, so that a reader that saw any of a change sees the odd or the
// later version as well, and looks again.
#include "client/peek.h"

#include <bit>

namespace varve {

namespace {
constexpr uint32_t kTriesMax = 64;  // a change takes less than a microsecond, unless preempted
}  // namespace

PeekTable::PeekTable(uint32_t keys_max)
    : keys_max_(keys_max),
      mask_(std::bit_ceil(2 * keys_max) - 1),  // at most half full: runs are short
      slots_(std::make_unique<Slot[]>(size_t{mask_} + 1)) {
  VARVE_ASSERT(keys_max > 0 && keys_max <= (1u << 20), keys_max);
}

uint32_t PeekTable::home(uint64_t key) const {
  return static_cast<uint32_t>((key * 0x9E3779B97F4A7C15ull) >> 32) & mask_;
}

uint32_t PeekTable::slot_of(uint64_t key) const {
  uint32_t slot = home(key);
  for (;;) {
    const uint64_t there = slots_[slot].key.load(std::memory_order_relaxed);
    if (there == key || there == 0) return slot;
    slot = next(slot);
  }
}

void PeekTable::begin() {
  const uint64_t version = version_.load(std::memory_order_relaxed);
  VARVE_ASSERT(version % 2 == 0, version);  // one writer
  version_.store(version + 1, std::memory_order_relaxed);
}

void PeekTable::end() {
  version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

bool PeekTable::put(uint64_t key, const PeekWords& words) {
  VARVE_ASSERT(key != 0);
  const uint32_t slot = slot_of(key);
  const bool fresh = slots_[slot].key.load(std::memory_order_relaxed) == 0;
  if (fresh && count_ == keys_max_) return false;
  count_ += fresh ? 1 : 0;
  begin();
  for (uint32_t w = 0; w < kPeekWords; ++w)
    slots_[slot].words[w].store(words[w], std::memory_order_release);
  slots_[slot].key.store(key, std::memory_order_release);
  end();
  return true;
}

void PeekTable::move(uint32_t from, uint32_t to) {
  for (uint32_t w = 0; w < kPeekWords; ++w) {
    slots_[to].words[w].store(slots_[from].words[w].load(std::memory_order_relaxed),
                              std::memory_order_release);
  }
  slots_[to].key.store(slots_[from].key.load(std::memory_order_relaxed), std::memory_order_release);
}

// What stands behind it in its run moves up, so that no run has a gap.
void PeekTable::erase(uint64_t key) {
  VARVE_ASSERT(key != 0);
  uint32_t hole = slot_of(key);
  if (slots_[hole].key.load(std::memory_order_relaxed) == 0) return;
  VARVE_ASSERT(count_ > 0);
  --count_;
  begin();
  for (uint32_t slot = next(hole);; slot = next(slot)) {
    const uint64_t there = slots_[slot].key.load(std::memory_order_relaxed);
    if (there == 0) break;
    // It may go to the hole when its home is not between the hole (not counted) and itself.
    if (((slot - home(there)) & mask_) < ((slot - hole) & mask_)) continue;
    move(slot, hole);
    hole = slot;
  }
  slots_[hole].key.store(0, std::memory_order_release);
  end();
}

PeekTable::Found PeekTable::find(uint64_t key, PeekWords& words) const {
  for (uint32_t tries = 0; tries < kTriesMax; ++tries) {
    const uint64_t version = version_.load(std::memory_order_acquire);
    if (version % 2 != 0) continue;
    Found found = Found::kNo;
    uint32_t slot = home(key);
    // Bounded, as a run that changes meanwhile need not end.
    for (uint32_t i = 0; i <= mask_ && found == Found::kNo; ++i, slot = next(slot)) {
      const uint64_t there = slots_[slot].key.load(std::memory_order_acquire);
      if (there == 0) break;
      if (there != key) continue;
      for (uint32_t w = 0; w < kPeekWords; ++w)
        words[w] = slots_[slot].words[w].load(std::memory_order_acquire);
      found = Found::kYes;
    }
    if (version_.load(std::memory_order_relaxed) == version) return found;  // K1
  }
  return Found::kBusy;
}

}  // namespace varve
