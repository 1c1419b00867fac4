// Waits of a few threads for a few answers: one lock for all of them.
#include "server/node/question.h"

#include <algorithm>
#include <chrono>

namespace varve {

Questions::~Questions() = default;

void Question::answered() {
  questions_->answered(*this);
}

std::unique_ptr<Question> Questions::ask(Reactor& reactor, std::unique_ptr<Question> question,
                                         Nanos limit_ns, Status* why) {
  VARVE_ASSERT(question != nullptr && question->questions_ == nullptr && why != nullptr);
  Question& asked = *question;
  std::unique_lock<std::mutex> lock(mutex_);
  *why = Status();
  if (closed_) *why = Status::unavailable("the node stops");
  if (out_.size() >= kOutMax) *why = Status::overloaded("cores owe too many answers");
  if (!why->ok()) return nullptr;
  asked.questions_ = this;
  asked.message_.owner = &asked;
  asked.message_.deliver = [](Message& message) {
    auto& arrived = *static_cast<Question*>(message.owner);
    if (arrived.ask() == Question::Step::kAnswered) arrived.answered();
  };
  out_.push_back(std::move(question));
  reactor.post(asked.message_);
  changed_.wait_for(lock, std::chrono::nanoseconds(limit_ns),
                    [&] { return asked.answered_ || closed_; });
  if (asked.answered_) return take(asked);
  asked.abandoned_ = true;
  *why = closed_ ? Status::unavailable("the node stops")
                 : Status::timed_out("the core did not answer in time");
  return nullptr;
}

void Questions::answered(Question& question) {
  std::unique_ptr<Question> forgotten;  // ends without the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  VARVE_ASSERT(!question.answered_);
  question.answered_ = true;
  if (question.abandoned_) forgotten = take(question);
  changed_.notify_all();
}

std::unique_ptr<Question> Questions::take(Question& question) {
  const auto at = std::find_if(out_.begin(), out_.end(),
                               [&](const auto& held) { return held.get() == &question; });
  VARVE_ASSERT(at != out_.end());
  std::unique_ptr<Question> taken = std::move(*at);
  out_.erase(at);
  return taken;
}

void Questions::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

uint32_t Questions::out() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<uint32_t>(out_.size());
}

}  // namespace varve
