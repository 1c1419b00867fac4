// Blank or refused: what holds something is somebody's, also where it is this node's (I12).
#include "server/node/newcomer.h"

#include <cstring>

namespace varve {

namespace {

// Of this node, but not blank: it was in this place, or in that of another.
Failure not_blank(const Newcomer& newcomer, const flash::TargetLook& seen) {
  const flash::TargetInfo& old = newcomer.old.info;
  const bool is_old =
      std::memcmp(seen.target_uuid, old.super.target_uuid, sizeof(seen.target_uuid)) == 0;
  Failure failure = refusal(
      newcomer.index, old.path,
      Status::invalid(is_old ? "it is the one to be replaced" : "it is one that this node had"));
  failure.text += ", with uuid " + to_hex(seen.target_uuid) +
                  "; put a blank drive there, or erase the first MiB of this one to use it as a "
                  "blank one";
  return failure;
}

Failure too_small(const Newcomer& newcomer, uint64_t capacity_bytes, uint32_t fragment_pages) {
  Failure failure = refusal(newcomer.index, newcomer.old.info.path,
                            Status::invalid("it is too small for the blocks of this node"));
  failure.text += ": with " + bytes_text(capacity_bytes) + " its largest fragment would have " +
                  std::to_string(fragment_pages) + " pages, those of the others have up to " +
                  std::to_string(newcomer.fragment_pages) + "; give a larger one";
  return failure;
}

}  // namespace

// A file is made for a target of the data folder only: a path that was given is that of a drive,
// and where nothing is there it is not mounted, or not plugged in.
flash::TargetOptions Newcomer::options() const {
  const flash::Superblock& super = old.info.super;
  flash::TargetOptions options;
  options.file = {old.info.path, config.target_paths.empty() ? super.capacity_bytes : 0,
                  config.free_floor_bytes};
  options.index = index;
  options.geometry.scheme = config.scheme;
  options.geometry.slices = super.slices;
  options.boot_generation = super.boot_generation;
  return options;
}

Failure look_newcomer(const Newcomer& newcomer, uint64_t* capacity_bytes, bool* resumes) {
  VARVE_ASSERT(capacity_bytes != nullptr && resumes != nullptr);
  *resumes = false;
  const flash::TargetOptions options = newcomer.options();
  const auto seen = flash::look_target(options, newcomer.identity.node_uuid);
  if (!seen) return refusal(newcomer.index, options.file.path, seen.error());
  *capacity_bytes = seen->capacity_bytes / kPageBytes * kPageBytes;
  if (!seen->blank) {
    const std::optional<flash::TargetInfo>& coming = newcomer.old.coming;
    *resumes = coming && std::memcmp(coming->super.target_uuid, seen->target_uuid,
                                     sizeof(seen->target_uuid)) == 0;
    return *resumes ? Failure{} : not_blank(newcomer, *seen);
  }
  const auto pages = flash::fragment_pages_max(*capacity_bytes, options.geometry);
  if (!pages) return refusal(newcomer.index, options.file.path, pages.error());
  if (*pages < newcomer.fragment_pages) return too_small(newcomer, *capacity_bytes, *pages);
  return {};
}

// The generation of this start is the old one's too: were it the list's any longer, a start would
// take the old one for a target that one before it made and did not come to write down.
Failure keep_newcomer(const Newcomer& newcomer, const std::byte (&uuid)[16],
                      uint64_t capacity_bytes, flash::Witness* witness) {
  VARVE_ASSERT(witness != nullptr);
  TargetList list;
  Failure failure = reload_records(newcomer.config.data_dir, &list);
  if (!failure.ok()) return failure;
  const uint32_t start = newcomer.old.info.super.boot_generation;
  *witness = {.from = start + 1, .missed = {{start, 0}}};
  TargetRecord record{newcomer.index, {}, capacity_bytes, absolute(newcomer.old.info.path)};
  std::memcpy(record.uuid, uuid, sizeof(record.uuid));
  note_witness(*witness, &record);
  std::erase_if(list.records,
                [&](const TargetRecord& other) { return other.index == newcomer.index; });
  list.records.push_back(std::move(record));
  list.boot_generation = std::max(list.boot_generation, start + 1);
  return save_records(newcomer.config.data_dir, list);
}

Failure format_newcomer(const Newcomer& newcomer, const std::byte (&uuid)[16],
                        const flash::Generations& generations, Entropy& entropy,
                        flash::TargetInfo* info) {
  VARVE_ASSERT(info != nullptr);
  flash::TargetOptions options = newcomer.options();
  options.generations = generations;
  options.blank_only = true;  // another one may have been put there since
  std::memcpy(options.uuid, uuid, sizeof(options.uuid));
  auto made = flash::prepare_target(options, newcomer.identity.node_uuid, entropy);
  if (!made) return refusal(newcomer.index, options.file.path, made.error());
  *info = *std::move(made);
  return {};
}

}  // namespace varve
