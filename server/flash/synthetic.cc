// A synthetic target for the recovery bench: sealed segments whose fragments exist only as entries
// of checkpoints. The pages are those that CheckpointOp would have written; no KV bytes are.
#include <algorithm>
#include <cstring>
#include <vector>

#include "server/flash/catalog.h"
#include "server/flash/flash.h"
#include "server/flash/page_store.h"
#include "server/flash/segment.h"

namespace varve::flash {

namespace {

constexpr uint32_t kFragmentPages = 16;
constexpr uint32_t kOutPages = 256;

class SyntheticSlice {
 public:
  SyntheticSlice(PageStore& store, const TargetInfo& target, const TargetGeometry& geometry,
                 uint32_t slice)
      : store_(store), super_(target.super), geometry_(geometry), slice_(slice) {
    random_ = Random(target.super.boot_generation * 1000003ull + slice);
  }

  // Writes segments and the checkpoint of one slice; answers the fragments in it.
  Result<uint64_t> write(uint64_t fragments) {
    const uint32_t per_segment =
        std::min((geometry_.segment_pages - 2) / kFragmentPages, kSegmentFragmentsMax);
    if (per_segment == 0) return Status::invalid("synthetic: segments hold no fragment");
    const uint64_t room = uint64_t{geometry_.segments - kSegmentsMin / 2} * per_segment;
    const uint64_t table = (uint64_t{geometry_.segments} + kRowsPerPage - 1) / kRowsPerPage;
    const uint64_t area = (geometry_.checkpoint_pages - 1 - table) * kEntriesPerPage;
    const uint64_t total = std::min({fragments, room, area});
    const auto segments = static_cast<uint32_t>((total + per_segment - 1) / per_segment);
    const auto table_pages = (segments + kRowsPerPage - 1) / kRowsPerPage;
    out_page_ = 1 + table_pages;
    for (uint32_t i = 0; i < segments; ++i) {
      const auto count =
          static_cast<uint32_t>(std::min<uint64_t>(per_segment, total - uint64_t{i} * per_segment));
      VARVE_RETURN_IF_ERROR(write_segment(i, count));
    }
    VARVE_RETURN_IF_ERROR(write_out());
    VARVE_RETURN_IF_ERROR(write_table(table_pages));
    VARVE_RETURN_IF_ERROR(store_.flush());
    VARVE_RETURN_IF_ERROR(write_header(total, segments));
    return total;
  }

 private:
  uint64_t area_offset(uint32_t page) const {
    return bytes_of(geometry_.checkpoint_page(slice_, 0) + page);
  }

  Status write_segment(uint32_t index, uint32_t count) {
    SegmentHeader header;
    std::memcpy(header.target_uuid, super_.target_uuid, 16);
    header.slice = slice_;
    header.segment = index;
    header.sequence = index + 1;
    header.nonce = random_.next() | 1;
    header.boot_generation = super_.boot_generation;
    fill_segment_header(page_.span(0, 1), header);
    VARVE_RETURN_IF_ERROR(
        store_.write(bytes_of(geometry_.segment_page(slice_, index)), page_.span(0, 1)));
    CheckpointSegment row;
    row.segment = index;
    row.entry_count = count;
    row.sequence = header.sequence;
    row.nonce = header.nonce;
    rows_.push_back(row);
    for (uint32_t i = 0; i < count; ++i) {
      if (out_entries_ == kOutPages * kEntriesPerPage) VARVE_RETURN_IF_ERROR(write_out());
      put(entry(1 + i * kFragmentPages));
    }
    return Status::ok_status();
  }

  CatalogEntry entry(uint32_t page) {
    VARVE_ASSERT(page + kFragmentPages < geometry_.segment_pages, page);
    CatalogEntry entry;
    do {
      for (size_t word = 0; word < 4; ++word)
        store(entry.base.bytes, word * 8, random_.next());
    } while (slice_of(entry.base, geometry_.slices) != slice_);
    entry.attempt = {super_.boot_generation, super_.target_index, ++counter_};
    entry.page = static_cast<uint16_t>(page);
    entry.pages = kFragmentPages;
    entry.lead_pages = 2;
    entry.which = pack({});
    entry.domain = kDomainDefault;
    entry.block_bytes = static_cast<uint32_t>(bytes_of(kFragmentPages - 1));
    return entry;
  }

  void put(const CatalogEntry& entry) {
    VARVE_ASSERT(out_entries_ < kOutPages * kEntriesPerPage, out_entries_);
    const ByteSpan page = out_.span(out_entries_ / kEntriesPerPage, 1);
    const uint32_t slot = out_entries_ % kEntriesPerPage;
    if (slot == 0) std::memset(page.data(), 0, page.size());
    store(page, sizeof(PagePrefix) + slot * sizeof(CatalogEntry), entry);
    ++out_entries_;
  }

  Status write_out() {
    const uint32_t pages = (out_entries_ + kEntriesPerPage - 1) / kEntriesPerPage;
    if (pages == 0) return Status::ok_status();
    VARVE_ASSERT(out_page_ + pages <= geometry_.checkpoint_pages, out_page_, pages);
    for (uint32_t i = 0; i < pages; ++i)
      seal_page(out_.span(i, 1), 0, out_page_ + i, 1);
    VARVE_RETURN_IF_ERROR(store_.write(area_offset(out_page_), out_.span(0, pages)));
    out_page_ += pages;
    out_entries_ = 0;
    return Status::ok_status();
  }

  Status write_table(uint32_t table_pages) {
    for (uint32_t i = 0; i < table_pages; ++i) {
      const ByteSpan page = page_.span(0, 1);
      std::memset(page.data(), 0, page.size());
      for (uint32_t r = 0; r < kRowsPerPage && i * kRowsPerPage + r < rows_.size(); ++r) {
        store(page, sizeof(PagePrefix) + r * sizeof(CheckpointSegment),
              rows_[i * kRowsPerPage + r]);
      }
      seal_page(page, 0, 1 + i, 1);
      VARVE_RETURN_IF_ERROR(store_.write(area_offset(1 + i), page));
    }
    return Status::ok_status();
  }

  Status write_header(uint64_t entries, uint32_t segments) {
    VARVE_ASSERT(segments == rows_.size() && segments <= geometry_.segments, segments);
    CheckpointHeader header;
    header.slice = slice_;
    std::memcpy(header.target_uuid, super_.target_uuid, 16);
    header.write_count = 1;
    header.next_sequence = segments + 1;
    header.segment_count = segments;
    header.entry_count = entries;
    const ByteSpan page = page_.span(0, 1);
    std::memset(page.data(), 0, page.size());
    varve::store(page, 0, header);
    seal_page(page, 0, 0, 1);
    VARVE_RETURN_IF_ERROR(store_.write(area_offset(0), page));
    return store_.flush();
  }

  static void store(ByteSpan page, size_t offset, const auto& value) {
    varve::store(page, offset, value);
  }

  PageStore& store_;
  const Superblock& super_;
  TargetGeometry geometry_;
  uint32_t slice_;
  Random random_{0};
  PageMemory page_{1};
  PageMemory out_{kOutPages};
  std::vector<CheckpointSegment> rows_;
  uint32_t out_entries_ = 0;
  uint32_t out_page_ = 0;
  uint64_t counter_ = 0;
};

Result<uint64_t> write_all(PageStore& store, const TargetInfo& target, uint64_t fragments) {
  VARVE_TRY(const TargetGeometry geometry, geometry_of(target.super));
  if (store.capacity_bytes() < bytes_of(geometry.pages())) {
    return Status::invalid("synthetic: target smaller than its superblock says");
  }
  uint64_t done = 0;
  for (uint32_t slice = 0; slice < geometry.slices; ++slice) {
    const uint64_t share = (fragments - done) / (geometry.slices - slice);
    SyntheticSlice writer(store, target, geometry, slice);
    VARVE_TRY(const uint64_t written, writer.write(share));
    done += written;
  }
  return done;
}

}  // namespace

Result<uint64_t> write_synthetic(FileHandle& file, const TargetInfo& target, uint64_t fragments) {
  FileStore store(file);
  return write_all(store, target, fragments);
}

Result<uint64_t> write_synthetic(MemoryPlatter& platter, const TargetInfo& target,
                                 uint64_t fragments) {
  PlatterStore store(platter);
  return write_all(store, target, fragments);
}

}  // namespace varve::flash
