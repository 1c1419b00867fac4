// The pages, their content and its check.
//
//   memory: layer 0 [ page 0 of slot 0, page 0 of slot 1, ... | page 1 of slot 0, ... ] layer 1 [
//   ...
#include "tools/kvbench/working_set.h"

#include <sys/mman.h>

#include <cerrno>

#include "tools/kvbench/machine.h"
#include "tools/kvbench/process.h"

namespace varve::kvbench {

namespace {
constexpr uint64_t kPoison = 0xDEADF00DDEADF00Dull;  // content() would have to hit it by chance

// ~0 where the machine does not say.
uint64_t available_bytes() {
  const std::string text = first_line_after(read_file("/proc/meminfo"), "MemAvailable");
  const uint64_t kib = std::strtoull(text.c_str(), nullptr, 10);
  return kib == 0 ? ~uint64_t{0} : kib * kKiB;
}

}  // namespace

Result<std::unique_ptr<TouchedMemory>> TouchedMemory::map(uint64_t bytes) {
  if (bytes > available_bytes()) {
    return Status::invalid(
        "bench: more memory is asked for than the machine has available; ask "
        "for fewer blocks, layers or bytes");
  }
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return Status::io("bench: mmap", errno);
  // Huge pages where they are to be had: the same advice for everything that is measured.
  (void)madvise(at, bytes, MADV_HUGEPAGE);
  std::memset(at, 0, bytes);
  return std::unique_ptr<TouchedMemory>(
      new TouchedMemory(ByteSpan(static_cast<std::byte*>(at), bytes)));
}

TouchedMemory::~TouchedMemory() {
  (void)munmap(bytes_.data(), bytes_.size());
}

Result<std::unique_ptr<WorkingSet>> WorkingSet::make(const WorkingSetShape& shape) {
  if (shape.blocks == 0 || shape.layers == 0) return Status::invalid("bench: an empty working set");
  if (shape.layer_bytes == 0 || shape.layer_bytes % kPageOfLayerBytes != 0) {
    return Status::invalid("bench: layer bytes are a multiple of 64 KiB");
  }
  std::unique_ptr<WorkingSet> set(new WorkingSet(shape));
  VARVE_TRY(set->memory_, TouchedMemory::map(shape.bytes()));
  return set;
}

std::byte* WorkingSet::page(uint32_t slot, uint32_t layer, uint32_t page_index) const {
  VARVE_ASSERT(slot < shape_.blocks && layer < shape_.layers, slot, layer);
  VARVE_ASSERT(page_index < pages_per_layer(), page_index);
  const uint64_t row = uint64_t{layer} * pages_per_layer() + page_index;
  return memory().data() + (row * shape_.blocks + slot) * kPageOfLayerBytes;
}

uint32_t WorkingSet::pages_of_cut(uint32_t cut) const {
  VARVE_ASSERT(cut > 0 && pages_per_layer() % cut == 0, cut, pages_per_layer());
  return pages_per_layer() / cut;
}

Layout WorkingSet::layout(RegionId region, uint32_t cut) const {
  Layout layout;
  const uint64_t row_bytes = uint64_t{shape_.blocks} * kPageOfLayerBytes;
  for (uint32_t l = 0; l < shape_.layers * cut; ++l) {
    LayerLayout layer;
    layer.region = region;
    layer.offset = l * pages_of_cut(cut) * row_bytes;
    layer.stride = kPageOfLayerBytes;
    layer.segments = pages_of_cut(cut);
    layer.segment_stride = row_bytes;
    layout.layers.push_back(layer);
  }
  return layout;
}

Format WorkingSet::format(uint32_t cut) const {
  Format format;
  format.model.bytes.fill(std::byte{0xBE});
  format.lineage = "bench-" + std::to_string(cut);
  format.tokens_per_block = 16;
  format.ranks.emplace_back(shape_.layers * cut,
                            LayerSpec{LayerKind::kFull, pages_of_cut(cut) * kPageOfLayerBytes});
  return format;
}

uint32_t WorkingSet::pieces(uint32_t slot, uint32_t layer, uint32_t offset, uint32_t length,
                            iovec* out) const {
  VARVE_ASSERT(offset + length <= shape_.layer_bytes, offset, length);
  uint32_t count = 0;
  while (length > 0) {
    const uint32_t inside = offset % kPageOfLayerBytes;
    const uint32_t bytes = std::min(length, kPageOfLayerBytes - inside);
    out[count++] = iovec{page(slot, layer, offset / kPageOfLayerBytes) + inside, bytes};
    offset += bytes;
    length -= bytes;
  }
  return count;
}

void WorkingSet::content(uint32_t block, uint32_t layer, ByteSpan out) {
  Random random((uint64_t{block} << 32) + layer + 1);
  for (size_t i = 0; i + 8 <= out.size(); i += 8)
    store(out, i, random.next());
}

void WorkingSet::fill() {
  crcs_.assign(shape_.extents(), 0);
  for (uint32_t b = 0; b < shape_.blocks; ++b) {
    fill_slot(b, b);
    for (uint32_t l = 0; l < shape_.layers; ++l)
      crcs_[b * shape_.layers + l] = crc_of(b, l);
  }
}

void WorkingSet::fill_slot(uint32_t slot, uint32_t block) {
  std::vector<std::byte> extent(shape_.layer_bytes);
  for (uint32_t l = 0; l < shape_.layers; ++l) {
    content(block, l, extent);
    for (uint32_t p = 0; p < pages_per_layer(); ++p) {
      std::memcpy(page(slot, l, p), extent.data() + uint64_t{p} * kPageOfLayerBytes,
                  kPageOfLayerBytes);
    }
  }
}

void WorkingSet::poison_slots(uint32_t first, uint32_t count) {
  for (uint32_t slot = first; slot < first + count; ++slot) {
    for (uint32_t l = 0; l < shape_.layers; ++l) {
      for (uint32_t p = 0; p < pages_per_layer(); ++p) {
        for (uint32_t at = 0; at < kPageOfLayerBytes; at += kPageBytes)
          store(ByteSpan(page(slot, l, p), kPageOfLayerBytes), at, kPoison);
      }
    }
  }
}

bool WorkingSet::slot_is(uint32_t slot, uint32_t block) const {
  std::vector<std::byte> extent(shape_.layer_bytes);
  for (uint32_t l = 0; l < shape_.layers; ++l) {
    content(block, l, extent);
    for (uint32_t p = 0; p < pages_per_layer(); ++p) {
      if (std::memcmp(page(slot, l, p), extent.data() + uint64_t{p} * kPageOfLayerBytes,
                      kPageOfLayerBytes) != 0)
        return false;
    }
  }
  return true;
}

void WorkingSet::poison() {
  const ByteSpan all = memory();
  for (uint64_t at = 0; at < all.size(); at += kPageBytes) {
    store(all, at, kPoison);
  }
}

uint32_t WorkingSet::crc_of(uint32_t slot, uint32_t layer) const {
  uint32_t crc = 0;
  for (uint32_t p = 0; p < pages_per_layer(); ++p) {
    crc = crc32c(crc, {page(slot, layer, p), kPageOfLayerBytes});
  }
  return crc;
}

uint64_t WorkingSet::digest_of_slots(uint32_t first, uint32_t count) const {
  constexpr uint64_t kOddFactor = 0x9e3779b97f4a7c15;  // so that the order of extents counts
  uint64_t digest = 0;
  for (uint32_t slot = first; slot < first + count; ++slot) {
    for (uint32_t l = 0; l < shape_.layers; ++l)
      digest = digest * kOddFactor + crc_of(slot, l);
  }
  return digest;
}

uint32_t WorkingSet::wrong_extents_of(uint32_t first, uint32_t count) const {
  VARVE_ASSERT(crcs_.size() == shape_.extents() && first + count <= shape_.blocks, first, count);
  uint32_t wrong = 0;
  for (uint32_t b = first; b < first + count; ++b) {
    for (uint32_t l = 0; l < shape_.layers; ++l) {
      if (crc_of(b, l) != crcs_[b * shape_.layers + l]) ++wrong;
    }
  }
  return wrong;
}

}  // namespace varve::kvbench
