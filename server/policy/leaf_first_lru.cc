// Leaf-first LRU: one doubly linked list per room, oldest at the front.
//
// The leaf-first property comes from the order in which touches are fed, not from knowledge of the
// chain: whoever touches a leaf touches its ancestors afterwards, so an ancestor is never older.
//
// Reinsertion needs to know how old a slot is without walking the list. Each room counts epochs; an
// epoch ends after a quarter of the room's population was inserted or touched. A slot remembers the
// epoch of its last use, and its age is compared with that of the room's oldest slot.
#include <vector>

#include "server/policy/policy.h"

namespace varve {

namespace {

constexpr uint32_t kRoomBits = 12;
constexpr uint32_t kEpochBits = 32 - kRoomBits;
constexpr uint32_t kEpochMask = (1u << kEpochBits) - 1;
constexpr uint32_t kNoRoom = (1u << kRoomBits) - 1;
static_assert(kPolicyRoomsMax < kNoRoom);

struct Node {
  uint32_t previous = kNoSlot;
  uint32_t next = kNoSlot;
  uint32_t room : kRoomBits = kNoRoom;
  // Wraps after 2^20 epochs: what was not used that long may look young once, and is kept once
  // more.
  uint32_t epoch : kEpochBits = 0;
};
static_assert(sizeof(Node) == kPolicyBytesPerSlot);

struct Room {
  uint32_t oldest = kNoSlot;
  uint32_t newest = kNoSlot;
  uint32_t count = 0;
  uint32_t epoch = 0;
  uint32_t uses = 0;  // in this epoch
};

class LeafFirstLru final : public EvictionPolicy {
 public:
  LeafFirstLru(uint32_t slots_max, uint32_t rooms) : nodes_(slots_max), rooms_(rooms) {
    VARVE_ASSERT(slots_max > 0);
    VARVE_ASSERT(rooms > 0);
    VARVE_ASSERT(rooms <= kPolicyRoomsMax, rooms);
  }

  const char* name() const override { return "leaf_first_lru"; }

  void insert(uint32_t slot, uint32_t room) override {
    enter(slot, room);
    link_newest(slot);
  }

  void insert_oldest(uint32_t slot, uint32_t room) override {
    enter(slot, room);
    link_oldest(slot);
  }

  void touch(uint32_t slot) override {
    VARVE_ASSERT(slot < nodes_.size(), slot);
    if (nodes_[slot].room == kNoRoom) return;
    unlink(slot);
    link_newest(slot);
  }

  void remove(uint32_t slot) override {
    VARVE_ASSERT(slot < nodes_.size(), slot);
    if (nodes_[slot].room == kNoRoom) return;
    unlink(slot);
    nodes_[slot] = Node{};  // Y1
  }

  uint32_t victim(uint32_t room, uint32_t previous) const override {
    VARVE_ASSERT(room < rooms_.size(), room);
    if (previous == kNoSlot) return rooms_[room].oldest;
    VARVE_ASSERT(previous < nodes_.size(), previous);
    VARVE_ASSERT(nodes_[previous].room == room, previous, room);
    return nodes_[previous].next;
  }

  // Not worth a copy: whatever was last used in the oldest quarter of the room's time span, for the
  // next evictions would take it anyway. A span too short to have quarters keeps everything.
  bool reinsert(uint32_t slot) const override {
    VARVE_ASSERT(slot < nodes_.size(), slot);
    const Node& node = nodes_[slot];
    if (node.room == kNoRoom) return false;
    const Room& room = rooms_[node.room];
    const uint64_t age = age_of(room, node);
    const uint64_t age_max = age_of(room, nodes_[room.oldest]);
    return age_max < 4 || age * 4 < age_max * 3;
  }

 private:
  static uint32_t age_of(const Room& room, const Node& node) {
    return (room.epoch - node.epoch) & kEpochMask;
  }

  void link_newest(uint32_t slot) {
    Node& node = nodes_[slot];
    Room& room = rooms_[node.room];
    node.previous = room.newest;
    node.next = kNoSlot;
    if (room.newest == kNoSlot) {
      room.oldest = slot;
    } else {
      nodes_[room.newest].next = slot;
    }
    room.newest = slot;
    ++room.count;
    if (++room.uses > room.count / 4) {
      room.uses = 0;
      room.epoch = (room.epoch + 1) & kEpochMask;
    }
    node.epoch = room.epoch;
  }

  void enter(uint32_t slot, uint32_t room) {
    VARVE_ASSERT(slot < nodes_.size(), slot);
    VARVE_ASSERT(room < rooms_.size(), room);
    if (nodes_[slot].room != kNoRoom) unlink(slot);
    nodes_[slot].room = room;
  }

  // As old as the oldest: no use of the room, so no part of an epoch.
  void link_oldest(uint32_t slot) {
    Node& node = nodes_[slot];
    Room& room = rooms_[node.room];
    node.previous = kNoSlot;
    node.next = room.oldest;
    node.epoch = room.oldest == kNoSlot ? room.epoch : nodes_[room.oldest].epoch;
    (room.oldest == kNoSlot ? room.newest : nodes_[room.oldest].previous) = slot;
    room.oldest = slot;
    ++room.count;
  }

  void unlink(uint32_t slot) {
    const Node& node = nodes_[slot];
    Room& room = rooms_[node.room];
    VARVE_ASSERT(room.count > 0, slot);
    if (node.previous == kNoSlot) {
      VARVE_ASSERT(room.oldest == slot, slot);
      room.oldest = node.next;
    } else {
      nodes_[node.previous].next = node.next;
    }
    if (node.next == kNoSlot) {
      VARVE_ASSERT(room.newest == slot, slot);
      room.newest = node.previous;
    } else {
      nodes_[node.next].previous = node.previous;
    }
    --room.count;
  }

  std::vector<Node> nodes_;
  std::vector<Room> rooms_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_leaf_first_lru(uint32_t slots_max, uint32_t rooms) {
  return std::make_unique<LeafFirstLru>(slots_max, rooms);
}

}  // namespace varve
