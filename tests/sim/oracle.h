// Oracle: what a run has promised, and whether what came back keeps the promise.
//
// Every byte of a block is a function of (block, salt of its writer), so that bytes name their
// writer and a mix of two attempts is seen (I3). The oracle knows which writers may have been
// committed, which were acknowledged and how.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/base.h"
#include "common/model/model.h"

namespace varve::sim {

// The bytes of one layer as writer `salt` makes them.
void fill_layer(const BlockId& block, uint32_t layer, uint64_t salt, ByteSpan out);
bool layer_equals(const BlockId& block, uint32_t layer, uint64_t salt, ConstByteSpan bytes);

class Oracle {
 public:
  // A writer handed over its last layer: from now on its bytes may be committed.
  void may_commit(const BlockId& block, uint64_t salt) { writers_[block].salts.insert(salt); }
  void acked(const BlockId& block, bool durable) {
    Writers& w = writers_[block];
    w.acked = true;
    w.durable |= durable;
  }
  // The writer whose bytes these layers are, all of them; 0 when there is none: phantom or corrupt.
  uint64_t writer_of(const BlockId& block, const std::vector<ConstByteSpan>& layers) const;
  // Calls f(block) for every block whose durable acknowledgement was given, in id order, "exists"
  // to a push that asked for durability included.
  template <class F>
  void each_durable(F f) const {
    for (const auto& [block, w] : writers_) {
      if (w.durable) f(block);
    }
  }

 private:
  struct Writers {
    std::set<uint64_t> salts;
    bool acked = false, durable = false;
  };
  std::map<BlockId, Writers> writers_;
};

}  // namespace varve::sim
