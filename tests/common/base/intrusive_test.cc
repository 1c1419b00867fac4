// Goal: queue and list keep order, know their size and refuse a node twice.
// Method: direct calls; one random walk against a vector.
#include "common/base/intrusive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "common/base/random.h"

namespace varve {
namespace {

struct Node : ListHook {
  int value = 0;
  Node* next_in_queue = nullptr;
};
using NodeQueue = Queue<Node, &Node::next_in_queue>;

TEST(Queue, IsFirstInFirstOutAndAppendsInOrder) {
  std::array<Node, 5> nodes;
  NodeQueue a, b;
  for (int i = 0; i < 5; ++i) {
    nodes[i].value = i;
    (i < 3 ? a : b).push(&nodes[i]);
  }
  a.append(b);
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(a.size(), 5u);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(a.pop()->value, i);
  EXPECT_EQ(a.pop(), nullptr);
  a.push(&nodes[2]);  // usable again after running empty
  EXPECT_EQ(a.front(), &nodes[2]);
}

TEST(List, KeepsOrderUnderRandomPushAndRemove) {
  std::array<Node, 32> nodes;
  List<Node> list;
  std::vector<Node*> model;
  Random random(5);
  for (int step = 0; step < 5000; ++step) {
    Node* node = &nodes[random.below(nodes.size())];
    if (node->linked()) {
      list.remove(node);
      model.erase(std::find(model.begin(), model.end(), node));
    } else if (random.chance(500)) {
      list.push_back(node);
      model.push_back(node);
    } else {
      list.push_front(node);
      model.insert(model.begin(), node);
    }
    ASSERT_EQ(list.size(), model.size());
    std::vector<Node*> seen;
    for (Node* n = list.front(); n != nullptr; n = list.next(n))
      seen.push_back(n);
    ASSERT_EQ(seen, model);
    ASSERT_EQ(list.back(), model.empty() ? nullptr : model.back());
  }
}

TEST(ListDeathTest, ANodeIsInOneListAtMost) {
  Node node;
  List<Node> a, b;
  a.push_back(&node);
  EXPECT_DEATH(b.push_back(&node), "linked");
  a.remove(&node);
  EXPECT_DEATH(a.remove(&node), "linked");
}

}  // namespace
}  // namespace varve
