// Questions of gRPC's threads to the cores: posted by mailbox, waited for with a bound, off the
// data path (ADR-0006).
//
// A question lives here from ask() to its answer. A thread that gives up leaves it: the core
// answers it whenever it comes to it, and then it is forgotten. So a question owns all that it
// needs there, and takes nothing of the thread along.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "common/reactor/reactor.h"
#include "common/time/time.h"

namespace varve {

class Questions;

class Question {
 public:
  virtual ~Question() = default;

 protected:
  enum class Step : uint8_t { kAnswered, kLater };
  // On the core. kLater: answered() follows, maybe from inside, from whichever core it ended on.
  virtual Step ask() = 0;
  void answered();  // the last that is done with it

 private:
  friend class Questions;
  Message message_;
  Questions* questions_ = nullptr;
  bool answered_ = false, abandoned_ = false;
};

// What is asked and answered in one turn: T has on_core(), and the answer in it.
template <class T>
class AtOnce final : public Question {
 public:
  explicit AtOnce(T asked) : what(std::move(asked)) {}
  T what;

 private:
  Step ask() override {
    what.on_core();
    return Step::kAnswered;
  }
};

class Questions {
 public:
  static constexpr uint32_t kOutMax = 64;  // on their way, given up or not
  ~Questions();                            // the cores have ended: what is still out is dropped

  // The question with its answer, or null and why: kTimedOut (left to its core), kUnavailable
  // (closed), kOverloaded (kOutMax are out).
  std::unique_ptr<Question> ask(Reactor& reactor, std::unique_ptr<Question> question,
                                Nanos limit_ns, Status* why);
  void close();  // every wait ends now, and no new one begins
  uint32_t out() const;

 private:
  friend class Question;
  void answered(Question& question);
  std::unique_ptr<Question> take(Question& question);  // out of out_
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Question>> out_;
  bool closed_ = false;
};

}  // namespace varve
