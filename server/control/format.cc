// Calls about formats: register, list, describe, compare.
#include <algorithm>

#include "server/control/check.h"
#include "server/control/rpc.h"

namespace varve::control {

namespace {

constexpr uint32_t kDifferencesMax = 128;

// The numbers of the enums are those of the model, which FORMAT.md 2 fixes.
static_assert(v1::KV_TYPE_OPAQUE == static_cast<int>(KvType::kOpaque));
static_assert(v1::KV_TYPE_FP8_E5M2 == static_cast<int>(KvType::kFp8E5m2));
static_assert(v1::KV_LAYOUT_OPAQUE == static_cast<int>(KvLayout::kOpaque));
static_assert(v1::LAYER_KIND_OPAQUE == static_cast<int>(LayerKind::kOpaque));

void fill(const FormatRow& from, v1::FormatSummary* to) {
  const Format& format = from.format;
  to->set_fingerprint(text_of(from.fingerprint.bytes));
  to->set_lineage(format.lineage);
  to->set_model(text_of(format.model.bytes));
  to->set_type(static_cast<v1::KvType>(format.type));
  to->set_layout(static_cast<v1::KvLayout>(format.layout));
  to->set_tokens_per_block(format.tokens_per_block);
  to->set_ranks(format.rank_count());
  to->set_layers(static_cast<uint32_t>(format.ranks.front().size()));
  uint64_t bytes = 0;
  for (uint32_t rank = 0; rank < format.rank_count(); ++rank)
    bytes += format.block_bytes(rank);
  to->set_block_bytes(bytes);
  to->set_has_adapter(!format.adapter.is_zero());
  to->set_kept(from.kept);
  to->set_matched_ids(from.matched_ids);
  to->set_hit_ids(from.hit_ids);
  to->set_pushed_blocks(from.pushed_blocks);
}

void fill(const Format& from, v1::Format* to) {
  to->set_model(text_of(from.model.bytes));
  to->set_lineage(from.lineage);
  to->set_adapter(text_of(from.adapter.bytes));
  to->set_type(static_cast<v1::KvType>(from.type));
  to->set_layout(static_cast<v1::KvLayout>(from.layout));
  to->set_tokens_per_block(from.tokens_per_block);
  for (const auto& layers : from.ranks) {
    v1::Rank* rank = to->add_ranks();
    for (const LayerSpec& layer : layers) {
      v1::Layer* row = rank->add_layers();
      row->set_kind(static_cast<v1::LayerKind>(layer.kind));
      row->set_bytes(layer.bytes);
    }
  }
  for (const auto& [key, value] : from.extras) {
    v1::Extra* extra = to->add_extras();
    extra->set_key(key);
    extra->set_value(value);
  }
}

// Counts first: nothing is built that the model would refuse for its size.
std::string too_many(const v1::Format& in) {
  if (in.ranks_size() > static_cast<int>(kRanksMax)) {
    return "format.ranks has " + std::to_string(in.ranks_size()) + " entries; at most 32";
  }
  if (in.extras_size() > static_cast<int>(kFormatExtrasMax)) {
    return "format.extras has " + std::to_string(in.extras_size()) + " entries; at most 32";
  }
  for (const v1::Rank& rank : in.ranks()) {
    if (rank.layers_size() > static_cast<int>(kLayersMax)) {
      return "format.ranks.layers has " + std::to_string(rank.layers_size()) +
             " entries; at most 1024";
    }
  }
  return {};
}

Answer<Format> model_of(const v1::Format& in) {
  std::string problem = too_many(in);
  if (problem.empty()) problem = bad_text("format.lineage", in.lineage(), kFormatTextMax);
  for (const v1::Extra& extra : in.extras()) {
    if (problem.empty()) problem = bad_text("format.extras.key", extra.key(), kFormatTextMax);
    if (problem.empty()) problem = bad_text("format.extras.value", extra.value(), kFormatTextMax);
  }
  if (!problem.empty()) return Refusal::of(Code::kInvalid, problem);
  Format out;
  auto model = digest_of("format.model", in.model());
  if (!model) return model.refusal();
  out.model = *model;
  if (!in.adapter().empty()) {
    auto adapter = digest_of("format.adapter", in.adapter());
    if (!adapter) return adapter.refusal();
    out.adapter = *adapter;
  }
  out.lineage = in.lineage();
  out.type = static_cast<KvType>(in.type());
  out.layout = static_cast<KvLayout>(in.layout());
  out.tokens_per_block = in.tokens_per_block();
  for (const v1::Rank& rank : in.ranks()) {
    std::vector<LayerSpec>& layers = out.ranks.emplace_back();
    for (const v1::Layer& layer : rank.layers())
      layers.push_back({static_cast<LayerKind>(layer.kind()), layer.bytes()});
  }
  for (const v1::Extra& extra : in.extras())
    out.extras.emplace_back(extra.key(), extra.value());
  std::sort(out.extras.begin(), out.extras.end());
  return out;
}

Answer<Format> asked_format(const v1::RegisterFormatRequest& in) {
  if (in.has_format()) {
    Answer<Format> format = model_of(in.format());
    if (!format) return format;
    if (const Status status = format->validate(); !status.ok()) {
      return Refusal::of(status.code(), status.what());
    }
    return format;
  }
  if (!in.has_canonical()) {
    return Refusal::of(Code::kInvalid, "nothing is given; give format or canonical");
  }
  if (in.canonical().size() > kFormatBytesMax) {
    return Refusal::of(Code::kInvalid, "canonical has " + std::to_string(in.canonical().size()) +
                                           " bytes; at most 163840");
  }
  Result<Format> format = Format::decode(bytes_of_text(in.canonical()));
  if (!format) return Refusal::of(format.error().code(), format.error().what());
  return *std::move(format);
}

}  // namespace

grpc::Status register_format(const Ask& ask, const v1::RegisterFormatRequest& in,
                             v1::RegisterFormatResponse* out) {
  VARVE_ASK(const Format format, asked_format(in));
  VARVE_ASK(const Registered registered, ask.ingress.format_register(format, ask.limit_ns));
  out->set_fingerprint(text_of(registered.fingerprint.bytes));
  out->set_known_before(registered.known_before);
  out->set_kept(registered.kept);
  return grpc::Status::OK;
}

grpc::Status list_formats(const Ask& ask, const v1::ListFormatsRequest& in,
                          v1::ListFormatsResponse* out) {
  VARVE_ASK(const PageAsk page, page_of(in.cursor(), in.page_size(), kFormatsPageMax));
  const Page<FormatRow> formats = ask.ingress.formats(page);
  for (const FormatRow& format : formats.rows)
    fill(format, out->add_formats());
  out->set_next_cursor(formats.next_cursor);
  return grpc::Status::OK;
}

grpc::Status get_format(const Ask& ask, const v1::GetFormatRequest& in,
                        v1::GetFormatResponse* out) {
  VARVE_ASK(const std::string begin, fingerprint_begin_of("fingerprint", in.fingerprint()));
  VARVE_ASK(const FormatRow row, ask.ingress.format(bytes_of_text(begin)));
  fill(row, out->mutable_summary());
  fill(row.format, out->mutable_format());
  out->set_canonical(text_of(row.format.encode()));
  return grpc::Status::OK;
}

grpc::Status diff_formats(const Ask& ask, const v1::DiffFormatsRequest& in,
                          v1::DiffFormatsResponse* out) {
  VARVE_ASK(const std::string begin_a, fingerprint_begin_of("a", in.a()));
  VARVE_ASK(const std::string begin_b, fingerprint_begin_of("b", in.b()));
  VARVE_ASK(const FormatRow a, ask.ingress.format(bytes_of_text(begin_a)));
  VARVE_ASK(const FormatRow b, ask.ingress.format(bytes_of_text(begin_b)));
  out->set_a(text_of(a.fingerprint.bytes));
  out->set_b(text_of(b.fingerprint.bytes));
  for (const FieldDifference& difference : format_differences(a.format, b.format)) {
    if (out->differences_size() == static_cast<int>(kDifferencesMax)) {
      out->set_cut(true);
      break;
    }
    v1::FieldDifference* row = out->add_differences();
    row->set_field(difference.field);
    row->set_a(difference.a);
    row->set_b(difference.b);
  }
  return grpc::Status::OK;
}

}  // namespace varve::control
