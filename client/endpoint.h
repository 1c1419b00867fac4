// Endpoint: where the daemon is: the address that the client was given and, when that is a name,
// the numbers it was found to have.
//
// Owned by ClientSession. A name is looked up by somebody else, elsewhere than on this thread: this
// says when it is due and keeps what came of it. One thread. Invariants:
//   E1 a name is looked up by one at a time, and not before lookup_ns_min has passed since the
//   last. E2 a lookup that fails takes no number away: the daemon may be where it was.
#pragma once

#include <string>
#include <vector>

#include "client/varve.h"

namespace varve {

class Endpoint {
 public:
  Endpoint(const ClientOptions& options, Names names);

  // True: it is to be looked up now, and on_looked_up() follows, if ever (E1).
  bool begin_lookup(Nanos now_ns);
  // Whether its numbers are others than before.
  bool on_looked_up(Result<std::vector<std::string>> found, Nanos now_ns);

  bool known() const { return !numbers_.empty(); }
  const std::string& number() const;                  // to be connected to
  const Status& failure() const { return failure_; }  // why it is not known, or not known anew
  // Each number has one turn in a round.
  void begin_round() { turns_ = 0; }
  bool next();  // false: the round is over

 private:
  const bool looked_up_;
  const Nanos lookup_ns_min_;
  std::vector<std::string> numbers_;
  size_t at_ = 0, turns_ = 0;
  bool asked_ = false, asking_ = false;
  Nanos asked_ns_ = 0;
  Status failure_;
};

}  // namespace varve
