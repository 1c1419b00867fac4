// Goal: a program that reads --json finds every field under its name in the proto, whole; and what
// was printed is read again as the same.
#include "tools/kvctl/json.h"

#include <gtest/gtest.h>
#include <varve/v1/control.pb.h>

#include <nlohmann/json.hpp>

namespace varve::kvctl {
namespace {

TEST(JsonOfAMessage, HasEveryFieldUnderItsName) {
  v1::Hold hold;
  hold.set_hold(1);
  hold.set_kind(v1::HOLD_KIND_LEASE);
  hold.set_session(0xab);
  hold.set_client("one");
  hold.set_bytes(~uint64_t{0});
  const Json json = json_of(hold);
  EXPECT_EQ(json["hold"], 1);
  EXPECT_EQ(json["kind"], "HOLD_KIND_LEASE");
  EXPECT_EQ(json["session"], "00000000000000ab");
  EXPECT_EQ(json["client"], "one");
  EXPECT_EQ(json["age_ns"], 0);
  EXPECT_EQ(json["bytes"], ~uint64_t{0});
  // Fields are added to the proto: each of them is here, in its order, whether it is set or not.
  std::vector<std::string> names, there;
  for (const auto& [name, value] : json.items())
    names.push_back(name);
  for (int f = 0; f < v1::Hold::descriptor()->field_count(); ++f)
    there.push_back(v1::Hold::descriptor()->field(f)->name());
  EXPECT_EQ(names, there);
}

TEST(JsonOfAMessage, WritesBytesInHexAndWhatIsNotThereAsNull) {
  v1::FindBlockResponse found;
  found.set_found(true);
  found.add_blocks()->add_fragments()->set_readable(true);
  const Json json = json_of(found);
  EXPECT_TRUE(json["blocks"][0]["attempt"].is_null());
  EXPECT_EQ(json["blocks"][0]["fragments"][0]["readable"], true);
  v1::MatchPrefixResponse matched;
  matched.add_tiers(v1::TIER_KIND_DRAM);
  EXPECT_EQ(json_of(matched)["tiers"], Json::array({"TIER_KIND_DRAM"}));
  EXPECT_EQ(json_of(v1::ListTiersResponse())["tiers"], Json::array());
  v1::GetFormatRequest get;
  get.set_fingerprint(std::string("\x00\xfe", 2));
  EXPECT_EQ(json_of(get)["fingerprint"], "00fe");
}

TEST(JsonOfAMessage, IsJsonWhateverAClientCallsItself) {
  v1::Session session;
  session.set_client("a\xff\n\"");
  const std::string text = document(json_of(session));
  EXPECT_EQ(text.back(), '\n');
  EXPECT_FALSE(nlohmann::json::parse(text, nullptr, false).is_discarded());
}

v1::Format sample() {
  v1::Format format;
  format.set_model(std::string(32, '\x07'));
  format.set_lineage("a");
  format.set_type(v1::KV_TYPE_BF16);
  format.set_tokens_per_block(16);
  v1::Layer* layer = format.add_ranks()->add_layers();
  layer->set_kind(v1::LAYER_KIND_FULL);
  layer->set_bytes(4096);
  format.add_extras()->set_key("k");
  return format;
}

TEST(JsonOfAMessage, IsReadAgainAsTheSame) {
  const v1::Format format = sample();
  v1::Format again;
  EXPECT_EQ(read_json(json_of(format), &again), "");
  EXPECT_EQ(again.SerializeAsString(), format.SerializeAsString());
}

TEST(JsonOfAMessage, IsRefusedWithThePlaceWhereItIsWrong) {
  const Json good = json_of(sample());
  const auto problem = [](Json json) {
    v1::Format format;
    return read_json(json, &format);
  };
  Json json = good;
  json["modle"] = "00";
  EXPECT_EQ(problem(json), ".modle is unknown");
  json = good;
  json["ranks"][0]["layers"][0]["bytes"] = -1;
  EXPECT_EQ(problem(json), ".ranks[0].layers[0].bytes must be a whole number below 4294967296");
  json["ranks"][0]["layers"][0]["bytes"] = 4294967296;
  EXPECT_NE(problem(json), "");
  json = good;
  json["ranks"][0]["layers"][0]["kind"] = "full";
  EXPECT_EQ(problem(json),
            ".ranks[0].layers[0].kind must be a value of LayerKind, as LAYER_KIND_OPAQUE");
  json = good;
  json["ranks"] = 3;
  EXPECT_EQ(problem(json), ".ranks must be a list");
  json["ranks"] = Json::array({3});
  EXPECT_EQ(problem(json), ".ranks[0] must be an object");
  json = good;
  json["model"] = "0g";
  EXPECT_EQ(problem(json), ".model must be bytes in hex");
  json["model"] = 7;
  EXPECT_EQ(problem(json), ".model must be a text");
  EXPECT_EQ(problem(Json::array()), "must be an object");
  json = good;
  json["adapter"] = nullptr;
  EXPECT_EQ(problem(json), "");
}

}  // namespace
}  // namespace varve::kvctl
