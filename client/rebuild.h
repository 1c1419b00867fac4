// Rebuild: what a pull was told is lost or late, asked for otherwise, rebuilt and delivered.
//
// Owns the degraded stripes of one pull (stripe_in.h) and the PULLs with wants that feed them.
// Losses wait for scratch, in line and layer-major; a hedge of what is only late never waits:
// without scratch, budget or sources it is refused, and the original comes when it comes. Part of
// its pull, which drives it by run(); one thread. Invariants:
//   D3 one source at a time writes into the caller's memory: what is late is delivered only after
//      FENCED, and after no lane writes into that extent (I8). An original that is whole first
//      wins.
//   D4 scratch is given back only when nothing of it is asked for or lent to a lane.
#pragma once

#include <map>
#include <vector>

#include "client/stripe_in.h"
#include "common/wire/wire.h"

namespace varve {

class ClientPullOp;
class Core;

inline constexpr uint32_t kAsksMax = 4;  // PULLs with wants under way, of one pull

class Rebuild {
 public:
  explicit Rebuild(ClientPullOp& pull);
  ~Rebuild();
  Rebuild(const Rebuild&) = delete;
  Rebuild& operator=(const Rebuild&) = delete;

  // A row of LOST that fits the pull, of an extent that has not arrived.
  void take(const wire::LostExtent& row);
  void on_fenced(uint32_t block, uint32_t extent);  // our CANCEL of one extent
  void on_frame(const wire::Frame& frame);          // of one of our PULLs
  // DATA of one of our PULLs; true: it is placed, and on_data() follows.
  bool place(uint64_t op, const wire::Data& data, uint32_t payload_bytes, Placement& where);
  void on_data(uint64_t op, const wire::Data& data, const Placement& where);

  // One turn: fund, plan, ask, rebuild at most one stripe, deliver.
  void run();

  // The end: CANCEL for what the daemon still works at; false: no room to say it.
  [[nodiscard]] bool begin_fence();
  bool fenced() const;  // nothing of ours is under way at the daemon
  bool empty() const { return stripes_empty() && asks_.empty() && deferred_.empty(); }
  void lose_session();  // the lanes are fenced: all of it is gone
  void end();           // after the fence: gives back everything

 private:
  using Key = std::pair<uint32_t, uint32_t>;  // (stripe, block): layer-major
  using Stripes = std::map<Key, StripeIn>;
  struct Ask {
    uint64_t wire_op = 0;
    std::vector<uint32_t> blocks;  // of the pull, by their index in this PULL
    uint32_t asked = 0;            // sources that wait for its DATA
    uint32_t lent = 0;             // placements under way
    bool answered = false;         // PULLED came, or FENCED; its slot was given back
  };
  bool stripes_empty() const { return waiting_.empty() && active_.empty(); }
  bool try_take(const wire::LostExtent& row);
  StripeIn* find(Key key);
  void drop_settled(StripeIn& stripe);
  void refuse_hedges(StripeIn& stripe);
  void fund();
  void plan(StripeIn& stripe);
  void ask();
  std::vector<wire::Want> next_wants(std::vector<uint32_t>& blocks) const;
  void deliver(StripeIn& stripe);
  void answered(Ask& ask);
  void take_pulled(Ask& ask, const wire::PulledView& answer);
  void take_lost(Ask& ask, const wire::LostView& view);
  Ask* find_ask(uint64_t wire_op);
  void retire_asks();

  ClientPullOp& pull_;
  Core& core_;
  Stripes waiting_;  // for scratch
  Stripes active_;
  std::vector<Ask> asks_;
  std::vector<wire::LostExtent> deferred_;  // until a hedge of their stripe is delivered
  uint32_t wanted_ = 0;                     // sources to ask for
  bool in_line_ = false;                    // for a slot of the pace
};

}  // namespace varve
