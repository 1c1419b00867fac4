// Endpoint: a list of numbers, and the time of the last lookup.
#include "client/endpoint.h"

#include <algorithm>

namespace varve {

Endpoint::Endpoint(const ClientOptions& options, Names names)
    : looked_up_(names == Names::kLookedUp), lookup_ns_min_(options.lookup_ns_min) {
  if (!looked_up_) numbers_.push_back(options.address);
}

bool Endpoint::begin_lookup(Nanos now_ns) {
  if (!looked_up_ || asking_) return false;
  if (asked_ && now_ns - asked_ns_ < lookup_ns_min_) return false;
  asked_ = asking_ = true;
  asked_ns_ = now_ns;
  // Good until there is an answer: that may never come.
  failure_ = Status::unavailable("the name cannot be resolved: the resolver does not answer");
  return true;
}

bool Endpoint::on_looked_up(Result<std::vector<std::string>> found, Nanos now_ns) {
  VARVE_ASSERT(looked_up_ && asking_);  // E1
  asking_ = false;
  asked_ns_ = now_ns;
  if (!found) {
    failure_ = found.error();
    return false;  // E2
  }
  if (found->empty()) {
    failure_ = Status::unavailable("the name cannot be resolved: it has no address");
    return false;
  }
  failure_ = Status();
  if (*found == numbers_) return false;
  // Where it was last, if it may still be there.
  const auto same = known() ? std::find(found->begin(), found->end(), number()) : found->end();
  at_ = same == found->end() ? 0 : static_cast<size_t>(same - found->begin());
  turns_ = 0;
  numbers_ = std::move(*found);
  return true;
}

const std::string& Endpoint::number() const {
  VARVE_ASSERT(at_ < numbers_.size(), at_, numbers_.size());
  return numbers_[at_];
}

bool Endpoint::next() {
  VARVE_ASSERT(known());
  at_ = (at_ + 1) % numbers_.size();
  return ++turns_ < numbers_.size();
}

}  // namespace varve
