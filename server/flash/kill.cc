// Fill and check; the seed of the checksum is that of fragments, so nothing forged inside KV data,
// and no record of an earlier life of the segment, is one.
#include "server/flash/kill.h"

#include <cstring>

#include "server/flash/catalog.h"

namespace varve::flash {

namespace {

uint32_t record_crc(KillRecord record, uint64_t nonce) {
  record.crc = 0;
  return crc32c(crc32c(0, bytes_view(nonce)), bytes_view(record));
}

}  // namespace

bool is_killed(const Attempt& attempt, const Attempt& limit) {
  if (attempt.boot_generation != limit.boot_generation) {
    return attempt.boot_generation < limit.boot_generation;
  }
  return attempt.counter <= limit.counter;
}

CatalogEntry entry_of(const KillInfo& kill, uint32_t segment_page) {
  VARVE_ASSERT(segment_page >= 1 && segment_page < kSegmentPagesMax, segment_page);
  VARVE_ASSERT(kill.limit.target == 0, kill.limit.target);
  CatalogEntry entry;
  entry.base = kill.base;
  entry.attempt = kill.limit;
  entry.page = static_cast<uint16_t>(segment_page);
  entry.pages = 1;
  entry.which = pack({.kill = true});
  entry.block_bytes = kill.away;
  entry.domain = kill.domain;
  entry.lineage = kill.last_sequence;
  return entry;
}

bool is_kill(const CatalogEntry& entry) {
  return unpack(entry.which).kill;
}

KillInfo kill_of(const CatalogEntry& entry) {
  VARVE_ASSERT(is_kill(entry));
  return {.base = entry.base,
          .limit = entry.attempt,
          .away = entry.block_bytes,
          .domain = entry.domain,
          .last_sequence = entry.lineage};
}

bool check_kill(const CatalogEntry& entry) {
  if (entry.which != pack({.kill = true}) || entry.pages != 1 || entry.lead_pages != 0)
    return false;
  if (entry.domain_generation != 0 || entry.lineage_generation != 0) return false;
  return entry.attempt.target == 0 && entry.lineage <= kSequenceMax;
}

uint64_t kill_until(const KillInfo& kill) {
  return kill.away != 0 ? ~uint64_t{0} : kill.last_sequence;
}

bool kill_needed(const CatalogEntry& entry, uint64_t oldest_sequence) {
  return oldest_sequence <= kill_until(kill_of(entry));
}

void fill_kill_record(ByteSpan page, const KillInfo& kill, const HeaderExpect& at) {
  VARVE_ASSERT(page.size() == kPageBytes);
  VARVE_ASSERT(at.nonce != 0 && at.segment_page >= 1);
  KillRecord record;
  record.segment_sequence = at.sequence;
  record.segment_page = at.segment_page;
  record.away = kill.away;
  record.base = kill.base;
  record.limit = kill.limit;
  record.last_sequence = kill.last_sequence;
  record.domain = kill.domain;
  record.crc = record_crc(record, at.nonce);
  std::memset(page.data(), 0, page.size());
  store(page, 0, record);
}

std::optional<KillInfo> read_kill_record(ConstByteSpan page, const HeaderExpect& expect) {
  VARVE_ASSERT(page.size() >= kPageBytes);
  const auto record = load<KillRecord>(page);
  if (record.magic != kKillMagic || record.version != kFormatVersion) return std::nullopt;
  if (record.segment_sequence != expect.sequence || record.segment_page != expect.segment_page) {
    return std::nullopt;
  }
  if (record.crc != record_crc(record, expect.nonce) || record.reserved != 0) return std::nullopt;
  if (!all_zero(page.subspan(sizeof(record), kPageBytes - sizeof(record)))) return std::nullopt;
  const KillInfo kill = {.base = record.base,
                         .limit = record.limit,
                         .away = record.away,
                         .domain = record.domain,
                         .last_sequence = record.last_sequence};
  if (kill.limit.target != 0 || kill.last_sequence > kSequenceMax) return std::nullopt;
  return kill;
}

}  // namespace varve::flash
