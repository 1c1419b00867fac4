// PushTest: what tests of pushes look at.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/client/client_rig.h"

namespace varve {

struct PushTest : testing::Test {
  static void fill(KvRig& rig, uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i)
      rig.fill(i, id_of(first + i));
  }
  static void expect_stored(const KvRig& rig, uint32_t n) {
    ASSERT_EQ(rig.daemon->store().count(BlockId{id_of(n), 0}), 1u);
    for (uint32_t l = 0; l < rig.layout.layers.size(); ++l) {
      EXPECT_EQ(rig.stored_layer(id_of(n), l), rig.layer_content(id_of(n), l)) << n << " " << l;
    }
  }
  static OpId push_all(KvRig& rig, PushRequest request) {
    const OpId op = *rig.core->push(std::move(request));
    EXPECT_TRUE(rig.core->push_layer(op, ClientCore::kEveryLayer).ok());
    return op;
  }
  static uint32_t parity_pieces(const KvRig& rig) {  // that the daemon has seen
    uint32_t seen = 0;
    for (const auto& r : rig.daemon->log()) {
      if (r.type != Type::kExtent) continue;
      const auto frame = r.frame();
      const wire::Extent& extent = std::get<wire::ExtentView>(frame.body).body;
      seen += extent.extent >= rig.table.data_count() ? 1 : 0;
    }
    return seen;
  }
};

}  // namespace varve
