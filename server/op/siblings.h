// Siblings: the ranks of one base id live and die together (I4), so a run of which some rank never
// comes is dropped.
//
// A slow walk over the index, once per sibling_ms_max and only where a format has more than one
// rank: a base id that lacks a rank is marked, and one that still lacks it at the next walk is
// evicted, after one to two times sibling_ms_max. What is leased, being written or in its grace
// after a start waits for a later walk. A rank that is away (its targets are) is not lacking.
// Nothing is remembered but a byte per base slot.
#pragma once

#include <vector>

#include "common/base/base.h"
#include "common/reactor/reactor.h"
#include "server/index/index.h"

namespace varve {

struct OpContext;

inline constexpr uint32_t kSiblingBytesPerSlot = 1;  // counted by the index (its IndexBytes)

class Siblings final : public Task {
 public:
  explicit Siblings(OpContext& context);
  ~Siblings();
  Siblings(const Siblings&) = delete;
  Siblings& operator=(const Siblings&) = delete;

  // A rank of this base came, and how many it has in all.
  void came(uint32_t base_slot, uint32_t rank_count);
  // Its last rank went; the slot may be another's.
  void left(uint32_t base_slot) { of_slot_[base_slot] = 0; }
  void run() override;
  const char* name() const override { return "siblings"; }

 private:
  static constexpr uint32_t kSlotsPerTurn = 256;
  static constexpr uint8_t kRankMask = 0x1F, kMarked = 0x80;
  static_assert(kRanksMax - 1 == kRankMask);
  void look(const BlockId& block, const Located& located);

  OpContext& context_;
  std::vector<uint8_t> of_slot_;   // rank count - 1, kMarked: it lacked a rank at the last walk
  std::vector<uint32_t> dropped_;  // base slots of one turn
  uint32_t cursor_ = 0;
  Timer walk_;
};

}  // namespace varve
