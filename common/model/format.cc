// Format: limits, the canonical encoding of docs/FORMAT.md section 2, the fingerprint and the diff.
// Encoder and decoder walk the same fields in the same order; the decoder trusts nothing.
#include "common/model/format.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace varve {

namespace {

constexpr uint32_t kMagic = 0x46565256;  // "VRVF"
constexpr uint16_t kVersion = 1;
constexpr size_t kLayerEncodedBytes = 5;
constexpr size_t kFixedBytes = 80 + 2 + 4 + 4;  // all but the variable parts

bool is_known(KvType type) {
  return type >= KvType::kBf16 && type <= KvType::kOpaque;
}
bool is_known(KvLayout layout) {
  return layout >= KvLayout::kNhd && layout <= KvLayout::kOpaque;
}
bool is_known(LayerKind kind) {
  return kind >= LayerKind::kFull && kind <= LayerKind::kOpaque;
}

bool has_control_bytes(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

size_t encoded_bytes(const Format& format) {
  size_t size = kFixedBytes + format.lineage.size();
  for (const auto& layers : format.ranks)
    size += 4 + layers.size() * kLayerEncodedBytes;
  for (const auto& [key, value] : format.extras)
    size += 4 + key.size() + value.size();
  return size;
}

Status validate_layers(std::span<const LayerSpec> layers) {
  if (layers.empty()) return Status::invalid("layers: a rank needs at least 1");
  if (layers.size() > kLayersMax) return Status::invalid("layers: at most 1024 per rank");
  uint64_t block_bytes = 0;
  for (const LayerSpec& layer : layers) {
    if (!is_known(layer.kind)) return Status::invalid("layer kind: unknown");
    if (layer.bytes == 0) return Status::invalid("layer bytes: at least 1");
    if (layer.bytes > kLayerBytesMax) return Status::invalid("layer bytes: at most 64 MiB");
    block_bytes += layer.bytes;
  }
  if (block_bytes > kBlockBytesMax) return Status::invalid("block bytes: at most 256 MiB per rank");
  return {};
}

Status validate_extras(const Format& format) {
  if (format.extras.size() > kFormatExtrasMax) return Status::invalid("extras: at most 32");
  const std::string* previous = nullptr;
  for (const auto& [key, value] : format.extras) {
    if (key.empty()) return Status::invalid("extras: a key must not be empty");
    if (key.size() > kFormatTextMax || value.size() > kFormatTextMax) {
      return Status::invalid("extras: a key or value has at most 256 bytes");
    }
    if (has_control_bytes(key) || has_control_bytes(value)) {
      return Status::invalid("extras: control bytes are not allowed");
    }
    if (previous != nullptr && key <= *previous) {
      return Status::invalid("extras: keys must be sorted and unique");
    }
    previous = &key;
  }
  return {};
}

class Writer {
 public:
  explicit Writer(size_t size) { bytes_.reserve(size); }
  void raw(ConstByteSpan bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  template <class T>
  void number(T value) {
    raw(bytes_view(value));
  }
  void text(const std::string& s) {
    number(static_cast<uint16_t>(s.size()));
    raw(std::as_bytes(std::span<const char>(s.data(), s.size())));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads fields until one does not fit; from then on everything is zero and ok() is false.
class Reader {
 public:
  explicit Reader(ConstByteSpan bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  size_t left() const { return rest_.size(); }
  ConstByteSpan raw(size_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const ConstByteSpan bytes = rest_.first(size);
    rest_ = rest_.subspan(size);
    return bytes;
  }
  template <class T>
  T number() {
    const ConstByteSpan bytes = raw(sizeof(T));
    return ok_ ? load<T>(bytes) : T{};
  }
  Digest digest() { return number<Digest>(); }
  std::string text() {
    const ConstByteSpan bytes = raw(number<uint16_t>());
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

 private:
  ConstByteSpan rest_;
  bool ok_ = true;
};

// Counts are checked against their limits before anything is reserved for them.
Status read_ranks(Reader& reader, Format& format) {
  const auto rank_count = reader.number<uint32_t>();
  if (rank_count > kRanksMax) return Status::invalid("format: at most 32 ranks");
  for (uint32_t rank = 0; rank < rank_count && reader.ok(); ++rank) {
    const auto layer_count = reader.number<uint32_t>();
    if (layer_count > kLayersMax) return Status::invalid("layers: at most 1024 per rank");
    if (layer_count * kLayerEncodedBytes > reader.left())
      return Status::invalid("format: truncated");
    std::vector<LayerSpec>& layers = format.ranks.emplace_back(layer_count);
    for (LayerSpec& layer : layers) {
      layer.kind = static_cast<LayerKind>(reader.number<uint8_t>());
      layer.bytes = reader.number<uint32_t>();
    }
  }
  return {};
}

Status read_extras(Reader& reader, Format& format) {
  const auto count = reader.number<uint32_t>();
  if (count > kFormatExtrasMax) return Status::invalid("extras: at most 32");
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    std::string key = reader.text();
    std::string value = reader.text();
    format.extras.emplace_back(std::move(key), std::move(value));
  }
  return {};
}

}  // namespace

const char* kv_type_name(KvType type) {
  switch (type) {
    case KvType::kBf16:
      return "bf16";
    case KvType::kFp16:
      return "fp16";
    case KvType::kFp8E4m3:
      return "fp8_e4m3";
    case KvType::kFp8E5m2:
      return "fp8_e5m2";
    case KvType::kFp32:
      return "fp32";
    case KvType::kInt8:
      return "int8";
    case KvType::kOpaque:
      return "opaque";
  }
  return "unknown";
}

const char* kv_layout_name(KvLayout layout) {
  switch (layout) {
    case KvLayout::kNhd:
      return "nhd";
    case KvLayout::kHnd:
      return "hnd";
    case KvLayout::kPageFirst:
      return "page_first";
    case KvLayout::kOpaque:
      return "opaque";
  }
  return "unknown";
}

const char* layer_kind_name(LayerKind kind) {
  switch (kind) {
    case LayerKind::kFull:
      return "full";
    case LayerKind::kSliding:
      return "sliding";
    case LayerKind::kLatent:
      return "latent";
    case LayerKind::kState:
      return "state";
    case LayerKind::kOpaque:
      return "opaque";
  }
  return "unknown";
}

uint64_t Format::block_bytes(uint32_t rank) const {
  VARVE_ASSERT(rank < rank_count(), rank, rank_count());
  uint64_t bytes = 0;
  for (const LayerSpec& layer : ranks[rank])
    bytes += layer.bytes;
  return bytes;
}

Status Format::validate() const {
  if (model.is_zero()) return Status::invalid("model: the digest of the weights must not be zero");
  if (!is_known(type)) return Status::invalid("type: unknown KV type");
  if (!is_known(layout)) return Status::invalid("layout: unknown KV layout");
  if (tokens_per_block == 0 || tokens_per_block > kTokensPerBlockMax) {
    return Status::invalid("tokens_per_block: must be 1 to 65536");
  }
  if (lineage.size() > kFormatTextMax) return Status::invalid("lineage: at most 256 bytes");
  if (has_control_bytes(lineage)) return Status::invalid("lineage: control bytes are not allowed");
  if (ranks.empty() || ranks.size() > kRanksMax) return Status::invalid("ranks: must be 1 to 32");
  for (const auto& layers : ranks)
    VARVE_RETURN_IF_ERROR(validate_layers(layers));
  VARVE_RETURN_IF_ERROR(validate_extras(*this));
  if (encoded_bytes(*this) > kFormatBytesMax) {
    return Status::invalid("format: the encoding has at most 160 KiB");
  }
  return {};
}

std::vector<std::byte> Format::encode() const {
  VARVE_ASSERT(validate().ok());
  Writer writer(encoded_bytes(*this));
  writer.number(kMagic);
  writer.number(kVersion);
  writer.number(uint16_t{0});
  writer.raw(model.bytes);
  writer.raw(adapter.bytes);
  writer.number(static_cast<uint8_t>(type));
  writer.number(static_cast<uint8_t>(layout));
  writer.number(uint16_t{0});
  writer.number(tokens_per_block);
  writer.text(lineage);
  writer.number(rank_count());
  for (const auto& layers : ranks) {
    writer.number(static_cast<uint32_t>(layers.size()));
    for (const LayerSpec& layer : layers) {
      writer.number(static_cast<uint8_t>(layer.kind));
      writer.number(layer.bytes);
    }
  }
  writer.number(static_cast<uint32_t>(extras.size()));
  for (const auto& [key, value] : extras) {
    writer.text(key);
    writer.text(value);
  }
  std::vector<std::byte> bytes = writer.take();
  VARVE_ASSERT(bytes.size() == encoded_bytes(*this), bytes.size(), encoded_bytes(*this));
  return bytes;
}

Result<Format> Format::decode(ConstByteSpan bytes) {
  if (bytes.size() > kFormatBytesMax) return Status::invalid("format: at most 160 KiB");
  Reader reader(bytes);
  const auto magic = reader.number<uint32_t>();
  const auto version = reader.number<uint16_t>();
  const auto reserved_a = reader.number<uint16_t>();
  if (!reader.ok()) return Status::invalid("format: truncated");
  if (magic != kMagic) return Status::invalid("format: not a format (magic)");
  if (version != kVersion)
    return Status::unsupported("format: unknown version, this build knows 1");
  Format format;
  format.model = reader.digest();
  format.adapter = reader.digest();
  format.type = static_cast<KvType>(reader.number<uint8_t>());
  format.layout = static_cast<KvLayout>(reader.number<uint8_t>());
  const auto reserved_b = reader.number<uint16_t>();
  if (reserved_a != 0 || reserved_b != 0) return Status::invalid("format: reserved bytes not zero");
  format.tokens_per_block = reader.number<uint32_t>();
  format.lineage = reader.text();
  VARVE_RETURN_IF_ERROR(read_ranks(reader, format));
  VARVE_RETURN_IF_ERROR(read_extras(reader, format));
  if (!reader.ok()) return Status::invalid("format: truncated");
  if (reader.left() != 0) return Status::invalid("format: bytes after the end");
  VARVE_RETURN_IF_ERROR(format.validate());
  return format;
}

Digest Format::fingerprint() const {
  return Sha256().update(encode()).finish();
}

namespace {

class Diff {
 public:
  void add(const std::string& field, const std::string& a, const std::string& b) {
    if (a != b) found_.push_back({field, a, b});
  }
  // What is the same to say of both.
  void add_both(const std::string& field, const std::string& what) {
    found_.push_back({field, what, what});
  }
  std::vector<FieldDifference> take() { return std::move(found_); }

 private:
  std::vector<FieldDifference> found_;
};

std::string layer_text(const std::vector<LayerSpec>& layers, size_t index) {
  if (index >= layers.size()) return "absent";
  return std::string(layer_kind_name(layers[index].kind)) + " " +
         std::to_string(layers[index].bytes) + " bytes";
}

// A rank that differs in many layers gives its first few and a count, not a thousand lines.
void diff_layers(Diff& diff, const Format& a, const Format& b, uint32_t rank) {
  constexpr uint32_t kLinesMax = 8;
  const std::string at = "ranks[" + std::to_string(rank) + "]";
  const auto& left = a.ranks[rank];
  const auto& right = b.ranks[rank];
  diff.add(at + ".layers", std::to_string(left.size()), std::to_string(right.size()));
  uint32_t differing = 0;
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    if (i < left.size() && i < right.size() && left[i] == right[i]) continue;
    if (++differing > kLinesMax) continue;
    diff.add(at + ".layers[" + std::to_string(i) + "]", layer_text(left, i), layer_text(right, i));
  }
  if (differing > kLinesMax) {
    diff.add_both(at, std::to_string(differing - kLinesMax) + " more layers differ");
  }
}

void diff_extras(Diff& diff, const Format& a, const Format& b) {
  auto left = a.extras.begin();
  auto right = b.extras.begin();
  while (left != a.extras.end() || right != b.extras.end()) {
    const bool take_left =
        right == b.extras.end() || (left != a.extras.end() && left->first <= right->first);
    const bool take_right =
        left == a.extras.end() || (right != b.extras.end() && right->first <= left->first);
    const std::string field = "extras." + (take_left ? left->first : right->first);
    diff.add(field, take_left ? "\"" + left->second + "\"" : "absent",
             take_right ? "\"" + right->second + "\"" : "absent");
    if (take_left) ++left;
    if (take_right) ++right;
  }
}

}  // namespace

std::vector<FieldDifference> format_differences(const Format& a, const Format& b) {
  Diff diff;
  diff.add("model", to_hex(a.model.bytes), to_hex(b.model.bytes));
  diff.add("lineage", "\"" + a.lineage + "\"", "\"" + b.lineage + "\"");
  diff.add("adapter", to_hex(a.adapter.bytes), to_hex(b.adapter.bytes));
  diff.add("type", kv_type_name(a.type), kv_type_name(b.type));
  diff.add("layout", kv_layout_name(a.layout), kv_layout_name(b.layout));
  diff.add("tokens_per_block", std::to_string(a.tokens_per_block),
           std::to_string(b.tokens_per_block));
  diff.add("ranks", std::to_string(a.rank_count()), std::to_string(b.rank_count()));
  for (uint32_t rank = 0; rank < std::min(a.rank_count(), b.rank_count()); ++rank) {
    diff_layers(diff, a, b, rank);
  }
  diff_extras(diff, a, b);
  return diff.take();
}

std::vector<std::string> format_diff(const Format& a, const Format& b) {
  std::vector<std::string> lines;
  for (const FieldDifference& d : format_differences(a, b)) {
    lines.push_back(d.field + ": " + (d.a == d.b ? d.a : d.a + " | " + d.b));
  }
  return lines;
}

}  // namespace varve
