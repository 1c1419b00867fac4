// One session, its urgent lane, and as many matches under way as keep both sides busy.
#include "tools/kvbench/match_bars.h"

#include <poll.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "client/varve.h"
#include "tools/kvbench/process.h"

namespace varve::kvbench {

namespace {

constexpr double kMatchWireTarget = 1e6;  // ids a second
constexpr uint32_t kBlockBytes = kPageBytes;
constexpr uint32_t kTargets = 2;
constexpr uint64_t kTargetBytes = kGiB, kDramBytes = 256 * kMiB;
constexpr uint32_t kTokensPerBlock = 16;
constexpr uint32_t kHalfLoadUnderWay = 200;  // fewer than a client has ops
constexpr Nanos kPatience = 30 * kSecond;

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

  // Every block of every prefix, all with the same bytes: what they hold is not asked for.
  Status push() {
    memory_.resize(kBlockBytes);
    VARVE_TRY(const RegionId region, client_->register_memory(memory_.data(), memory_.size()));
    const Layout layout{.layers = {LayerLayout{.region = region, .stride = kBlockBytes}},
                        .buffers = {}};
    for (const std::vector<BaseId>& ids : prefixes_) {
      PushRequest push;
      push.format = format_;
      push.ids = ids;
      push.slots.assign(ids.size(), 0);
      push.layout = &layout;
      VARVE_TRY(const OpId op, client_->push(std::move(push)));
      VARVE_RETURN_IF_ERROR(client_->push_layer(op, ClientCore::kEveryLayer));
      VARVE_TRY(const Event pushed, client_->wait(op, kPatience));
      VARVE_RETURN_IF_ERROR(pushed.status);
    }
    return {};
  }

  // `count` matches, the next one begun when it is due (every `interval_ns`; 0: always) and fewer
  // than `under_way` are there; of each how long after it was due it was answered.
  Result<std::vector<double>> ask(uint32_t count, Nanos interval_ns, uint32_t under_way) {
    const SystemClock clock;
    const Nanos begin_ns = clock.now_ns();
    std::map<OpId, Nanos> due;
    std::vector<double> took;
    uint32_t begun = 0;
    while (took.size() < count) {
      const Nanos next_ns = begin_ns + begun * interval_ns;
      const Nanos now_ns = clock.now_ns();
      if (begun < count && due.size() < under_way && next_ns <= now_ns) {
        VARVE_TRY(const OpId op, begin(begun++));
        due[op] = interval_ns == 0 ? now_ns : next_ns;
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
      took.push_back(static_cast<double>(clock.now_ns() - due.at(event.op)));
      due.erase(event.op);
    }
    return took;
  }

 private:
  explicit Asker(const MatchBarOptions& options) : options_(options) {}

  Result<OpId> begin(uint32_t number) {
    MatchRequest match;
    match.format = format_;
    match.ids = prefixes_[number % prefixes_.size()];
    match.deadline_ns = kPatience;
    return client_->match(std::move(match));
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
  std::vector<std::byte> memory_;
  std::vector<std::vector<BaseId>> prefixes_;
};

std::string micros_text(const std::vector<double>& nanos, uint32_t per_mille) {
  return number_text(quantile(nanos, per_mille) / 1e3) + " us";
}

Status run(const MatchBarOptions& options, Bar& bar) {
  VARVE_TRY(auto daemon,
            Daemon::start(options.varved, options.folder,
                          {"--shards", "1", "--targets", std::to_string(kTargets), "--target-bytes",
                           std::to_string(kTargetBytes), "--dram-bytes", std::to_string(kDramBytes),
                           "--scheme", Scheme().text(), "--log-level", "warn"}));
  bar.fact("daemon", daemon->ready_line());
  VARVE_TRY(auto asker, Asker::open(daemon->address(), options));
  VARVE_RETURN_IF_ERROR(asker->push());
  const SystemClock clock;
  for (uint32_t round = 0; round <= options.rounds; ++round) {
    const Nanos begin_ns = clock.now_ns();
    VARVE_TRY(const std::vector<double> took, asker->ask(options.matches, 0, options.under_way));
    const auto took_ns = static_cast<double>(clock.now_ns() - begin_ns);
    const double ids = static_cast<double>(took.size()) * options.prefix_ids;
    if (round > 0) bar.rounds.push_back(ids * 1e9 / took_ns);  // the first one warms up
  }
  const double rate = bar.value() / options.prefix_ids;  // matches a second
  const auto interval_ns = static_cast<Nanos>(2e9 / rate);
  VARVE_TRY(const std::vector<double> half,
            asker->ask(options.matches, interval_ns, kHalfLoadUnderWay));
  bar.fact("prefix", std::to_string(options.prefix_ids) + " ids, all hits; " +
                         std::to_string(options.under_way) + " matches under way");
  bar.fact("half_load", "p50 " + micros_text(half, 500) + ", p99 " + micros_text(half, 990) +
                            ", counted from when it was due; p99 is " +
                            number_text(quantile(half, 990) / quantile(half, 500)) +
                            " times p50 (3 at most is wanted)");
  return {};
}

}  // namespace

Bar match_wire_bar(const MatchBarOptions& options) {
  Bar bar;
  bar.name = "match_wire";
  bar.unit = "ids/s";
  bar.target = kMatchWireTarget;
  bar.setup.has_daemon = true;
  bar.setup.blocks = options.prefixes * options.prefix_ids;
  bar.setup.layers = 1;
  bar.setup.layer_bytes = kBlockBytes;
  bar.setup.schemes = {Scheme()};
  bar.setup.targets = kTargets;
  bar.setup.target_bytes = kTargetBytes;
  bar.setup.dram_bytes = kDramBytes;
  bar.setup.pushed_bytes = uint64_t{bar.setup.blocks} * kBlockBytes;
  bar.setup.lanes = 1;
  bar.setup.at_once = options.under_way;
  if (Status status = run(options, bar); !status.ok()) {
    bar.refused = std::string(code_name(status.code())) + ": " + status.what();
  }
  return bar;
}

}  // namespace varve::kvbench
