// A missing drive is told from a new one by the list that the last start left behind (N2): what
// stands in it was there, and its loss is said and counted instead of being papered over.
#include "server/node/target.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>

namespace varve {

namespace {

struct Start {
  const ServerConfig& config;
  const Identity& identity;
  Entropy& entropy;
  std::vector<TargetRecord> records;
  bool known = false;  // the node finished a start before

  const TargetRecord* record(uint32_t index) const {
    for (const TargetRecord& record : records) {
      if (record.index == index) return &record;
    }
    return nullptr;
  }
};

// A file is made for a node that is new, for a further target in the data folder, or when asked.
bool may_create(const Start& start, uint32_t index) {
  if (start.config.create_targets || !start.known) return true;
  return start.config.target_paths.empty() && start.record(index) == nullptr;
}

void say_prepared(const Start& start, uint32_t index, const flash::TargetInfo& info) {
  const flash::Superblock& super = info.super;
  const uint64_t mib = super.capacity_bytes / kMiB;
  const bool replaced = info.formatted_now && start.record(index) != nullptr;
  logf(replaced ? LogLevel::kWarn : LogLevel::kInfo, "main",
       "target %u %s: %s%s, uuid %s, %" PRIu64 " MiB, boot generation %u", index, info.path.c_str(),
       info.formatted_now ? "formatted" : "adopted",
       replaced ? " in the place of one that this node had (its blocks are lost)" : "",
       to_hex(super.target_uuid).c_str(), mib, super.boot_generation);
  const ServerConfig& config = start.config;
  const bool size_given =
      std::find(config.from_command_line.begin(), config.from_command_line.end(),
                "--target-bytes") != config.from_command_line.end();
  if (!info.formatted_now && size_given && super.capacity_bytes != config.target_bytes) {
    logf(LogLevel::kWarn, "main",
         "target %u is %" PRIu64 " MiB as formatted; --target-bytes %s applies to new files only",
         index, mib, bytes_text(config.target_bytes).c_str());
  }
}

flash::TargetOptions target_options(const Start& start, uint32_t index) {
  const ServerConfig& config = start.config;
  flash::TargetOptions options;
  options.file = {config.target_path(index), may_create(start, index) ? config.target_bytes : 0,
                  config.free_floor_bytes};
  options.index = index;
  return options;
}

// What a target that cannot be used means: its own loss, or the end of the start.
Failure take_refusal(const Start& start, uint32_t index, Status why, NodeTarget* target) {
  const ServerConfig& config = start.config;
  const std::string path = config.target_path(index);
  const bool create = may_create(start, index);
  // What could not be made, and what never was there, is a mistake and no loss.
  const bool absent = !exists(path);
  const bool unknown = absent && start.record(index) == nullptr;
  if (!start.known || unknown || (absent && create) || !is_lost(why)) {
    Failure failure = refusal(index, path, why);
    if (unknown && !create) failure.text += "; --create-targets makes the file";
    if (why.code() == Code::kNoSpace) {
      failure.text += " (it needs " + bytes_text(config.target_bytes) + ", --free-floor-bytes is " +
                      bytes_text(config.free_floor_bytes) + ")";
    }
    return failure;
  }
  target->lost = why;
  logf(LogLevel::kError, "main",
       "target %u %s IS LOST: %s%s; the node starts without it and its blocks are misses; bring it "
       "back and restart, or give a blank drive, or --create-targets for an empty file",
       index, path.c_str(), why.what(), errno_suffix(why.errno_value()).c_str());
  return {};
}

// Nothing is written yet, so that those that are there count this start together.
Failure look_at_all(const Start& start, std::vector<NodeTarget>* targets,
                    std::vector<flash::TargetLook>* looks) {
  for (uint32_t t = 0; t < start.config.targets; ++t) {
    const flash::TargetOptions options = target_options(start, t);
    NodeTarget target;
    target.info.path = options.file.path;
    const auto look = flash::look_target(options, start.identity.node_uuid);
    if (look) {
      looks->push_back(*look);
    } else if (Failure failure = take_refusal(start, t, look.error(), &target); !failure.ok()) {
      return failure;
    }
    targets->push_back(std::move(target));
  }
  return {};
}

Failure prepare_sound(const Start& start, const flash::CommonStart& common,
                      std::vector<NodeTarget>* targets) {
  for (uint32_t t = 0; t < targets->size(); ++t) {
    NodeTarget& target = (*targets)[t];
    if (!target.lost.ok()) continue;
    flash::TargetOptions options = target_options(start, t);
    options.geometry.slices = common.slices;
    options.boot_generation = common.boot_generation;
    Result<flash::TargetInfo> info =
        flash::prepare_target(options, start.identity.node_uuid, start.entropy);
    if (info) {
      target.info = *std::move(info);
      say_prepared(start, t, target.info);
    } else if (Failure failure = take_refusal(start, t, info.error(), &target); !failure.ok()) {
      return failure;
    }
  }
  return {};
}

// A lost target keeps its place: geometry of a sound one, its own identity where we know it.
void stand_in(const Start& start, const flash::TargetInfo& like, uint32_t index,
              NodeTarget* target) {
  const std::string path = target->info.path;
  target->info = like;
  target->info.path = path;
  target->info.formatted_now = false;
  flash::Superblock& super = target->info.super;
  super.target_index = index;
  std::memset(super.target_uuid, 0, sizeof(super.target_uuid));
  std::memcpy(super.target_uuid, &index, sizeof(index));
  if (const TargetRecord* record = start.record(index)) {
    std::memcpy(super.target_uuid, record->uuid, sizeof(record->uuid));
  }
}

Failure all_lost(const std::vector<NodeTarget>& targets) {
  Failure failure = refusal(0, targets.front().info.path, targets.front().lost);
  failure.text = "all targets of this node are lost; the first: " + failure.text;
  return failure;
}

Failure fill_lost(const Start& start, std::vector<NodeTarget>* targets) {
  const auto sound = std::find_if(targets->begin(), targets->end(),
                                  [](const NodeTarget& target) { return target.lost.ok(); });
  if (sound == targets->end()) return all_lost(*targets);
  const flash::TargetInfo like = sound->info;
  for (uint32_t t = 0; t < targets->size(); ++t) {
    if (!(*targets)[t].lost.ok()) stand_in(start, like, t, &(*targets)[t]);
  }
  return {};
}

// Sound ones as they are now; lost ones and those beyond --targets as they were.
Failure keep_records(const Start& start, const std::vector<NodeTarget>& targets) {
  std::vector<TargetRecord> records;
  for (uint32_t t = 0; t < targets.size(); ++t) {
    const flash::Superblock& super = targets[t].info.super;
    TargetRecord record{t, {}, super.capacity_bytes, targets[t].info.path};
    std::memcpy(record.uuid, super.target_uuid, sizeof(record.uuid));
    if (targets[t].lost.ok()) {
      records.push_back(record);
    } else if (const TargetRecord* before = start.record(t)) {
      records.push_back(*before);
    }
  }
  for (const TargetRecord& before : start.records) {
    if (before.index >= targets.size()) records.push_back(before);
  }
  return save_records(start.config.data_dir, records);
}

void say_unused(const Start& start) {
  const ServerConfig& config = start.config;
  const uint32_t used = config.target_paths.empty() ? config.targets : 0;
  const std::vector<std::string> unused = unused_targets(config.data_dir, used);
  if (unused.empty()) return;
  logf(LogLevel::kWarn, "main",
       "%zu target files in %s are not used by these settings (%s ...): their blocks are misses; "
       "--targets is %u",
       unused.size(), config.data_dir.c_str(), unused.front().c_str(), config.targets);
}

}  // namespace

bool is_lost(Status status) {
  const int32_t error = status.errno_value();
  if (status.code() == Code::kIo || status.code() == Code::kCorrupt) return true;
  return status.code() == Code::kUnavailable &&
         (error == ENOENT || error == ENODEV || error == ENXIO);
}

Failure refusal(uint32_t index, const std::string& path, Status why) {
  VARVE_ASSERT(!why.ok());
  const bool process = why.code() == Code::kOverloaded;  // descriptors: not the target's fault
  return {process ? kExitEnvironment : kExitTargetRefused,
          "target " + std::to_string(index) + ", " + path + ", is refused and left as it is (" +
              code_name(why.code()) + "): " + why.what() + errno_suffix(why.errno_value())};
}

Failure prepare_targets(const ServerConfig& config, const Identity& identity, Entropy& entropy,
                        std::vector<NodeTarget>* targets) {
  VARVE_ASSERT(targets != nullptr && targets->empty());
  Start start{config, identity, entropy, {}, false};
  Failure failure = load_records(config.data_dir, &start.records, &start.known);
  std::vector<flash::TargetLook> looks;
  if (failure.ok()) failure = look_at_all(start, targets, &looks);
  if (!failure.ok()) return failure;
  if (looks.empty()) return all_lost(*targets);
  const Result<flash::CommonStart> common = flash::common_start(looks, config.shards);
  if (!common) return {kExitTargetRefused, std::string("targets: ") + common.error().what()};
  failure = prepare_sound(start, *common, targets);
  if (failure.ok()) failure = fill_lost(start, targets);
  if (failure.ok()) failure = keep_records(start, *targets);
  if (failure.ok()) say_unused(start);
  return failure;
}

}  // namespace varve
