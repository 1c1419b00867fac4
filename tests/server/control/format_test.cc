// Goal: a format goes in and comes out whole in both of its forms, and a difference is told in
// words.
// Method: through an in-process channel against a node that is none.
#include <gtest/gtest.h>

#include "tests/server/control/control_rig.h"

namespace varve::control {
namespace {

using Stub = v1::Control::Stub;

FormatRow row_of(const Format& format) {
  FormatRow row;
  row.fingerprint = format.fingerprint();
  row.format = format;
  row.kept = true;
  row.hit_ids = 5;
  return row;
}

v1::Format proto_format() {
  v1::Format format;
  format.set_model(bytes32(1));
  format.set_lineage("main");
  format.set_type(v1::KV_TYPE_BF16);
  format.set_layout(v1::KV_LAYOUT_NHD);
  format.set_tokens_per_block(256);
  v1::Layer* layer = format.add_ranks()->add_layers();
  layer->set_kind(v1::LAYER_KIND_FULL);
  layer->set_bytes(4096);
  return format;
}

TEST(ControlFormat, BothFormsOfOneFormatHaveOneFingerprint) {
  ControlRig rig;
  Format model;
  model.model = digest_with(1);
  model.lineage = "main";
  model.ranks = {{{LayerKind::kFull, 4096}}};
  v1::RegisterFormatRequest in;
  *in.mutable_format() = proto_format();
  v1::RegisterFormatResponse out;
  ASSERT_TRUE(rig.call(&Stub::RegisterFormat, in, &out).ok());
  EXPECT_EQ(out.fingerprint(), text_of(model.fingerprint().bytes));
  in.set_canonical(text_of(model.encode()));
  ASSERT_TRUE(rig.call(&Stub::RegisterFormat, in, &out).ok());
  EXPECT_EQ(out.fingerprint(), text_of(model.fingerprint().bytes));
  EXPECT_EQ(rig.node.asked, (std::vector<std::string>{"register main", "register main"}));
}

TEST(ControlFormat, WhatIsNoFormatDoesNotReachTheNode) {
  ControlRig rig;
  v1::RegisterFormatResponse out;
  const auto refused = [&](const v1::RegisterFormatRequest& in) {
    const grpc::Status status = rig.call(&Stub::RegisterFormat, in, &out);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << status.error_message();
    EXPECT_FALSE(status.error_message().empty());
  };
  v1::RegisterFormatRequest in;
  refused(in);  // neither form
  in.set_canonical("no format");
  refused(in);
  in.set_canonical(std::string(kFormatBytesMax + 1, 'x'));
  refused(in);
  *in.mutable_format() = proto_format();
  in.mutable_format()->set_model("short");
  refused(in);
  *in.mutable_format() = proto_format();
  in.mutable_format()->clear_type();
  refused(in);
  *in.mutable_format() = proto_format();
  in.mutable_format()->clear_ranks();
  refused(in);
  *in.mutable_format() = proto_format();
  for (int i = 0; i < 33; ++i)
    in.mutable_format()->add_ranks();
  refused(in);
  *in.mutable_format() = proto_format();
  for (int i = 0; i < 1025; ++i)
    in.mutable_format()->mutable_ranks(0)->add_layers()->set_bytes(1);
  refused(in);
  *in.mutable_format() = proto_format();
  for (int i = 0; i < 2; ++i)
    in.mutable_format()->add_extras()->set_key("twice");
  refused(in);
  *in.mutable_format() = proto_format();
  in.mutable_format()->set_lineage("a\tb");
  refused(in);
  EXPECT_TRUE(rig.node.asked.empty());
}

TEST(ControlFormat, IsListedAndDescribedWhole) {
  ControlRig rig;
  const Format format = small_format();
  rig.node.format_rows.push_back(row_of(format));
  v1::ListFormatsResponse list;
  ASSERT_TRUE(rig.call(&Stub::ListFormats, v1::ListFormatsRequest(), &list).ok());
  ASSERT_EQ(list.formats_size(), 1);
  EXPECT_EQ(list.formats(0).block_bytes(), 6144u);
  EXPECT_EQ(list.formats(0).layers(), 2u);
  EXPECT_EQ(list.formats(0).hit_ids(), 5u);
  EXPECT_FALSE(list.formats(0).has_adapter());
  v1::GetFormatRequest in;
  in.set_fingerprint(list.formats(0).fingerprint().substr(0, 4));
  v1::GetFormatResponse out;
  ASSERT_TRUE(rig.call(&Stub::GetFormat, in, &out).ok());
  EXPECT_EQ(out.summary().fingerprint(), list.formats(0).fingerprint());
  EXPECT_EQ(out.format().ranks(0).layers(1).kind(), v1::LAYER_KIND_SLIDING);
  EXPECT_EQ(out.format().extras(0).key(), "engine");
  const Result<Format> back = Format::decode(bytes_of_text(out.canonical()));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, format);
  // Expect: the description alone says as much.
  v1::RegisterFormatRequest again;
  *again.mutable_format() = out.format();
  v1::RegisterFormatResponse registered;
  ASSERT_TRUE(rig.call(&Stub::RegisterFormat, again, &registered).ok());
  EXPECT_EQ(registered.fingerprint(), out.summary().fingerprint());
}

TEST(ControlFormat, FingerprintsThatNameNothingAreRefused) {
  ControlRig rig;
  v1::GetFormatRequest in;
  v1::GetFormatResponse out;
  in.set_fingerprint("abc");
  EXPECT_EQ(rig.call(&Stub::GetFormat, in, &out).error_code(), grpc::INVALID_ARGUMENT);
  in.set_fingerprint(std::string(33, 'x'));
  EXPECT_EQ(rig.call(&Stub::GetFormat, in, &out).error_code(), grpc::INVALID_ARGUMENT);
  in.set_fingerprint("abcd");
  EXPECT_EQ(rig.call(&Stub::GetFormat, in, &out).error_code(), grpc::NOT_FOUND);
  v1::ListFormatsRequest list;
  list.set_page_size(257);
  v1::ListFormatsResponse listed;
  EXPECT_EQ(rig.call(&Stub::ListFormats, list, &listed).error_code(), grpc::INVALID_ARGUMENT);
}

TEST(ControlFormat, DifferencesAreTold) {
  ControlRig rig;
  Format other = small_format("fork");
  other.tokens_per_block = 128;
  rig.node.format_rows = {row_of(small_format()), row_of(other)};
  v1::DiffFormatsRequest in;
  in.set_a(text_of(rig.node.format_rows[0].fingerprint.bytes));
  in.set_b(text_of(rig.node.format_rows[1].fingerprint.bytes));
  v1::DiffFormatsResponse out;
  ASSERT_TRUE(rig.call(&Stub::DiffFormats, in, &out).ok());
  ASSERT_EQ(out.differences_size(), 2);
  EXPECT_EQ(out.differences(0).field(), "lineage");
  EXPECT_EQ(out.differences(1).field(), "tokens_per_block");
  EXPECT_EQ(out.differences(1).b(), "128");
  EXPECT_FALSE(out.cut());
  in.set_b(in.a());
  ASSERT_TRUE(rig.call(&Stub::DiffFormats, in, &out).ok());
  EXPECT_EQ(out.differences_size(), 0);
}

TEST(ControlFormat, ManyDifferencesAreCut) {
  ControlRig rig;
  Format a = small_format(), b = small_format();
  a.ranks.assign(kRanksMax, std::vector<LayerSpec>(20, {LayerKind::kFull, 1}));
  b.ranks.assign(kRanksMax, std::vector<LayerSpec>(20, {LayerKind::kFull, 2}));
  rig.node.format_rows = {row_of(a), row_of(b)};
  v1::DiffFormatsRequest in;
  in.set_a(text_of(rig.node.format_rows[0].fingerprint.bytes));
  in.set_b(text_of(rig.node.format_rows[1].fingerprint.bytes));
  v1::DiffFormatsResponse out;
  ASSERT_TRUE(rig.call(&Stub::DiffFormats, in, &out).ok());
  EXPECT_EQ(out.differences_size(), 128);
  EXPECT_TRUE(out.cut());
}

}  // namespace
}  // namespace varve::control
