// PeekTable: a few words of each of many keys, for readers on any thread that must not wait.
//
// Owned by a client's Handle: what is known of matches by tag, how many layers of a pull are in
// place by op. One writer at a time (its owner's lock), any number of readers. A reader never waits
// for the writer: a look that meets a change is repeated a few times, then answered kBusy, which
// callers tell as "ask again". Invariants:
//   K1 what find() answers stood in the table as a whole at one moment.
//   K2 nothing is allocated after construction; a full table refuses.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "common/base/base.h"

namespace varve {

inline constexpr uint32_t kPeekWords = 10;
using PeekWords = std::array<uint64_t, kPeekWords>;

class PeekTable {
 public:
  explicit PeekTable(uint32_t keys_max);

  // For the one writer. Key 0 is none.
  bool put(uint64_t key, const PeekWords& words);  // new or changed; false: it is full
  void erase(uint64_t key);                        // no-op when it is not there
  uint32_t count() const { return count_; }

  enum class Found : uint8_t { kYes, kNo, kBusy };
  Found find(uint64_t key, PeekWords& words) const;  // any thread

 private:
  struct Slot {
    std::atomic<uint64_t> key{0};  // 0 = free
    std::array<std::atomic<uint64_t>, kPeekWords> words{};
  };
  uint32_t home(uint64_t key) const;
  uint32_t next(uint32_t slot) const { return (slot + 1) & mask_; }
  uint32_t slot_of(uint64_t key) const;  // of the key, or the free one that ends its run
  void move(uint32_t from, uint32_t to);
  // A change as readers see it: the version is odd in between.
  void begin();
  void end();

  uint32_t keys_max_;
  uint32_t mask_;
  uint32_t count_ = 0;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<uint64_t> version_{0};
};

}  // namespace varve
