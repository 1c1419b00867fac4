// Formats and base ids through the C door.
#include <algorithm>

#include "client/c_border.h"

namespace varve {

namespace {

Digest digest_of(const uint8_t (&bytes)[32]) {
  Digest digest;
  std::memcpy(digest.bytes.data(), bytes, sizeof bytes);
  return digest;
}

// Bounded before anything is read that a count in it leads to; the rest is Format::validate's.
Status read_format(const varve_format_desc* given, Format& format) {
  varve_format_desc desc;
  VARVE_RETURN_IF_ERROR(read_sized(given, desc));
  if (desc.type > UINT8_MAX || desc.order > UINT8_MAX) {
    return Status::invalid("format: no such type or order");
  }
  if (desc.rank_count > kRanksMax) return Status::invalid("format: at most 32 ranks");
  if (desc.extra_count > kFormatExtrasMax) return Status::invalid("format: at most 32 extras");
  if ((desc.rank_count > 0 && desc.ranks == nullptr) ||
      (desc.extra_count > 0 && desc.extras == nullptr)) {
    return Status::invalid("format: a null list");
  }
  format.model = digest_of(desc.model);
  format.adapter = digest_of(desc.adapter);
  if (desc.lineage != nullptr) format.lineage = desc.lineage;
  format.type = static_cast<KvType>(desc.type);
  format.layout = static_cast<KvLayout>(desc.order);
  format.tokens_per_block = desc.tokens_per_block;
  for (const varve_rank& rank : std::span(desc.ranks, desc.rank_count)) {
    if (rank.layer_count > kLayersMax) return Status::invalid("format: at most 1024 layers");
    if (rank.layers == nullptr) return Status::invalid("format: a rank without layers");
    if (rank.reserved != 0) return Status::unsupported("format: reserved is 0");
    std::vector<LayerSpec>& layers = format.ranks.emplace_back();
    for (const varve_layer& layer : std::span(rank.layers, rank.layer_count)) {
      if (layer.kind > UINT8_MAX) return Status::invalid("format: no such kind of layer");
      layers.push_back({static_cast<LayerKind>(layer.kind), layer.bytes});
    }
  }
  for (const varve_extra& extra : std::span(desc.extras, desc.extra_count)) {
    if (extra.key == nullptr || extra.value == nullptr) {
      return Status::invalid("format: an extra without key or value");
    }
    format.extras.emplace_back(extra.key, extra.value);
  }
  std::sort(format.extras.begin(), format.extras.end());
  return Status();
}

Status register_format(Handle& handle, const varve_format_desc* given, varve_format* out) {
  if (out == nullptr) return Status::invalid("format: nowhere to put it");
  Format format;
  VARVE_RETURN_IF_ERROR(read_format(given, format));
  VARVE_TRY(const FormatId id, handle.client().format(format));
  handle.know_format(id, format);
  *out = id;
  return Status();
}

Status base_ids(Handle& handle, const varve_tokens* given, std::span<varve_id> out, size_t* count) {
  varve_tokens tokens;
  VARVE_RETURN_IF_ERROR(read_sized(given, tokens));
  if (count == nullptr || (out.data() == nullptr && !out.empty())) {
    return Status::invalid("base_ids: nowhere to put them");
  }
  if (tokens.tokens == nullptr && tokens.token_count > 0) {
    return Status::invalid("base_ids: null tokens");
  }
  if (tokens.extras == nullptr && tokens.extra_count > 0) {
    return Status::invalid("base_ids: null extras");
  }
  std::vector<ConstByteSpan> extras;
  for (const varve_bytes& extra : std::span(tokens.extras, tokens.extra_count)) {
    if (extra.data == nullptr && extra.bytes > 0) return Status::invalid("base_ids: a null extra");
    extras.emplace_back(static_cast<const std::byte*>(extra.data), extra.bytes);
  }
  VARVE_TRY(const auto ids, handle.client().base_ids(tokens.format, from_c(tokens.parent),
                                                     {tokens.tokens, tokens.token_count}, extras));
  *count = ids.size();
  if (ids.size() > out.size()) return Status::invalid("base_ids: more runs than there is room for");
  for (size_t i = 0; i < ids.size(); ++i)
    out[i] = to_c(ids[i]);
  return Status();
}

Status base_id_of_hash(Handle& handle, varve_format format, ConstByteSpan hash, varve_id* out) {
  if (out == nullptr || hash.data() == nullptr) return Status::invalid("base_id_of_hash: a null");
  VARVE_TRY(const BaseId id, handle.client().base_id_of_hash(format, hash));
  *out = to_c(id);
  return Status();
}

}  // namespace

}  // namespace varve

extern "C" {

varve_status varve_format_register(varve_client* client, const varve_format_desc* desc,
                                   varve_format* format) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::register_format(handle, desc, format);
  });
}

varve_status varve_format_fingerprint(varve_client* client, varve_format format,
                                      varve_id* fingerprint) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    auto shape = handle.format_shape(format);
    if (!shape.has_value()) return shape.error();
    if (fingerprint == nullptr) return varve::Status::invalid("fingerprint: nowhere to put it");
    *fingerprint = varve::to_c(shape->fingerprint);
    return varve::Status();
  });
}

varve_status varve_base_ids(varve_client* client, const varve_tokens* tokens, varve_id* ids,
                            size_t capacity, size_t* count) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::base_ids(handle, tokens, {ids, capacity}, count);
  });
}

varve_status varve_base_id_of_hash(varve_client* client, varve_format format, const void* hash,
                                   size_t hash_bytes, varve_id* id) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    const auto* bytes = static_cast<const std::byte*>(hash);
    return varve::base_id_of_hash(handle, format, {bytes, hash_bytes}, id);
  });
}

}  // extern "C"
