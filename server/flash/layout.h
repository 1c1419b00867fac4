// On-drive structs of a target (docs/FORMAT.md sections 5 to 9): little-endian, versioned, without
// padding.
//
//   target:   [superblock A][superblock B][zero to 1 MiB][slice 0][slice 1]...
//   slice:    [checkpoint A][checkpoint B][segment 0][segment 1]...
//   segment:  [segment header page][fragment | record]...[footer pages, the last one = trailer]
//   fragment: [header pages: FragmentHeader 256 B, ExtentEntry table][extent 0, padded]...
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/base.h"
#include "common/model/model.h"

namespace varve::flash {

inline constexpr uint32_t kFormatVersion = 1;
inline constexpr uint64_t kSuperblockMagic = 0x3142535645565256;  // "VRVEVSB1"
inline constexpr uint64_t kSegmentMagic = 0x3147455345565256;     // "VRVESEG1"
inline constexpr uint64_t kFragmentMagic = 0x3147524645565256;    // "VRVEFRG1"
inline constexpr uint64_t kKillMagic = 0x314C4C4945565256;        // "VRVEILL1": KILL record
inline constexpr uint64_t kFooterMagic = 0x31544F4645565256;      // "VRVEFOT1"
inline constexpr uint64_t kCheckpointMagic = 0x31504B4345565256;  // "VRVECKP1"
inline constexpr uint32_t kGenerationsMax = 64;                   // of all domains of a node
inline constexpr uint32_t kDomainsMax = 32;                       // of a node at once
// Of the generations those of lineages: for each domain there can be, one is left.
inline constexpr uint32_t kLineageRowsMax = kGenerationsMax - kDomainsMax;
inline constexpr uint32_t kHeadPages = 256;  // superblocks and zeros before slice 0
inline constexpr uint32_t kSegmentPagesMin = 8;
inline constexpr uint32_t kSegmentPagesMax = 65536;  // Place.page is 16 bits on the drive
inline constexpr uint32_t kSegmentsMin = 6;          // per slice: open, reclaim, kept free, sealed
inline constexpr uint32_t kSegmentsMax = 65535;
// Sequences and write counts above are rot: counting on from them must not wrap.
inline constexpr uint64_t kSequenceMax = 1ull << 62;
inline constexpr uint32_t kSegmentFragmentsMax = 8192;  // bounds the footer to 161 pages

enum class FragmentRole : uint8_t { kData = 0, kParity = 1 };

struct DomainGeneration {  // current generations: older headers are refused at recovery (I10)
  uint32_t domain = 0;
  uint32_t domain_generation = 0;
  uint64_t lineage = 0;  // xxh3 of the lineage text; 0 = the domain itself
  uint32_t lineage_generation = 0;
  uint32_t reserved = 0;
  bool operator==(const DomainGeneration&) const = default;
};
static_assert(sizeof(DomainGeneration) == 24);

struct Superblock {  // one page; the valid one with the larger write_count counts
  uint64_t magic = kSuperblockMagic;
  uint32_t version = kFormatVersion;
  uint32_t crc = 0;  // CRC32C of the page with this field zero
  uint64_t write_count = 0;
  std::byte target_uuid[16] = {};
  std::byte node_uuid[16] = {};
  Digest
      geometry_hash;  // SHA-256 of the geometry fields below: configuration that changes the format
  uint64_t capacity_bytes = 0;
  uint32_t slices = 0;
  uint32_t segment_pages = 0;
  uint32_t segments_per_slice = 0;
  uint32_t checkpoint_pages = 0;  // of one area
  uint32_t boot_generation = 0;   // raised and flushed before the first grant of a start
  uint32_t target_index = 0;      // of this node
  uint32_t generation_count = 0;
  uint8_t k = 1, m = 0;  // the scheme of every block of this node
  uint16_t reserved = 0;
  DomainGeneration generations[kGenerationsMax];
  std::byte zero[kPageBytes - 128 - 24 * kGenerationsMax] = {};
};
static_assert(sizeof(Superblock) == kPageBytes);
static_assert(offsetof(Superblock, generations) == 128);

struct SegmentHeader {  // one page
  uint64_t magic = kSegmentMagic;
  uint32_t version = kFormatVersion;
  uint32_t crc = 0;
  std::byte target_uuid[16] = {};
  uint32_t slice = 0;
  uint32_t segment = 0;   // inside the slice
  uint64_t sequence = 0;  // rises with every opening of a segment of this slice
  uint64_t nonce = 0;     // random; seeds the CRC of every header of this life of the segment
  uint32_t boot_generation = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(SegmentHeader) == 64);
static_assert(offsetof(SegmentHeader, sequence) == 40);

// First 256 bytes of a fragment. The table follows: entry i at byte 256 + 32 i; 120 in the first
// page.
struct FragmentHeader {
  uint64_t magic = kFragmentMagic;
  uint32_t version = kFormatVersion;
  uint32_t crc = 0;  // CRC32C over header and table, field zero, seeded with crc32c(0, nonce)
  uint64_t segment_sequence = 0;
  uint32_t segment_page = 0;  // where this fragment begins in its segment
  uint32_t pages = 0;         // of the whole fragment
  uint32_t header_pages = 0;
  uint32_t extent_count = 0;  // of the whole table, data and parity
  BaseId base;
  BaseId parent;  // the previous base id of the prefix; zero = first
  Digest fingerprint;
  uint32_t rank = 0;
  uint32_t rank_count = 0;
  Attempt attempt;
  uint64_t epoch = 0;  // of the map at commit
  uint32_t domain = 0;
  uint32_t domain_generation = 0;
  uint32_t lineage_generation = 0;
  uint16_t matrix = 0;   // Matrix
  uint8_t role = 0;      // FragmentRole
  uint8_t position = 0;  // below k + m; parity from k
  uint8_t k = 1, m = 0;
  uint16_t flags = 0;  // bit 0: thin
  uint32_t block_bytes_low = 0, block_bytes_high = 0;
  uint32_t first_extent_pages = 0;
  uint64_t lineage = 0;  // xxh3 of the lineage text
  uint32_t data_extent_count = 0;
  std::byte reserved[44] = {};
};
static_assert(sizeof(FragmentHeader) == 256);
static_assert(offsetof(FragmentHeader, attempt) == 144);
static_assert(offsetof(FragmentHeader, first_extent_pages) == 196);
static_assert(offsetof(FragmentHeader, lineage) == 200);
static_assert(offsetof(FragmentHeader, data_extent_count) == 208);
inline constexpr uint16_t kFragmentThin = 1;  // flags: fewer than k + m fragments were stored
inline constexpr uint32_t kEntriesInFirstPage = (kPageBytes - 256) / 32;
inline constexpr uint32_t kEntriesInNextPage = kPageBytes / 32;
constexpr uint32_t header_pages_of(uint32_t extents) {
  return extents <= kEntriesInFirstPage
             ? 1
             : 1 + (extents - kEntriesInFirstPage + kEntriesInNextPage - 1) / kEntriesInNextPage;
}

inline constexpr uint32_t kHeaderPagesMax = header_pages_of(kExtentsMax);
static_assert(kHeaderPagesMax == 4);

// Entry i of the table: entries never straddle a page, so header and table may lie in scattered
// pages.
struct EntryPosition {
  uint32_t page = 0;
  uint32_t offset_bytes = 0;
};
constexpr EntryPosition entry_position(uint32_t i) {
  const uint32_t byte = 256 + 32 * i;
  return {byte / kPageBytes, byte % kPageBytes};
}

// Catalog pages of footers and checkpoints (FORMAT 6.1).
struct PagePrefix {
  uint32_t crc = 0;    // over the page with this field zero
  uint32_t index = 0;  // in its footer or checkpoint
  uint64_t tag = 0;    // segment sequence, or write count of the checkpoint
};
static_assert(sizeof(PagePrefix) == 16);

struct CatalogEntry {
  BaseId base;
  Attempt attempt;
  uint16_t page = 0;
  uint16_t pages = 0;
  uint16_t lead_pages = 0;
  uint16_t which = 0;  // see Which
  uint32_t block_bytes = 0;
  uint32_t domain = 0;
  uint32_t domain_generation = 0;
  uint32_t lineage_generation = 0;
  uint64_t lineage = 0;
};
static_assert(sizeof(CatalogEntry) == 80);
static_assert(offsetof(CatalogEntry, which) == 54);
static_assert(offsetof(CatalogEntry, lineage) == 72);
static_assert(kBlockBytesMax <= 0xFFFFFFFF);

// CatalogEntry::which: which fragment of which block of its base id.
struct Which {
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  uint32_t position = 0;
  bool thin = false;
  bool kill = false;  // a KILL record, not a fragment
  bool operator==(const Which&) const = default;
};
static_assert(kRanksMax == 32 && kWidthMax <= 16);  // 5, 5 and 4 bits
constexpr uint16_t pack(const Which& w) {
  return static_cast<uint16_t>(w.rank | (w.rank_count - 1) << 5 | w.position << 10 |
                               (w.thin ? 1u << 14 : 0) | (w.kill ? 1u << 15 : 0));
}
constexpr Which unpack(uint16_t which) {
  return {.rank = which & 31u,
          .rank_count = (which >> 5 & 31u) + 1,
          .position = which >> 10 & 15u,
          .thin = (which >> 14 & 1) != 0,
          .kill = which >> 15 != 0};
}
static_assert(unpack(pack({31, 32, 10, true, false})) == Which{31, 32, 10, true, false});

inline constexpr uint32_t kEntriesPerPage = 51;
inline constexpr uint32_t kEntriesInTrailer = 50;
static_assert(16 + 80 * kEntriesPerPage == kPageBytes);

struct FooterTrailer {  // first bytes of the last page of a sealed segment; 50 entries follow
  PagePrefix prefix;
  uint64_t magic = kFooterMagic;
  uint32_t version = kFormatVersion;
  uint32_t slice = 0;
  uint32_t segment = 0;
  uint32_t entry_count = 0;
  uint64_t sequence = 0;
  uint64_t nonce = 0;
  std::byte target_uuid[16] = {};
  uint32_t used_pages = 0;  // header page included
  uint32_t boot_generation = 0;
  std::byte reserved[16] = {};
};
static_assert(sizeof(FooterTrailer) == 96);
static_assert(96 + 80 * kEntriesInTrailer == kPageBytes);

constexpr uint32_t footer_pages_of(uint32_t entries) {
  return entries <= kEntriesInTrailer
             ? 1
             : 1 + (entries - kEntriesInTrailer + kEntriesPerPage - 1) / kEntriesPerPage;
}
static_assert(footer_pages_of(kSegmentFragmentsMax) == 161);

struct CheckpointHeader {  // page 0 of a checkpoint area
  PagePrefix prefix;
  uint64_t magic = kCheckpointMagic;
  uint32_t version = kFormatVersion;
  uint32_t slice = 0;
  std::byte target_uuid[16] = {};
  uint64_t write_count = 0;
  uint64_t next_sequence = 0;
  uint32_t segment_count = 0;  // rows of the table
  uint32_t reserved = 0;
  uint64_t entry_count = 0;
};
static_assert(sizeof(CheckpointHeader) == 80);

struct CheckpointSegment {
  uint32_t segment = 0;
  uint32_t entry_count = 0;
  uint64_t sequence = 0;
  uint64_t nonce = 0;
  uint64_t reserved = 0;
};
static_assert(sizeof(CheckpointSegment) == 32);
inline constexpr uint32_t kRowsPerPage = (kPageBytes - sizeof(PagePrefix)) / 32;
static_assert(kRowsPerPage == 127);

struct KillRecord {  // FORMAT 7.4
  uint64_t magic = kKillMagic;
  uint32_t version = kFormatVersion;
  uint32_t crc = 0;
  uint64_t segment_sequence = 0;
  uint32_t segment_page = 0;
  uint32_t away = 0;  // bit t: target t of the node did not take this purge
  BaseId base;
  Attempt limit;               // target 0; what is not above it is ended
  uint64_t last_sequence = 0;  // what it ends here lies in segments of sequences up to it
  uint32_t domain = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(KillRecord) == 96);
static_assert(offsetof(KillRecord, limit) == 64);

}  // namespace varve::flash
