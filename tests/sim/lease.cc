// Renewing a lease between match and pull, and listing what all sessions hold.
#include "tests/sim/actor.h"

namespace varve::sim {

void Actor::start_renew() {
  RenewRequest request;
  request.lease = lease_;
  request.lease_ms = static_cast<uint32_t>(random_.between(50, 500));
  request.deadline_ns = 300 * kMillisecond;
  begin(core_->renew(request), Step::kRenew, 300 * kMillisecond);
}

// From now on the lease lasts as long as the client was told, mostly longer than the match said: a
// pull near its new end is as good as one at once (I4).
void Actor::on_renewed(const Event& event) {
  const Nanos left_ns = core_->lease_left_ns(lease_);
  world_.expect(!event.status.ok() || event.lease_ns <= kLeaseMax, "I4 a lease beyond the longest");
  const bool over = event.status.code() == Code::kTimedOut && event.lease_ns == 0;
  world_.expect(!over || left_ns == 0, "I4 a lease that is over goes on");
  ++(event.status.ok() ? stats_.renewed : stats_.lapsed);
  step_ = Step::kLinger;
  wait_until_ns_ = world_.now_ns() + random_.below(left_ns * 3 / 4 + 1);
}

void Actor::ask_holds() {
  HoldsRequest request;
  request.deadline_ns = 400 * kMillisecond;
  begin(core_->holds(request), Step::kHolds, 400 * kMillisecond);
}

void Actor::on_holds(const Event& event) {
  step_ = Step::kIdle;
  wait_until_ns_ = world_.now_ns() + random_.below(3 * kMillisecond);
  held_nothing_ = event.status.ok() && event.holds.empty();
  uint64_t before = 0;
  for (const HoldRow& row : event.holds) {
    world_.note(row.number);
    world_.expect(row.number > before, "holds out of order");
    world_.expect(row.name.starts_with("actor-"), "I6 a hold of nobody");
    const auto number = static_cast<uint32_t>(std::stoul(row.name.substr(6)));
    world_.expect(library_.domain_of(number) == domain_, "a hold of another domain is listed");
    before = row.number;
  }
  stats_.holds += event.holds.size();
}

}  // namespace varve::sim
