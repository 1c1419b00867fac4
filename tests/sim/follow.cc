// Following what another actor pushes, into memory of one's own: each layer is what that attempt's
// writer wrote, and the end says how its push ended.
#include "tests/sim/actor.h"

namespace varve::sim {

void Actor::start_follow() {
  follows_ = library_.board.take(static_cast<uint32_t>(random_.between(1, 4)));
  format_ = follows_[0].format;
  rank_ = follows_[0].rank;
  FollowRequest request;
  request.format = format_ids_[format_];
  request.rank = rank_;
  for (uint32_t i = 0; i < follows_.size(); ++i) {
    request.blocks.push_back(follows_[i].tag);
    request.slots.push_back(i);
  }
  request.layout = &layouts_[format_][rank_];
  // Some give up before a push that pauses goes on.
  const Nanos deadline_ns = random_.chance(200) ? 10 * kMillisecond : 400 * kMillisecond;
  request.deadline_ns = deadline_ns;
  library_.truth->look();
  follow_began_.evicted = library_.truth->evicted();
  follow_began_.boot = world_.boots();
  begin(core_->follow(std::move(request)), Step::kFollow, deadline_ns);
}

BlockId Actor::followed(uint32_t i) const {
  return block_of(follows_[i].tag.id, rank_);
}

// A tag that another domain's client handed on: it is of no push that this one may know of.
bool Actor::is_foreign(uint32_t i) const {
  return follows_[i].domain != domain_;
}

// I3: by attempt, not by id: another writer of the same block has other bytes.
void Actor::check_followed_layer(const Event& event) const {
  for (uint32_t i = 0; i < event.codes.size(); ++i) {
    if (event.codes[i] != Code::kOk) continue;
    world_.expect(!is_foreign(i), "a layer of another domain's push was followed");
    const BlockId block = followed(i);
    const uint64_t salt = library_.oracle.push(block, follows_[i].tag.attempt).salt;
    const ByteSpan bytes = layer_bytes(i, event.layer);
    world_.expect(layer_equals(block, event.layer, salt, bytes),
                  "I3 a layer that was followed is not of its attempt");
  }
}

void Actor::on_followed(const Event& event) {
  step_ = Step::kIdle;
  wait_until_ns_ = world_.now_ns() + random_.below(3 * kMillisecond);
  for (uint32_t i = 0; i < event.codes.size(); ++i) {
    const Code code = event.codes[i];
    if (is_foreign(i)) {
      ++stats_.foreign_follows;
      const bool told = code == Code::kOk || code == Code::kCancelled || code == Code::kTimedOut;
      world_.expect(!event.status.ok() || !told, "a follower is told of another domain's push");
      continue;
    }
    Push& push = library_.oracle.push(followed(i), follows_[i].tag.attempt);
    if (code == Code::kOk) {
      ++stats_.followed_blocks;
      world_.note(push.salt);
      check_committed(i);
    } else if (event.status.ok() && (code == Code::kCancelled || code == Code::kTimedOut)) {
      // The daemon's word, not the end of this op.
      ++stats_.denied_blocks;
      push.denied = true;
      world_.expect(push.end != Push::End::kKept,
                    "I2 a follower is told that a push failed which was acknowledged");
    }
  }
  poison();
}

// I2: what counts is there whole, and was committed.
void Actor::check_committed(uint32_t i) {
  const BlockId block = followed(i);
  const Push& push = library_.oracle.push(block, follows_[i].tag.attempt);
  for (uint32_t l = 0; l < layers().size(); ++l) {
    world_.expect(layer_equals(block, l, push.salt, layer_bytes(i, l)),
                  "I1 wrong bytes were followed to a good end");
  }
  world_.expect(library_.oracle.may_commit(block, push) && push.end != Push::End::kNot,
                "I2 a follower is told that a push was committed which was not");
  if (!world_.alive() || world_.recovering()) return;
  library_.truth->look();
  const bool cause = follow_began_.boot != world_.boots() || world_.any_fault() ||
                     follow_began_.evicted != library_.truth->evicted() ||
                     library_.truth->purges().touches(block, began_ns_);
  world_.expect(cause || (push.durable ? world_.is_on_flash(block) : world_.is_published(block)),
                "I2 a follower is told of a commit before it was made");
}

}  // namespace varve::sim
