// A target whose fragments stand in its checkpoints only is opened again and again by a real shard;
// what is timed is from start() until the shard says that it is no longer recovering.
#include "tools/kvbench/recovery_bar.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/time/time.h"
#include "server/shard/shard.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

namespace {

constexpr double kTarget = 5e6;
constexpr uint64_t kFragmentBytes = 64 * kKiB;
constexpr uint64_t kArenaBytes = 64 * kMiB;
constexpr std::byte kNode[16] = {std::byte{0xBE}, std::byte{0x4C}};

// A hole as large as the target: recovery of a synthetic set reads its checkpoints only.
Status make_sparse(const std::string& path, uint64_t bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return Status::io("bench: create", errno);
  const int result = ::ftruncate(fd, static_cast<off_t>(bytes));
  const int error = errno;
  (void)::close(fd);
  return result == 0 ? Status() : Status::io("bench: ftruncate", error);
}

ShardOptions shard_options(uint64_t fragments) {
  ShardOptions options;
  options.blocks_max = static_cast<uint32_t>(fragments + fragments / 16);
  options.tier.blocks_max = 64;
  options.tier.limit_bytes[static_cast<uint8_t>(Budget::kPush)] = kArenaBytes / 4;
  options.tier.limit_bytes[static_cast<uint8_t>(Budget::kPull)] = kArenaBytes / 4;
  options.tier.limit_bytes[static_cast<uint8_t>(Budget::kResident)] = kArenaBytes / 2;
  return options;
}

// One restart of the shard; fragments a second.
Result<double> recover_once(const flash::TargetOptions& target, uint64_t fragments,
                            ByteSpan arena) {
  SystemClock clock;
  SystemEntropy entropy;
  const auto fabric = make_tcp_fabric();
  Env env{clock, entropy, *fabric};
  VARVE_TRY(IoBackendChoice io, make_io_backend(IoBackendPreference::kProbe, {}));
  Reactor reactor(clock, io.backend.get(), {});
  VARVE_TRY(flash::TargetInfo info, flash::prepare_target(target, kNode, entropy));
  std::vector<std::unique_ptr<BlockDevice>> devices;
  VARVE_TRY(auto device, open_file_device(reactor, target.file));
  devices.push_back(std::move(device));
  VARVE_TRY(auto shard,
            Shard::open(env, reactor, arena, {info}, std::move(devices), shard_options(fragments)));
  reactor.turn();
  const Nanos begin_ns = clock.now_ns();
  shard->start();
  while (shard->recovering()) {
    if (!reactor.turn()) io.backend->sleep(kMillisecond);
  }
  const Nanos took_ns = clock.now_ns() - begin_ns;
  if (shard->index().block_count() != fragments) {
    return Status::corrupt("bench: recovery did not find every fragment");
  }
  shard->drain();
  const Nanos until_ns = clock.now_ns() + 30 * kSecond;
  while (!shard->drained() && clock.now_ns() < until_ns) {
    if (!reactor.turn()) io.backend->sleep(kMillisecond);
  }
  if (!shard->drained()) return Status::timed_out("bench: the shard did not drain");
  return static_cast<double>(fragments) * 1e9 / static_cast<double>(took_ns);
}

Status run(const RecoveryBarOptions& options, Bar& bar) {
  flash::TargetOptions target;
  target.file.path = options.folder + "/synthetic.dat";
  target.holes_stay = true;
  // Checkpoint areas, segment headers and footers want a little beside the fragments.
  const uint64_t capacity =
      round_up((options.fragments + options.fragments / 16) * kFragmentBytes, kGiB);
  VARVE_RETURN_IF_ERROR(make_sparse(target.file.path, capacity));
  SystemEntropy entropy;
  uint64_t fragments = 0;
  {
    VARVE_TRY(const flash::TargetInfo info, flash::prepare_target(target, kNode, entropy));
    VARVE_TRY(auto file, FileHandle::open(target.file));
    VARVE_TRY(fragments, flash::write_synthetic(*file, info, options.fragments));
    VARVE_RETURN_IF_ERROR(file->flush());
  }
  if (fragments < options.fragments / 2)
    return Status::invalid("bench: the synthetic set is small");
  VARVE_TRY(auto arena, TouchedMemory::map(kArenaBytes));
  for (uint32_t round = 0; round < options.rounds; ++round) {
    VARVE_TRY(const double rate, recover_once(target, fragments, arena->bytes()));
    bar.rounds.push_back(rate);
  }
  bar.fact("fragments", std::to_string(fragments) + " of one target, one shard, one core");
  bar.fact("from",
           "checkpoints read O_DIRECT from a sparse file; index, eviction order and "
           "catalog of a real shard");
  return {};
}

}  // namespace

Bar recovery_bar(const RecoveryBarOptions& options) {
  Bar bar;
  bar.name = "recovery";
  bar.unverified =
      "no block is read: what is recovered are ids, of checkpoints that have no blocks";
  bar.unit = "fragments/s";
  bar.target = kTarget;
  if (Status status = run(options, bar); !status.ok()) {
    bar.refused = std::string(status.what()) + " (" + code_name(status.code()) + ")";
  }
  return bar;
}

}  // namespace varve::kvbench
