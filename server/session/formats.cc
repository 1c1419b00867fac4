// Registration of formats: decode, check, fingerprint, extent tables; shared by equal
// registrations of one domain.
#include "server/session/formats.h"

#include <algorithm>

#include "server/config/config.h"
#include "server/flash/flash.h"

namespace varve {

Status check_block_sizes(const SessionFormat& format, const BlockLimits& limits,
                         std::string* text) {
  VARVE_ASSERT(!format.tables.empty());
  for (size_t rank = 0; rank < format.tables.size(); ++rank) {
    const uint64_t pages = flash::fragment_pages_max_of(format.tables[rank]);
    const std::string block =
        "a block of rank " + std::to_string(rank) + " needs " + bytes_text(bytes_of(pages));
    if (pages > limits.fragment_pages_max) {
      *text = block + "; the targets of this node take at most " +
              bytes_text(bytes_of(limits.fragment_pages_max)) +
              " for one: format them with larger --target-bytes, or put fewer tokens in a block";
      return Status::unsupported("a block is larger than the targets take");
    }
    // A grant takes the fragment and, for many extents, a page for their slabs.
    if (bytes_of(DramTier::pages_of_block(format.tables[rank])) > limits.push_bytes_max) {
      *text =
          block + "; a shard of this node has " + bytes_text(limits.push_bytes_max) +
          " of DRAM for pushes: larger --dram-bytes, fewer --shards, or fewer tokens in a block";
      return Status::unsupported("a block is larger than the DRAM for pushes");
    }
  }
  return {};
}

FormatTable::FormatTable(uint32_t formats_max, uint64_t bytes_max, Scheme scheme,
                         const BlockLimits& limits)
    : formats_max_(formats_max), bytes_max_(bytes_max), scheme_(scheme), limits_(limits) {
  VARVE_ASSERT(scheme.valid(), scheme.k, scheme.m);
  entries_.reserve(formats_max);
}

void FormatTable::domains_set(uint32_t count) {
  VARVE_ASSERT(count > 0);
  domains_ = count;
}

FormatEntry* FormatTable::find(uint32_t domain, const Digest& fingerprint) {
  for (const auto& entry : entries_) {
    if (entry->domain == domain && entry->format.fingerprint == fingerprint) return entry.get();
  }
  return nullptr;
}

// The sums are reached before the shares only while others have what they had when there were fewer
// domains.
Status FormatTable::has_room(uint32_t domain, uint64_t bytes) const {
  uint32_t own = 0;
  uint64_t own_bytes = bytes;
  for (const auto& entry : entries_) {
    if (entry->domain != domain) continue;
    ++own;
    own_bytes += entry->bytes;
  }
  if (own >= std::max(1u, formats_max_ / domains_) || entries_.size() >= formats_max_)
    return Status::overloaded("the domain has its share of formats_max registered");
  if (own_bytes > bytes_max_ / domains_ || bytes_ + bytes > bytes_max_)
    return Status::overloaded("the share of the domain in formats_bytes_max is reached");
  return {};
}

Result<FormatEntry*> FormatTable::acquire(uint32_t domain, ConstByteSpan canonical) {
  refusal_.clear();
  VARVE_TRY(Format format, Format::decode(canonical));
  VARVE_RETURN_IF_ERROR(format.validate());
  const Digest fingerprint = format.fingerprint();
  if (FormatEntry* known = find(domain, fingerprint)) {
    ++known->users;
    return known;
  }
  VARVE_RETURN_IF_ERROR(has_room(domain, 0));  // before the work of a table
  auto entry = std::make_unique<FormatEntry>();
  entry->bytes = canonical.size() + sizeof(FormatEntry);
  for (const auto& layers : format.ranks) {
    VARVE_TRY(ExtentTable table, ExtentTable::of(layers, scheme_));
    entry->bytes += table.extents.size() * sizeof(ExtentSpec) +
                    table.stripes.size() * sizeof(Stripe) + layers.size() * sizeof(LayerSpec) +
                    table.layer_last_extent.size() * sizeof(uint32_t);
    entry->format.tables.push_back(std::move(table));
  }
  VARVE_RETURN_IF_ERROR(check_block_sizes(entry->format, limits_, &refusal_));
  VARVE_RETURN_IF_ERROR(has_room(domain, entry->bytes));
  entry->domain = domain;
  const std::string& lineage = format.lineage;
  entry->format.lineage = xxh3(0, std::as_bytes(std::span(lineage.data(), lineage.size())));
  entry->format.fingerprint = fingerprint;
  entry->format.format = std::move(format);
  entry->users = 1;
  VARVE_ASSERT(entry->format.tables.size() == entry->format.format.rank_count());
  bytes_ += entry->bytes;
  entries_.push_back(std::move(entry));
  return entries_.back().get();
}

std::string FormatTable::problem(const Format& format) const {
  if (const Status valid = format.validate(); !valid.ok()) return valid.what();
  SessionFormat tried;
  for (const auto& layers : format.ranks) {
    Result<ExtentTable> table = ExtentTable::of(layers, scheme_);
    if (!table) return table.error().what();
    tried.tables.push_back(*std::move(table));
  }
  std::string text;
  return check_block_sizes(tried, limits_, &text).ok() ? std::string() : text;
}

void FormatTable::release(FormatEntry& entry) {
  VARVE_ASSERT(entry.users > 0);
  if (--entry.users > 0) return;
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [&entry](const auto& held) { return held.get() == &entry; });
  VARVE_ASSERT(at != entries_.end());
  VARVE_ASSERT(bytes_ >= entry.bytes, bytes_, entry.bytes);
  bytes_ -= entry.bytes;
  entries_.erase(at);
}

Result<uint32_t> SessionFormats::add(uint32_t domain, ConstByteSpan canonical) {
  VARVE_TRY(FormatEntry * entry, table_.acquire(domain, canonical));
  const auto at = std::find(entries_.begin(), entries_.end(), entry);
  if (at != entries_.end()) {
    table_.release(*entry);
    return static_cast<uint32_t>(at - entries_.begin()) + 1;
  }
  if (entries_.size() >= handles_max_) {
    table_.release(*entry);
    return Status::quota("this session has formats_max formats");
  }
  entries_.push_back(entry);
  return static_cast<uint32_t>(entries_.size());
}

void SessionFormats::clear() {
  for (FormatEntry* entry : entries_)
    table_.release(*entry);
  entries_.clear();
}

Result<ExtentRange> extents_of_layers(const ExtentTable& table, uint32_t layer_first,
                                      uint32_t layer_count) {
  const auto layers = static_cast<uint32_t>(table.layer_last_extent.size());
  if (layer_first >= layers) return Status::invalid("layer_first is beyond the layers of the rank");
  if (layer_count == 0) layer_count = layers - layer_first;
  if (layer_count > layers - layer_first) {
    return Status::invalid("layer_count is beyond the layers of the rank");
  }
  ExtentRange range;
  range.end = table.layer_last_extent[layer_first + layer_count - 1] + 1;
  while (range.first < range.end) {
    const ExtentSpec& extent = table.extents[range.first];
    if (layer_first < extent.layer_first + extent.layer_count) break;
    ++range.first;
  }
  VARVE_ASSERT(range.first < range.end, range.first, range.end);
  return range;
}

uint64_t bytes_of_range(const ExtentTable& table, const ExtentRange& range) {
  VARVE_ASSERT(range.first < range.end, range.first, range.end);
  VARVE_ASSERT(range.end <= table.data_count(), range.end);
  const ExtentSpec& last = table.extents[range.end - 1];
  return last.block_offset + last.bytes - table.extents[range.first].block_offset;
}

}  // namespace varve
