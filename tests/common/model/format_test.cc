// Goal: M1 and M2 of the model for formats, and every limit refused by name.
// Method: golden vectors, round trips of random formats, every truncation and every single-byte
// change of an encoding, one broken field at a time.
#include "common/model/format.h"

#include <gtest/gtest.h>

#include "common/model/model.h"
#include "tests/common/model/vector_file.h"

namespace varve {
namespace {

Format sample() {
  Format format;
  format.model.bytes.fill(std::byte{7});
  format.lineage = "main";
  format.ranks = {{{LayerKind::kFull, 4096}, {LayerKind::kSliding, 100}}, {{LayerKind::kState, 9}}};
  format.extras = {{"engine", "x"}, {"tp", "2"}};
  return format;
}

Format random_format(Random& random) {
  Format format = sample();
  format.model.bytes[random.below(32)] = static_cast<std::byte>(random.next());
  if (random.chance(500)) format.adapter.bytes[3] = std::byte{1};
  format.type = static_cast<KvType>(random.between(1, 7));
  format.layout = static_cast<KvLayout>(random.between(1, 4));
  format.tokens_per_block = static_cast<uint32_t>(random.between(1, kTokensPerBlockMax));
  format.lineage = std::string(random.below(kFormatTextMax + 1), 'l');
  format.ranks.resize(random.between(1, kRanksMax));
  for (auto& layers : format.ranks) {
    layers.resize(random.between(1, 40));
    for (LayerSpec& layer : layers) {
      layer.kind = static_cast<LayerKind>(random.between(1, 5));
      layer.bytes = static_cast<uint32_t>(random.between(1, 6 * kMiB));
    }
  }
  format.extras.clear();
  for (uint64_t i = 0, n = random.below(kFormatExtrasMax + 1); i < n; ++i) {
    format.extras.emplace_back("key" + std::to_string(100 + i), std::string(random.below(9), 'v'));
  }
  return format;
}

TEST(Format, EqualsTheGoldenVectors) {
  const auto records = vectors::read("tests/vectors/format_1.txt");
  EXPECT_GE(records.size(), 8u);
  for (const vectors::Record& record : records) {
    Format format;
    format.model = record.digest("model");
    format.lineage = record.text("lineage");
    format.adapter = record.digest("adapter");
    format.type = vectors::named(record.text("type"), &kv_type_name, KvType::kOpaque);
    format.layout = vectors::named(record.text("layout"), &kv_layout_name, KvLayout::kOpaque);
    format.tokens_per_block = static_cast<uint32_t>(record.number("tokens_per_block"));
    for (const std::string& rank : record.all("rank")) {
      format.ranks.push_back(vectors::layers(rank));
    }
    for (const std::string& extra : record.all("extra")) {
      const size_t equals = extra.find('=');
      format.extras.emplace_back(extra.substr(0, equals), extra.substr(equals + 1));
    }
    EXPECT_EQ(to_hex(format.encode()), record.text("canonical")) << record.text("case");
    EXPECT_EQ(format.fingerprint(), record.digest("fingerprint")) << record.text("case");
    EXPECT_EQ(Format::decode(record.bytes("canonical")).value(), format) << record.text("case");
  }
}

TEST(Format, DecodesWhatItEncoded) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const Format format = random_format(random);
    ASSERT_TRUE(format.validate().ok()) << format.validate().what();
    const Result<Format> back = Format::decode(format.encode());
    ASSERT_TRUE(back.has_value()) << back.error().what();
    ASSERT_EQ(*back, format);
    ASSERT_TRUE(format_diff(*back, format).empty());
  }
}

TEST(Format, RefusesEveryTruncationAndAnyTrailingByte) {
  std::vector<std::byte> bytes = sample().encode();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(Format::decode(ConstByteSpan(bytes).first(size)).has_value()) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(Format::decode(bytes).has_value());
}

TEST(Format, AnAcceptedChangeOfOneByteIsAnotherFormatWithThatVeryEncoding) {
  const Format original = sample();
  const std::vector<std::byte> bytes = original.encode();
  int accepted = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> changed = bytes;
      changed[at] ^= static_cast<std::byte>(1 << bit);
      const Result<Format> decoded = Format::decode(changed);
      if (!decoded.has_value()) continue;
      ++accepted;
      ASSERT_EQ(decoded->encode(), changed);
      ASSERT_NE(decoded->fingerprint(), original.fingerprint());
      ASSERT_FALSE(format_diff(*decoded, original).empty());
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(Format, RefusesForeignMagicNewerVersionAndReservedBytesByName) {
  const auto refusal = [](size_t at, uint8_t value) {
    std::vector<std::byte> bytes = sample().encode();
    bytes[at] = static_cast<std::byte>(value);
    return Format::decode(bytes).error();
  };
  EXPECT_STREQ(refusal(0, 'X').what(), "format: not a format (magic)");
  EXPECT_EQ(refusal(4, 2).code(), Code::kUnsupported);
  EXPECT_STREQ(refusal(4, 2).what(), "format: unknown version, this build knows 1");
  EXPECT_STREQ(refusal(6, 1).what(), "format: reserved bytes not zero");
  EXPECT_STREQ(refusal(75, 1).what(), "format: reserved bytes not zero");
  EXPECT_STREQ(refusal(72, 8).what(), "type: unknown KV type");
  EXPECT_STREQ(refusal(73, 0).what(), "layout: unknown KV layout");
}

TEST(Format, RefusesHugeCountsBeforeReservingForThem) {
  const size_t rank_count_at = 80 + 2 + sample().lineage.size();
  for (size_t at : {rank_count_at, rank_count_at + 4}) {
    std::vector<std::byte> bytes = sample().encode();
    store(bytes, at, uint32_t{0xffffffff});
    EXPECT_EQ(Format::decode(bytes).error().code(), Code::kInvalid);
    store(bytes, at, at == rank_count_at ? kRanksMax : kLayersMax);  // within limits, not there
    EXPECT_EQ(Format::decode(bytes).error().code(), Code::kInvalid);
  }
  EXPECT_FALSE(Format::decode(std::vector<std::byte>(kFormatBytesMax + 1)).has_value());
}

// One broken field, and what the refusal must name.
struct Broken {
  const char* names;
  void (*breaks)(Format&);
};

TEST(Format, ValidateNamesTheFieldThatIsWrong) {
  const Broken cases[] = {
      {"model", [](Format& f) { f.model = {}; }},
      {"type", [](Format& f) { f.type = KvType{0}; }},
      {"type", [](Format& f) { f.type = KvType{8}; }},
      {"layout", [](Format& f) { f.layout = KvLayout{5}; }},
      {"tokens_per_block", [](Format& f) { f.tokens_per_block = 0; }},
      {"tokens_per_block", [](Format& f) { f.tokens_per_block = kTokensPerBlockMax + 1; }},
      {"lineage", [](Format& f) { f.lineage = std::string(kFormatTextMax + 1, 'x'); }},
      {"lineage", [](Format& f) { f.lineage = "a\nb"; }},
      {"ranks", [](Format& f) { f.ranks.clear(); }},
      {"ranks", [](Format& f) { f.ranks.resize(kRanksMax + 1, f.ranks[0]); }},
      {"layers", [](Format& f) { f.ranks[1].clear(); }},
      {"layers",
       [](Format& f) {
         f.ranks[1].resize(kLayersMax + 1, {LayerKind::kFull, 1});
       }},
      {"layer kind", [](Format& f) { f.ranks[0][0].kind = LayerKind{6}; }},
      {"layer bytes", [](Format& f) { f.ranks[0][0].bytes = 0; }},
      {"layer bytes", [](Format& f) { f.ranks[0][0].bytes = kLayerBytesMax + 1; }},
      {"block bytes",
       [](Format& f) {
         f.ranks[0].assign(5, {LayerKind::kFull, uint32_t{kLayerBytesMax}});
       }},
      {"extras",
       [](Format& f) {
         f.extras = {{"b", ""}, {"a", ""}};
       }},
      {"extras",
       [](Format& f) {
         f.extras = {{"a", ""}, {"a", ""}};
       }},
      {"extras",
       [](Format& f) {
         f.extras = {{"", ""}};
       }},
      {"extras",
       [](Format& f) {
         f.extras = {{"a", std::string(1, '\0')}};
       }},
      {"extras",
       [](Format& f) {
         f.extras = {{"a", std::string(kFormatTextMax + 1, 'v')}};
       }},
      {"extras",
       [](Format& f) {
         f.extras.clear();
         for (char c = 'A'; c <= 'A' + 32; ++c)
           f.extras.emplace_back(std::string(1, c), "");
       }},
      {"format",
       [](Format& f) {
         f.ranks.assign(kRanksMax, std::vector<LayerSpec>(kLayersMax, {LayerKind::kFull, 1}));
       }},
  };
  for (const Broken& broken : cases) {
    Format format = sample();
    broken.breaks(format);
    const Status status = format.validate();
    EXPECT_EQ(status.code(), Code::kInvalid) << broken.names;
    EXPECT_TRUE(std::string(status.what()).starts_with(broken.names)) << status.what();
  }
}

TEST(Format, AcceptsTheLargestOfEverythingThatFits) {
  Format format = sample();
  format.lineage = std::string(kFormatTextMax, 'x');
  format.ranks.assign(kRanksMax, std::vector<LayerSpec>(900, {LayerKind::kFull, 1}));
  format.ranks[0].assign(4, {LayerKind::kFull, uint32_t{kLayerBytesMax}});
  EXPECT_EQ(format.block_bytes(0), kBlockBytesMax);
  ASSERT_TRUE(format.validate().ok()) << format.validate().what();
  EXPECT_EQ(Format::decode(format.encode()).value(), format);
}

TEST(FormatDiff, SaysInWhichFieldsTwoFormatsDiffer) {
  const Format a = sample();
  Format b = a;
  b.type = KvType::kFp16;
  b.lineage = "fork";
  b.ranks[0][1].bytes = 101;
  b.ranks[1].push_back({LayerKind::kFull, 5});
  b.extras = {{"engine", "y"}, {"zone", "1"}};
  EXPECT_EQ(format_diff(a, b), (std::vector<std::string>{
                                   "lineage: \"main\" | \"fork\"",
                                   "type: bf16 | fp16",
                                   "ranks[0].layers[1]: sliding 100 bytes | sliding 101 bytes",
                                   "ranks[1].layers: 1 | 2",
                                   "ranks[1].layers[1]: absent | full 5 bytes",
                                   "extras.engine: \"x\" | \"y\"",
                                   "extras.tp: \"2\" | absent",
                                   "extras.zone: absent | \"1\"",
                               }));
  EXPECT_TRUE(format_diff(a, a).empty());
}

TEST(FormatDiff, ShortensAThousandDifferingLayers) {
  Format a = sample(), b = sample();
  a.ranks = {std::vector<LayerSpec>(kLayersMax, {LayerKind::kFull, 1})};
  b.ranks = {std::vector<LayerSpec>(kLayersMax, {LayerKind::kFull, 2})};
  const std::vector<std::string> lines = format_diff(a, b);
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines.back(), "ranks[0]: 1016 more layers differ");
}

// A text of an extra may look like the end of a line: fields are apart.
TEST(FormatDiff, KeepsFieldAndValuesApart) {
  Format a = sample(), b = sample();
  a.extras = {{"note", "x | y: z"}};
  b.extras = {{"note", "x"}};
  const std::vector<FieldDifference> found = format_differences(a, b);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], (FieldDifference{"extras.note", "\"x | y: z\"", "\"x\""}));
}

}  // namespace
}  // namespace varve
