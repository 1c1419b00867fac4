// Tags: which match a caller's tag stands for, and what it answered, for the C door.
//
// Owned by a Handle and used under its lock, but for peek(), which any thread may call at any time.
// Bounded: an answer stays until it is forgotten, or until kTagsMax tags are known and a new one
// needs its place; the one answered longest ago goes first.
#pragma once

#include <map>

#include "client/peek.h"
#include "client/varve.h"
#include "client/varve_c.h"

namespace varve {

inline constexpr uint32_t kTagsMax = 4096;

class Tags {
 public:
  Tags() : table_(kTagsMax) {}

  OpId running(uint64_t tag) const;  // the op that asks; 0: none does
  // Makes place for a tag, its old answer is forgotten; false: kTagsMax tags wait for an answer.
  bool make_room(uint64_t tag);
  void ask(uint64_t tag, OpId op);  // after make_room()
  // Ignored when the tag is another op's by now.
  void answer(uint64_t tag, const Event& event, Nanos now_ns);
  OpId forget(uint64_t tag);  // the op that still asks, if any
  uint64_t forgotten() const { return forgotten_; }

  varve_status peek(uint64_t tag, Nanos now_ns, varve_match_answer& answer) const;  // any thread

 private:
  struct Tag {
    OpId op = 0;
    uint64_t answered = 0;  // its number among answers; 0 = not yet
  };
  void erase(std::map<uint64_t, Tag>::iterator tag);

  std::map<uint64_t, Tag> tags_;
  std::map<uint64_t, uint64_t> answers_;  // number -> tag, oldest first
  PeekTable table_;
  uint64_t last_answer_ = 0;
  uint64_t forgotten_ = 0;
};

// The slowest of a match's tiers; kNone when it told none.
wire::TierKind slowest_of(const std::vector<wire::TierKind>& tiers);

}  // namespace varve
