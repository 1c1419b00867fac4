// Damage: the budget decides, the plan proposes; which target it is the plan's seed says.
#include "tools/ledger/damage.h"

#include <bit>

#include "common/base/random.h"

namespace varve::ledger {

Damage::Damage(uint32_t targets, Scheme scheme) : scheme_(scheme), targets_(targets) {
  VARVE_ASSERT(targets > 0 && targets <= 32, targets);
}

uint32_t Damage::absent() const {
  uint32_t mask = 0;
  for (uint32_t t = 0; t < targets_.size(); ++t)
    mask |= targets_[t].state == State::kSound ? 0 : 1u << t;
  return mask;
}

uint32_t Damage::sound() const {
  return static_cast<uint32_t>(targets_.size()) - static_cast<uint32_t>(std::popcount(absent()));
}

bool Damage::within() const {
  return static_cast<uint32_t>(std::popcount(hurt_)) <= scheme_.m;
}

bool Damage::complete() const {
  return sound() - (draining_ ? 1 : 0) >= scheme_.width();
}

uint32_t Damage::thin() const {
  if (complete()) return 0;
  return absent() | (draining_ ? 1u << *draining_ : 0);
}

bool Damage::has_witnesses(uint32_t without, uint32_t loop) const {
  if (draining_) without |= 1u << *draining_;
  without |= absent();
  const auto knows_since = [&](uint32_t missed_loop) {
    for (uint32_t t = 0; t < targets_.size(); ++t) {
      const Target& at = targets_[t];
      if ((without >> t & 1) == 0 && at.missed_loop == 0 && at.from_loop <= missed_loop)
        return true;
    }
    return false;
  };
  bool any = knows_since(loop + 1);
  for (uint32_t t = 0; t < targets_.size() && any; ++t) {
    const Target& at = targets_[t];
    if (at.state == State::kDestroyed || at.state == State::kBroken) continue;  // blank, if at all
    const bool misses = at.missed_loop != 0 || (without >> t & 1) != 0;
    if (misses) any = knows_since(at.missed_loop != 0 ? at.missed_loop : loop + 1);
  }
  return any;
}

void Damage::made_blank(Target& target, uint32_t loop) const {
  target.from_loop = loop + 1;
  target.missed_loop = 0;
}

std::vector<uint32_t> Damage::unhurt() const {
  uint32_t others = hurt_ | absent();
  if (empty_) others |= 1u << *draining_;
  std::vector<uint32_t> out;
  for (uint32_t t = 0; t < targets_.size(); ++t) {
    if ((others >> t & 1) == 0) out.push_back(t);
  }
  return out;
}

void Damage::bring_back(uint32_t target, const LoopPlan& plan, uint64_t seed,
                        std::vector<Deed>* deeds) {
  Target& at = targets_[target];
  if (at.state != State::kAway) made_blank(at, plan.loop);
  VARVE_ASSERT(at.state != State::kSound, target);
  Deed deed{at.state == State::kAway ? Harm::kReturn : Harm::kReplace, target, 0, false, seed};
  deed.by_daemon = at.state == State::kDestroyed && (seed & 1) != 0;
  deeds->push_back(deed);
  at.state = State::kSound;
}

void Damage::strike(const LoopPlan& plan, uint32_t target, std::vector<Deed>* deeds) {
  Target& at = targets_[target];
  VARVE_ASSERT(at.state == State::kSound && (hurt_ >> target & 1) == 0, target);
  deeds->push_back({plan.harm, target, 0, false, plan.harm_seed + target});
  struck_ |= 1u << target;
  hurt_ |= 1u << target;
  if (plan.harm == Harm::kBlank) made_blank(at, plan.loop);
  if (draining_ == target) draining_.reset();  // given up
  if (plan.harm == Harm::kRot) rotten_ |= 1u << target;
  if (plan.harm == Harm::kDestroy) at.state = State::kDestroyed;
  if (plan.harm == Harm::kBreak) at.state = State::kBroken;
  if (plan.harm == Harm::kAway) at.state = State::kAway;
  at.back_loop = plan.loop + plan.absent_loops;
  if (at.state == State::kSound) return;
  if (plan.absent_loops == 0 || sound() == 0) {
    bring_back(target, plan, plan.harm_seed, deeds);  // D1
  }
}

void Damage::emptied() {
  VARVE_ASSERT(draining_ && !empty_);
  empty_ = true;
}

// The end of a drain, or the begin of one.
void Damage::drain(const LoopPlan& plan, std::vector<Deed>* deeds) {
  if (empty_) {
    Target& at = targets_[*draining_];
    const bool stays = plan.harm_seed % 3 == 0;  // to be formatted anew
    if (stays) made_blank(at, plan.loop);
    if (!stays) {
      deeds->push_back({Harm::kTakeOut, *draining_, 0, false, plan.harm_seed});
      at.state = State::kDestroyed;
      at.back_loop = plan.loop + plan.absent_loops;
    }
    draining_.reset();
    empty_ = false;
  } else if (!draining_ && plan.drains && absent() == 0 && hurt_ == 0) {
    Random random(plan.harm_seed + 1);
    const auto target = static_cast<uint32_t>(random.below(targets_.size()));
    if (has_witnesses(1u << target, plan.loop)) draining_ = target;
  }
}

std::vector<Deed> Damage::next(const LoopPlan& plan) {
  std::vector<Deed> deeds = draw(plan);
  for (Target& at : targets_) {
    if (at.state == State::kAway && at.missed_loop == 0) at.missed_loop = plan.loop + 1;
  }
  for (Deed& deed : deeds)  // the daemon would make all files that are missing, and not refuse
    deed.by_daemon &= absent() == 0 && plan.harm != Harm::kSwap;
  VARVE_ASSERT(sound() > 0);                              // D1
  VARVE_ASSERT(has_witnesses(0, plan.loop));              // D3
  VARVE_ASSERT(plan.beyond || struck_ == 0 || within());  // D2
  return deeds;
}

std::vector<Deed> Damage::draw(const LoopPlan& plan) {
  std::vector<Deed> deeds;
  struck_ = 0;
  drain(plan, &deeds);
  for (uint32_t t = 0; t < targets_.size(); ++t) {
    const bool due = plan.loop >= targets_[t].back_loop;
    if (targets_[t].state != State::kSound && due) bring_back(t, plan, plan.harm_seed >> t, &deeds);
  }
  if (plan.harm == Harm::kNone) return deeds;
  std::vector<uint32_t> left = unhurt();
  for (const Deed& deed : deeds)  // not formatted yet, or not even there
    std::erase(left, deed.target);
  Random random(plan.harm_seed);
  const auto take = [&] {
    const size_t at = random.below(left.size());
    const uint32_t target = left[at];
    left.erase(left.begin() + static_cast<ptrdiff_t>(at));
    return target;
  };
  if (plan.harm == Harm::kSwap) {
    if (draining_) std::erase(left, *draining_);
    if (left.size() < 2) return deeds;
    const uint32_t one = take();
    deeds.push_back({Harm::kSwap, one, take(), false, plan.harm_seed});
    return deeds;
  }
  const auto hurt = static_cast<uint32_t>(std::popcount(hurt_));
  uint32_t count =
      plan.beyond ? (hurt <= scheme_.m ? scheme_.m + 1 - hurt : 0) : (hurt < scheme_.m ? 1 : 0);
  for (; count > 0 && !left.empty(); --count) {
    const uint32_t target = take();
    if (has_witnesses(struck_ | 1u << target, plan.loop)) strike(plan, target, &deeds);
  }
  return deeds;
}

void Damage::healed() {
  VARVE_ASSERT(complete(), absent());
  hurt_ = rotten_ = 0;
}

}  // namespace varve::ledger
