// Superblocks: format a blank target, open one of ours, refuse everything else by name, untouched.
// One procedure over three calls (read, write, flush), so files and simulated platters agree.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "server/flash/catalog.h"
#include "server/flash/flash.h"
#include "server/flash/generation.h"
#include "server/flash/page_store.h"
#include "server/flash/segment.h"

namespace varve::flash {

namespace {

enum class Found : uint8_t { kNothing, kDamaged, kNewer, kValid };

Found look(ConstByteSpan page, Superblock* super) {
  *super = load<Superblock>(page);
  if (super->magic != kSuperblockMagic) return Found::kNothing;
  if (super->version > kFormatVersion) return Found::kNewer;
  if (super->version != kFormatVersion || super->crc != superblock_crc(*super))
    return Found::kDamaged;
  return Found::kValid;
}

Status write_super(PageStore& head, PageMemory& page, const Superblock& super, uint32_t at) {
  VARVE_ASSERT(at < 2 && super.write_count > 0);
  Superblock sealed = super;
  sealed.crc = superblock_crc(super);
  store(page.span(0, 1), 0, sealed);
  VARVE_RETURN_IF_ERROR(head.write(bytes_of(at), page.span(0, 1)));
  return head.flush();
}

Result<TargetInfo> format(PageStore& head, PageMemory& memory, const TargetOptions& options,
                          const std::byte (&node_uuid)[16], Entropy& entropy) {
  VARVE_TRY(const TargetGeometry g, choose_geometry(head.capacity_bytes(), options.geometry));
  TargetInfo info;
  info.path = options.file.path;
  info.formatted_now = true;
  Superblock& super = info.super;
  super.write_count = 1;
  entropy.fill({super.target_uuid, 16});
  if (!all_zero(options.uuid)) std::memcpy(super.target_uuid, options.uuid, 16);
  std::memcpy(super.node_uuid, node_uuid, 16);
  super.capacity_bytes = head.capacity_bytes() / kPageBytes * kPageBytes;
  super.slices = g.slices;
  super.segment_pages = g.segment_pages;
  super.segments_per_slice = g.segments;
  super.checkpoint_pages = g.checkpoint_pages;
  super.k = static_cast<uint8_t>(options.geometry.scheme.k);
  super.m = static_cast<uint8_t>(options.geometry.scheme.m);
  super.geometry_hash = geometry_hash(super);
  super.boot_generation = std::max(1u, options.boot_generation);
  super.target_index = options.index;
  rows_set(super, options.generations);
  VARVE_RETURN_IF_ERROR(write_super(head, memory, super, 0));
  VARVE_ASSERT(geometry_of(super).has_value());  // what is formatted can be opened
  super.write_count = 2;
  VARVE_RETURN_IF_ERROR(write_super(head, memory, super, 1));
  return info;
}

// The text of a Status is a literal.
Status other_scheme(Scheme scheme) {
  static constexpr const char* kTexts[] = {
      "target was formatted for another scheme; start with --scheme 1+0",
      "target was formatted for another scheme; start with --scheme 1+1",
      "target was formatted for another scheme; start with --scheme 2+1",
      "target was formatted for another scheme; start with --scheme 3+1",
      "target was formatted for another scheme; start with --scheme 4+1",
      "target was formatted for another scheme; start with --scheme 4+2",
      "target was formatted for another scheme; start with --scheme 5+2",
      "target was formatted for another scheme; start with --scheme 8+3",
  };
  static_assert(std::size(kTexts) == kSchemes.size());
  for (size_t i = 0; i < kSchemes.size(); ++i) {
    if (kSchemes[i] == scheme) return Status::invalid(kTexts[i]);
  }
  return Status::unsupported("target was formatted for a scheme that this version does not know");
}

// Where segments are must be what it was: nothing is written where a stranger's bytes may lie.
Status check_ours(const PageStore& head, const Superblock& super, const TargetOptions& options,
                  const std::byte (&node_uuid)[16]) {
  if (std::memcmp(super.node_uuid, node_uuid, 16) != 0) {
    return Status::invalid("target belongs to another node; use the data folder it came from");
  }
  if (super.target_index != options.index) {
    return Status::invalid(
        "target has another index in this node; restore the order of targets, and name none twice, "
        "by a link or otherwise");
  }
  VARVE_TRY(const TargetGeometry g, geometry_of(super));
  if (Scheme{super.k, super.m} != options.geometry.scheme) {
    return other_scheme({super.k, super.m});
  }
  if (options.geometry.slices != 0 && g.slices != options.geometry.slices) {
    return Status::invalid("target was formatted with another number of slices");
  }
  if (options.geometry.segment_pages != 0 && g.segment_pages != options.geometry.segment_pages) {
    return Status::invalid("target was formatted with another segment size");
  }
  if (head.capacity_bytes() < super.capacity_bytes) {
    return Status::io("target is smaller than when it was formatted", 0);
  }
  if (super.generation_count > kGenerationsMax) {
    return Status::corrupt("superblock: too many generations");
  }
  const Generations rows = rows_of(super);
  for (const DomainGeneration& row : rows) {
    const auto alike = std::count_if(rows.begin(), rows.end(), [&](const DomainGeneration& other) {
      return other.domain == row.domain && other.lineage == row.lineage;
    });
    const bool sound = row.domain != 0 && alike == 1 && row.domain_generation != ~0u &&
                       row.lineage_generation != ~0u;
    if (!sound) return Status::corrupt("superblock: generations that no node has written");
  }
  if (super.boot_generation == ~0u || super.write_count > kSequenceMax) {
    return Status::corrupt("superblock: its counts of starts and writes are used up");
  }
  return Status::ok_status();
}

// What lies in the first MiB. Blank: to be formatted; else `super` is the newest, at `page`.
struct Opened {
  bool blank = false;
  Superblock super;
  uint32_t page = 0;
};

Result<Opened> open_head(PageStore& head, PageMemory& memory, const TargetOptions& options,
                         const std::byte (&node_uuid)[16]) {
  VARVE_ASSERT(options.index < kTargetsMax, options.index);
  VARVE_ASSERT(memory.pages() == kHeadPages);
  if (head.capacity_bytes() <= bytes_of(kHeadPages)) {
    return Status::io("cut short, under 1 MiB; bring back what it held, or remove it", 0);
  }
  const ByteSpan first = memory.span(0, kHeadPages);
  VARVE_RETURN_IF_ERROR(head.read(0, first));
  Superblock super[2];
  const Found found[2] = {look(memory.span(0, 1), &super[0]), look(memory.span(1, 1), &super[1])};
  if (found[0] == Found::kNewer || found[1] == Found::kNewer) {
    return Status::unsupported("target was written by a newer version of Varve");
  }
  Opened opened;
  if (found[0] != Found::kValid && found[1] != Found::kValid) {
    opened.blank = true;
    if (all_zero(first)) return opened;
    if (found[0] == Found::kNothing && found[1] == Found::kNothing) {
      return Status::invalid("target holds foreign data; erase its first MiB to use it");
    }
    // A format that did not finish leaves one damaged page and zeros (FORMAT 5.2).
    const uint32_t damaged = found[0] == Found::kDamaged ? 0 : 1;
    const bool rest_zero =
        all_zero(memory.span(1 - damaged, 1)) && all_zero(memory.span(2, kHeadPages - 2));
    if (rest_zero) return opened;
    return Status::corrupt("both superblocks are damaged");
  }
  opened.page = found[0] == Found::kValid ? 0 : 1;
  if (found[0] == Found::kValid && found[1] == Found::kValid &&
      super[1].write_count > super[0].write_count) {
    opened.page = 1;
  }
  opened.super = super[opened.page];
  VARVE_RETURN_IF_ERROR(check_ours(head, opened.super, options, node_uuid));
  return opened;
}

// A write that finds the file system full costs the whole target. One with holes and no room for
// them is not formatted; one that holds blocks already is read, and goes on as long as it can.
Status fill_holes(PageStore& head, const TargetOptions& options, bool anew) {
  if (options.holes_stay) return {};
  const Status filled = head.fill_holes(options.file.free_floor_bytes);
  if (filled.ok()) return filled;
  if (anew && filled.code() != Code::kUnsupported) return filled;
  logf(LogLevel::kWarn, "flash",
       "target %s: %s (errno %d): WHEN ITS FILE SYSTEM IS FULL THE WHOLE TARGET FAILS until space "
       "is freed and the node restarted",
       options.file.path.c_str(), filled.what(), filled.errno_value());
  return Status();
}

Status too_many_generations() {
  return Status::corrupt("generations of more domains than a node can have had");
}

Result<TargetInfo> prepare(PageStore& head, const TargetOptions& options,
                           const std::byte (&node_uuid)[16], Entropy& entropy) {
  PageMemory memory(kHeadPages);
  VARVE_TRY(const Opened opened, open_head(head, memory, options, node_uuid));
  if (options.blank_only && !opened.blank) return Status::invalid("it is not blank any more");
  const bool anew = opened.blank || options.anew;
  VARVE_RETURN_IF_ERROR(fill_holes(head, options, anew));
  if (anew) return format(head, memory, options, node_uuid, entropy);
  TargetInfo info;
  info.path = options.file.path;
  info.super = opened.super;
  info.super.write_count += 1;
  info.super.boot_generation += 1;
  if (options.boot_generation != 0) {
    if (options.boot_generation < info.super.boot_generation) {
      return Status::invalid("target had a later start than this one: look at all targets first");
    }
    info.super.boot_generation = options.boot_generation;
  }
  const Generations rows = merged(kept(rows_of(info.super), options.domains),
                                  kept(options.generations, options.domains));
  if (rows.size() > kGenerationsMax) return too_many_generations();
  rows_set(info.super, rows);
  info.super_page = 1 - opened.page;
  VARVE_ASSERT(opened.page < 2 && info.super.boot_generation > opened.super.boot_generation);
  VARVE_RETURN_IF_ERROR(write_super(head, memory, info.super, info.super_page));
  return info;
}

Result<TargetLook> look_at(PageStore& head, const TargetOptions& options,
                           const std::byte (&node_uuid)[16]) {
  PageMemory memory(kHeadPages);
  VARVE_TRY(const Opened opened, open_head(head, memory, options, node_uuid));
  TargetLook seen;
  seen.index = options.index;
  seen.blank = opened.blank || options.anew;
  std::memcpy(seen.target_uuid, opened.super.target_uuid, sizeof(seen.target_uuid));
  seen.boot_generation = opened.super.boot_generation;
  seen.slices = opened.super.slices;
  seen.capacity_bytes = head.capacity_bytes();
  seen.generations = rows_of(opened.super);
  return seen;
}

}  // namespace

Result<uint32_t> fragment_pages_max(uint64_t capacity_bytes, const Geometry& geometry) {
  VARVE_TRY(const TargetGeometry g, choose_geometry(capacity_bytes, geometry));
  return g.fragment_pages_max();
}

bool is_lost(Status status) {
  const int32_t error = status.errno_value();
  if (status.code() == Code::kIo || status.code() == Code::kCorrupt) return true;
  return status.code() == Code::kUnavailable &&
         (error == ENOENT || error == ENODEV || error == ENXIO);
}

Result<TargetLook> look_target(const TargetOptions& options, const std::byte (&node_uuid)[16]) {
  VARVE_TRY(const std::unique_ptr<FileHandle> file, FileHandle::open(options.file));
  FileStore head(*file);
  return look_at(head, options, node_uuid);
}

Result<TargetLook> look_platter(MemoryPlatter& platter, const TargetOptions& options,
                                const std::byte (&node_uuid)[16]) {
  PlatterStore head(platter);
  return look_at(head, options, node_uuid);
}

namespace {

// Nobody asked for its end: who finds it gone is to know why.
void say_raised(std::span<const TargetLook> looks, const Generations& common) {
  for (const DomainGeneration& row : common) {
    uint32_t before = 0;
    for (const TargetLook& seen : looks)
      before = std::max(before, domain_generation(seen.generations, row.domain));
    if (row.lineage != 0 || row.domain_generation <= before) continue;
    logf(LogLevel::kError, "flash",
         "the targets together know of more purges than there is room for: ALL OF THE DOMAIN OF ID "
         "%u IS GIVEN UP, so that nothing that was purged comes back",
         row.domain);
  }
}

}  // namespace

Result<CommonStart> common_start(std::span<const TargetLook> looks, uint32_t slices_min,
                                 const DomainIds& domains) {
  if (looks.empty()) return Status::invalid("no target at all");
  CommonStart start;
  uint64_t blank_bytes = ~uint64_t{0};
  for (const TargetLook& seen : looks) {
    start.boot_generation = std::max(start.boot_generation, seen.boot_generation);
    start.generations = merged(start.generations, kept(seen.generations, domains));
    if (start.generations.size() > kGenerationsMax) return too_many_generations();
    if (seen.blank) {
      blank_bytes = std::min(blank_bytes, seen.capacity_bytes);
    } else if (start.slices == 0) {
      start.slices = seen.slices;
    } else if (start.slices != seen.slices) {
      return Status::invalid("targets with different numbers of slices");
    }
  }
  say_raised(looks, start.generations);
  VARVE_ASSERT(start.boot_generation != ~0u);  // check_ours() left room for one more
  ++start.boot_generation;
  if (start.slices == 0) start.slices = choose_slices(blank_bytes, slices_min);
  return start;
}

Result<TargetInfo> prepare_target(const TargetOptions& options, const std::byte (&node_uuid)[16],
                                  Entropy& entropy) {
  VARVE_TRY(const std::unique_ptr<FileHandle> file, FileHandle::open(options.file));
  FileStore head(*file);
  Result<TargetInfo> info = prepare(head, options, node_uuid, entropy);
  if (info.has_value()) info->is_block_device = file->is_block_device();
  return info;
}

Result<TargetInfo> prepare_platter(MemoryPlatter& platter, const TargetOptions& options,
                                   const std::byte (&node_uuid)[16], Entropy& entropy) {
  PlatterStore head(platter);
  return prepare(head, options, node_uuid, entropy);
}

}  // namespace varve::flash
