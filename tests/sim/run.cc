// One run: swarm configuration, faults within what may be lost, checks all the way, audit at the
// end.
//
// Goal: I1 (bytes), I2 and I10 (what is found after a kill), I3 (no mixed attempts), I6 (nothing
// held at rest), I7 (limits), I8 (every op ends, memory is quiet afterwards). Which of them are
// strict depends on the drawn faults: rot may cost a block but never deliver it; eviction may cost
// any block.
#include "tests/sim/run.h"

#include <cinttypes>
#include <cstdio>
#include <memory>
#include <vector>

#include "tests/sim/actor.h"
#include "tests/sim/oracle.h"
#include "tests/sim/world.h"

namespace varve::sim {

namespace {

NodeOptions draw_node(Random& random, const RunOptions& run) {
  NodeOptions node;
  node.shards = static_cast<uint32_t>(random.between(1, 3));
  node.targets = static_cast<uint32_t>(random.between(1, 3));
  node.target_bytes = (random.chance(300) ? 128 : 256) * kMiB;
  if (random.chance(300)) {  // tight: what is pushed does not fit, eviction and reclaim must work
    node.slices = 4;
    node.targets = 1;
    node.target_bytes = 40 * kMiB;
  }
  node.arena_bytes = random.between(3, 6) * kMiB;
  node.faults.volatile_cache = true;
  if (random.chance(250)) node.faults.bit_rot_per_mille = 5;
  if (random.chance(250)) node.faults.read_error_per_mille = 10;
  if (random.chance(250)) {
    node.faults.slow_per_mille = 20;
    node.faults.slow_ns = 20 * kMillisecond;
  }
  node.target_faults = random.chance(300);
  node.ack_before_flush_mutant = run.ack_before_flush_mutant;
  return node;
}

class Run {
 public:
  Run(uint64_t seed, const RunOptions& options)
      : options_(options), setup_(seed), world_(seed, draw_node(setup_, options)) {
    library_.formats = draw_formats(setup_);
    if (world_.options().slices < kSlicesDefault) library_.documents = 40;
  }

  RunResult play() {
    world_.boot();
    const uint64_t actors = setup_.between(1, 3);
    for (uint32_t a = 0; a < actors; ++a) {
      actors_.push_back(std::make_unique<Actor>(world_, library_, a));
    }
    const uint64_t lives = setup_.between(1, 4);
    for (uint64_t life = 0; life < lives; ++life) {
      live(setup_.between(20, 400) * kMillisecond);
      if (setup_.chance(700)) {
        count_evictions();
        world_.kill();
        ++result_.kills;
      } else {
        stop_gracefully();
      }
      turn_for(setup_.below(300) * kMillisecond);
      world_.boot();
    }
    live(100 * kMillisecond, false);
    settle();
    audit();
    count_evictions();
    finish();
    return result_;
  }

 private:
  void turn_for(Nanos duration) {
    const Nanos until = world_.now_ns() + duration;
    uint64_t steps = 0;
    while (world_.step(until)) {
      for (const auto& actor : actors_)
        actor->poke();
      if (++steps % 64 == 0) world_.check_limits();
    }
    world_.run_for(until - std::min(until, world_.now_ns()));
  }

  // The last life has no target faults: what was out of reach in the others is back.
  void live(Nanos duration, bool may_fault = true) {
    const Nanos until = world_.now_ns() + duration;
    const bool faulty = may_fault && world_.options().target_faults && setup_.chance(700);
    Nanos fault_ns = faulty ? world_.now_ns() + setup_.below(duration) : kNever;
    Nanos unstick_ns = kNever;
    uint32_t target = 0;
    while (world_.now_ns() < until) {
      turn_for(std::min<Nanos>(5 * kMillisecond, until - world_.now_ns()));
      if (world_.now_ns() >= fault_ns) {
        fault_ns = kNever;
        target = static_cast<uint32_t>(setup_.below(world_.options().targets));
        if (fail(target)) unstick_ns = world_.now_ns() + setup_.below(200 * kMillisecond);
      }
      if (world_.now_ns() >= unstick_ns) {
        unstick_ns = kNever;
        world_.unstick(target);
      }
      if (setup_.chance(8)) world_.note(world_.fabric().break_one());
      if (setup_.chance(2)) world_.note(world_.fabric().silence_one());
    }
  }

  // Of this life, which ends now; a block may be evicted up to its last moment.
  void count_evictions() { result_.evicted_blocks += evicted_now(); }
  uint64_t evicted_now() const {
    return static_cast<uint64_t>(world_.metric_sum("varve_evicted_blocks_total"));
  }

  // True when it is stuck for a while only.
  bool fail(uint32_t target) {
    const auto fault = static_cast<TargetFault>(setup_.below(kTargetFaults));
    std::vector<BlockId> hit;
    world_.fault(target, fault, &hit);
    for (const BlockId& block : hit)
      library_.oracle.may_lose(block);
    ++result_.target_faults;
    return fault == TargetFault::kStuckForAWhile;
  }

  // As the daemon does it: clients are told, those that stay are let go after half of the bound.
  void stop_gracefully() {
    constexpr uint32_t kTurns = 600;
    world_.drain();
    for (uint32_t i = 0; i < kTurns && !world_.drained(); ++i) {
      if (i == kTurns / 2) world_.close_sessions();
      turn_for(20 * kMillisecond);
    }
    world_.expect(world_.drained(), "I8 a drain does not end");
    count_evictions();
    world_.stop_drained();
  }

  // Everything in flight ends.
  void settle() {
    for (const auto& actor : actors_)
      actor->stop_working();
    for (uint32_t i = 0; i < 300; ++i) {
      bool idle = true;
      for (const auto& actor : actors_)
        idle &= actor->idle();
      if (idle) break;
      turn_for(20 * kMillisecond);
    }
    for (const auto& actor : actors_)
      world_.expect(actor->idle(), "I8 an op does not end");
  }

  // I10: what was acknowledged durable and not evicted is found, with its bytes.
  void audit() {
    Actor& actor = *actors_[0];
    for (uint32_t i = 0; i < 200 && !actor.ready(); ++i)
      turn_for(50 * kMillisecond);
    world_.expect(actor.ready(), "the client does not come back");
    for (uint32_t i = 0; i < 200 && world_.recovering(); ++i)
      turn_for(20 * kMillisecond);
    world_.expect(!world_.recovering(), "recovery does not end");
    const NodeOptions& node = world_.options();
    const bool sound = node.faults.bit_rot_per_mille == 0 && node.faults.read_error_per_mille == 0;
    std::vector<std::pair<uint32_t, BlockId>> blocks;
    library_.oracle.each_durable([&](const BlockId& block) {
      blocks.push_back({actor.format_of(block), block});
    });
    for (const auto& [format, block] : blocks) {
      world_.expect(actor.audit(format, block), "audit pull refused");
      for (uint32_t i = 0; i < 300 && !actor.audit_done(); ++i)
        turn_for(10 * kMillisecond);
      world_.expect(actor.audit_done(), "I8 an audit pull does not end");
      if (actor.audit_code() == Code::kOk) {
        ++result_.audited_blocks;
      } else {
        const bool evicted = result_.evicted_blocks + evicted_now() > 0;
        world_.expect(!sound || evicted || library_.oracle.is_excused(block),
                      "I10 a durable block is lost: " + short_name(block.base) + " " +
                          code_name(actor.audit_code()));
      }
    }
  }

  void finish() {
    for (const auto& actor : actors_) {
      const ActorStats& stats = actor->stats();
      result_.pushed_blocks += stats.pushed_blocks;
      result_.hit_blocks += stats.hit_blocks;
      result_.pulled_blocks += stats.pulled_blocks;
      actor->close();
    }
    for (uint32_t i = 0; i < 200; ++i) {
      bool closed = true;
      for (const auto& actor : actors_)
        closed &= actor->closed();
      if (closed) break;
      turn_for(20 * kMillisecond);
    }
    for (const auto& actor : actors_)
      world_.expect(actor->closed(), "C3 a client does not close");
    turn_for(5 * kSecond);  // the longest hold expires, write-behind ends
    world_.check_limits();
    world_.check_at_rest();
    result_.hash = world_.hash();
    if (options_.trace) {
      std::printf("shards %u targets %u lives %u kills %" PRIu64 " pushed %" PRIu64 " hit %" PRIu64
                  " pulled %" PRIu64 " evicted %" PRIu64 " audited %" PRIu64 "\n",
                  world_.options().shards, world_.options().targets, world_.boots(), result_.kills,
                  result_.pushed_blocks, result_.hit_blocks, result_.pulled_blocks,
                  result_.evicted_blocks, result_.audited_blocks);
    }
  }

  RunOptions options_;
  Random setup_;
  World world_;
  Library library_;
  std::vector<std::unique_ptr<Actor>> actors_;
  RunResult result_;
};

}  // namespace

RunResult run(uint64_t seed, const RunOptions& options) {
  // Never destroyed: a killed node's objects stay as they stood until the process ends.
  auto* one = new Run(seed, options);
  return one->play();
}

}  // namespace varve::sim
