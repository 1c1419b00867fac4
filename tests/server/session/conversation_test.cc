// Whole conversations drawn by seed: clients that are honest, careless or hostile, at random, over
// two homes. Method: every frame a client may send, with fields that are right, stale, foreign or
// absurd; lanes that break; answers that come late. Expect: no assert, nothing left, and another
// client is always served.
#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

// One client's random walk; it remembers a little of what it was told, so that it is often right.
class Walker {
 public:
  Walker(World& world, Random& random)
      : random_(random),
        client_(world, 2, 4 * kMiB),
        format_(client_.register_format(small_format())) {
    first_id_ = static_cast<uint32_t>(random.below(5));
  }

  void step() {
    for (ClientLane* lane : {client_.urgent.get(), client_.bulk[0].get(), client_.bulk[1].get()}) {
      if (lane->closed() || lane->link().closing() || !lane->link().can_send(kMiB / 2)) return;
    }
    learn();
    switch (random_.below(14)) {
      case 0:
        client_.match(format(), ids(), static_cast<uint32_t>(random_.below(3) * 400));
        break;
      case 1:
        reserve();
        break;
      case 2:
      case 3:
        extent();
        break;
      case 4:
        whole_block();
        break;
      case 5:
        commit();
        break;
      case 6:
        abort();
        break;
      case 7:
      case 8:
        pull();
        break;
      case 9:
        client_.cancel(random_.chance(800) ? some_op() : random_.next());
        break;
      case 10:
        credit();
        break;
      case 11:
        release();
        break;
      case 12:
        client_.urgent->send(client_.encoder().ping(random_.next(), {random_.next()}));
        break;
      case 13:
        rare();
        break;
    }
  }

 private:
  uint32_t format() {
    return random_.chance(970) ? format_ : static_cast<uint32_t>(random_.next());
  }
  uint64_t some_op() { return 1 + random_.below(client_.next_op); }
  std::vector<BaseId> ids() {
    return ids_of(static_cast<uint32_t>(random_.between(1, 6)),
                  first_id_ + static_cast<uint32_t>(random_.below(4)));
  }

  struct Known {
    uint64_t op = 0;
    uint32_t index = 0;
    BlockId block;
    Attempt attempt;
  };

  // Reads what came since the last step: grants, leases, bytes.
  void learn() {
    for (; seen_ < client_.urgent->got.size(); ++seen_) {
      const wire::Frame frame = client_.urgent->got[seen_].frame();
      if (const auto* matched = std::get_if<wire::MatchedView>(&frame.body))
        lease_ = matched->body.lease;
      const auto* reserved = std::get_if<wire::ReservedView>(&frame.body);
      const auto asked = reserves_.find(frame.header.op);
      if (reserved == nullptr || asked == reserves_.end()) continue;
      for (uint32_t i = 0; i < reserved->answers.size(); ++i) {
        const wire::ReserveAnswer answer = reserved->answers[i];
        if (answer.outcome != wire::ReserveOutcome::kGranted) continue;
        grants_.push_back({frame.header.op, i, {asked->second[i], 0}, answer.attempt});
      }
    }
    uint64_t bytes = 0;
    for (const auto& lane : {client_.bulk[0].get(), client_.bulk[1].get()}) {
      for (const Got& got : lane->got)
        bytes += got.payload.size();
    }
    received_ = bytes;
  }

  Known some_grant() {
    Known known;
    if (!grants_.empty()) known = grants_[random_.below(grants_.size())];
    if (grants_.empty() || random_.chance(60)) {
      known.op = some_op();
      known.attempt = {1, 0, 1 + random_.below(20)};
    }
    if (random_.chance(30)) known.attempt.counter = 1 + random_.below(20);
    return known;
  }

  void reserve() {
    const auto wanted = ids();
    reserves_[client_.next_op] = wanted;
    client_.reserve(format(), wanted, static_cast<uint32_t>(random_.between(1, 300)));
  }

  void extent() {
    const Known known = some_grant();
    wire::Extent body;
    body.reserve_op = known.op;
    body.index = known.index;
    body.extent = random_.chance(980) ? static_cast<uint32_t>(random_.below(4)) : 400;
    static constexpr uint32_t kSizes[4] = {300 * 1024 + 100, 80 * 1024, 70 * 1024, 65 * 1024};
    body.extent_bytes = random_.chance(980) ? kSizes[body.extent % 4] : 4096;
    body.offset = random_.chance(950) ? 0 : 4096;
    body.attempt = known.attempt;
    const auto bytes = static_cast<uint32_t>(random_.between(1, 70000));
    const uint32_t lane = random_.chance(500) ? 1 : 0;
    if (client_.bulk[lane]->link().can_send(bytes)) {
      client_.send_piece(body, std::vector<std::byte>(bytes, std::byte{1}), lane);
    }
  }

  void whole_block() {
    if (grants_.empty()) return;
    const Known known = grants_.back();
    grants_.pop_back();
    TestClient::PushShape shape;
    shape.spoil = random_.chance(100);
    shape.lane = random_.chance(500) ? 1 : 0;
    client_.send_extents(known.op, known.index, known.block, known.attempt, shape);
    if (random_.chance(800)) {
      const auto lane = static_cast<int32_t>(random_.chance(500) ? shape.lane : -1);
      client_.commit(known.op, known.index, known.block, known.attempt, lane);
    }
  }

  void commit() {
    const Known known = some_grant();
    client_.commit(known.op, known.index, known.block, known.attempt, random_.chance(500) ? 0 : -1);
  }

  void abort() {
    const Known known = some_grant();
    client_.abort(known.op, known.index, known.attempt, random_.chance(500) ? 1 : -1);
  }

  void pull() {
    const uint64_t lease = random_.chance(500) ? 0 : random_.chance(900) ? lease_ : random_.next();
    client_.pull(format(), ids(), lease, random_.between(0, 200) * kMillisecond,
                 random_.below(100) * kMillisecond);
  }

  void credit() {
    const uint64_t owed = received_ - returned_;
    const uint64_t bytes = random_.chance(985) ? random_.below(owed + 1) : random_.next();
    client_.credit(bytes);
    returned_ += bytes;
  }

  void release() {
    const uint64_t id = random_.chance(800) ? lease_ : random_.next();
    client_.urgent->send(client_.encoder().release(client_.next_op++, {id}));
  }

  void rare() {
    if (random_.chance(700)) return;
    switch (random_.below(4)) {
      case 0:
        client_.bulk[random_.below(2)]->close();
        break;
      case 1:
        client_.urgent->close();
        break;
      case 2:
        client_.urgent->send(std::vector<std::byte>(random_.between(1, 200), std::byte{7}));
        break;
      case 3:
        --client_.next_op;
        break;  // the next op is one that was used
    }
  }

  Random& random_;
  TestClient client_;
  const uint32_t format_;
  uint32_t first_id_ = 0;
  size_t seen_ = 0;
  uint64_t lease_ = 0, received_ = 0, returned_ = 0;
  std::map<uint64_t, std::vector<BaseId>> reserves_;
  std::vector<Known> grants_;
};

void converse(uint64_t seed) {
  Random random(seed);
  SessionOptions options;
  options.attempts_max = static_cast<uint32_t>(random.between(1, 20));
  options.pulls_max = static_cast<uint32_t>(random.between(1, 8));
  options.leases_max = static_cast<uint32_t>(random.between(1, 4));
  World world(2, options);
  for (const auto& home : world.homes)
    home->window_bytes = random.between(64 * kKiB, 4 * kMiB);
  {
    std::vector<std::unique_ptr<Walker>> walkers;
    for (uint32_t i = 0; i < 3; ++i)
      walkers.push_back(std::make_unique<Walker>(world, random));
    for (uint32_t s = 0; s < 150; ++s) {
      walkers[random.below(walkers.size())]->step();
      FakeHome& home = *world.homes[random.below(2)];
      if (random.chance(100)) {
        home.hold_kind = static_cast<Part::Kind>(random.below(7));
        home.hold = true;
      }
      if (random.chance(200)) home.release_held();
      if (random.chance(20)) world.fabric.break_one();
      if (random.chance(600)) world.run_for(random.below(5) * kMillisecond);
    }
    for (const auto& home : world.homes)
      home->release_held();
    world.run_for(10 * kMillisecond);
  }
  EXPECT_TRUE(world.settle()) << "seed " << seed;
  EXPECT_EQ(world.metric("varve_session_grants"), 0) << "seed " << seed;
  EXPECT_EQ(world.metric("varve_session_leases"), 0) << "seed " << seed;
  EXPECT_EQ(world.metric("varve_session_requests"), 0) << "seed " << seed;
  // Expect: the next one is served as ever.
  TestClient next(world, 1);
  const uint32_t format = next.register_format(small_format());
  EXPECT_EQ(next.wait<wire::MatchedView>(next.match(format, ids_of(5, 900))).body.code, 0);
}

TEST(Conversation, NoSequenceOfFramesHarmsTheServer) {
  for (uint64_t seed = 1; seed <= 60; ++seed)
    converse(seed);
}

}  // namespace
}  // namespace varve::test
