// Damage: which targets of a folder are away or hurt, and what happens to them before a start.
//
// Pure. A target that lost bytes is *hurt* until somebody saw that everything is whole again; at
// most m targets of a scheme are hurt at once, unless a loop is meant to go beyond that. One that
// the daemon does not find, or does not take, is *absent*; it comes back, as it was or blank. One
// that is *draining* is emptied while it works; once it is, it is taken out or formatted anew, and
// nobody is hurt.
// Invariants:
//   D1 at least one target is there at every start.
//   D2 no more than m are hurt after a loop that stays within the budget.
//   D3 for every target that was away one is there, as it was and not draining, that has been there
//      since before: it knows what was purged (no start is refused as STALE, docs/OPERATIONS.md).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/model/model.h"
#include "tools/ledger/plan.h"

namespace varve::ledger {

struct Deed {  // one thing done to one target, or to two
  Harm harm = Harm::kNone;
  uint32_t target = 0;
  uint32_t other = 0;      // kSwap
  bool by_daemon = false;  // kReplace: the daemon is asked to make the file
  uint64_t seed = 0;       // of the bytes
};

class Damage {
 public:
  Damage(uint32_t targets, Scheme scheme);

  // What happens before the start of this loop, in this order; the account is of afterwards.
  std::vector<Deed> next(const LoopPlan& plan);
  // Everything that is there is whole: repair says so, and scrub of what is rotten.
  void healed();
  // The daemon says that the draining one may be removed.
  void emptied();

  // As bits.
  uint32_t struck() const { return struck_; }  // by the last next()
  uint32_t hurt() const { return hurt_; }
  uint32_t rotten() const { return rotten_; }
  uint32_t absent() const;
  std::optional<uint32_t> draining() const { return draining_; }  // also once it is empty
  bool is_empty() const { return empty_; }                        // the draining one
  // What blocks that are pushed now may lack.
  uint32_t thin() const;
  bool complete() const;  // repair and drain can come to an end
  bool within() const;

 private:
  enum class State : uint8_t { kSound, kDestroyed, kBroken, kAway };
  struct Target {
    State state = State::kSound;
    uint32_t back_loop = 0;
    // Loops from 1: since when it is not what it was before, and since when it was away, which
    // counts until it is blank. 0: never.
    uint32_t from_loop = 0, missed_loop = 0;
  };
  std::vector<Deed> draw(const LoopPlan& plan);
  uint32_t sound() const;
  void bring_back(uint32_t target, const LoopPlan& plan, uint64_t seed, std::vector<Deed>* deeds);
  void strike(const LoopPlan& plan, uint32_t target, std::vector<Deed>* deeds);
  void drain(const LoopPlan& plan, std::vector<Deed>* deeds);
  // Without these, as bits, D3 holds. They may come back as they are.
  bool has_witnesses(uint32_t without, uint32_t loop) const;
  void made_blank(Target& target, uint32_t loop) const;
  std::vector<uint32_t> unhurt() const;

  const Scheme scheme_;
  std::vector<Target> targets_;
  uint32_t struck_ = 0, hurt_ = 0, rotten_ = 0;
  std::optional<uint32_t> draining_;
  bool empty_ = false;
};

}  // namespace varve::ledger
