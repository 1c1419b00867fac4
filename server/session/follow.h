// Follow: blocks on their way to a second client while the first is still pushing them.
//
// A follow is a pull (credit, lanes, deadline, CANCEL, PULLED) that begins in the slabs of live
// grants: every session of a node lives on this core, so an extent is sent from where it was
// received as soon as its checksum held. What a commit left unsent is asked of the home like wants
// of any pull. A follow owns no slab. The grant's part waits at the session while frames of its
// slabs are on a follower's lane; a follower that makes it wait too long is dropped (N5).
#pragma once

#include <array>
#include <memory>

#include "server/session/context.h"

namespace varve {

class Requests;
struct Follow;
struct Grant;
struct PendingPull;

struct FollowedBlock : ListHook {  // in its grant's list while it is kLive
  enum class State : uint8_t {
    kLive,       // fed from a grant, or waiting for how its commit ends
    kCommitted,  // the rest is at its home
    kAsked,      // wants of it are in the part out
    kOver,       // `code` says how
  };
  Follow* follow = nullptr;
  Grant* grant = nullptr;
  State state = State::kOver;
  Code code = Code::kOk;
  bool is_other = false;  // its home sent another attempt than the one named
  uint16_t next = 0;      // first extent not handed over
  uint16_t asked = 0;     // kAsked: end of those in the part out
};

struct FollowSend {
  DataSend send;
  Follow* follow = nullptr;
  Grant* grant = nullptr;  // lent from; null: free
};

struct Follow {
  static constexpr uint32_t kSendsMax = 32;  // frames on lanes: two extents of 4 MiB
  static constexpr uint64_t kWindowBytesMax = kExtentBytesMax;  // credit asked at once
  explicit Follow(uint32_t shards) : is_asked(shards) {}

  Requests* requests = nullptr;
  PendingPull* pull = nullptr;
  uint32_t rank = 0;
  uint32_t extent_first = 0, extent_end = 0;
  Nanos first_wanted_ns = 0, layer_ns = 0;
  uint32_t open = 0;  // blocks that are not over
  std::array<FollowedBlock, wire::kIdsMax> blocks;
  std::array<Attempt, wire::kIdsMax> attempts;

  // The window: one extent of several blocks, with credit or asking for it.
  uint32_t window_extent = 0;
  uint32_t window_count = 0;
  std::array<uint16_t, kSendsMax> window_blocks;
  PullPart here;  // stands for this core where a home would: sends and asks come back to it
  CreditAsk ask;
  bool asking = false;
  std::array<FollowSend, kSendsMax> sends;
  uint32_t sends_out = 0;
  Timer stall;                 // while frames are on lanes
  std::vector<bool> is_asked;  // by shard: its part is out
};

// By the grants: an extent is there and verified; no more comes, with kOk once committed.
void followers_see(Grant& grant);
void followers_end(Grant& grant, Code code);

}  // namespace varve
