// The extent table (docs/FORMAT.md sections 4.1 and 4.3), the check of a committed table against
// it, and the fused digest of a raw extent.
#include "common/model/extent_table.h"

#include <algorithm>
#include <bit>

#include "common/model/id.h"

namespace varve {

namespace {

// A run of small layers (layer_count > 1) or one layer cut in `pieces`.
struct Unit {
  uint32_t layer_first = 0;
  uint32_t layer_count = 0;
  uint64_t bytes = 0;
  uint32_t pieces = 1;

  bool is_run() const { return layer_count > 1; }
  bool can_be_cut() const { return is_run() || pieces < pages_of(bytes); }
  uint64_t piece_bytes_max() const {
    const uint32_t pages = pages_of(bytes);
    return std::min(bytes, bytes_of((pages + pieces - 1) / pieces));
  }
};

Status check_layers(std::span<const LayerSpec> layers) {
  if (layers.empty()) return Status::invalid("extent table: no layers");
  if (layers.size() > kLayersMax) return Status::invalid("extent table: more than 1024 layers");
  uint64_t block_bytes = 0;
  for (const LayerSpec& layer : layers) {
    if (layer.bytes == 0 || layer.bytes > kLayerBytesMax) {
      return Status::invalid("extent table: a layer must have 1 byte to 64 MiB");
    }
    block_bytes += layer.bytes;
  }
  if (block_bytes > kBlockBytesMax) return Status::invalid("extent table: block over 256 MiB");
  return {};
}

// Step 1: runs of small layers, and layers that are cut only because they are large.
std::vector<Unit> units_of(std::span<const LayerSpec> layers) {
  std::vector<Unit> units;
  bool run_is_open = false;
  for (uint32_t i = 0; i < layers.size(); ++i) {
    const uint64_t bytes = layers[i].bytes;
    const bool is_small = bytes < kExtentBytesMin;
    const bool joins = is_small && run_is_open && layers[i].kind == layers[i - 1].kind &&
                       units.back().bytes < kExtentBytesMin;
    if (joins) {
      units.back().layer_count += 1;
      units.back().bytes += bytes;
    } else {
      const auto pieces = static_cast<uint32_t>((bytes + kExtentBytesMax - 1) / kExtentBytesMax);
      units.push_back({i, 1, bytes, pieces});
    }
    run_is_open = is_small;
  }
  return units;
}

// Where a run is divided: the layer boundary nearest to its middle, the earlier of two equally
// near.
uint32_t layers_before_middle(const Unit& run, std::span<const LayerSpec> layers) {
  VARVE_ASSERT(run.is_run(), run.layer_count);
  uint32_t best = 1;
  uint64_t best_distance = ~uint64_t{0};
  uint64_t before = 0;
  for (uint32_t n = 1; n < run.layer_count; ++n) {
    before += layers[run.layer_first + n - 1].bytes;
    // Twice the distance to the middle, to stay in whole numbers.
    const uint64_t distance =
        2 * before > run.bytes ? 2 * before - run.bytes : run.bytes - 2 * before;
    if (distance < best_distance) {
      best = n;
      best_distance = distance;
    }
  }
  return best;
}

void divide_run(std::vector<Unit>& units, size_t index, std::span<const LayerSpec> layers) {
  const Unit run = units[index];
  const uint32_t count = layers_before_middle(run, layers);
  Unit head{run.layer_first, count, 0, 1};
  for (uint32_t i = 0; i < count; ++i)
    head.bytes += layers[run.layer_first + i].bytes;
  const Unit tail{run.layer_first + count, run.layer_count - count, run.bytes - head.bytes, 1};
  units[index] = head;
  units.insert(units.begin() + static_cast<ptrdiff_t>(index) + 1, tail);
}

// Step 3: at least k extents, as far as the bytes allow. At most k rounds over at most 1024 units.
void cut_to_count(std::vector<Unit>& units, uint32_t k, std::span<const LayerSpec> layers) {
  uint64_t count = 0;
  for (const Unit& unit : units)
    count += unit.pieces;
  for (; count < k; ++count) {
    size_t largest = units.size();
    for (size_t i = 0; i < units.size(); ++i) {
      if (!units[i].can_be_cut()) continue;
      if (largest == units.size() ||
          units[i].piece_bytes_max() > units[largest].piece_bytes_max()) {
        largest = i;
      }
    }
    if (largest == units.size()) return;
    if (units[largest].is_run()) {
      divide_run(units, largest, layers);
    } else {
      units[largest].pieces += 1;
    }
  }
}

// Step 4: the extents of one unit, appended in order.
void append_extents(const Unit& unit, LayerKind kind, ExtentTable& table) {
  const uint64_t pages = pages_of(unit.bytes);
  for (uint64_t piece = 0; piece < unit.pieces; ++piece) {
    const uint64_t begin = bytes_of(piece * pages / unit.pieces);
    const uint64_t end = std::min(unit.bytes, bytes_of((piece + 1) * pages / unit.pieces));
    VARVE_ASSERT(end > begin && end - begin <= kExtentBytesMax, begin, end);
    table.extents.push_back({.layer_first = unit.layer_first,
                             .layer_count = unit.layer_count,
                             .layer_offset = static_cast<uint32_t>(begin),
                             .bytes = static_cast<uint32_t>(end - begin),
                             .kind = kind,
                             .block_offset = table.block_bytes + begin});
  }
  table.block_bytes += unit.bytes;
  for (uint32_t i = 0; i < unit.layer_count; ++i) {
    table.layer_last_extent.push_back(static_cast<uint32_t>(table.extents.size()) - 1);
  }
}

// Smallest c with pages <= 2^c.
uint32_t size_class_of(uint32_t bytes) {
  return static_cast<uint32_t>(std::bit_width(pages_of(bytes) - 1));
}

std::vector<Stripe> stripes_of(std::span<const ExtentSpec> extents, uint32_t k) {
  std::vector<Stripe> stripes;
  for (uint32_t e = 0; e < extents.size(); ++e) {
    const bool joins = !stripes.empty() && stripes.back().count < k &&
                       extents[e].kind == extents[e - 1].kind &&
                       size_class_of(extents[e].bytes) == size_class_of(extents[e - 1].bytes);
    if (!joins) stripes.push_back({.first = e});
    Stripe& stripe = stripes.back();
    stripe.count += 1;
    stripe.bytes = std::max(stripe.bytes, extents[e].bytes);
  }
  return stripes;
}

}  // namespace

uint32_t ExtentTable::bytes_at(uint32_t extent) const {
  if (extent < data_count()) return extents[extent].bytes;
  return stripes[stripe_at(extent)].bytes;
}

uint32_t ExtentTable::stripe_at(uint32_t extent) const {
  VARVE_ASSERT(extent < count(), extent, count());
  if (extent >= data_count()) return (extent - data_count()) / scheme.m;
  const auto after =
      std::upper_bound(stripes.begin(), stripes.end(), extent,
                       [](uint32_t e, const Stripe& stripe) { return e < stripe.first; });
  return static_cast<uint32_t>(after - stripes.begin()) - 1;
}

uint32_t ExtentTable::parity_at(uint32_t stripe, uint32_t j) const {
  VARVE_ASSERT(stripe < stripes.size(), stripe);
  VARVE_ASSERT(j < scheme.m, j, scheme.m);
  return data_count() + stripe * scheme.m + j;
}

Result<ExtentTable> ExtentTable::of(std::span<const LayerSpec> layers, Scheme scheme) {
  const uint32_t k = scheme.k;
  VARVE_ASSERT(k >= 1 && k <= kExtentsMax, k);
  VARVE_RETURN_IF_ERROR(check_layers(layers));
  std::vector<Unit> units = units_of(layers);
  cut_to_count(units, k, layers);
  uint64_t count = 0;
  for (const Unit& unit : units)
    count += unit.pieces;
  if (count > kExtentsMax) return Status::invalid("extent table: more than 504 extents");
  ExtentTable table;
  table.scheme = scheme;
  table.extents.reserve(count);
  table.layer_last_extent.reserve(layers.size());
  for (const Unit& unit : units)
    append_extents(unit, layers[unit.layer_first].kind, table);
  VARVE_ASSERT(table.extents.size() == count, table.extents.size(), count);
  VARVE_ASSERT(table.layer_last_extent.size() == layers.size());
  table.stripes = stripes_of(table.extents, k);
  if (table.count() > kExtentsMax) {
    return Status::invalid("extent table: more than 504 extents with parity");
  }
  return table;
}

Status check_entries(std::span<const ExtentEntry> entries, const ExtentTable& table) {
  if (entries.size() != table.count()) {
    return Status::corrupt("extent table: entry count differs from the format's");
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const ExtentEntry& entry = entries[i];
    if (entry.codec != static_cast<uint8_t>(CodecId::kRaw) || entry.codec_version != 0) {
      return Status::corrupt("extent table: unknown codec, this build knows raw 0");
    }
    if (entry.reserved != 0) return Status::corrupt("extent table: reserved bits not zero");
    if (entry.stripe != table.stripe_at(static_cast<uint32_t>(i))) {
      return Status::corrupt("extent table: stripe differs from the format's");
    }
    if (entry.decoded_bytes != table.bytes_at(static_cast<uint32_t>(i))) {
      return Status::corrupt("extent table: decoded size differs from the format's");
    }
    if (entry.stored_bytes != entry.decoded_bytes) {
      return Status::corrupt("extent table: stored and decoded size of a raw extent differ");
    }
  }
  return {};
}

ExtentDigest::ExtentDigest(const ChecksumSeed& seed) : crc_(seed.stored), xxh_(seed.decoded) {}

void ExtentDigest::update(ConstByteSpan piece) {
  // Both passes over a tile while it is in the first-level cache, instead of two trips to memory.
  constexpr size_t kTileBytes = 8 * kKiB;
  while (!piece.empty()) {
    const ConstByteSpan tile = piece.first(std::min(piece.size(), kTileBytes));
    crc_ = crc32c(crc_, tile);
    xxh_.update(tile);
    piece = piece.subspan(tile.size());
  }
}

}  // namespace varve
