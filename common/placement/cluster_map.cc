// ClusterMap: what makes a map good. Maps come from files and peers, so every fault is text, never
// an assertion, and all faults are reported at once.
#include "common/placement/cluster_map.h"

#include <map>
#include <set>

#include "common/base/base.h"

namespace varve {

namespace {

bool is_known(DomainLevel level) {
  return static_cast<uint8_t>(level) < kDomainLevels;
}

bool is_known(TargetState state) {
  return state >= TargetState::kUsable && state <= TargetState::kLost;
}

// What the numbers met so far are inside of: a node in a rack, a rack in a zone.
class Nesting {
 public:
  Nesting(const char* inner, const char* outer) : inner_(inner), outer_(outer) {}
  void add(uint32_t inner, uint32_t outer, std::vector<std::string>* problems) {
    VARVE_ASSERT(problems != nullptr);
    const auto [at, fresh] = outer_of_.emplace(inner, outer);
    if (fresh || at->second == outer) return;
    if (!said_.insert(inner).second) return;  // once for each number
    problems->push_back(std::string(inner_) + " " + std::to_string(inner) + " is in " + outer_ +
                        " " + std::to_string(at->second) + " and in " + outer_ + " " +
                        std::to_string(outer));
  }

 private:
  const char* inner_;
  const char* outer_;
  std::map<uint32_t, uint32_t> outer_of_;
  std::set<uint32_t> said_;
};

}  // namespace

const char* domain_level_name(DomainLevel level) {
  switch (level) {
    case DomainLevel::kDrive:
      return "drive";
    case DomainLevel::kNode:
      return "node";
    case DomainLevel::kRack:
      return "rack";
    case DomainLevel::kZone:
      return "zone";
  }
  return "unknown";
}

const char* target_state_name(TargetState state) {
  switch (state) {
    case TargetState::kUsable:
      return "usable";
    case TargetState::kDraining:
      return "draining";
    case TargetState::kLost:
      return "lost";
  }
  return "unknown";
}

uint64_t domain_of(const TargetSpec& target, DomainLevel level) {
  VARVE_ASSERT(is_known(level), level);
  switch (level) {
    case DomainLevel::kDrive:
      return target.key;
    case DomainLevel::kNode:
      return target.node;
    case DomainLevel::kRack:
      return target.rack;
    case DomainLevel::kZone:
      break;
  }
  return target.zone;
}

std::vector<std::string> ClusterMap::validate() const {
  std::vector<std::string> problems;
  if (epoch == 0) problems.push_back("epoch is 0; the first map has epoch 1");
  if (!is_known(spread))
    problems.push_back("spread " + std::to_string(static_cast<uint32_t>(spread)) + " is unknown");
  if (targets.empty()) problems.push_back("there are no targets");
  if (targets.size() > kMapTargetsMax) {
    problems.push_back(std::to_string(targets.size()) + " targets, and " +
                       std::to_string(kMapTargetsMax) + " is the most");
  }
  std::map<uint64_t, size_t> index_of;
  Nesting racks("node", "rack"), zones("rack", "zone");
  for (size_t i = 0; i < targets.size(); ++i) {
    const TargetSpec& target = targets[i];
    const std::string name = "target " + std::to_string(i);
    const auto [at, fresh] = index_of.emplace(target.key, i);
    if (!fresh) problems.push_back(name + " has the key of target " + std::to_string(at->second));
    if (target.weight == 0 || target.weight > kTargetWeightMax) {
      problems.push_back(name + " has weight " + std::to_string(target.weight) + "; 1 to " +
                         std::to_string(kTargetWeightMax) + " are allowed");
    }
    if (!is_known(target.state)) {
      problems.push_back(name + " has the unknown state " +
                         std::to_string(static_cast<uint32_t>(target.state)));
    }
    racks.add(target.node, target.rack, &problems);
    zones.add(target.rack, target.zone, &problems);
  }
  return problems;
}

}  // namespace varve
