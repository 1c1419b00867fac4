// Board: the tags of pushes under way, from whom pushes to whom follows: as a router hands them on.
#pragma once

#include <deque>

#include "client/varve.h"

namespace varve::sim {

struct Posted {
  FollowTag tag;
  uint32_t format = 0, rank = 0;
  uint32_t domain = kDomainDefault;  // of the push
};

class Board {
 public:
  static constexpr size_t kMax = 16;  // the latest; what is older is mostly over
  void post(const Posted& posted) {
    if (posts_.size() == kMax) posts_.pop_front();
    posts_.push_back(posted);
  }
  bool empty() const { return posts_.empty(); }
  // Up to `count` blocks, each once, of one format and rank, the latest first.
  std::vector<Posted> take(uint32_t count) const {
    std::vector<Posted> taken;
    for (auto it = posts_.rbegin(); it != posts_.rend() && taken.size() < count; ++it) {
      bool fits = true;
      for (const Posted& other : taken) {
        fits = fits && it->format == other.format && it->rank == other.rank &&
               it->tag.id != other.tag.id;
      }
      if (fits) taken.push_back(*it);
    }
    return taken;
  }

 private:
  std::deque<Posted> posts_;
};

}  // namespace varve::sim
