// Goal: why two engines share nothing is seen in one call, and a description that was printed can
// be given back.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

v1::Format sample() {
  v1::Format format;
  format.set_model(std::string(32, '\x07'));
  format.set_lineage("llama");
  format.set_type(v1::KV_TYPE_FP8_E4M3);
  format.set_layout(v1::KV_LAYOUT_HND);
  format.set_tokens_per_block(16);
  v1::Rank* rank = format.add_ranks();
  for (int l = 0; l < 4; ++l) {
    v1::Layer* layer = rank->add_layers();
    layer->set_kind(l < 3 ? v1::LAYER_KIND_FULL : v1::LAYER_KIND_STATE);
    layer->set_bytes(65536);
  }
  return format;
}

TEST(Formats, AreListedAndShown) {
  FakeNode node;
  v1::FormatSummary* row = node.ListFormats_answer().add_formats();
  row->set_fingerprint(std::string(32, '\xab'));
  row->set_lineage("llama");
  row->set_type(v1::KV_TYPE_FP8_E4M3);
  row->set_matched_ids(10);
  row->set_hit_ids(5);
  const Said list = node.kvctl({"format", "list"});
  for (const char* mark : {"abababababababab...", "llama", "fp8_e4m3", "50.0 %", "not kept"})
    EXPECT_NE(list.out.find(mark), std::string::npos) << mark << "\n" << list.out;
  *node.GetFormat_answer().mutable_format() = sample();
  const Said shown = node.kvctl({"format", "show", "abababab"});
  EXPECT_EQ(node.GetFormat_request.fingerprint(), std::string(4, '\xab'));
  EXPECT_NE(shown.out.find("3 x full of 64.0 KiB, 1 x state of 64.0 KiB"), std::string::npos)
      << shown.out;
  EXPECT_EQ(node.kvctl({"format", "show", "abab"}).exit, Exit::kUsage);
}

// Goal: what a newer node has is not an empty cell.
TEST(Formats, OfANewerNodeSaySo) {
  FakeNode node;
  v1::FormatSummary* row = node.ListFormats_answer().add_formats();
  row->set_type(static_cast<v1::KvType>(99));
  row->set_layout(static_cast<v1::KvLayout>(98));
  const Said said = node.kvctl({"format", "list"});
  EXPECT_NE(said.out.find("unknown(99)"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("unknown(98)"), std::string::npos) << said.out;
  EXPECT_NE(node.kvctl({"--json", "format", "list"}).out.find("99"), std::string::npos);
}

TEST(Formats, AreCompared) {
  FakeNode node;
  EXPECT_EQ(node.kvctl({"format", "diff", "abababab", "cdcdcdcd"}).out, "they are the same\n");
  v1::FieldDifference* row = node.DiffFormats_answer().add_differences();
  row->set_field("tokens_per_block");
  row->set_a("16");
  row->set_b("32");
  const Said said = node.kvctl({"format", "diff", "abababab", "cdcdcdcd"});
  EXPECT_NE(said.out.find("tokens_per_block  16"), std::string::npos) << said.out;
  EXPECT_EQ(node.DiffFormats_request.b(), std::string(4, '\xcd'));
}

TEST(Formats, AreRegisteredFromWhatWasPrinted) {
  FakeNode node;
  *node.GetFormat_answer().mutable_format() = sample();
  const std::string folder = ::testing::TempDir() + "kvctl_format_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const std::string file = folder + "/format.json";
  std::ofstream(file) << node.kvctl({"--json", "format", "show", "abababab"}).out;
  const Said said = node.kvctl({"format", "register", file});
  EXPECT_EQ(said.exit, Exit::kDone) << said.err;
  EXPECT_EQ(node.RegisterFormat_request.format().SerializeAsString(), sample().SerializeAsString());
  node.asked.clear();
  std::ofstream(file) << "{\"lineage\": 3}";
  const Said wrong = node.kvctl({"format", "register", file});
  EXPECT_EQ(wrong.exit, Exit::kUsage);
  EXPECT_NE(wrong.err.find("format.lineage must be a text"), std::string::npos) << wrong.err;
  std::ofstream(file) << "VRVF";
  EXPECT_NE(node.kvctl({"format", "register", file}).err.find("--canonical"), std::string::npos);
  EXPECT_TRUE(node.asked.empty());
  EXPECT_EQ(node.kvctl({"format", "register", file, "--canonical"}).exit, Exit::kDone);
  EXPECT_EQ(node.RegisterFormat_request.canonical(), "VRVF");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace varve::kvctl
