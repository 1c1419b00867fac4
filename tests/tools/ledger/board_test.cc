// Goal: who follows gets what was posted last, once, and what is old is forgotten.
// Method: posts by hand.
#include "tools/ledger/board.h"

#include <gtest/gtest.h>

namespace varve::ledger {
namespace {

TEST(Board, TheLatestIsTakenFirstAndOnce) {
  Board board;
  EXPECT_TRUE(board.empty());
  board.post({.kind = 1, .rank = 0, .durable = true, .since = 0, .blocks = {}});
  board.post({.kind = 2, .rank = 0, .durable = true, .since = 0, .blocks = {}});
  EXPECT_EQ(board.take().kind, 2u);
  EXPECT_EQ(board.take().kind, 1u);
  EXPECT_TRUE(board.empty());
}

TEST(Board, OldPostsAreForgotten) {
  Board board;
  for (uint32_t i = 0; i < 3 * Board::kMax; ++i)
    board.post({.kind = i, .rank = 0, .durable = true, .since = 0, .blocks = {}});
  uint32_t count = 0;
  for (; !board.empty(); ++count)
    EXPECT_GE(board.take().kind, 2 * Board::kMax);
  EXPECT_EQ(count, Board::kMax);
  board.post({});
  board.clear();
  EXPECT_TRUE(board.empty());
}

}  // namespace
}  // namespace varve::ledger
