// Of each target the segment says it: a fragment lies in one, behind its header page.
#include "server/node/largest.h"

#include <algorithm>

namespace varve {

namespace {

bool takes_new(const NodeTarget& target) {
  return target.lost.ok() && !target.draining;
}

std::string mib_text(uint32_t segment_pages) {
  return std::to_string(bytes_of(segment_pages - 2) / kMiB) + " MiB";
}

}  // namespace

std::string limiting_targets(const std::vector<NodeTarget>& targets) {
  uint32_t least = ~0u, others = ~0u;  // pages of a segment
  for (const NodeTarget& target : targets) {
    if (takes_new(target)) least = std::min(least, target.info.super.segment_pages);
  }
  std::string names;
  for (uint32_t t = 0; t < targets.size(); ++t) {
    const uint32_t pages = targets[t].info.super.segment_pages;
    if (!takes_new(targets[t])) continue;
    if (pages > least) {
      others = std::min(others, pages);
      continue;
    }
    names +=
        (names.empty() ? "target " : ", target ") + std::to_string(t) + " " + targets[t].info.path;
  }
  if (others == ~0u || others / 2 < least) return "";
  return names + " LIMITS THE LARGEST FRAGMENT OF THIS NODE TO " + mib_text(least) +
         ", without it that is " + mib_text(others) +
         ": formats of larger blocks are refused, and what is stored of them is not served; give "
         "a larger one in its place, or take it out with --drain-target";
}

}  // namespace varve
