// KILL records as bytes (FORMAT 7.4): the record page, and the catalog entry that says the same.
//
// Pure. Shared by the writer, the tail scan, recovery and reclaim; a page from a drive is checked,
// never asserted on.
#pragma once

#include <optional>

#include "common/base/base.h"
#include "server/flash/fragment.h"

namespace varve::flash {

// What a record says, wherever it lies.
struct KillInfo {
  BaseId base;
  Attempt limit;  // target 0
  uint32_t away = 0;
  uint32_t domain = 0;
  uint64_t last_sequence = 0;
  bool operator==(const KillInfo&) const = default;
};

CatalogEntry entry_of(const KillInfo& kill, uint32_t segment_page);
bool is_kill(const CatalogEntry& entry);
KillInfo kill_of(const CatalogEntry& entry);
// Beside what is true of every entry: everything that a record does not use is zero.
bool check_kill(const CatalogEntry& entry);

// It is kept while another segment of its slice has a sequence up to this: for good where a target
// was away.
uint64_t kill_until(const KillInfo& kill);
// Whether it must be kept while the oldest other segment of its slice has this sequence.
bool kill_needed(const CatalogEntry& entry, uint64_t oldest_sequence);

// `at.pages_max` is not used.
void fill_kill_record(ByteSpan page, const KillInfo& kill, const HeaderExpect& at);
// Nothing: there is no whole record of this life of the segment.
std::optional<KillInfo> read_kill_record(ConstByteSpan page, const HeaderExpect& expect);

}  // namespace varve::flash
