// Oracle: what a run has promised, and whether what came back keeps the promise.
//
// Every byte of a block is a function of (block, salt of its writer), so that bytes name their
// writer and a mix of two attempts is seen (I3). The oracle knows which writers may have been
// committed, which were acknowledged and how, and of each attempt whose it was and how it ended.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/base.h"
#include "common/model/model.h"
#include "tests/sim/purge_log.h"

namespace varve::sim {

// The bytes of one layer as writer `salt` makes them.
void fill_layer(const BlockId& block, uint32_t layer, uint64_t salt, ByteSpan out);
bool layer_equals(const BlockId& block, uint32_t layer, uint64_t salt, ConstByteSpan bytes);

// One attempt, as its writer saw it.
struct Push {
  enum class End : uint8_t {
    kOpen,
    kKept,     // acknowledged
    kNot,      // refused: it was not committed, and never will be
    kUnknown,  // its writer left before it was told, or its targets failed under it
  };
  uint64_t salt = 0;
  bool durable = false;  // as its writer asked
  End end = End::kOpen;
  bool denied = false;  // a follower was told that it was not committed
};

class Oracle {
 public:
  // A writer handed over its last layer: from now on its bytes may be committed.
  void may_commit(const BlockId& block, uint64_t salt) { writers_[block].salts.insert(salt); }
  void acked(const BlockId& block, bool durable) {
    Writers& w = writers_[block];
    w.acked = true;
    w.durable |= durable;
  }
  bool may_commit(const BlockId& block, const Push& push) const {
    const auto found = writers_.find(block);
    return found != writers_.end() && found->second.salts.contains(push.salt);
  }
  // `attempt` is for the writer `salt`.
  void granted(const BlockId& block, const Attempt& attempt, uint64_t salt, bool durable) {
    Push& push = pushes_[{block, attempt}];
    push.salt = salt;
    push.durable = durable;
  }
  Push& push(const BlockId& block, const Attempt& attempt) { return pushes_.at({block, attempt}); }
  std::vector<Attempted> granted() const;
  // Of a writer that was granted the block once: its attempt; none when it was not.
  Attempt attempt_of(const BlockId& block, uint64_t salt) const;
  // Some write of it may be there for who asks after `since_ns`: committed, and not purged before.
  bool may_be_found(const BlockId& block, const PurgeLog& purges, Nanos since_ns) const;
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
  // Every block that was acknowledged somehow and not durable.
  template <class F>
  void each_cached(F f) const {
    for (const auto& [block, w] : writers_) {
      if (w.acked && !w.durable) f(block);
    }
  }

 private:
  struct Writers {
    std::set<uint64_t> salts;
    bool acked = false, durable = false;
  };
  std::map<BlockId, Writers> writers_;
  std::map<Attempted, Push> pushes_;
};

}  // namespace varve::sim
