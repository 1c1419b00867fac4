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
  TargetList before;   // as the last start left it
  bool known = false;  // the node finished a start before
  uint32_t anew = 0;   // bit t: target t was drained and is to be used again

  const TargetRecord* record(uint32_t index) const {
    for (const TargetRecord& record : before.records) {
      if (record.index == index) return &record;
    }
    return nullptr;
  }
};

flash::DomainIds domains_of(const Identity& identity) {
  if (identity.domain_ids.empty()) return {};
  return {identity.domain_ids, identity.domain_id_last, identity.domain_starts};
}

// A file is made for a node that is new, for a further target in the data folder, or when asked.
bool may_create(const Start& start, uint32_t index) {
  if (start.config.create_targets || !start.known) return true;
  return start.config.target_paths.empty() && start.record(index) == nullptr;
}

void say_prepared(const Start& start, uint32_t index, const flash::TargetInfo& info) {
  const flash::Superblock& super = info.super;
  const uint64_t mib = super.capacity_bytes / kMiB;
  const bool replaced =
      info.formatted_now && start.record(index) != nullptr && !start.record(index)->drained;
  logf(replaced ? LogLevel::kWarn : LogLevel::kInfo, "main",
       "target %u %s: %s%s, uuid %s, %" PRIu64 " MiB, boot generation %u", index, info.path.c_str(),
       info.formatted_now ? "formatted" : "adopted",
       (start.anew >> index & 1) != 0 ? " anew, because it was drained"
       : replaced ? " in the place of one that this node had (what lay there is lost)"
                  : "",
       to_hex(super.target_uuid).c_str(), mib, super.boot_generation);
  const ServerConfig& config = start.config;
  const bool size_given = config.is_given("--target-bytes");
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
  options.geometry.scheme = config.scheme;
  options.domains = domains_of(start.identity);
  options.anew = (start.anew >> index & 1) != 0;
  return options;
}

// A path that was given, where nothing is, and where this target never was: mistyped, not lost.
bool is_misnamed(const Start& start, uint32_t index) {
  const TargetRecord* record = start.record(index);
  if (start.config.target_paths.empty() || record == nullptr) return false;
  return !same_place(start.config.target_path(index), record->path);
}

// What a target that cannot be used means: its own loss, or the end of the start.
Failure take_refusal(const Start& start, uint32_t index, Status why, NodeTarget* target) {
  const ServerConfig& config = start.config;
  const std::string path = config.target_path(index);
  const bool create = may_create(start, index);
  // What could not be made, and what never was there, is a mistake and no loss.
  const bool absent = !exists(path);
  const bool unknown = absent && start.record(index) == nullptr;
  if (absent && !create && is_misnamed(start, index)) {
    Failure failure = refusal(index, path, why);
    failure.text += "; this node had it at " + start.record(index)->path +
                    ": correct --target, or give that path to start without it";
    return failure;
  }
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
       "target %u %s IS LOST: %s%s; the node starts without it, and what parity does not cover of "
       "it is a miss; bring it back and restart, or give a blank drive, or --create-targets for an "
       "empty file",
       index, path.c_str(), why.what(), errno_suffix(why.errno_value()).c_str());
  return {};
}

bool is_recorded(const TargetRecord* record, const flash::TargetLook& seen) {
  return record != nullptr && !seen.blank &&
         std::memcmp(record->uuid, seen.target_uuid, sizeof(record->uuid)) == 0;
}

// Whether the operator drains it, and not one that was in its place.
bool is_kept_draining(const Start& start, uint32_t index, const Result<flash::TargetLook>& look) {
  const TargetRecord* record = start.record(index);
  return record != nullptr && record->draining && (!look || is_recorded(record, *look));
}

// Whether this is the one that was drained, and not another in its place.
bool was_drained(const Start& start, const flash::TargetLook& seen) {
  const TargetRecord* record = start.record(seen.index);
  return is_recorded(record, seen) && record->drained;
}

// One that was replaced here, drained or not, knows of no purge since, and no record names it. One
// of the generation in the list was made by a start that ended before it could write it down.
Failure refuse_replaced(const Start& start, const flash::TargetLook& seen) {
  const TargetRecord* record = start.record(seen.index);
  if (record == nullptr || seen.blank || is_recorded(record, seen)) return {};
  if (seen.boot_generation >= start.before.boot_generation) return {};
  Failure failure = refusal(seen.index, start.config.target_path(seen.index),
                            Status::invalid("this node has another one in its place"));
  failure.text += ", with uuid " + to_hex(record->uuid) + " at " + record->path +
                  "; this one has uuid " + to_hex(seen.target_uuid) + ", took part in start " +
                  std::to_string(seen.boot_generation) + " of " +
                  std::to_string(start.before.boot_generation) +
                  ", and would bring back what was purged since. Give that one, or erase the "
                  "first MiB of this one to use it as a blank one";
  return failure;
}

// Whether nobody misses what is not there: it was drained, and nothing is to be made in its place.
bool is_left_out(const Start& start, uint32_t index, Status why) {
  const TargetRecord* record = start.record(index);
  return record != nullptr && record->drained && is_lost(why) && !is_misnamed(start, index) &&
         !may_create(start, index);
}

flash::Witness witness_of(const TargetRecord& record) {
  flash::Witness witness{.from = record.from};
  for (const MissedStarts& missed : record.missed)
    witness.missed.push_back({missed.first, missed.end});
  return witness;
}

// It counted every start that served with it: what counts fewer, and was not away, is a copy of
// then that was put back.
bool is_older_copy(const Start& start, const flash::TargetLook& seen) {
  const TargetRecord* record = start.record(seen.index);
  if (!is_recorded(record, seen) || record->drained) return false;
  if (seen.boot_generation >= start.before.served) return false;
  return flash::knows(witness_of(*record), start.before.served);
}

// One that the list does not know was made by a start that could not write it down, and is as young
// as that.
flash::Witness witness_of(const Start& start, const flash::TargetLook& seen) {
  const TargetRecord* record = start.record(seen.index);
  if (is_recorded(record, seen)) {
    flash::Witness witness = witness_of(*record);
    if (is_older_copy(start, seen)) flash::forget_since(witness, seen.boot_generation);
    return witness;
  }
  return {.from = start.known ? seen.boot_generation : 0};
}

void say_older(const Start& start, const flash::TargetLook& seen) {
  if (!is_older_copy(start, seen)) return;
  logf(LogLevel::kWarn, "main",
       "target %u %s IS AS IT WAS IN START %u, and took part in start %u: a copy of before was put "
       "back. What was pushed since is not on it, and what was purged since is known only to the "
       "others",
       seen.index, start.config.target_path(seen.index).c_str(), seen.boot_generation,
       start.before.served);
}

// Nothing is written yet, so that those that are there count this start together.
Failure look_at_all(Start& start, std::vector<NodeTarget>* targets,
                    std::vector<flash::TargetLook>* looks) {
  for (uint32_t t = 0; t < start.config.targets; ++t) {
    const flash::TargetOptions options = target_options(start, t);
    NodeTarget target;
    target.info.path = options.file.path;
    target.drain_set = start.config.drains(t);
    auto look = flash::look_target(options, start.identity.node_uuid);
    target.drain_kept = is_kept_draining(start, t, look);
    target.draining = target.drain_set || target.drain_kept;
    if (look) {
      if (Failure failure = refuse_replaced(start, *look); !failure.ok()) return failure;
      look->witness = target.witness = witness_of(start, *look);
      say_older(start, *look);
    }
    if (look && was_drained(start, *look)) {
      target.drained = target.draining;
      if (!target.drained) start.anew |= 1u << t;  // purges since then are not known to it
      look->blank = true;
    }
    target.drained = target.drained || (!look && is_left_out(start, t, look.error()));
    if (target.drained) {
      target.lost = Status::unavailable("it was drained");
    } else if (look) {
      looks->push_back(*look);
    } else if (Failure failure = take_refusal(start, t, look.error(), &target); !failure.ok()) {
      return failure;
    }
    targets->push_back(std::move(target));
  }
  return {};
}

std::string sliced(const std::string& path, uint32_t slices) {
  return path + " with " + std::to_string(slices) + " slices";
}

Failure different_slices(const Start& start, const flash::TargetLook& one,
                         const flash::TargetLook& other) {
  VARVE_ASSERT(one.slices != other.slices && one.index != other.index);
  return {
      kExitTargetRefused,
      "targets " + std::to_string(one.index) + " and " + std::to_string(other.index) +
          " do not belong together: " + sliced(start.config.target_path(one.index), one.slices) +
          ", " + sliced(start.config.target_path(other.index), other.slices) +
          "; they are left as they are. Give up one of them by a blank drive in its place"};
}

Failure different_slices_before(const Start& start, const flash::TargetLook& one) {
  VARVE_ASSERT(one.slices != start.before.slices);
  std::string others;
  for (const TargetRecord& record : start.before.records) {
    if (record.index != one.index) others += (others.empty() ? "" : ", ") + record.path;
  }
  return {kExitTargetRefused, "target " + std::to_string(one.index) + ", " +
                                  sliced(start.config.target_path(one.index), one.slices) +
                                  ", does not belong to the other targets of this node (" +
                                  (others.empty() ? "none" : others) + "), which have " +
                                  std::to_string(start.before.slices) +
                                  "; it is left as it is. Give a blank drive"};
}

// Those that are there were looked at: it is one that is away, or there is a blank one only.
Failure different_scheme_before(const Start& start) {
  VARVE_ASSERT(start.before.scheme != start.config.scheme);
  const std::string before = start.before.scheme.text();
  return {kExitTargetRefused, "the targets of this node have the scheme " + before +
                                  ", --scheme is " + start.config.scheme.text() +
                                  "; they are left as they are. Start with --scheme " + before};
}

flash::Generations generations_of(const TargetList& list) {
  flash::Generations rows;
  for (const PurgedRecord& row : list.purged) {
    rows.push_back({.domain = row.domain,
                    .domain_generation = row.domain_generation,
                    .lineage = row.lineage,
                    .lineage_generation = row.lineage_generation});
  }
  return rows;
}

std::vector<PurgedRecord> purged_of(const flash::Generations& rows) {
  std::vector<PurgedRecord> purged;
  for (const flash::DomainGeneration& row : rows)
    purged.push_back({row.domain, row.domain_generation, row.lineage, row.lineage_generation});
  return purged;
}

// Of the targets that are not here those that know what was purged in that start.
std::string speakers(const Start& start, const std::vector<flash::TargetLook>& looks,
                     uint32_t missed_start) {
  std::string paths;
  for (const TargetRecord& record : start.before.records) {
    const bool here = std::any_of(looks.begin(), looks.end(), [&](const flash::TargetLook& seen) {
      return seen.index == record.index;
    });
    if (here || record.drained) continue;
    if (!flash::knows(witness_of(record), missed_start)) continue;
    paths += (paths.empty() ? "" : ", ") + record.path;
  }
  return paths;
}

// Of those that are not lost (any more): what was purged without all of them must not come back,
// unless the operator says so, and from then on they are the ones that know.
Failure refuse_stale(const Start& start, std::vector<NodeTarget>* targets,
                     std::vector<flash::TargetLook>* looks) {
  std::erase_if(*looks, [&](const auto& seen) { return !(*targets)[seen.index].lost.ok(); });
  std::string here, others;
  for (const flash::Stale& stale : flash::stale_ones(*looks)) {
    here += (here.empty() ? "" : ", ") + (*targets)[stale.target].info.path;
    if (others.empty()) others = speakers(start, *looks, stale.start);
    for (flash::TargetLook& seen : *looks) {
      if (seen.index == stale.target) seen.witness.missed.clear();
    }
    (*targets)[stale.target].witness.missed.clear();
  }
  if (here.empty()) return {};
  const std::string what = "STALE: " + here +
                           " missed purges, or may have, while this node ran without, and no "
                           "target is here that knows of them";
  if (!start.config.accept_stale) {
    return {kExitTargetRefused,
            what + ": blocks that were purged would come back. Give " +
                (others.empty() ? "" : "one of those that do (" + others + "), or give ") +
                "blank ones (erase the first MiB), or take that risk once with --accept-stale"};
  }
  logf(LogLevel::kError, "main",
       "%s. ACCEPTED BY --accept-stale: BLOCKS THAT WERE PURGED MAY COME BACK, of any lineage or "
       "id; purge again what must be gone, and leave the option out from now on",
       what.c_str());
  return {};
}

// What this start has in common for all targets, those that are away included: their list is one
// more look at them (I3). It is durable before the first of them counts this start.
Failure agree(const Start& start, const std::vector<flash::TargetLook>& looks,
              flash::CommonStart* common) {
  std::vector<flash::TargetLook> all = looks;
  const flash::TargetLook* first = nullptr;
  bool all_blank = looks.size() == start.config.targets;
  for (const flash::TargetLook& seen : looks) {
    if (seen.blank) continue;
    all_blank = false;
    if (first == nullptr) first = &seen;
    if (first->slices == seen.slices) continue;
    return different_slices(start, *first, seen);
  }
  for (const TargetRecord& record : start.before.records)
    all_blank = all_blank && record.index < start.config.targets;
  const TargetList& before = start.before;
  if (first != nullptr && before.slices != 0 && before.slices != first->slices) {
    return different_slices_before(start, *first);
  }
  flash::TargetLook list;
  list.boot_generation = before.boot_generation;
  // Nothing of a domain is older than it, also where its list is a copy and all else was lost.
  for (const uint32_t made : start.identity.domain_starts)
    list.boot_generation = std::max(list.boot_generation, made);
  list.slices = before.slices;
  // Of targets that are all new nothing is left that the old slices and scheme would bind.
  list.blank = before.slices == 0 || all_blank;
  if (!list.blank && before.scheme != start.config.scheme) return different_scheme_before(start);
  list.capacity_bytes = ~uint64_t{0};
  list.generations = generations_of(before);
  all.push_back(list);
  const Result<flash::CommonStart> agreed =
      flash::common_start(all, start.config.shards, domains_of(start.identity));
  if (!agreed) return {kExitTargetRefused, std::string("targets: ") + agreed.error().what()};
  *common = *agreed;
  VARVE_ASSERT(common->boot_generation > before.boot_generation);
  return save_records(
      start.config.data_dir,
      {common->boot_generation, common->slices, start.config.scheme, before.records,
       purged_of(common->generations), salt_mark(start.identity.domain_salt), before.served,
       start.identity.domain_id_last, start.identity.domain_changes, start.before.domain_id_seen});
}

Failure prepare_sound(const Start& start, const flash::CommonStart& common,
                      std::vector<NodeTarget>* targets) {
  for (uint32_t t = 0; t < targets->size(); ++t) {
    NodeTarget& target = (*targets)[t];
    if (!target.lost.ok()) continue;
    flash::TargetOptions options = target_options(start, t);
    options.geometry.slices = common.slices;
    options.boot_generation = common.boot_generation;
    options.generations = common.generations;
    Result<flash::TargetInfo> info =
        flash::prepare_target(options, start.identity.node_uuid, start.entropy);
    if (info) {
      target.info = *std::move(info);
      if (target.info.formatted_now) target.witness = {.from = common.boot_generation};
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
    NodeTarget& target = (*targets)[t];
    if (target.lost.ok()) continue;
    stand_in(start, like, t, &target);
  }
  return {};
}

// Sound ones as they are now; lost ones and those beyond --targets as they were, but that they miss
// what is purged from now on.
Failure keep_records(const Start& start, const flash::CommonStart& common,
                     std::vector<NodeTarget>* list) {
  std::vector<NodeTarget>& targets = *list;
  std::vector<TargetRecord> records;
  for (uint32_t t = 0; t < targets.size(); ++t) {
    const flash::Superblock& super = targets[t].info.super;
    TargetRecord record{t, {}, super.capacity_bytes, absolute(targets[t].info.path)};
    std::memcpy(record.uuid, super.target_uuid, sizeof(record.uuid));
    note_witness(targets[t].witness, &record);
    record.draining = targets[t].drain_kept;
    if (targets[t].lost.ok()) records.push_back(std::move(record));
  }
  for (const TargetRecord& before : start.before.records) {
    if (before.index < targets.size() && targets[before.index].lost.ok()) continue;
    records.push_back(before);
    TargetRecord& record = records.back();
    flash::Witness witness = witness_of(record);
    if (!record.drained) flash::begin_to_miss(witness, common.boot_generation);
    note_witness(witness, &record);
    if (record.index < targets.size()) targets[record.index].witness = std::move(witness);
  }
  return save_records(
      start.config.data_dir,
      {common.boot_generation, common.slices, start.config.scheme, std::move(records),
       purged_of(common.generations), salt_mark(start.identity.domain_salt), common.boot_generation,
       start.identity.domain_id_last, start.identity.domain_changes, start.before.domain_id_seen});
}

// Fewer sound targets than fragments of a block: what that costs is said once, and loudly.
void say_thin(const Scheme scheme, const std::vector<NodeTarget>& targets) {
  const auto sound = static_cast<uint32_t>(std::count_if(
      targets.begin(), targets.end(), [](const NodeTarget& target) { return target.lost.ok(); }));
  if (sound >= scheme.width()) return;
  const std::string scheme_text = scheme.text();
  if (sound < scheme.k) {
    logf(LogLevel::kError, "main",
         "ONLY %u OF %zu TARGETS WORK: blocks of scheme %s need %u, so nothing can be stored or "
         "read from flash; bring the others back and restart",
         sound, targets.size(), scheme_text.c_str(), scheme.k);
    return;
  }
  logf(LogLevel::kWarn, "main",
       "%u targets work, scheme %s wants %u: BLOCKS ARE STORED THIN, %u instead of %u of them "
       "may be lost; give this node %u targets",
       sound, scheme_text.c_str(), scheme.width(), sound - scheme.k, scheme.m, scheme.width());
}

// Which targets are being emptied or were, and whether there are others to take it.
void say_drains(const Scheme scheme, const std::vector<NodeTarget>& targets) {
  uint32_t draining = 0, left = 0;
  for (uint32_t t = 0; t < targets.size(); ++t) {
    const NodeTarget& target = targets[t];
    const bool drains = target.draining && target.lost.ok();
    draining += drains ? 1 : 0;
    left += target.lost.ok() && !drains ? 1 : 0;
    if (!target.draining && !target.drained) continue;
    const char* what =
        "cannot be drained, because it is lost; parity covers what it held, or it "
        "is gone";
    if (target.drained) {
      what = "was drained: nothing is on it and nobody misses it; its place is free for another";
    } else if (drains) {
      what =
          "IS BEING DRAINED: it takes nothing new, and what it holds is copied to the others; "
          "wait for the line that says that it may be removed";
    }
    logf(target.drained ? LogLevel::kInfo : LogLevel::kWarn, "main", "target %u %s %s", t,
         target.info.path.c_str(), what);
  }
  if (draining == 0 || left >= scheme.width()) return;
  logf(LogLevel::kError, "main",
       "NO TARGET CAN BE EMPTIED NOW: besides those being drained %u work, scheme %s wants %u; "
       "blocks stay where they are and are read from there, nothing is lost, but new ones are "
       "stored on the %u others only; bring targets back, give more, or leave --drain-target out",
       left, scheme.text().c_str(), scheme.width(), left);
}

void say_unused(const Start& start) {
  const ServerConfig& config = start.config;
  const uint32_t used = config.target_paths.empty() ? config.targets : 0;
  std::vector<std::string> unused = unused_targets(config.data_dir, used);
  for (const TargetRecord& record : start.before.records) {
    if (record.drained) std::erase(unused, "target-" + std::to_string(record.index) + ".dat");
  }
  if (unused.empty()) return;
  logf(LogLevel::kWarn, "main",
       "%zu target files in %s are not used by these settings (%s ...): what lies there is not "
       "read; "
       "--targets is %u",
       unused.size(), config.data_dir.c_str(), unused.front().c_str(), config.targets);
}

}  // namespace

void note_witness(const flash::Witness& witness, TargetRecord* record) {
  VARVE_ASSERT(record != nullptr);
  record->from = witness.from;
  record->missed.clear();
  for (const flash::Starts& missed : witness.missed)
    record->missed.push_back({missed.first, missed.end});
}

Failure refusal(uint32_t index, const std::string& path, Status why) {
  VARVE_ASSERT(!why.ok());
  const bool process = why.code() == Code::kOverloaded;  // descriptors: not the target's fault
  return {process ? kExitEnvironment : kExitTargetRefused,
          "target " + std::to_string(index) + ", " + path + ", is refused and left as it is (" +
              code_name(why.code()) + "): " + why.what() + errno_suffix(why.errno_value())};
}

uint32_t absent_targets(const TargetList& list, uint32_t used) {
  VARVE_ASSERT(used <= kTargetsMax, used);
  uint32_t absent = 0;
  for (const TargetRecord& record : list.records) {
    VARVE_ASSERT(record.index < kTargetsMax, record.index);
    if (record.index >= used && !record.drained) absent |= 1u << record.index;
  }
  return absent;
}

Failure prepare_targets(const ServerConfig& config, const Identity& identity, Entropy& entropy,
                        std::vector<NodeTarget>* targets) {
  VARVE_ASSERT(targets != nullptr && targets->empty());
  Start start{config, identity, entropy, {}, false};
  Failure failure = load_records(config.data_dir, &start.before);
  if (failure.ok()) failure = check_salt(config.data_dir, start.before, identity.domain_salt);
  start.known = !start.before.records.empty();
  std::vector<flash::TargetLook> looks;
  if (failure.ok()) failure = look_at_all(start, targets, &looks);
  if (!failure.ok()) return failure;
  if (looks.empty()) return all_lost(*targets);
  flash::CommonStart common;
  failure = refuse_stale(start, targets, &looks);
  if (failure.ok()) failure = agree(start, looks, &common);
  if (failure.ok()) failure = prepare_sound(start, common, targets);
  if (failure.ok()) failure = refuse_stale(start, targets, &looks);  // one may just have been lost
  if (failure.ok()) failure = fill_lost(start, targets);
  if (failure.ok()) failure = keep_records(start, common, targets);
  if (!failure.ok()) return failure;
  say_thin(config.scheme, *targets);
  say_drains(config.scheme, *targets);
  say_unused(start);
  return failure;
}

}  // namespace varve
