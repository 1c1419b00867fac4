// Goal: the mailbox loses nothing, keeps each producer's order and never sleeps over a message.
// Method: single-threaded cases for the queue's corners, four real producer threads for the rest
// (this is the test that runs under TSan).
#include "common/reactor/mailbox.h"

#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace varve {
namespace {

struct Note : Message {
  uint32_t producer = 0;
  uint32_t number = 0;
};

// What arrived, in order; messages carry it as owner.
struct Seen {
  std::vector<std::pair<uint32_t, uint32_t>> notes;
  static void deliver(Message& message) {
    auto& note = static_cast<Note&>(message);
    static_cast<Seen*>(message.owner)->notes.emplace_back(note.producer, note.number);
  }
};

std::unique_ptr<Note> make_note(Seen& seen, uint32_t producer, uint32_t number) {
  auto note = std::make_unique<Note>();
  note->deliver = &Seen::deliver;
  note->owner = &seen;
  note->producer = producer;
  note->number = number;
  return note;
}

TEST(Mailbox, DeliversInOrderAndIsEmptyAfterwards) {
  Mailbox mailbox;
  Seen seen;
  EXPECT_TRUE(mailbox.empty());
  std::vector<std::unique_ptr<Note>> notes;
  for (uint32_t i = 0; i < 5; ++i) {
    notes.push_back(make_note(seen, 0, i));
    EXPECT_FALSE(mailbox.post(*notes.back()));  // nobody sleeps
  }
  EXPECT_FALSE(mailbox.empty());
  EXPECT_EQ(mailbox.drain(100), 5u);
  EXPECT_TRUE(mailbox.empty());
  EXPECT_EQ(mailbox.drain(100), 0u);
  for (uint32_t i = 0; i < 5; ++i)
    EXPECT_EQ(seen.notes[i].second, i);
}

TEST(Mailbox, DrainStopsAtItsLimit) {
  Mailbox mailbox;
  Seen seen;
  std::vector<std::unique_ptr<Note>> notes;
  for (uint32_t i = 0; i < 5; ++i) {
    notes.push_back(make_note(seen, 0, i));
    mailbox.post(*notes.back());
  }
  EXPECT_EQ(mailbox.drain(2), 2u);
  EXPECT_EQ(seen.notes.size(), 2u);
  EXPECT_FALSE(mailbox.empty());
  EXPECT_EQ(mailbox.drain(100), 3u);
}

TEST(Mailbox, AMessageMayBePostedAgainFromItsOwnDelivery) {
  struct Bouncer : Message {
    Mailbox* mailbox = nullptr;
    uint32_t left = 3;
  } bouncer;
  Mailbox mailbox;
  bouncer.mailbox = &mailbox;
  bouncer.deliver = [](Message& message) {
    auto& self = static_cast<Bouncer&>(message);
    if (--self.left > 0) self.mailbox->post(self);
  };
  mailbox.post(bouncer);
  EXPECT_EQ(mailbox.drain(1), 1u);
  EXPECT_EQ(mailbox.drain(10), 2u);
  EXPECT_EQ(bouncer.left, 0u);
  EXPECT_TRUE(mailbox.empty());
}

TEST(Mailbox, OnlyTheFirstPostAfterPrepareSleepWakes) {
  Mailbox mailbox;
  Seen seen;
  auto first = make_note(seen, 0, 0);
  auto second = make_note(seen, 0, 1);
  EXPECT_TRUE(mailbox.prepare_sleep());
  EXPECT_TRUE(mailbox.post(*first));
  EXPECT_FALSE(mailbox.post(*second));
  mailbox.end_sleep();
  EXPECT_EQ(mailbox.drain(10), 2u);
}

TEST(Mailbox, PrepareSleepRefusesWhenSomethingArrived) {
  Mailbox mailbox;
  Seen seen;
  auto note = make_note(seen, 0, 0);
  mailbox.post(*note);
  EXPECT_FALSE(mailbox.prepare_sleep());
  mailbox.end_sleep();
  EXPECT_EQ(mailbox.drain(10), 1u);
  EXPECT_TRUE(mailbox.prepare_sleep());
  mailbox.end_sleep();
}

// A bell as the eventfd of a backend is one: remembers that it rang.
class Bell {
 public:
  void ring() {
    const std::lock_guard<std::mutex> lock(mutex_);
    rung_ = true;
    condition_.notify_one();
  }
  void await() {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait(lock, [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool rung_ = false;
};

TEST(Mailbox, FourProducersLoseNothingKeepTheirOrderAndAlwaysWakeTheSleeper) {
  constexpr uint32_t kProducers = 4;
  constexpr uint32_t kNotes = 20000;
  Mailbox mailbox;
  Bell bell;
  Seen seen;
  seen.notes.reserve(kProducers * kNotes);
  std::vector<std::vector<std::unique_ptr<Note>>> notes(kProducers);
  for (uint32_t p = 0; p < kProducers; ++p) {
    for (uint32_t i = 0; i < kNotes; ++i)
      notes[p].push_back(make_note(seen, p, i));
  }
  std::vector<std::thread> producers;
  for (uint32_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (auto& note : notes[p]) {
        if (mailbox.post(*note)) bell.ring();
      }
    });
  }
  // A lost wake-up shows as a test that never ends (the suite's time limit catches it).
  while (seen.notes.size() < kProducers * kNotes) {
    if (mailbox.drain(64) > 0) continue;
    if (mailbox.prepare_sleep()) bell.await();
    mailbox.end_sleep();
  }
  for (std::thread& producer : producers)
    producer.join();
  std::array<uint32_t, kProducers> next{};
  for (const auto& [producer, number] : seen.notes) {
    ASSERT_EQ(number, next[producer]) << "producer " << producer;
    ++next[producer];
  }
  EXPECT_TRUE(mailbox.empty());
}

}  // namespace
}  // namespace varve
