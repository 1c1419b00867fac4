// Placer: on which targets the fragments of a new block go.
//
// By docs/FORMAT.md 10, from the targets that work now and are not being drained: the positions of
// a stripe by the place of its group, a single fragment by the target order of its id. What has no
// room or share for a position is passed over for the next in the target order that no other
// position has: space counts more than the map, and where a fragment lies its header says.
#pragma once

#include <vector>

#include "common/base/base.h"
#include "common/model/model.h"
#include "common/placement/placement.h"

namespace varve {

struct OpContext;

class Placer {
 public:
  static constexpr uint8_t kNone = 0xFF;
  struct Spots {
    uint8_t target[kWidthMax];  // by position, kNone: stored thin, without it
    uint32_t count = 0;         // positions that have one
  };
  // Whether a target takes the fragment of this position, which it then has reserved.
  using Take = bool (*)(void* context, uint32_t position, uint32_t target);

  explicit Placer(OpContext& context);
  // Gives every position a target, or as many as targets allow, data positions first. `only`: the
  // positions that are wanted; `used`: targets that others of the block have.
  Spots place(const BaseId& id, uint32_t only, uint32_t used, Take take, void* take_context);
  // Another drive has its place: its key and size count from now on.
  void target_replaced(uint32_t target);
  // Targets that take fragments.
  uint32_t usable() const;

 private:
  TargetSpec spec_of(uint32_t target) const;
  void look();
  uint8_t preferred(const BaseId& id, uint32_t position);

  OpContext& context_;
  ClusterMap map_;
  uint32_t usable_ = 0;         // targets, as the answers are of
  std::vector<uint8_t> cache_;  // by group and position; kUnknown: not asked for yet
};

}  // namespace varve
