// RebuildTest: the rig for pulls that lose extents, and what their tests look at.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/core.h"
#include "tests/client/client_rig.h"

namespace varve {

inline RigOptions coded(uint32_t k, uint32_t m) {
  RigOptions options;
  options.daemon.k = k;
  options.daemon.m = m;
  return options;
}

struct RebuildTest : testing::Test {
  static Event pull(KvRig& rig, PullRequest request) {
    return rig.finish(*rig.core->pull(std::move(request)));
  }
  static BlockId block(uint32_t n) { return BlockId{id_of(n), 0}; }
  static void expect_whole(const KvRig& rig, uint32_t n, uint32_t slot) {
    for (uint32_t l = 0; l < rig.layout.layers.size(); ++l)
      EXPECT_TRUE(rig.layer_is_stored(id_of(n), slot, l)) << n << " layer " << l;
  }
  static const ClientCounters& counts(const KvRig& rig) { return rig.core->counters(); }
  static uint32_t scratch_used(const KvRig& rig) {
    return dynamic_cast<Core&>(*rig.core).rebuild_scratch().used();
  }
  // The wants of all PULLs that had any.
  static std::vector<wire::Want> wants(const KvRig& rig) {
    std::vector<wire::Want> out;
    for (const auto& r : rig.daemon->log()) {
      if (r.type != Type::kPull) continue;
      const auto frame = r.frame();
      const auto& view = std::get<wire::PullView>(frame.body);
      for (uint32_t i = 0; i < view.wants.size(); ++i)
        out.push_back(view.wants[i]);
    }
    return out;
  }
  static bool has_wants(const ScriptedDaemon::Received& r) {
    if (r.type != Type::kPull) return false;
    const auto frame = r.frame();
    return std::get<wire::PullView>(frame.body).wants.size() > 0;
  }
  static uint64_t main_op(const KvRig& rig) {
    for (const auto& r : rig.daemon->log()) {
      if (r.type == Type::kPull && !has_wants(r)) return r.op;
    }
    return 0;
  }
};

}  // namespace varve
