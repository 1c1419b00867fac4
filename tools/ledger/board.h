// Board: the pushes under way that may be followed, from the load that pushes to one that follows.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "client/varve.h"
#include "tools/ledger/content.h"
#include "tools/ledger/purge_log.h"

namespace varve::ledger {

// Blocks of one kind and rank that one push was granted.
struct Posted {
  struct Block {
    FollowTag tag;
    Salt salt = 0;
  };
  uint32_t kind = 0, rank = 0;
  bool durable = false;  // what its pusher asked for
  Tick since = 0;        // when its push began
  std::vector<Block> blocks;
};

class Board {
 public:
  static constexpr size_t kMax = 8;  // what is older is mostly over
  void post(Posted posted) {
    if (posts_.size() == kMax) posts_.pop_front();
    posts_.push_back(std::move(posted));
  }
  bool empty() const { return posts_.empty(); }
  Posted take() {  // the latest
    Posted posted = std::move(posts_.back());
    posts_.pop_back();
    return posted;
  }
  void clear() { posts_.clear(); }

 private:
  std::deque<Posted> posts_;
};

}  // namespace varve::ledger
