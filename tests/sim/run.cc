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
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "tests/sim/actor.h"
#include "tests/sim/oracle.h"
#include "tests/sim/truth.h"
#include "tests/sim/world.h"

namespace varve::sim {

namespace {

// A scheme with parity, and mostly targets for it.
void draw_coding(Random& random, Random& later, NodeOptions& node) {
  constexpr Scheme kDrawn[] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {4, 2}, {5, 2}};
  node.scheme = kDrawn[random.below(std::size(kDrawn))];
  const bool wide = later.chance(80);  // 11 to 13 targets: seldom
  if (wide) node.scheme = {8, 3};
  const uint32_t width = node.scheme.width();
  const bool thin = node.scheme.m > 0 && random.chance(150);
  node.targets = static_cast<uint32_t>(thin ? random.between(node.scheme.k, width - 1)
                                            : random.between(width, width + 2));
  // Many targets are small ones, or a run would be mostly zeros.
  node.slices = wide || (node.tight && width > 2) ? 2 : 4;
  node.shards = std::min(node.shards, node.slices);
  node.target_bytes = (node.tight ? 8ull : 12ull) * node.slices * kMiB;
  node.arena_bytes = node.arena_bytes / node.scheme.k * width / kPageBytes * kPageBytes;
  node.repair_bytes = (random.chance(200) ? 512 : 1536) * kKiB;
}

// `later` draws what was added since: a seed stays the run that it was, or nearly.
NodeOptions draw_node(Random& random, Random later, const RunOptions& run) {
  NodeOptions node;
  if (later.chance(500)) node.sibling_ms_max = static_cast<uint32_t>(later.between(300, 3000));
  node.shards = static_cast<uint32_t>(random.between(1, 3));
  node.targets = static_cast<uint32_t>(random.between(1, 3));
  node.slices = random.chance(300) ? kSlicesDefault : 8;
  node.target_bytes = 8ull * node.slices * kMiB;
  if (random.chance(300)) {  // tight: what is pushed does not fit, eviction and reclaim must work
    node.tight = true;
    node.slices = 4;
    node.targets = 1;
    node.target_bytes = 40 * kMiB;
  }
  node.arena_bytes = random.between(3, 6) * kMiB;
  if (random.chance(650)) draw_coding(random, later, node);
  node.faults.volatile_cache = true;
  if (random.chance(250)) node.faults.bit_rot_per_mille = 5;
  if (random.chance(250)) node.faults.read_error_per_mille = 10;
  if (random.chance(250)) {
    node.faults.slow_per_mille = 20;
    // What is late is often here at the same time as what was asked for instead.
    node.faults.slow_ns = random.between(11, 20) * kMillisecond;
  }
  node.target_faults = random.chance(node.scheme.m > 0 ? 500 : 300);
  node.ack_before_flush_mutant = run.ack_before_flush_mutant;
  return node;
}

// Of randoms of their own, so that a seed is otherwise what it was before there were drains.
NodeOptions with_drains(NodeOptions node, Random& random) {
  node.drains = node.targets > node.scheme.width() && random.chance(400);
  return node;
}

NodeOptions with_domains(NodeOptions node, Random random) {
  node.domains = random.chance(350) ? 2 : 1;
  return node;
}

// Rot and bad luck strike at random: what they cost is not known to anybody.
bool is_exact(const NodeOptions& node) {
  return node.faults.bit_rot_per_mille == 0 && node.faults.read_error_per_mille == 0;
}

class Run {
 public:
  Run(uint64_t seed, const RunOptions& options)
      : options_(options),
        setup_(seed),
        drains_(seed ^ 0xD7A1),
        shelves_(seed ^ 0x5E1F),
        stales_(seed ^ 0x57A1E),
        operator_(seed ^ 0x09E2A7),
        replaces_(seed ^ 0x4E91AC),
        world_(seed, with_domains(with_drains(draw_node(setup_, Random(~seed), options), drains_),
                                  Random(seed ^ 0xD03A))),
        truth_(world_, is_exact(world_.options())) {
    operates_ = operator_.chance(400);
    library_.formats = draw_formats(setup_);
    library_.truth = &truth_;
    library_.domains = world_.options().domains;
    if (world_.options().tight) library_.documents = 40;
    if (setup_.chance(600))
      library_.purge_per_mille = static_cast<uint32_t>(setup_.between(10, 60));
  }

  RunResult play() {
    world_.boot();
    const uint64_t actors = std::max<uint64_t>(setup_.between(1, 3), library_.domains);
    for (uint32_t a = 0; a < actors; ++a) {
      actors_.push_back(std::make_unique<Actor>(world_, library_, a));
    }
    const uint64_t lives = setup_.between(1, 4);
    for (uint64_t life = 0; life < lives; ++life) {
      live(setup_.between(20, 400) * kMillisecond);
      if (setup_.chance(700)) {
        end_life();
        world_.kill();
        ++result_.kills;
      } else {
        stop_gracefully();
      }
      turn_for(setup_.below(300) * kMillisecond);
      if (world_.options().target_faults && setup_.chance(700)) fail_at_rest(life + 1 == lives);
      next_drain(life + 1 == lives);
      if (stales_.chance(300)) world_.only_stale();
      world_.boot();
    }
    live(100 * kMillisecond, false);
    settle();
    audit();
    complete();
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
    lives_until_ns_ = world_.now_ns() + duration;
    std::vector<Nanos> faults_ns;
    if (may_fault && world_.options().target_faults && setup_.chance(700)) {
      for (uint32_t i = fault_count(); i > 0; --i)
        faults_ns.push_back(world_.now_ns() + setup_.below(duration));
    }
    std::vector<std::pair<Nanos, uint32_t>> stuck;  // until when, which target
    while (world_.now_ns() < lives_until_ns_) {
      turn_for(std::min<Nanos>(5 * kMillisecond, lives_until_ns_ - world_.now_ns()));
      truth_.look();
      watch_drain(may_fault);
      if (operates_) operate();
      if (operates_) replace();
      const Nanos now_ns = world_.now_ns();
      const auto due = std::erase_if(faults_ns, [now_ns](Nanos at_ns) { return at_ns <= now_ns; });
      for (uint64_t i = 0; i < due; ++i) {
        const auto target = static_cast<uint32_t>(setup_.below(world_.options().targets));
        const auto fault = static_cast<TargetFault>(setup_.below(kTargetFaults));
        fail(target, fault);
        const Nanos until_ns = now_ns + setup_.below(200 * kMillisecond);
        if (fault == TargetFault::kStuckForAWhile) stuck.push_back({until_ns, target});
      }
      for (const auto& [until_ns, target] : stuck) {
        if (until_ns <= now_ns) world_.unstick(target);
      }
      std::erase_if(stuck, [now_ns](const auto& one) { return one.first <= now_ns; });
      if (setup_.chance(8)) world_.note(world_.fabric().break_one());
      if (setup_.chance(2)) world_.note(world_.fabric().silence_one());
    }
  }

  // Mostly what the scheme bears, sometimes one more.
  uint32_t fault_count() {
    const uint32_t m = world_.options().scheme.m;
    return static_cast<uint32_t>(setup_.chance(800) ? setup_.between(1, std::max(1u, m)) : m + 1);
  }

  void fail(uint32_t target, TargetFault fault) {
    ++result_.target_faults;
    const bool declared = operates_ && fault == TargetFault::kVanished && operator_.chance(500);
    if (declared) return world_.give_up(target);
    if (fault != TargetFault::kBadSector) return world_.fault(target, fault);
    const std::optional<Sighting> fragment = fragment_on(target);
    if (!fragment || world_.faulted(target)) return;
    truth_.damaged(*fragment);
    world_.bad_sector(*fragment);
  }

  std::optional<Sighting> fragment_on(uint32_t target) {
    const std::vector<Sighting> all = truth_.on_target(target);
    if (all.empty()) return std::nullopt;
    return all[setup_.below(all.size())];
  }

  // While the node is down: drives are lost, replaced, mixed up, and rot. In the last life all are
  // there.
  void fail_at_rest(bool last) {
    const uint32_t targets = world_.options().targets;
    std::set<uint32_t> touched;
    if (emptied_) touched.insert(*drained_);
    uint32_t absent = emptied_ ? 1 : 0;  // it may be away too
    if (!last && shelves_.chance(200)) unplug_shelf(&touched, &absent);
    for (uint32_t i = fault_count(); i > 0; --i) {
      const auto target = static_cast<uint32_t>(setup_.below(targets));
      const auto fault = static_cast<StartFault>(setup_.below(kStartFaults));
      if (!touched.insert(target).second) continue;
      ++result_.target_faults;
      if (fault == StartFault::kAbsent) {
        if (last || ++absent == targets) continue;  // without any the node does not start
        world_.start_fault(target, fault);
      } else if (fault == StartFault::kRotted) {
        for (uint64_t fragments = setup_.between(1, 4); fragments > 0; --fragments) {
          const std::optional<Sighting> fragment = fragment_on(target);
          if (!fragment) break;
          truth_.damaged(*fragment);
          world_.rot(*fragment);
        }
      } else if (fault == StartFault::kSwapped) {
        const uint32_t other = (target + 1) % targets;
        if (touched.insert(other).second) world_.swap_targets(target, other);
      } else {
        truth_.target_new(target);
        world_.start_fault(target, fault);
      }
    }
  }

  // One target more than the scheme can do without, side by side.
  void unplug_shelf(std::set<uint32_t>* touched, uint32_t* absent) {
    const uint32_t targets = world_.options().targets;
    const auto first = static_cast<uint32_t>(shelves_.below(targets));
    for (uint32_t i = 0; i <= world_.options().scheme.m; ++i) {
      const uint32_t target = (first + i) % targets;
      if (*absent + 1 == targets || !touched->insert(target).second) continue;
      ++*absent;
      ++result_.target_faults;
      world_.start_fault(target, StartFault::kAbsent);
    }
  }

  // Before a start: what was emptied is taken out, and its place stays free for a life or has a new
  // drive at once; then another may be drained. What was not emptied in time goes on, or is kept.
  void next_drain(bool last) {
    if (!world_.options().drains && !drained_) return;
    uint32_t gone = 0;
    if (emptied_ && !last && drains_.chance(400)) {
      gone = 1u << *drained_;
      world_.start_fault(*drained_, StartFault::kAbsent);
    } else if (emptied_) {
      truth_.target_new(*drained_);
      world_.start_fault(*drained_, StartFault::kBlanked);
      drained_.reset();
      emptied_ = false;
    }
    if (gone == 0 && world_.options().drains && drains_.chance(drained_ ? 100 : 750)) {
      drained_ = static_cast<uint32_t>(drains_.below(world_.options().targets));
    }
    world_.drain_targets(drained_ && gone == 0 ? 1u << *drained_ : 0, gone);
  }

  // What somebody with the control plane may do at any moment: drain, take that back, scrub, look.
  void operate() {
    const NodeOptions& node = world_.options();
    const auto target = static_cast<uint32_t>(operator_.below(node.targets));
    if (operator_.chance(20)) world_.scrub_now(target);
    if (operator_.chance(100)) {
      const std::vector<Sighting> all = truth_.on_target(target);
      if (!all.empty()) world_.look(all[operator_.below(all.size())].block);
    }
    if (drained_ && !emptied_ && operator_.chance(15)) {
      world_.undrain_now(*drained_);
      drained_.reset();
    } else if (!drained_ && node.targets > node.scheme.width() && world_.can_drain() &&
               !world_.faulted(target) && operator_.chance(20)) {
      world_.drain_now(target);
      drained_ = target;
    }
  }

  // One that failed is declared failed, and another has its place when all are through with it: not
  // before the shards have seen that recovery is over, which they look for each second.
  void replace() {
    if (!replacing_) {
      const auto target = static_cast<uint32_t>(replaces_.below(world_.options().targets));
      if (!world_.faulted(target) || !replaces_.chance(100)) return;
      world_.give_up(target);
      replacing_ = target;
      lives_until_ns_ = std::max(lives_until_ns_, world_.now_ns() + 2500 * kMillisecond);
    }
    if (!world_.can_replace(*replacing_)) return;
    truth_.target_replaced(*replacing_);
    world_.replace_now(*replacing_);
    ++result_.replaced_targets;
    lives_until_ns_ = world_.now_ns() + replaces_.between(50, 600) * kMillisecond;
    if (drained_ == replacing_) {
      drained_.reset();
      emptied_ = false;
    }
    replacing_.reset();
  }

  // Once it is empty nothing may depend on it.
  void watch_drain(bool may_fault) {
    if (!drained_ || emptied_ || !world_.is_empty(*drained_)) return;
    emptied_ = true;
    ++result_.drained_targets;
    truth_.target_emptied(*drained_);
    if (may_fault && drains_.chance(500)) world_.fault(*drained_, TargetFault::kVanished);
  }

  // Of this life, which ends now; a block may be evicted up to its last moment.
  void count_evictions() {
    result_.evicted_blocks += evicted_now();
    result_.repaired_blocks +=
        static_cast<uint64_t>(world_.metric("varve_repair_blocks_total", "outcome=\"done\""));
    result_.late_extents += static_cast<uint64_t>(world_.metric("varve_pull_extents_late_total"));
    result_.ahead_extents += static_cast<uint64_t>(world_.metric("varve_pull_extents_ahead_total"));
    result_.dropped_siblings +=
        static_cast<uint64_t>(world_.metric("varve_siblings_dropped_total"));
  }
  void end_life() {
    count_evictions();
    world_.check_use(World::Rest::kNo);
    truth_.look();
    truth_.died();
    replacing_.reset();
  }
  uint64_t evicted_now() const { return world_.evicted(); }

  // As the daemon does it: clients are told, those that stay are let go after half of the bound.
  void stop_gracefully() {
    constexpr uint32_t kTurns = 600;
    world_.drain();
    for (uint32_t i = 0; i < kTurns && !world_.drained(); ++i) {
      if (i == kTurns / 2) world_.close_sessions();
      turn_for(20 * kMillisecond);
    }
    world_.expect(world_.drained(), "I8 a drain does not end");
    end_life();
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
    for (uint32_t i = 0; i < 200 && world_.recovering(); ++i)
      turn_for(20 * kMillisecond);
    world_.expect(!world_.recovering(), "recovery does not end");
    truth_.look();
    std::vector<BlockId> blocks;
    library_.oracle.each_durable([&](const BlockId& block) { blocks.push_back(block); });
    const size_t durable = blocks.size();
    library_.oracle.each_cached([&](const BlockId& block) {
      if (truth_.purges().was_dead(block)) blocks.push_back(block);  // it may not be what it was
    });
    for (size_t i = 0; i < blocks.size(); ++i) {
      const BlockId& block = blocks[i];
      Actor& actor = *actors_[block.domain - kDomainDefault];
      pull_one(actor, actor.format_of(block), block);
      truth_.look();
      if (actor.audit_code() == Code::kOk) {
        ++result_.audited_blocks;
        continue;
      }
      if (i >= durable) continue;
      const bool evicted = result_.evicted_blocks + evicted_now() > 0;
      const bool owed = !evicted && !truth_.is_excused(block);
      world_.expect(!is_exact(world_.options()) || !(owed || truth_.is_safe(block)),
                    "I10 a durable block is lost: " + short_name(block.base) + " of domain " +
                        std::to_string(block.domain) + " " + code_name(actor.audit_code()));
    }
  }

  // Again when it lost its session: a link may have gone silent before.
  void pull_one(Actor& actor, uint32_t format, const BlockId& block) {
    for (uint32_t tries = 0; tries < 5; ++tries) {
      for (uint32_t i = 0; i < 200 && !actor.ready(); ++i)
        turn_for(50 * kMillisecond);
      world_.expect(actor.ready(), "the client does not come back");
      const uint64_t disconnects = actor.stats().disconnects;
      actor.audit(format, block);
      for (uint32_t i = 0; i < 300 && !actor.audit_done(); ++i)
        turn_for(10 * kMillisecond);
      world_.expect(actor.audit_done(), "I8 an audit pull does not end");
      if (actor.stats().disconnects == disconnects) return;
    }
  }

  // What is at rest in the last life: no lease outlives its time, scrub finds what rotted, every
  // block gets all its fragments where there are targets and space for them, and what lies there
  // is what its header says.
  void complete() {
    const NodeOptions& node = world_.options();
    turn_for(kLeaseMax + 100 * kMillisecond);
    world_.expect(world_.metric("varve_lease_live") == 0, "I6 a lease outlives lease_ms_max");
    for (uint32_t d = 0; d < library_.domains; ++d)
      expect_no_holds(*actors_[actors_.size() - 1 - d]);  // of each domain one
    expect_siblings();
    if (!is_exact(node)) return;
    world_.scrub();
    const int64_t passes = int64_t{node.shards} * node.targets;
    for (uint32_t i = 0; i < 200 && scrubbed() < passes; ++i)
      turn_for(100 * kMillisecond);
    world_.expect(scrubbed() >= passes, "scrub does not end");
    // Without parity it borrows as much as the largest block takes.
    const bool room = !node.tight && (node.scheme.m == 0 || node.repair_bytes >= kMiB);
    const bool whole = room && node.targets >= node.scheme.width();
    if (whole) repair_all();
    if (whole && operates_ && !drained_ && node.scheme.m > 0 && replaces_.chance(500)) {
      replace_one();
      repair_all();
    }
    const bool empties = whole && drained_ && !emptied_ && node.targets > node.scheme.width();
    for (uint32_t i = 0; i < 600 && empties && !emptied_; ++i) {
      turn_for(200 * kMillisecond);
      watch_drain(false);
    }
    world_.expect(!empties || emptied_ || world_.is_needed(*drained_),
                  "a target that is drained does not become empty");
    turn_for(1 * kSecond);
    truth_.look();
    for (const Sighting& fragment : world_.sightings()) {
      world_.expect(world_.verifies(fragment), "I1 a fragment on a target does not verify: " +
                                                   short_name(fragment.block.base) + " position " +
                                                   std::to_string(fragment.position));
    }
  }

  void repair_all() {
    for (uint32_t i = 0; i < 600 && world_.thin_count() > 0; ++i) {
      turn_for(200 * kMillisecond);
      truth_.look();
    }
    world_.expect(world_.thin_count() == 0,
                  std::to_string(world_.thin_count()) + " blocks stay thin");
  }

  // With all at rest: where there are just enough targets, what it held can only be made whole on
  // the new one.
  void replace_one() {
    const auto target = static_cast<uint32_t>(replaces_.below(world_.options().targets));
    world_.give_up(target);
    for (uint32_t i = 0; i < 200 && !world_.can_replace(target); ++i)
      turn_for(100 * kMillisecond);
    world_.expect(world_.can_replace(target), "a target that failed at rest cannot be replaced");
    truth_.target_replaced(target);
    world_.replace_now(target);
    ++result_.replaced_targets;
    turn_for(2 * kSecond);
    world_.expect((world_.works_all() >> target & 1) != 0, "a new drive is not taken in");
  }

  // I4: what lacked a rank when the last lease ended was seen so by one walk and dropped by the
  // next.
  void expect_siblings() {
    const uint32_t sibling_ms_max = world_.options().sibling_ms_max;
    if (sibling_ms_max == kSiblingsForGood) return;
    turn_for(2 * sibling_ms_max * kMillisecond);
    truth_.look();
    std::map<BlockId, std::set<uint32_t>> ranks;  // by its rank 0
    for (const Sighting& fragment : world_.sightings())
      ranks[whole(fragment.block)].insert(fragment.block.rank);
    for (const auto& [block, there] : ranks) {
      const Actor& actor = *actors_[block.domain - kDomainDefault];
      const uint32_t rank_count = library_.formats[actor.format_of(block)].rank_count();
      world_.expect(there.size() == rank_count,
                    "I4 a run without all its ranks stays: " + short_name(block.base));
    }
  }

  // Of clients that were cut off neither: all sessions are listed to anyone who asks.
  void expect_no_holds(Actor& actor) {
    for (uint32_t tries = 0; tries < 5; ++tries) {
      for (uint32_t i = 0; i < 200 && !actor.ready(); ++i)
        turn_for(50 * kMillisecond);
      world_.expect(actor.ready(), "the client does not come back");
      actor.ask_holds();
      for (uint32_t i = 0; i < 100 && !actor.idle(); ++i)
        turn_for(10 * kMillisecond);
      if (actor.held_nothing()) return;
    }
    world_.fail("I6 something is held at rest");
  }

  int64_t scrubbed() const { return world_.metric_sum("varve_flash_scrub_passes_total"); }

  void finish() {
    for (const auto& actor : actors_) {
      const ActorStats& stats = actor->stats();
      result_.pushed_blocks += stats.pushed_blocks;
      result_.hit_blocks += stats.hit_blocks;
      result_.pulled_blocks += stats.pulled_blocks;
      result_.rebuilt_extents += stats.rebuilt_extents;
      result_.hedged_extents += stats.hedged_extents;
      result_.followed_blocks += stats.followed_blocks;
      result_.denied_blocks += stats.denied_blocks;
      result_.foreign_follows += stats.foreign_follows;
      result_.renewed_leases += stats.renewed;
      result_.holds += stats.holds;
      result_.existing_ids += stats.existing;
      world_.expect(stats.corrupt_extents == 0, "I1 bytes left the node unverified");
      actor->close();
    }
    for (uint32_t i = 0; i < 200; ++i) {
      bool closed = true;
      for (const auto& actor : actors_)
        closed &= actor->closed();
      if (closed) break;
      turn_for(20 * kMillisecond);
    }
    result_.purges = truth_.purges().done_count();
    result_.returned_blocks = truth_.returned();
    result_.refused_starts = world_.refused_starts();
    for (const auto& actor : actors_)
      world_.expect(actor->closed(), "C3 a client does not close");
    turn_for(5 * kSecond);  // the longest hold expires, write-behind ends
    world_.check_limits();
    world_.check_at_rest();
    result_.hash = world_.hash();
    if (options_.trace) {
      std::printf("scheme %s shards %u targets %u lives %u", world_.options().scheme.text().c_str(),
                  world_.options().shards, world_.options().targets, world_.boots());
      for (const RunCount& count : kRunCounts)
        std::printf(", %" PRIu64 " %s", result_.*count.of, count.name);
      std::printf("\n");
    }
  }

  RunOptions options_;
  Random setup_;
  Random drains_, shelves_, stales_, operator_, replaces_;
  World world_;
  Truth truth_;
  Library library_;
  std::vector<std::unique_ptr<Actor>> actors_;
  bool operates_ = false;            // somebody uses the control plane
  std::optional<uint32_t> drained_;  // a target that is being drained, or was
  bool emptied_ = false;             // it was
  std::optional<uint32_t> replacing_;
  Nanos lives_until_ns_ = 0;
  RunResult result_;
};

}  // namespace

RunResult run(uint64_t seed, const RunOptions& options) {
  // Never destroyed: a killed node's objects stay as they stood until the process ends.
  auto* one = new Run(seed, options);
  return one->play();
}

}  // namespace varve::sim
