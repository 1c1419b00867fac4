// DataOut: DATA frames of one session on their way to its bulk lanes.
//
// All pieces of one extent go over one lane, in order; extents spread to the lane with the fewest
// bytes queued. A lane is handed little at once; the rest waits here (bounded by the homes'
// DataSend pools) and goes on when something was sent, extents that somebody asked for one by one
// first: a layer that should be there already waits for them. Every DataSend is posted back to its
// home exactly once.
#pragma once

#include "server/session/credit.h"
#include "server/session/lane.h"

namespace varve {

class DataOut {
 public:
  DataOut(SessionScope& scope, Credit& credit) : scope_(scope), credit_(credit) {}
  void attach(uint32_t lane_index, Lane& lane);
  bool attached(uint32_t lane_index) const { return lanes_[lane_index].lane != nullptr; }
  bool any_lane() const;
  // The lane is closed: what waits for it goes back, nothing is sent on it any more.
  void detach(uint32_t lane_index, Status cause);
  void send(DataSend& send);
  // What of this pull waits here goes back unsent, with kCancelled and its credit.
  void drop(const PendingPull& pull);
  bool idle() const;              // nothing waiting, nothing in a link
  uint64_t queued_bytes() const;  // in links, of all pulls

 private:
  // Enough that a link is never idle; what is handed to it is passed by nobody.
  static constexpr uint64_t kLaneBytesMax = 1 * kMiB;
  using Waiting = Queue<DataSend, &DataSend::next>;
  struct Out {
    Lane* lane = nullptr;
    uint64_t queued_bytes = 0;  // handed to the link, not sent yet
    uint32_t queued_sends = 0;
    Waiting wanted, waiting;     // extents asked for one by one; all others
    uint64_t waiting_bytes = 0;  // of both

    Waiting& queue_of(const PendingPull& pull);
    Waiting& first() { return wanted.empty() ? waiting : wanted; }
    bool has_room(uint64_t bytes) const;
  };
  uint32_t choose(PendingPull& pull, const DataSend& send);
  void hand_over(Out& out, DataSend& send);
  void pump(Out& out);
  void drop(const PendingPull& pull, Out& out, Waiting& waiting);
  void post_back(DataSend& send, Status status);
  static void on_sent(SendRequest& request);

  SessionScope& scope_;
  Credit& credit_;
  Out lanes_[wire::kBulkLanesMax];
  uint32_t turn_ = 0;  // which of equally empty lanes is next
};

}  // namespace varve
