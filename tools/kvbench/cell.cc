// What a cell says of itself, as lines and as JSON.
#include "tools/kvbench/cell.h"

#include <algorithm>

#include "tools/kvbench/conditions.h"
#include "tools/kvbench/report.h"

namespace varve::kvbench {

namespace {

double ms_of(Nanos ns) {
  return static_cast<double>(ns) / static_cast<double>(kMillisecond);
}

template <class Of>
std::vector<double> collect(const std::vector<CellRepetition>& repetitions, Of of) {
  std::vector<double> values;
  for (const CellRepetition& repetition : repetitions) {
    if (const double value = of(repetition); value > 0) values.push_back(value);
  }
  return values;
}

double rate_of(const CellRepetition& r) {
  return r.busy_ns == 0 ? 0 : static_cast<double>(r.bytes) / static_cast<double>(r.busy_ns);
}

}  // namespace

const char* name_of(CellTier tier) {
  return tier == CellTier::kDram ? "dram" : "flash";
}

const char* name_of(CellState state) {
  return state == CellState::kHot ? "hot" : "cold";
}

const char* problem_of_kind(CellKind kind) {
  if (kind.tier == CellTier::kFlash || kind.state == CellState::kHot) return "";
  return "there is no cell dram x cold: after a start anew nothing is in DRAM, and what is touched "
         "first comes from flash";
}

const char* meaning_of(CellKind kind) {
  VARVE_ASSERT(*problem_of_kind(kind) == '\0');
  if (kind.tier == CellTier::kDram) {
    return "pulled just before, and kept in the DRAM tier of the server since";
  }
  if (kind.state == CellState::kCold) {
    return "touched by nothing since the server was started anew; it keeps no block in DRAM and "
           "reads with O_DIRECT, so no page cache of its kernel has them; a cache of the drive, or "
           "of a host below a virtual one, may still have what was pushed";
  }
  return "read from the targets just before, by a server that keeps no block in DRAM and reads "
         "with "
         "O_DIRECT: what is hot is the cache of the drive, or of a host below a virtual one, if "
         "there is any";
}

void CellRepetition::add(const Played& played) {
  const PlayedPull& pull = played.decode;
  blocks += played.blocks;
  dram_blocks += pull.dram_blocks;
  flash_blocks += pull.flash_blocks;
  failed_blocks += played.blocks - pull.blocks;
  bytes += pull.bytes;
  if (pull.blocks == 0) return;
  const Nanos op_ns = pull.last_layer_ns - pull.took_ns;  // of the match before it
  if (pull.first_layer_ns > 0) first_ms.push_back(ms_of(pull.first_layer_ns - op_ns));
  last_ms.push_back(ms_of(pull.took_ns));
}

std::string Cell::impurity() const {
  if (repetitions.empty()) return "was not measured";
  for (const CellRepetition& r : repetitions) {
    const uint32_t wanted = is_of_flash() ? r.flash_blocks : r.dram_blocks;
    if (r.failed_blocks > 0) {
      return std::to_string(r.failed_blocks) + " of " + std::to_string(r.blocks) +
             " blocks did not come";
    }
    if (wanted != r.blocks) {
      return "only " + std::to_string(wanted) + " of " + std::to_string(r.blocks) +
             " blocks were in " + (is_of_flash() ? "flash alone" : "DRAM");
    }
  }
  return "";
}

std::vector<double> Cell::rates() const {
  return collect(repetitions, rate_of);
}

std::vector<double> Cell::ratios() const {
  return collect(repetitions, [this](const CellRepetition& r) {
    const double ceiling = is_of_flash() ? r.drive_rate : r.socket_rate;
    return ceiling > 0 ? rate_of(r) / ceiling : 0;
  });
}

Json Cell::json() const {
  const Mode mode = is_of_flash() ? Mode::kStorageOnly : Mode::kStoragePlusMemory;
  Json json = {{"extent_kib", extent_kib},         {"blocks", blocks},
               {"concurrency", concurrency},       {"tier", name_of(kind.tier)},
               {"state", name_of(kind.state)},     {"mode", mode_name(mode)},
               {"repetitions", repetitions.size()}};
  const std::string why = impurity();
  json["pure"] = why.empty();
  if (!why.empty()) {
    json["why_not"] = why;
    return json;
  }
  const auto socket = collect(repetitions, [](const CellRepetition& r) { return r.socket_rate; });
  const auto drive = collect(repetitions, [](const CellRepetition& r) { return r.drive_rate; });
  std::vector<double> firsts, lasts;
  for (const CellRepetition& r : repetitions) {
    firsts.insert(firsts.end(), r.first_ms.begin(), r.first_ms.end());
    lasts.insert(lasts.end(), r.last_ms.begin(), r.last_ms.end());
  }
  json["pull_gb_per_s"] = spread_json(rates());
  json["socket_gb_per_s"] = socket.empty() ? Json() : spread_json(socket);
  json["drive_gb_per_s"] = drive.empty() ? Json() : spread_json(drive);
  json["of_ceiling"] = ratios().empty() ? Json() : spread_json(ratios());
  json["ceiling"] = is_of_flash() ? "drive" : "socket";
  json["first_layer_ms"] = times_json(firsts);
  json["last_layer_ms"] = times_json(lasts);
  return json;
}

std::string Cell::line() const {
  std::string text = std::string(name_of(kind.tier)) + " " + name_of(kind.state) + " " +
                     std::to_string(extent_kib) + " KiB x " + std::to_string(blocks) +
                     " blocks x " + std::to_string(concurrency) + " pulls: ";
  if (const std::string why = impurity(); !why.empty()) return text + "NOT PURE, " + why;
  const Json all = json();
  text += spread_text(rates(), "GB/s");
  if (!ratios().empty()) {
    const std::string unit = "of the " + all["ceiling"].get<std::string>();
    text += ", " + spread_text(ratios(), unit.c_str());
  }
  const auto ms = [&all](const char* times, const char* which) {
    return number_text(all[times][which].get<double>());
  };
  return text + ", first p50 " + ms("first_layer_ms", "p50") + " ms, last p50 " +
         ms("last_layer_ms", "p50") + " ms, p99 " + ms("last_layer_ms", "p99") + " ms";
}

}  // namespace varve::kvbench
