// Heal: a shard starts its passes on its own, so a target counts as read after two of each.
#include "tools/ledger/heal.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "tools/ledger/daemon.h"

namespace varve::ledger {

namespace {

constexpr const char* kPasses = "varve_flash_scrub_passes_total";
constexpr double kPassesOfEach = 2;
constexpr const char* kRepairs = "varve_repair_blocks_total";

}  // namespace

bool HealWatch::scrubbed(const std::string& metrics) {
  const auto passes = metric_labels(metrics, kPasses);
  auto sums = metric_sums(metrics);
  // What is found is repaired; only a pass that began after that proves anything.
  const double rot = sums["varve_flash_scrub_rot_total"] + sums["varve_flash_lost_total"];
  if (rot != rot_before_) {
    rot_before_ = rot;
    passes_before_ = passes;
    return false;
  }
  for (uint32_t t = 0; t < 32; ++t) {
    if ((rotten_ >> t & 1) == 0) continue;
    const std::string label = "target=\"" + std::to_string(t) + "\"";
    double passed = 0;
    for (const auto& [labels, value] : passes) {
      if (labels.find(label) == std::string::npos) continue;
      const auto before = passes_before_.find(labels);
      passed += value - (before == passes_before_.end() ? 0 : before->second);
    }
    if (passed < kPassesOfEach * shards_) return false;
  }
  return true;
}

bool HealWatch::see(const std::string& metrics) {
  auto sums = metric_sums(metrics);
  // A file without them is no answer.
  if (sums.count("varve_repair_live") == 0 || sums.count("varve_index_thin_blocks") == 0)
    return false;
  thin_blocks_ = static_cast<uint64_t>(sums["varve_index_thin_blocks"]);
  auto repairs = metric_labels(metrics, kRepairs);
  const double refused = repairs["outcome=\"no_space\""], done = repairs["outcome=\"done\""];
  roomless_ = done == done_before_ && refused > 0 ? roomless_ + 1 : 0;
  done_before_ = done;
  const bool read = rotten_ == 0 || scrubbed(metrics);
  return read && thin_blocks_ == 0 && sums["varve_repair_live"] == 0;
}

HealResult wait_whole(const std::string& metrics_path, Daemon& daemon, HealWatch watch,
                      Nanos timeout_ns) {
  const SystemClock clock;
  const Nanos until = clock.now_ns() + timeout_ns;
  std::error_code error;
  auto seen = std::filesystem::last_write_time(metrics_path, error);
  HealResult result;
  while (!result.whole && !result.no_room && clock.now_ns() < until && daemon.running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const auto written = std::filesystem::last_write_time(metrics_path, error);
    if (error || written == seen) continue;
    seen = written;
    result.whole = watch.see(read_text(metrics_path));
    result.no_room = !result.whole && watch.no_room() && watch.thin_blocks() > 0;
    result.thin_blocks = watch.thin_blocks();
  }
  return result;
}

}  // namespace varve::ledger
