// kvctl format: the formats a node has seen, what one is, and in what two of them differ.
#include <nlohmann/json.hpp>

#include "tools/kvctl/call.h"
#include "tools/kvctl/table.h"

namespace varve::kvctl {

namespace {

constexpr size_t kFingerprintBytesMin = 4, kFingerprintBytesMax = 32;
constexpr size_t kFormatBytesMax = 1024 * 1024;  // of a file: a request is not longer
constexpr size_t kShownBytes = 8;                // of fingerprints and digests in tables

// "KV_TYPE_FP8_E4M3" -> "fp8_e4m3"; "unknown(9)" where a newer node has values of its own.
std::string short_name(const std::string& name, const std::string& prefix, int value) {
  if (name.empty()) return "unknown(" + std::to_string(value) + ")";
  std::string text = name.substr(std::min(prefix.size(), name.size()));
  for (char& c : text)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}
std::string type_text(v1::KvType type) {
  return short_name(v1::KvType_Name(type), "KV_TYPE_", type);
}
std::string layout_text(v1::KvLayout layout) {
  return short_name(v1::KvLayout_Name(layout), "KV_LAYOUT_", layout);
}
std::string kind_text(v1::LayerKind kind) {
  return short_name(v1::LayerKind_Name(kind), "LAYER_KIND_", kind);
}

std::string formats_text(const v1::ListFormatsResponse& list, const Paint& paint) {
  if (list.formats_size() == 0) return "no format was seen yet\n";
  Table table({"FINGERPRINT", "LINEAGE", "MODEL", "TYPE", "LAYOUT", ">TOKENS", ">RANKS", ">LAYERS",
               ">BLOCK", ">MATCHED", ">HIT", ">PUSHED", ""});
  for (const v1::FormatSummary& format : list.formats()) {
    table.row({hex_text(format.fingerprint(), kShownBytes), printable(format.lineage()),
               hex_text(format.model(), kShownBytes), type_text(format.type()),
               layout_text(format.layout()), std::to_string(format.tokens_per_block()),
               std::to_string(format.ranks()), std::to_string(format.layers()),
               size_text(format.block_bytes()), count_text(format.matched_ids()),
               share_text(format.hit_ids(), format.matched_ids()),
               count_text(format.pushed_blocks()), format.kept() ? "" : "not kept"});
  }
  return table.text(paint);
}

// Layers of one kind and size in a row are one line.
std::string layers_text(const v1::Rank& rank) {
  std::string text;
  for (int first = 0; first < rank.layers_size();) {
    const v1::Layer& layer = rank.layers(first);
    int end = first + 1;
    while (end < rank.layers_size() && rank.layers(end).kind() == layer.kind() &&
           rank.layers(end).bytes() == layer.bytes()) {
      ++end;
    }
    if (!text.empty()) text += ", ";
    text += std::to_string(end - first) + " x " + kind_text(layer.kind()) + " of " +
            size_text(layer.bytes());
    first = end;
  }
  return text;
}

std::string format_text(const v1::GetFormatResponse& got, const Paint& paint) {
  const v1::FormatSummary& summary = got.summary();
  const v1::Format& format = got.format();
  Facts facts;
  facts.add("fingerprint", hex_text(summary.fingerprint()));
  facts.add("lineage", printable(format.lineage()));
  facts.add("model", hex_text(format.model()));
  facts.add("adapter", summary.has_adapter() ? hex_text(format.adapter()) : "none");
  facts.add("type", type_text(format.type()) + ", layout " + layout_text(format.layout()) + ", " +
                        plural(format.tokens_per_block(), "token") + " a block");
  for (int r = 0; r < format.ranks_size(); ++r)
    facts.add("rank " + std::to_string(r), layers_text(format.ranks(r)));
  for (const v1::Extra& extra : format.extras())
    facts.add("extra", printable(extra.key()) + " = " + printable(extra.value()));
  facts.add("block", size_text(summary.block_bytes()) + " of all ranks");
  facts.add("use", count_text(summary.matched_ids()) + " ids asked for, " +
                       count_text(summary.hit_ids()) + " hit, " +
                       plural(summary.pushed_blocks(), "block") + " pushed since the start");
  facts.add("kept", summary.kept() ? "yes, over restarts" : "no, only in memory");
  return facts.text(paint);
}

std::string diff_text(const v1::DiffFormatsResponse& diff, const Paint& paint) {
  if (diff.differences_size() == 0) return "they are the same\n";
  Table table({"FIELD", hex_text(diff.a(), kShownBytes), hex_text(diff.b(), kShownBytes)});
  for (const v1::FieldDifference& row : diff.differences())
    table.row({printable(row.field()), printable(row.a()), printable(row.b())});
  return table.text(paint) + (diff.cut() ? "... and more\n" : "");
}

Outcome read_fingerprint(const std::string& what, const std::string& hex, std::string* bytes) {
  return read_hex(what, hex, kFingerprintBytesMin, kFingerprintBytesMax, bytes);
}

Outcome list_formats(Call& call) {
  v1::ListFormatsResponse list;
  Outcome outcome = call.node.ask_all(v1::ListFormatsRequest(), &list);
  return outcome.ok() ? call.show(list, formats_text(list, call.paint)) : outcome;
}

Outcome show_format(Call& call) {
  v1::GetFormatRequest request;
  v1::GetFormatResponse got;
  Outcome outcome =
      read_fingerprint("the fingerprint", call.arguments.format, request.mutable_fingerprint());
  if (outcome.ok()) outcome = call.node.ask(request, &got);
  return outcome.ok() ? call.show(got, format_text(got, call.paint)) : outcome;
}

Outcome diff_formats(Call& call) {
  v1::DiffFormatsRequest request;
  v1::DiffFormatsResponse diff;
  Outcome outcome = read_fingerprint("A", call.arguments.format, request.mutable_a());
  if (outcome.ok()) {
    outcome = read_fingerprint("B", call.arguments.other_format, request.mutable_b());
  }
  if (outcome.ok()) outcome = call.node.ask(request, &diff);
  return outcome.ok() ? call.show(diff, diff_text(diff, call.paint)) : outcome;
}

// What `format show --json` printed is taken as it is.
Outcome read_format(const std::string& content, const std::string& file, v1::Format* format) {
  Json json = Json::parse(content, nullptr, false);
  if (json.is_discarded()) {
    return Outcome::usage(printable(file) +
                          " is no JSON; give what kvctl --json format show prints, or --canonical "
                          "for the canonical encoding");
  }
  if (json.is_object() && json.contains("format")) json = Json(json["format"]);
  const std::string problem = read_json(json, format);
  if (problem.empty()) return Outcome::done();
  const bool is_place = problem.starts_with(".");
  return Outcome::usage(printable(file) + ": format" + (is_place ? "" : " ") + problem +
                        "; kvctl --json format show prints one that is right");
}

Outcome register_format(Call& call) {
  const std::string& file = call.arguments.file;
  v1::RegisterFormatRequest request;
  std::string content;
  Outcome outcome = read_whole(call, file, kFormatBytesMax, &content);
  if (!outcome.ok()) return outcome;
  if (call.arguments.canonical) {
    request.set_canonical(std::move(content));
  } else {
    outcome = read_format(content, file, request.mutable_format());
    if (!outcome.ok()) return outcome;
  }
  v1::RegisterFormatResponse registered;
  outcome = call.node.ask(request, &registered);
  if (!outcome.ok()) return outcome;
  std::string text = hex_text(registered.fingerprint()) +
                     (registered.known_before() ? " was known before" : " is registered");
  if (!registered.kept()) text += ", only in memory so far: the log of varved says why";
  return call.show(registered, text + "\n");
}

Option fingerprint_word(const char* name, std::string Arguments::*field) {
  return {name, "HEX", field, "a fingerprint, or its first 8 digits or more", Need::kRequired};
}

}  // namespace

Noun format_noun() {
  return {"format",
          "formats",
          "Formats, and in what they differ: list, show, diff, register",
          {{"list", "Each format that the node has seen", {}, {"format list"}, list_formats},
           {"show",
            "The whole description of one",
            {fingerprint_word("FINGERPRINT", &Arguments::format)},
            {"format show 8b1f0c2d", "--json format show 8b1f0c2d > format.json"},
            show_format},
           {"diff",
            "In which fields two formats differ: why their clients share nothing",
            {fingerprint_word("A", &Arguments::format),
             fingerprint_word("B", &Arguments::other_format)},
            {"format diff 8b1f0c2d 51c7e09a"},
            diff_formats},
           {"register",
            "Check a format and keep it, so that it can be compared",
            {{"FILE", "FILE", &Arguments::file,
              "JSON as kvctl --json format show prints it; -: standard input", Need::kRequired},
             {"--canonical", "", &Arguments::canonical,
              "the file is the canonical encoding (docs/FORMAT.md 2)"}},
            {"format register format.json"},
            register_format}}};
}

}  // namespace varve::kvctl
