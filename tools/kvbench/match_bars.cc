// One session, its urgent lane, and as many matches under way as keep both sides busy; then half as
// many a second, each due at its time.
#include "tools/kvbench/match_bars.h"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "client/varve.h"
#include "tools/kvbench/process.h"

namespace varve::kvbench {

namespace {

constexpr double kMatchWireTarget = 1e6;  // ids a second
constexpr double kMatchTailTarget = 3;    // times p50 is p99
constexpr uint32_t kBlockBytes = kPageBytes;
constexpr uint32_t kTargets = 2;
constexpr uint64_t kTargetBytes = kGiB, kDramBytes = 256 * kMiB;
constexpr uint32_t kTokensPerBlock = 16;
constexpr uint32_t kHalfLoadUnderWay = 200;  // fewer than a client has ops
constexpr uint32_t kLeaseMs = 10000;
constexpr unsigned long kTimerSlackNs = 1;  // 50 us by default: a sixth of what is measured
constexpr Nanos kPatience = 30 * kSecond;
constexpr std::byte kPoison{0xA7};

class Asker {
 public:
  static Result<std::unique_ptr<Asker>> open(const std::string& address,
                                             const MatchBarOptions& options) {
    std::unique_ptr<Asker> asker(new Asker(options));
    ClientOptions client;
    client.address = address;
    client.name = "kvbench";
    VARVE_TRY(asker->client_, Client::open(client));
    VARVE_RETURN_IF_ERROR(asker->client_->wait_ready(kPatience));
    Format format;
    format.model.bytes.fill(std::byte{0x4D});
    format.lineage = "kvbench-match";
    format.tokens_per_block = kTokensPerBlock;
    format.ranks = {{LayerSpec{LayerKind::kFull, kBlockBytes}}};
    VARVE_TRY(asker->format_, asker->client_->format(format));
    for (uint32_t p = 0; p < options.prefixes; ++p) {
      std::vector<uint32_t> tokens(options.prefix_ids * kTokensPerBlock);
      std::iota(tokens.begin(), tokens.end(), p << 20);
      asker->prefixes_.emplace_back();
      VARVE_TRY(asker->prefixes_.back(),
                asker->client_->base_ids(asker->format_, BaseId(), tokens));
    }
    return asker;
  }

  // Every block of every prefix, each with bytes of its own.
  Status push() {
    memory_.resize(options_.prefix_ids * uint64_t{kBlockBytes});
    VARVE_TRY(region_, client_->register_memory(memory_.data(), memory_.size()));
    const Layout layout = layout_of_memory();
    for (uint32_t p = 0; p < prefixes_.size(); ++p) {
      for (uint64_t at = 0; at < memory_.size(); at += kBlockBytes)
        content(p, at / kBlockBytes, block_at(at));
      PushRequest push;
      push.format = format_;
      push.ids = prefixes_[p];
      push.slots = slots();
      push.layout = &layout;
      VARVE_TRY(const OpId op, client_->push(std::move(push)));
      VARVE_RETURN_IF_ERROR(client_->push_layer(op, ClientCore::kEveryLayer));
      VARVE_TRY(const Event pushed, client_->wait(op, kPatience));
      VARVE_RETURN_IF_ERROR(pushed.status);
    }
    return {};
  }

  // Pulls all that was pushed, into memory that holds something else; how many bytes are as they
  // were.
  Result<uint64_t> compare() {
    const Layout layout = layout_of_memory();
    std::vector<std::byte> wanted(kBlockBytes);
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < prefixes_.size(); ++p) {
      std::fill(memory_.begin(), memory_.end(), kPoison);
      VARVE_TRY(const OpId match, begin(p, kLeaseMs));
      VARVE_TRY(const Event matched, client_->wait(match, kPatience));
      VARVE_RETURN_IF_ERROR(matched.status);
      PullRequest pull;
      pull.format = format_;
      pull.ids = prefixes_[p];
      pull.slots = slots();
      pull.layout = &layout;
      pull.lease = matched.lease;
      pull.deadline_ns = kPatience;
      VARVE_TRY(const OpId op, client_->pull(std::move(pull)));
      VARVE_TRY(const Event pulled, client_->wait(op, kPatience));
      VARVE_RETURN_IF_ERROR(pulled.status);
      client_->release(matched.lease);
      for (uint64_t at = 0; at < memory_.size(); at += kBlockBytes) {
        content(p, at / kBlockBytes, wanted);
        const ByteSpan block = block_at(at);
        if (!std::equal(block.begin(), block.end(), wanted.begin())) {
          return Status::corrupt("bench: a block that was matched has other bytes");
        }
      }
      bytes += memory_.size();
    }
    return bytes;
  }

  // Of each match, ns: from when it was due to its answer, and to when it was begun.
  struct Asked {
    std::vector<double> took, late;
  };
  // `count` matches, the next one begun when it is due (every `interval_ns`; 0: always) and fewer
  // than `under_way` are there.
  Result<Asked> ask(uint32_t count, Nanos interval_ns, uint32_t under_way) {
    const SystemClock clock;
    const Nanos begin_ns = clock.now_ns();
    std::map<OpId, Nanos> due;
    Asked asked;
    uint32_t begun = 0;
    while (asked.took.size() < count) {
      const Nanos next_ns = begin_ns + begun * interval_ns;
      const Nanos now_ns = clock.now_ns();
      if (begun < count && due.size() < under_way && next_ns <= now_ns) {
        VARVE_TRY(const OpId op, begin(begun++));
        due[op] = interval_ns == 0 ? now_ns : next_ns;
        asked.late.push_back(static_cast<double>(now_ns - due[op]));
        continue;
      }
      Event event;
      if (!client_->poll(event)) {
        wait_for_event(begun < count && due.size() < under_way ? next_ns - now_ns : kPatience);
        if (clock.now_ns() - begin_ns > kPatience + count * interval_ns) {
          return Status::timed_out("bench: matches were not answered");
        }
        continue;
      }
      VARVE_RETURN_IF_ERROR(event.status);
      if (event.n_blocks != options_.prefix_ids) {
        return Status::unavailable("bench: blocks that are there were not found");
      }
      asked.took.push_back(static_cast<double>(clock.now_ns() - due.at(event.op)));
      due.erase(event.op);
    }
    return asked;
  }

 private:
  explicit Asker(const MatchBarOptions& options) : options_(options) {}

  Result<OpId> begin(uint32_t number, uint32_t lease_ms = 0) {
    MatchRequest match;
    match.lease_ms = lease_ms;
    match.format = format_;
    match.ids = prefixes_[number % prefixes_.size()];
    match.deadline_ns = kPatience;
    return client_->match(std::move(match));
  }

  static void content(uint32_t prefix, uint64_t block, ByteSpan out) {
    Random random((uint64_t{prefix} << 32) + block);
    for (size_t i = 0; i < out.size(); i += sizeof(uint64_t))
      store(out, i, random.next());
  }
  ByteSpan block_at(uint64_t at) { return ByteSpan(memory_).subspan(at, kBlockBytes); }
  Layout layout_of_memory() const {
    return {.layers = {LayerLayout{.region = region_, .stride = kBlockBytes}}, .buffers = {}};
  }
  std::vector<uint32_t> slots() const {
    std::vector<uint32_t> slots(options_.prefix_ids);
    std::iota(slots.begin(), slots.end(), 0u);
    return slots;
  }

  void wait_for_event(Nanos at_most_ns) const {
    pollfd ready = {client_->event_fd(), POLLIN, 0};
    const timespec limit = {static_cast<time_t>(at_most_ns / kSecond),
                            static_cast<long>(at_most_ns % kSecond)};
    (void)::ppoll(&ready, 1, &limit, nullptr);
  }

  MatchBarOptions options_;
  std::unique_ptr<Client> client_;
  FormatId format_ = 0;
  std::vector<std::byte> memory_;  // of one prefix
  RegionId region_{};
  std::vector<std::vector<BaseId>> prefixes_;
};

std::string micros_text(const std::vector<double>& nanos, uint32_t per_mille) {
  return number_text(quantile(nanos, per_mille) / 1e3) + " us";
}

// What the rounds at half load tell.
struct HalfLoad {
  std::vector<double> took, late;  // of all matches
  std::vector<double> ratios;      // p99 over p50, by round
  Nanos took_ns = 0, client_wait_ns = 0, server_wait_ns = 0;
};

Status run_half_load(const MatchBarOptions& options, double rate, pid_t server, Asker& asker,
                     HalfLoad& out) {
  const SystemClock clock;
  const Nanos begin_ns = clock.now_ns();
  const Nanos client_ns = core_wait_ns(::getpid()), server_ns = core_wait_ns(server);
  const auto interval_ns = static_cast<Nanos>(2e9 / rate);
  VARVE_TRY(const Asker::Asked asked, asker.ask(options.matches, interval_ns, kHalfLoadUnderWay));
  out.took_ns += clock.now_ns() - begin_ns;
  out.client_wait_ns += core_wait_ns(::getpid()) - client_ns;
  out.server_wait_ns += core_wait_ns(server) - server_ns;
  out.ratios.push_back(quantile(asked.took, 990) / quantile(asked.took, 500));
  out.took.insert(out.took.end(), asked.took.begin(), asked.took.end());
  out.late.insert(out.late.end(), asked.late.begin(), asked.late.end());
  return {};
}

void add_half_load(const HalfLoad& half, Bar& bar) {
  bar.rounds = half.ratios;
  const auto ms = [](Nanos ns) { return number_text(static_cast<double>(ns) / 1e6) + " ms"; };
  bar.fact("half_load", "p50 " + micros_text(half.took, 500) + ", p99 " +
                            micros_text(half.took, 990) + " of all rounds, from when it was due");
  bar.fact("half_load_begun", "p50 " + micros_text(half.late, 500) + ", p99 " +
                                  micros_text(half.late, 990) +
                                  " after it was due: the asking thread had no core, or waited for "
                                  "the client's lock; in the latency");
  bar.fact("half_load_waits",
           "of " + ms(half.took_ns) + " the threads of kvbench were " + ms(half.client_wait_ns) +
               " ready to run without a core, varved's " + ms(half.server_wait_ns));
}

// Rounds at all load and at half of it, in turns; the first of each warms up.
Status run_rounds(const MatchBarOptions& options, pid_t server, Asker& asker, MatchBars& bars) {
  const SystemClock clock;
  HalfLoad half;
  for (uint32_t round = 0; round <= options.rounds; ++round) {
    const Nanos begin_ns = clock.now_ns();
    VARVE_TRY(const Asker::Asked asked, asker.ask(options.matches, 0, options.under_way));
    const auto took_ns = static_cast<double>(clock.now_ns() - begin_ns);
    const double matches = static_cast<double>(asked.took.size()) * 1e9 / took_ns;  // a second
    if (round == 0) {
      bars.wire.warmup_ns = bars.tail.warmup_ns = clock.now_ns() - begin_ns;
      continue;
    }
    bars.wire.rounds.push_back(matches * options.prefix_ids);
    const double rate = bars.wire.value() / options.prefix_ids;
    VARVE_RETURN_IF_ERROR(run_half_load(options, rate, server, asker, half));
  }
  add_half_load(half, bars.tail);
  return {};
}

Status run(const MatchBarOptions& options, MatchBars& bars) {
  VARVE_TRY(auto daemon,
            Daemon::start(options.varved, options.folder,
                          {"--shards", "1", "--targets", std::to_string(kTargets), "--target-bytes",
                           std::to_string(kTargetBytes), "--dram-bytes", std::to_string(kDramBytes),
                           "--scheme", Scheme().text(), "--log-level", "warn"}));
  bars.wire.fact("daemon", daemon->ready_line());
  bars.wire.setup.seen = bars.tail.setup.seen = daemon->seen();
  VARVE_TRY(auto asker, Asker::open(daemon->address(), options));
  VARVE_RETURN_IF_ERROR(asker->push());
  // After the client's own thread has begun: of this one alone.
  (void)::prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  bars.wire.fact("prefix", std::to_string(options.prefix_ids) + " ids, all hits; " +
                               std::to_string(options.under_way) + " matches under way");
  VARVE_RETURN_IF_ERROR(run_rounds(options, daemon->pid(), *asker, bars));
  VARVE_TRY(bars.wire.verified_bytes, asker->compare());
  bars.tail.verified_bytes = bars.wire.verified_bytes;
  return {};
}

BarSetup setup_of(const MatchBarOptions& options) {
  BarSetup setup;
  setup.has_daemon = true;
  setup.blocks = options.prefixes * options.prefix_ids;
  setup.layers = 1;
  setup.layer_bytes = kBlockBytes;
  setup.schemes = {Scheme()};
  setup.targets = kTargets;
  setup.target_bytes = kTargetBytes;
  setup.dram_bytes = kDramBytes;
  setup.pushed_bytes = uint64_t{setup.blocks} * kBlockBytes;
  setup.client_memory_bytes = uint64_t{options.prefix_ids} * kBlockBytes;
  setup.lanes = 1;
  setup.at_once = options.under_way;
  return setup;
}

}  // namespace

MatchBars match_wire_bars(const MatchBarOptions& options) {
  MatchBars bars;
  bars.wire.name = "match_wire";
  bars.wire.unit = "ids/s";
  bars.wire.target = kMatchWireTarget;
  bars.tail.name = "match_wire_tail";
  bars.tail.unit = "times p50 is a round's p99, at half load";
  bars.tail.target = kMatchTailTarget;
  bars.tail.sense = Sense::kAtMost;
  bars.wire.setup = bars.tail.setup = setup_of(options);
  bars.wire.measurement = bars.tail.measurement = bars.wire.name;
  if (Status status = run(options, bars); !status.ok()) {
    bars.wire.refused = std::string(code_name(status.code())) + ": " + status.what();
    bars.tail.refused = bars.wire.refused;
  }
  return bars;
}

}  // namespace varve::kvbench
