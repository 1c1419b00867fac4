// PullCursor: which extents of a pull come next, and which shall not come.
//
// Walks the pairs (block, extent) of one home's part, layer-major or as the wants name them. What
// was begun and is to begin again comes before what was not, layer-major too; what was fenced
// before it began is passed over. Behind an extent that is lost comes what is left of its stripe,
// as urgent as that one: its reader cannot rebuild without. Owned by a PullOp; it reads the part
// and changes nothing of it.
#pragma once

#include <vector>

#include "common/base/base.h"
#include "common/time/time.h"
#include "server/op/part.h"

namespace varve {

// One extent of one of a pull's blocks.
struct PullPair {
  uint32_t item = 0;
  uint32_t extent = 0;
  bool operator==(const PullPair&) const = default;
};

class PullCursor {
 public:
  static constexpr uint32_t kFencedMax = 256;  // not yet begun

  PullCursor();
  void begin(const PullPart& part);  // which outlives the walk

  bool next(PullPair* pair) const;  // false: it is at its end
  void pop();
  void begin_again(PullPair pair);
  // What the walk still has of its stripe is next. One stripe at a time: while another is brought
  // forward the order stays as it is. Not for wants: who asks for them knows what it needs.
  void bring_forward(PullPair lost);
  bool is_forward() const { return forward_.extent < forward_.end; }  // the next one is of those
  bool in_first_layer(uint32_t extent) const;
  Nanos wanted_ns() const { return wanted_ns_; }  // of the next one, or the last
  // Those to come, in order, until `visit(pair)` says false.
  template <class Visit>
  void for_each(Visit visit) const {
    for (uint32_t e = forward_.extent; e < forward_.end; ++e) {
      if (!visit(PullPair{forward_.item, e})) return;
    }
    for (size_t i = again_.size(); i > 0; --i) {
      if (!visit(again_[i - 1])) return;
    }
    PullPair pair;
    for (Step ahead = step_; at(ahead, &pair) && visit(pair);)
      advance(ahead);
  }

  enum class Fence : uint8_t {
    kPast,     // begun already, or never of this pull
    kDropped,  // it was to begin again, and will not
    kAhead,    // take_fence() says so when it is next
    kFull,     // too many are ahead
  };
  Fence fence(PullPair pair);
  bool take_fence(PullPair pair);  // true, once: it was fenced before it began

  // Positions in the request, rising; items are numbered from the part's begin.
  uint32_t items() const { return part_->end - part_->begin; }
  uint32_t position(uint32_t item) const {
    VARVE_ASSERT(item < items(), item);
    return part_->request->positions[part_->begin + item];
  }
  uint32_t item_at(uint32_t position) const;  // items(): no block of this home is there

 private:
  struct Step {
    uint32_t extent = 0, item = 0;
    uint32_t want = 0;
  };
  struct Forward {  // [extent, end) of one item
    uint32_t item = 0, extent = 0, end = 0;
  };
  bool at(const Step& step, PullPair* pair) const;
  void advance(Step& step) const;
  void pass_over(Step& step) const;
  bool is_ahead(PullPair pair) const;
  Nanos wanted_of(uint32_t extent) const;

  const PullPart* part_ = nullptr;
  const ExtentTable* table_ = nullptr;
  Step step_;  // the next one, behind those of forward_ and again_
  Forward forward_;
  std::vector<uint16_t> passed_;  // of each item: extents below do not come again in the walk
  std::vector<PullPair> again_;   // the first at the back
  std::vector<PullPair> fenced_;  // capacity kFencedMax
  Nanos wanted_ns_ = 0;
};

}  // namespace varve
