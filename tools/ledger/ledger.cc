// ledger: one loop after the other; a violation ends the run and keeps the data folder.
#include "tools/ledger/ledger.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "tools/ledger/harm.h"
#include "tools/ledger/heal.h"

namespace varve::ledger {

namespace {

constexpr Nanos kReadyTimeout = 30 * kSecond;
constexpr Nanos kRecoverTimeout = 30 * kSecond;
constexpr Nanos kStopTimeout = 20 * kSecond;  // above the daemon's own bound of a drain
constexpr const char* kUndrained = "exit 5";
constexpr uint32_t kProgressEvery = 10;
constexpr Nanos kHealTimeout = 30 * kSecond;
constexpr Nanos kDrainTimeout = 30 * kSecond;
constexpr Nanos kPurgeWait = 300 * kMillisecond;  // for the one that an end waits for
constexpr const char* kRefusedExit = "exit 4";    // a target is refused

std::string text_of(const Status& status) {
  return std::string(status.what()) + " (" + code_name(status.code()) + ")";
}

}  // namespace

std::string stop_problem(const std::string& ending, Nanos took_ns) {
  VARVE_ASSERT(!ending.empty());
  if (ending == "exit 0") return {};
  if (ending != kUndrained) return "a graceful stop ended with " + ending;
  // What is not drained in time is recovery's; but the time must have passed.
  if (took_ns >= kDrainMs * kMillisecond) return {};
  return "a graceful stop gave up after " + std::to_string(took_ns / kMillisecond) + " ms of the " +
         std::to_string(kDrainMs) + " that it had";
}

bool Ledger::failed() const {
  return !totals_.problems.empty() || totals_.tally.violations() > 0 ||
         (world_ && world_->book.tally().violations() > 0);
}

void Ledger::problem(const LoopPlan& plan, const std::string& text) {
  totals_.problems.push_back("loop " + std::to_string(plan.loop) + ": " + text);
}

void Ledger::run() {
  LoopPlan plan;
  for (uint32_t loop = 0; loop < options_.loops && !failed(); ++loop) {
    plan = plan_loop(options_.plan, loop);
    if (plan.first_of_folder) {
      if (world_ && !closing_audit()) break;
      close_folder();
      if (failed()) break;
      open_folder(plan);
    }
    if (!harm(plan) || !start(plan) || !settle(plan, plan.audited) || failed()) break;
    load(plan);
    ++totals_.loops;
    ++totals_.schemes[plan.folder.scheme.text()];
    if ((loop + 1) % kProgressEvery == 0 || loop + 1 == options_.loops) progress(loop + 1);
  }
  if (world_ && !failed()) closing_audit();
  if (daemon_) daemon_->kill_now();
  daemon_.reset();
  close_folder();
}

void Ledger::open_folder(const LoopPlan& plan) {
  folder_ = options_.data_dir + "/folder-" + std::to_string(plan.folder.number);
  log_path_ = folder_ + ".log";
  std::filesystem::remove_all(folder_);
  std::filesystem::remove(log_path_);
  std::filesystem::create_directories(options_.data_dir);
  world_ = std::make_unique<World>();
  world_->room = plan.folder.room;
  world_->kinds = make_kinds(plan.folder.number, plan.folder.scale);
  world_->book.budget(plan.folder.scheme.m);
  damage_.emplace(plan.folder.targets, plan.folder.scheme);
  life_ = LifeOptions();
  life_.data_dir = folder_;
  life_.mutant = options_.plan.mutant;
  ids_known_ = false;
  if (auditor_) return;  // the memory of the seats depends on shapes only, which are the same
  auditor_ = std::make_unique<Seat>(world_->kinds);
  for (uint32_t i = 0; i < kLoadThreads; ++i)
    seats_.push_back(std::make_unique<Seat>(world_->kinds));
}

// Adds the folder's accounts up; what a violation needs is kept.
void Ledger::close_folder() {
  if (!world_) return;
  daemon_.reset();
  const std::string complaint = complaint_in(read_text(log_path_));
  if (!complaint.empty()) totals_.problems.push_back("varved complained: " + complaint);
  if (failed() && kept_.empty()) kept_ = folder_;
  totals_.tally.merge(world_->book.tally());
  for (const std::string& finding : world_->book.findings())
    totals_.problems.push_back(finding);
  world_.reset();
  // The planted fault, caught as what it is, needs no looking at.
  if (options_.plan.mutant != Mutant::kNone && passed(options_, totals_)) kept_.clear();
  if (!kept_.empty()) return;
  std::filesystem::remove_all(folder_);
  std::filesystem::remove(log_path_);
}

// What happens to the targets while nothing runs, and what the account may say of it.
bool Ledger::harm(const LoopPlan& plan) {
  life_.create_targets = false;
  see_drained();
  const auto before = damage_->draining();
  const std::vector<Deed> deeds = damage_->next(plan);
  life_.draining = damage_->draining();
  if (life_.draining && life_.draining != before) drain_loop_ = plan.loop, ++totals_.drains;
  for (const Deed& deed : deeds) {
    Status done;
    if (deed.harm == Harm::kSwap) {
      if (!must_refuse(plan, deed)) return false;
    } else {
      done = do_harm(folder_, deed, plan.folder.target_bytes);
    }
    if (!done.ok()) {
      problem(plan, text_of(done));
      return false;
    }
    life_.create_targets |= deed.by_daemon;
    ++totals_.harms[static_cast<uint32_t>(deed.harm)];
  }
  world_->book.struck(damage_->struck());
  if (!damage_->within()) ++totals_.harms_beyond;
  return true;
}

// Targets in each other's place: the start ends with both names, and nothing was written.
bool Ledger::must_refuse(const LoopPlan& plan, const Deed& swap) {
  const size_t log_begin = read_text(log_path_).size();
  Status status = swap_targets(folder_, swap);
  const auto before = marks_of(folder_);
  Daemon daemon({options_.varved, daemon_arguments(plan, life_), log_path_});
  if (status.ok()) status = daemon.start();
  if (status.ok() && daemon.wait_ready(kReadyTimeout).code() != Code::kUnavailable)
    problem(plan, "varved takes targets that are in each other's place");
  daemon.kill_now();
  ++totals_.lives;
  if (status.ok() && daemon.ending() != kRefusedExit)
    problem(plan, "swapped targets ended varved with " + daemon.ending());
  if (marks_of(folder_) != before) problem(plan, "varved wrote to targets that it refused");
  const std::string said = read_text(log_path_).substr(log_begin);
  const uint32_t first = std::min(swap.target, swap.other);
  if (said.find(target_file(folder_, first) + ", is refused") == std::string::npos)
    problem(plan, "varved does not name the targets that are in each other's place");
  if (status.ok()) status = swap_targets(folder_, swap);
  if (!status.ok()) problem(plan, text_of(status));
  return !failed();
}

bool Ledger::start(const LoopPlan& plan) {
  if (shards_before_ != 0 && shards_before_ != plan.shards && !plan.first_of_folder)
    ++totals_.shards_changed;
  shards_before_ = plan.shards;
  world_->book.at_start(plan.loop, damage_->thin(), damage_->absent() == 0);
  log_begin_ = read_text(log_path_).size();
  life_.scrub = damage_->rotten() != 0 && plan.audited && plan.heals;
  const auto arguments = daemon_arguments(plan, life_);
  daemon_ = std::make_unique<Daemon>(DaemonOptions{options_.varved, arguments, log_path_});
  Status status = daemon_->start();
  ++totals_.lives;
  if (status.ok() && !plan.first_of_folder &&
      plan_loop(options_.plan, plan.loop - 1).ending == Ending::kKillTwice) {
    // The last life was cut short while this folder was being read: cut this one as well.
    const uint32_t after = plan_loop(options_.plan, plan.loop - 1).second_kill_us;
    std::this_thread::sleep_for(std::chrono::microseconds(after));
    if (!daemon_->running()) {
      problem(plan, "varved ended by itself while it started: " + daemon_->ending());
      return false;
    }
    daemon_->kill_now();
    ++totals_.kills;
    daemon_ = std::make_unique<Daemon>(DaemonOptions{options_.varved, arguments, log_path_});
    status = daemon_->start();
    ++totals_.lives;
  }
  if (status.ok()) status = daemon_->wait_ready(kReadyTimeout);
  if (status.ok()) return true;
  problem(plan, text_of(status) + " " + daemon_->ending());
  return false;
}

// Connects, waits for the recovery and audits, or leaves both to a later loop.
bool Ledger::settle(const LoopPlan& plan, bool audited) {
  Status status = auditor_->connect(daemon_->address(), world_->kinds);
  if (status.ok() && !ids_known_) {
    status = make_ids(auditor_->client(), world_->kinds);
    ids_known_ = status.ok();
    for (const Kind& kind : world_->kinds) {
      for (const BaseId& id : kind.ids)
        world_->book.declare(id, kind.format.rank_count());
    }
  }
  if (status.ok() && audited) {
    status = wait_recovered(*auditor_, *world_, kRecoverTimeout);
    if (status.ok()) note_metrics();
    if (status.ok()) status = audit(plan);
    if (status.ok() && plan.heals) status = heal(plan);
    if (status.ok() && plan.heals) drain(plan);
  }
  auditor_->disconnect();
  if (!status.ok()) problem(plan, "the daemon cannot be asked: " + text_of(status));
  if (!daemon_->running()) problem(plan, "varved ended by itself: " + daemon_->ending());
  return status.ok();
}

Status Ledger::audit(const LoopPlan& plan) {
  Audit look(*world_, *auditor_);
  const Status status = look.run();
  totals_.audit.merge(look.counts());
  ++totals_.audits;
  const AuditCounts& counts = look.counts();
  if (counts.broken_hits + counts.broken_misses > 0) {
    problem(plan, "match and pull disagree " +
                      std::to_string(counts.broken_hits + counts.broken_misses) + " times, first " +
                      counts.first_broken);
  }
  return status;
}

// Waits until everything that was hurt is whole, and looks at all of it once more: what is gone
// by then was beyond the budget or is lost.
Status Ledger::heal(const LoopPlan& plan) {
  if (damage_->hurt() == 0 || !damage_->complete()) return Status();
  if (options_.plan.mutant != Mutant::kRepair) {
    const HealResult healed = wait_whole(folder_ + "/metrics.prom", *daemon_,
                                         HealWatch(damage_->rotten(), plan.shards), kHealTimeout);
    if (!healed.whole) {
      ++(healed.no_room ? totals_.roomless : totals_.unhealed);
      // A rotten catalog is read anew at the next start only.
      if (!healed.no_room && world_->room == Room::kRoomy && damage_->rotten() == 0) {
        problem(plan, "repair does not end: " + std::to_string(healed.thin_blocks) +
                          " blocks lack a fragment");
      }
      return Status();
    }
    VARVE_RETURN_IF_ERROR(audit(plan));
  }
  damage_->healed();
  world_->book.healed();
  ++totals_.healed;
  return Status();
}

// The daemon's word, in this life or at its start, that the target it empties may be removed.
void Ledger::see_drained() {
  if (!damage_->draining() || damage_->is_empty()) return;
  const std::string path = target_file(folder_, *damage_->draining());
  const std::string said = read_text(log_path_).substr(log_begin_);
  if (said.find(path + " IS EMPTY AND MAY BE REMOVED") == std::string::npos &&
      said.find(path + " was drained:") == std::string::npos)
    return;
  damage_->emptied();
  ++totals_.drained;
}

// Waits for that; not in the life that began it, so that kills meet it.
void Ledger::drain(const LoopPlan& plan) {
  if (!damage_->draining() || damage_->is_empty() || drain_loop_ == plan.loop) return;
  if (!damage_->complete() || damage_->hurt() != 0) return;
  const SystemClock clock;
  const Nanos until = clock.now_ns() + kDrainTimeout;
  while (!damage_->is_empty() && clock.now_ns() < until && daemon_->running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    see_drained();
  }
  if (!damage_->is_empty() && world_->room == Room::kRoomy)
    problem(plan, "target " + std::to_string(*damage_->draining()) + " does not become empty");
}

void Ledger::load(const LoopPlan& plan) {
  world_->board.clear();
  std::vector<std::unique_ptr<Load>> loads;
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  for (uint32_t i = 0; i < kLoadThreads; ++i) {
    const Status status = seats_[i]->connect(daemon_->address(), world_->kinds);
    if (!status.ok()) problem(plan, "a load cannot connect: " + text_of(status));
    LoadOptions options;
    options.seed = plan.seed + i;
    options.audited = plan.audited;
    loads.push_back(std::make_unique<Load>(*world_, *seats_[i], options));
  }
  if (!failed()) {
    for (auto& one : loads)
      threads.emplace_back([&stop, &one] { one->run(stop); });
    std::this_thread::sleep_for(std::chrono::milliseconds(plan.load_ms));
    if (plan.at_purge) await_purge();
  }
  // The stroke falls while the threads are at it; only then are they told.
  if (!daemon_->running()) problem(plan, "varved ended by itself: " + daemon_->ending());
  end(plan);
  stop = true;
  for (std::thread& thread : threads)
    thread.join();
  for (uint32_t i = 0; i < kLoadThreads; ++i) {
    seats_[i]->disconnect();
    const LoadCounts& counts = loads[i]->counts();
    totals_.load.merge(counts);
    if (counts.hung > 0) problem(plan, "an op never ended (" + std::to_string(counts.hung) + ")");
    if (counts.broken_hits + counts.broken_follows > 0)
      problem(plan, "a leased hit was not delivered, or a follow and its push disagree: " +
                        counts.broken);
  }
}

// The moment after which nothing of it may be found, whatever has reached the targets.
void Ledger::await_purge() {
  const SystemClock clock;
  const Nanos until = clock.now_ns() + kPurgeWait;
  const uint64_t before = world_->purges;
  while (world_->purges == before && clock.now_ns() < until && daemon_->running())
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void Ledger::end(const LoopPlan& plan) {
  if (plan.ending == Ending::kStop) {
    const SystemClock clock;
    const Nanos asked_ns = clock.now_ns();
    const Status stopped = daemon_->stop(kStopTimeout);
    const std::string wrong = stopped.ok()
                                  ? stop_problem(daemon_->ending(), clock.now_ns() - asked_ns)
                                  : text_of(stopped);
    if (!wrong.empty()) problem(plan, wrong);
    ++totals_.stops;
    if (daemon_->ending() == kUndrained) ++totals_.undrained_stops;
  } else {
    daemon_->kill_now();
    ++totals_.kills;
  }
}

// What the last kill of a folder did is seen by one more life.
bool Ledger::closing_audit() {
  LoopPlan plan = plan_loop(options_.plan, static_cast<uint32_t>(totals_.loops) - 1);
  plan.first_of_folder = false;
  ++plan.loop;  // what comes after the last
  const bool good = start(plan) && settle(plan, true) && !failed();
  daemon_->kill_now();
  return good;
}

// The daemon's own numbers, as far as its file has them: it is rewritten every second.
void Ledger::note_metrics() {
  auto sums = metric_sums(read_text(folder_ + "/metrics.prom"));
  totals_.recovered_blocks += static_cast<uint64_t>(sums["varve_flash_recovered_total"]);
  totals_.dropped_fragments += static_cast<uint64_t>(sums["varve_flash_dropped_total"]);
  const auto evicted = static_cast<uint64_t>(sums["varve_evicted_blocks_total"]);
  totals_.evicted_blocks += evicted;
  // It says so itself: from here on an absence in this folder proves nothing.
  if (evicted > 0) world_->room = Room::kTight;
}

void Ledger::progress(uint32_t loops) const {
  Tally tally = totals_.tally;
  tally.merge(world_->book.tally());
  std::printf(
      "loop %u of %u: %llu durable acks, %llu intact, %llu evicted, %llu cached lost, "
      "%llu violations\n",
      loops, options_.loops, static_cast<unsigned long long>(totals_.load.acks_durable),
      static_cast<unsigned long long>(tally.of(Class::kIntact)),
      static_cast<unsigned long long>(tally.of(Class::kEvicted)),
      static_cast<unsigned long long>(tally.cached_lost),
      static_cast<unsigned long long>(tally.violations()));
  std::fflush(stdout);
}

}  // namespace varve::ledger
