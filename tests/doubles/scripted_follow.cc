// ScriptedDaemon: FOLLOW, fed by whatever changes the reservations and the store.
#include <algorithm>

#include "tests/doubles/scripted_daemon.h"

namespace varve {

// Layer-major is up to the pusher: what is whole is sent at once, block by block.
void ScriptedDaemon::on_follow(const Received& received) {
  const auto frame = received.frame();
  const auto& view = std::get<wire::FollowView>(frame.body);
  const ExtentTable* table = table_of(view.body.format, view.body.rank);
  VARVE_ASSERT(table != nullptr);
  const auto& extents = table->extents;
  uint32_t first = 0, end = table->data_count();
  while (extents[first].layer_first + extents[first].layer_count <= view.body.layer_first)
    ++first;
  while (extents[end - 1].layer_first >= view.body.layer_first + view.body.layer_count)
    --end;
  Following following;
  following.op = received.op;
  following.rank = view.body.rank;
  following.extent_end = end;
  for (uint32_t i = 0; i < view.blocks.size(); ++i)
    following.blocks.push_back(view.blocks[i]);
  following.next.assign(following.blocks.size(), first);
  following.codes.resize(following.blocks.size());
  for (uint32_t i = 0; i < following.blocks.size(); ++i) {
    const wire::FollowBlock& block = following.blocks[i];
    const auto stored = store_.find(BlockId{block.base, following.rank});
    const bool live = std::any_of(reserved_.begin(), reserved_.end(), [&block](const auto& r) {
      return r.second.id.base == block.base && r.second.stored.attempt == block.attempt;
    });
    const bool committed = stored != store_.end() && stored->second.attempt == block.attempt;
    if (!live && !committed) following.codes[i] = Code::kUnavailable;
  }
  followings_.push_back(std::move(following));
  feed_followers();
}

void ScriptedDaemon::feed_followers() {
  std::erase_if(followings_, [this](Following& following) {
    std::vector<uint8_t> codes;
    for (uint32_t i = 0; i < following.blocks.size(); ++i) {
      if (feed(following, i)) codes.push_back(static_cast<uint8_t>(*following.codes[i]));
    }
    if (codes.size() < following.blocks.size()) return false;
    send(0, encoder_.pulled(following.op, {}, codes));
    return true;
  });
}

// True: the block is over.
bool ScriptedDaemon::feed(Following& following, uint32_t block) {
  if (following.codes[block]) return true;
  const wire::FollowBlock& named = following.blocks[block];
  const BlockId id{named.base, following.rank};
  const auto live = std::find_if(reserved_.begin(), reserved_.end(), [&](const auto& r) {
    return r.second.id == id && r.second.stored.attempt == named.attempt;
  });
  const auto stored = store_.find(id);
  const bool committed = stored != store_.end() && stored->second.attempt == named.attempt;
  uint32_t& next = following.next[block];
  if (live != reserved_.end()) {
    const Stored& bytes = live->second.stored;
    while (next < following.extent_end && live->second.received[next] == bytes.table.bytes_at(next))
      send_extent(1, following.op, id, bytes, block, next++);
    return false;
  }
  for (; committed && next < following.extent_end; ++next) {
    if (lost.count({id, next}) > 0) {
      send_lost(following.op, lost_of(id, block, next, wire::LostState::kLost));
    } else if (late.count({id, next}) > 0) {
      send_lost(following.op, lost_of(id, block, next, wire::LostState::kLate));
    } else {
      send_extent(1, following.op, id, block, next);
    }
  }
  following.codes[block] = committed ? Code::kOk : Code::kCancelled;
  return true;
}

void ScriptedDaemon::end_reservations(Code code) {
  for (Following& following : followings_) {
    for (uint32_t i = 0; i < following.blocks.size(); ++i) {
      if (!feed(following, i)) following.codes[i] = code;
    }
  }
  reserved_.clear();
  feed_followers();
}

}  // namespace varve
