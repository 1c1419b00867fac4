// The set is parted; of each part one pull is under way, so that no two write to the same memory.
// What takes time here, comparing, is done between two measurements.
#include "tools/kvbench/cancel_bar.h"

#include <poll.h>

#include <algorithm>
#include <array>

#include "tools/kvbench/coded_node.h"

namespace varve::kvbench {

namespace {

constexpr uint32_t kParts = 4;
constexpr uint64_t kDramBytesMin = 64 * kMiB;
constexpr uint64_t kPushBatchBytes = 32 * kMiB;
// After the other pulls were begun anew; those go on from the time before are further.
constexpr Nanos kCancelAfterMax = 20 * kMillisecond;
constexpr Nanos kPatience = 30 * kSecond;
constexpr uint32_t kTriesPerCancel = 20;  // pulls may end before they are cancelled

CodedDaemonOptions daemon_of(const CancelBarOptions& options) {
  CodedDaemonOptions daemon;
  daemon.varved = options.varved;
  daemon.folder = options.folder + "/node";
  daemon.scheme = {1, 0};
  daemon.targets = 2;
  daemon.data_bytes = options.shape.bytes();
  daemon.dram_bytes = std::max(kDramBytesMin, options.shape.bytes() / kSetPerDram);
  return daemon;
}

class Canceller {
 public:
  Canceller(WorkingSet& set, Puller& puller) : set_(set), puller_(puller) {
    for (uint32_t i = 0; i < kParts; ++i)
      parts_[i].first = i * blocks();
  }

  // Until `count` pulls were cancelled; how long each took to end, in microseconds.
  Result<std::vector<double>> round(uint32_t count) {
    std::vector<double> took_us;
    for (uint32_t tries = 0; took_us.size() < count; ++tries) {
      if (tries == kTriesPerCancel * count) {
        return Status::unavailable("bench: pulls end before they can be cancelled");
      }
      VARVE_RETURN_IF_ERROR(begin_all());
      const Nanos cancel_at_ns = clock_.now_ns() + random_.below(kCancelAfterMax);
      VARVE_RETURN_IF_ERROR(take_events([] { return false; }, cancel_at_ns));
      Part& part = parts_[random_.below(kParts)];
      if (part.op == 0) continue;  // it ended before
      const Nanos begin_ns = clock_.now_ns();
      puller_.client().cancel(part.op);
      VARVE_RETURN_IF_ERROR(take_events([&part] { return part.op == 0; }, begin_ns + kPatience));
      if (part.op != 0) return Status::timed_out("bench: a cancelled pull does not end");
      if (part.end.status.code() != Code::kCancelled) continue;
      took_us.push_back(static_cast<double>(part.ended_ns - begin_ns) / 1e3);
    }
    VARVE_RETURN_IF_ERROR(rest());
    return took_us;
  }

  uint64_t compared_bytes() const { return compared_bytes_; }    // of pulls that were not cancelled
  uint64_t untouched_bytes() const { return untouched_bytes_; }  // of those that were

 private:
  struct Part {
    uint32_t first = 0;
    OpId op = 0;  // 0: none under way
    bool ended = false;
    Event end;
    Nanos ended_ns = 0;
    bool fenced = false;  // nobody may write to it
    uint64_t digest = 0;  // if so
  };

  uint32_t blocks() const { return set_.shape().blocks / kParts; }
  uint64_t part_bytes() const { return blocks() * set_.shape().block_bytes(); }

  // What ended is looked at; every other part has a pull.
  Status begin_all() {
    for (Part& part : parts_) {
      if (part.ended) {
        VARVE_RETURN_IF_ERROR(settle(part));
      } else if (part.op == 0) {
        VARVE_RETURN_IF_ERROR(check_untouched(part));
        set_.poison_slots(part.first, blocks());
        VARVE_TRY(part.op, puller_.start_pull(part.first, blocks()));
      }
    }
    return {};
  }

  Status settle(Part& part) {
    part.ended = false;
    if (part.end.status.code() == Code::kCancelled) {
      set_.poison_slots(part.first, blocks());
      part.digest = set_.digest_of_slots(part.first, blocks());
      part.fenced = true;
      return {};
    }
    VARVE_RETURN_IF_ERROR(puller_.check_whole(part.end, part.first, blocks()));
    if (set_.wrong_extents_of(part.first, blocks()) != 0) {
      return Status::corrupt("bench: a pull delivered wrong bytes");
    }
    compared_bytes_ += part_bytes();
    return {};
  }

  Status check_untouched(Part& part) {
    if (!part.fenced) return {};
    part.fenced = false;
    if (set_.digest_of_slots(part.first, blocks()) != part.digest) {
      return Status::corrupt("bench: memory of a cancelled pull was written to after its end");
    }
    untouched_bytes_ += part_bytes();
    return {};
  }

  // Every pull that is under way ends by itself and is compared.
  Status rest() {
    const auto none = [this] {
      return std::all_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.op == 0; });
    };
    VARVE_RETURN_IF_ERROR(begin_all());
    VARVE_RETURN_IF_ERROR(take_events(none, clock_.now_ns() + kPatience));
    if (!none()) return Status::timed_out("bench: pulls do not end");
    for (Part& part : parts_) {
      if (part.ended) VARVE_RETURN_IF_ERROR(settle(part));
    }
    return {};
  }

  // Until `over` or the time.
  template <class Over>
  Status take_events(Over over, Nanos until_ns) {
    Client& client = puller_.client();
    for (Nanos now_ns = clock_.now_ns(); !over() && now_ns < until_ns; now_ns = clock_.now_ns()) {
      Event event;
      if (!client.poll(event)) {
        pollfd ready = {client.event_fd(), POLLIN, 0};
        const Nanos left_ns = until_ns - now_ns;
        const timespec limit = {static_cast<time_t>(left_ns / kSecond),
                                static_cast<long>(left_ns % kSecond)};
        (void)::ppoll(&ready, 1, &limit, nullptr);
        continue;
      }
      if (event.kind != Event::Kind::kPulled) continue;
      const auto found = std::find_if(parts_.begin(), parts_.end(),
                                      [&event](const Part& p) { return p.op == event.op; });
      if (found == parts_.end()) return Status::internal("bench: an event of no pull");
      found->ended_ns = clock_.now_ns();
      found->op = 0;
      found->ended = true;
      found->end = std::move(event);
    }
    return {};
  }

  WorkingSet& set_;
  Puller& puller_;
  SystemClock clock_;
  Random random_{20261201};
  std::array<Part, kParts> parts_;
  uint64_t compared_bytes_ = 0, untouched_bytes_ = 0;
};

Status run(const CancelBarOptions& options, Bar& bar) {
  VARVE_TRY(auto set, WorkingSet::make(options.shape));
  set->fill();
  VARVE_TRY(const auto daemon, start_coded_daemon(daemon_of(options)));
  bar.setup.seen = daemon->seen();
  PullerOptions puller_options;
  puller_options.address = daemon->address();
  puller_options.bulk_lanes = options.lanes;
  puller_options.push_batch_bytes = kPushBatchBytes;
  VARVE_TRY(const auto puller, Puller::open(puller_options, *set));
  VARVE_RETURN_IF_ERROR(puller->push());
  Canceller canceller(*set, *puller);
  std::vector<double> all;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    VARVE_TRY(const std::vector<double> took_us, canceller.round(options.cancels));
    bar.rounds.push_back(quantile(took_us, 990));
    all.insert(all.end(), took_us.begin(), took_us.end());
  }
  bar.verified_bytes = canceller.compared_bytes() + canceller.untouched_bytes();
  bar.fact("cancels", std::to_string(all.size()) + ", p50 " + number_text(quantile(all, 500)) +
                          " us, p99 " + number_text(quantile(all, 990)) + " us, longest " +
                          number_text(quantile(all, 1000)) +
                          " us, from the call to the terminal event in the caller's hands");
  bar.fact("beside", std::to_string(kParts - 1) + " other pulls under way; each of " +
                         std::to_string(options.shape.bytes() / kParts / kMiB) +
                         " MiB, from flash but for what " +
                         std::to_string(bar.setup.dram_bytes / 2 / kMiB) + " MiB of DRAM keep of " +
                         std::to_string(options.shape.bytes() / kMiB) + " MiB");
  bar.fact("evidence", std::to_string(canceller.compared_bytes()) +
                           " bytes of whole pulls compared, " +
                           std::to_string(canceller.untouched_bytes()) +
                           " of cancelled ones found as they were when those ended");
  return {};
}

}  // namespace

Bar cancel_fenced_bar(const CancelBarOptions& options) {
  VARVE_ASSERT(options.shape.blocks % kParts == 0, options.shape.blocks);
  Bar bar;
  bar.name = "cancel_fenced";
  bar.unit = "us, p99 of a round";
  bar.sense = Sense::kNoTarget;
  bar.setup = setup_of(daemon_of(options), options.shape, options.lanes, kParts);
  if (Status status = run(options, bar); !status.ok()) bar.refused = bench_error(status);
  return bar;
}

}  // namespace varve::kvbench
