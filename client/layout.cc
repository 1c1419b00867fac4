// Layout: bounds are checked once, in bind(); pieces() is plain arithmetic on the hot path.
#include "client/layout.h"

#include <algorithm>

namespace varve {

namespace {

// The end of a layer's slot inside its region; false when the sum does not fit 64 bits.
bool layer_end(const LayerLayout& layer, uint32_t slot, uint64_t segment_bytes, uint64_t* end) {
  uint64_t at = 0;
  uint64_t segments = 0;
  if (__builtin_mul_overflow(layer.stride, uint64_t{slot}, &at)) return false;
  if (__builtin_add_overflow(at, layer.offset, &at)) return false;
  if (__builtin_mul_overflow(layer.segment_stride, uint64_t{layer.segments - 1}, &segments)) {
    return false;
  }
  if (__builtin_add_overflow(at, segments, &at)) return false;
  return !__builtin_add_overflow(at, segment_bytes, end);
}

// Which region holds a buffer as a whole, of regions that may lie in each other: of those that
// begin before it the one that reaches furthest.
class RegionSearch {
 public:
  explicit RegionSearch(const BoundLayout::Regions& regions) {
    for (size_t i = 0; i < regions.size(); ++i) {
      if (regions[i] == nullptr) continue;
      const auto begin = reinterpret_cast<uintptr_t>(regions[i]->data);
      rows_.push_back({begin, begin + regions[i]->bytes, static_cast<RegionId>(i + 1)});
    }
    std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
      return std::pair(a.begin, a.furthest) < std::pair(b.begin, b.furthest);
    });
    for (size_t i = 1; i < rows_.size(); ++i) {
      if (rows_[i - 1].furthest <= rows_[i].furthest) continue;
      rows_[i].furthest = rows_[i - 1].furthest;
      rows_[i].region = rows_[i - 1].region;
    }
  }
  RegionId holds(uintptr_t begin, uintptr_t end) const {  // 0: none does
    auto row = std::upper_bound(rows_.begin(), rows_.end(), begin,
                                [](uintptr_t at, const Row& r) { return at < r.begin; });
    return row == rows_.begin() || (--row)->furthest < end ? 0 : row->region;
  }

 private:
  struct Row {
    uintptr_t begin = 0;
    uintptr_t furthest = 0;  // end of `region`, of those up to this one
    RegionId region = 0;
  };
  std::vector<Row> rows_;
};

}  // namespace

Result<BoundLayout> BoundLayout::bind(const Layout& layout, std::span<const LayerSpec> layers,
                                      std::span<const uint32_t> slots, const Regions& regions,
                                      Outside outside) {
  if (!layout.buffers.empty()) {
    if (!layout.layers.empty()) return Status::invalid("layout: layers or buffers, not both");
    return bind_buffers(layout.buffers, layers, slots, regions, outside);
  }
  if (layout.layers.size() != layers.size()) {
    return Status::invalid("layout: its layer count differs from the format's rank");
  }
  BoundLayout bound;
  const uint32_t slot_max = slots.empty() ? 0 : *std::max_element(slots.begin(), slots.end());
  for (size_t l = 0; l < layers.size(); ++l) {
    const LayerLayout& from = layout.layers[l];
    if (from.region == 0 || from.region > regions.size() || !regions[from.region - 1]) {
      return Status::invalid("layout: a layer names a region that is not registered");
    }
    if (from.segments == 0 || layers[l].bytes % from.segments != 0) {
      return Status::invalid("layout: the layer's bytes are no multiple of its segments");
    }
    const uint32_t segment_bytes = layers[l].bytes / from.segments;
    if (from.segments > 1 && from.segment_stride < segment_bytes) {
      return Status::invalid("layout: segment_stride is below the segment's bytes");
    }
    const Region& region = *regions[from.region - 1];
    uint64_t end = 0;
    if (!layer_end(from, slot_max, segment_bytes, &end) || end > region.bytes) {
      return Status::invalid("layout: a slot of a layer lies outside its region");
    }
    bound.layers_.push_back({region.data + from.offset, from.stride, from.segment_stride,
                             segment_bytes, layers[l].bytes});
    bound.use_region(from.region);
  }
  return bound;
}

void BoundLayout::use_region(RegionId region) {
  if (std::find(regions_.begin(), regions_.end(), region) == regions_.end())
    regions_.push_back(region);
}

Result<BoundLayout> BoundLayout::bind_buffers(std::span<const LayerBuffer> buffers,
                                              std::span<const LayerSpec> layers,
                                              std::span<const uint32_t> slots,
                                              const Regions& regions, Outside outside) {
  const uint64_t slot_count = buffers.size() / layers.size();
  if (slot_count * layers.size() != buffers.size()) {
    return Status::invalid("buffers: one for each of the rank's layers, block by block");
  }
  for (const uint32_t slot : slots) {
    if (slot >= slot_count) return Status::invalid("buffers: fewer than the blocks need");
  }
  BoundLayout bound;
  for (const LayerSpec& layer : layers)
    bound.layers_.push_back({nullptr, 0, 0, layer.bytes, layer.bytes});
  const RegionSearch search(regions);
  std::vector<bool> used(regions.size() + 1);
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].bytes != layers[i % layers.size()].bytes) {
      return Status::invalid("buffers: one has not the bytes of its layer");
    }
    const auto begin = reinterpret_cast<uintptr_t>(buffers[i].data);
    uintptr_t end = 0;
    if (begin == 0 || __builtin_add_overflow(begin, buffers[i].bytes, &end)) {
      return Status::invalid("buffers: one has no address, or reaches beyond the last one");
    }
    const RegionId region = search.holds(begin, end);
    if (region != 0) {
      if (!used[region]) bound.regions_.push_back(region);
      used[region] = true;
    } else if (outside == Outside::kRefuse) {
      return Status::invalid("buffers: one lies in no region; register it, or set bounce_bytes");
    } else {
      bound.outside_.resize(buffers.size());
      bound.outside_[i] = true;
    }
    bound.buffers_.push_back(static_cast<std::byte*>(buffers[i].data));
  }
  return bound;
}

bool BoundLayout::bounces(uint32_t slot, const ExtentSpec& extent) const {
  if (outside_.empty()) return false;
  const size_t first = size_t{slot} * layers_.size() + extent.layer_first;
  for (size_t i = first; i < first + extent.layer_count; ++i) {
    if (outside_[i]) return true;
  }
  return false;
}

uint32_t BoundLayout::pieces(uint32_t slot, const ExtentSpec& extent, uint32_t offset,
                             uint32_t length, std::span<iovec> pieces, uint32_t* count) const {
  VARVE_ASSERT(uint64_t{offset} + length <= extent.bytes, offset, length, extent.bytes);
  uint32_t used = 0;
  uint32_t covered = 0;
  uint32_t layer = extent.layer_first;
  VARVE_ASSERT(extent.layer_first + extent.layer_count <= layers_.size(), extent.layer_first);
  VARVE_ASSERT(!pieces.empty());
  uint64_t at = uint64_t{extent.layer_offset} + offset;  // inside `layer`
  while (at >= layers_[layer].bytes)
    at -= layers_[layer++].bytes;
  while (covered < length) {
    const Layer& l = layers_[layer];
    const uint64_t segment = at / l.segment_bytes;
    const uint32_t inside = static_cast<uint32_t>(at % l.segment_bytes);
    const uint32_t bytes = std::min(l.segment_bytes - inside, length - covered);
    std::byte* data = start(slot, layer) + segment * l.segment_stride + inside;
    if (used > 0 &&
        static_cast<std::byte*>(pieces[used - 1].iov_base) + pieces[used - 1].iov_len == data) {
      pieces[used - 1].iov_len += bytes;
    } else {
      if (used == pieces.size()) break;
      pieces[used++] = iovec{data, bytes};
    }
    covered += bytes;
    at += bytes;
    if (at == l.bytes) {
      at = 0;
      ++layer;
    }
  }
  *count = used;
  return covered;
}

ConstByteSpan BoundLayout::view(uint32_t slot, const ExtentSpec& extent, uint32_t offset,
                                uint32_t length, ByteSpan scratch) const {
  VARVE_ASSERT(length > 0 && length <= scratch.size(), length, scratch.size());
  iovec first;
  uint32_t count = 0;
  if (pieces(slot, extent, offset, length, {&first, 1}, &count) == length) {
    return {static_cast<const std::byte*>(first.iov_base), length};
  }
  gather(slot, extent, offset, scratch.first(length));
  return scratch.first(length);
}

void BoundLayout::gather(uint32_t slot, const ExtentSpec& extent, uint32_t offset,
                         ByteSpan out) const {
  VARVE_ASSERT(offset + out.size() <= extent.bytes, offset, out.size(), extent.bytes);
  iovec run[kPayloadPiecesMax];
  while (!out.empty()) {
    uint32_t count = 0;
    offset += pieces(slot, extent, offset, static_cast<uint32_t>(out.size()), run, &count);
    VARVE_ASSERT(count > 0);
    for (uint32_t i = 0; i < count; ++i) {
      std::memcpy(out.data(), run[i].iov_base, run[i].iov_len);
      out = out.subspan(run[i].iov_len);
    }
  }
}

void BoundLayout::scatter(uint32_t slot, const ExtentSpec& extent, uint32_t offset,
                          ConstByteSpan bytes) const {
  VARVE_ASSERT(offset + bytes.size() <= extent.bytes, offset, bytes.size(), extent.bytes);
  iovec run[kPayloadPiecesMax];
  while (!bytes.empty()) {
    uint32_t count = 0;
    const auto length = static_cast<uint32_t>(bytes.size());
    offset += pieces(slot, extent, offset, length, run, &count);
    VARVE_ASSERT(count > 0);
    for (uint32_t i = 0; i < count; ++i) {
      std::memcpy(run[i].iov_base, bytes.data(), run[i].iov_len);
      bytes = bytes.subspan(run[i].iov_len);
    }
  }
}

BoundLayout::Range BoundLayout::range_of(const ExtentSpec& extent, uint32_t layer_first,
                                         uint32_t layer_count) const {
  if (extent.layer_count == 1) return {0, extent.bytes};  // a layer or a cut of it
  Range range;
  uint32_t at = 0;
  for (uint32_t l = extent.layer_first; l < extent.layer_first + extent.layer_count; ++l) {
    if (l < layer_first) range.begin = at + layers_[l].bytes;
    at += layers_[l].bytes;
    if (l < layer_first + layer_count) range.end = at;
  }
  VARVE_ASSERT(range.begin <= extent.bytes && range.end <= extent.bytes, range.begin, range.end);
  return range;
}

}  // namespace varve
