// NameThread: looks names up on a thread of its own, so that a resolver that stands still holds up
// neither the client's thread nor its end.
//
// Owned by ThreadedClient, for an address that is a name. Thread rule: stop() and the destructor by
// whoever closes the client, ask() by the client's thread, on_looked_up() comes on this thread.
// Invariants:
//   N1 after stop() returned no answer comes.
//   N2 nobody waits for a lookup: one that is under way at the end is left behind, with its thread,
//      its resolver and nothing of the client's; it frees them when its resolver answers.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/fabric/address.h"

namespace varve {

// Must not block; a lock is held meanwhile.
class NameUser {
 public:
  virtual void on_looked_up(Result<std::vector<std::string>> found) = 0;

 protected:
  ~NameUser() = default;
};

class NameThread {
 public:
  NameThread(std::unique_ptr<Resolver> resolver, NameUser& user);
  ~NameThread();
  NameThread(const NameThread&) = delete;
  NameThread& operator=(const NameThread&) = delete;
  // One at a time: not before the last one's answer. After stop() it does nothing.
  void ask(const std::string& address);
  void stop();

 private:
  struct State;
  static void run(State* state);
  std::unique_ptr<State> state_;  // N2: the thread's, when it is left behind
  std::thread thread_;
};

}  // namespace varve
