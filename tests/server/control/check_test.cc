// Goal: every code of ours has its code there, and nothing unknown passes.
// Method: values, and messages with fields that this version does not have.
#include "server/control/check.h"

#include <gtest/gtest.h>
#include <varve/v1/control.pb.h>

namespace varve::control {
namespace {

TEST(ControlCheck, EveryCodeHasItsOwnThere) {
  EXPECT_EQ(grpc_code(Code::kOk), grpc::OK);
  EXPECT_EQ(grpc_code(Code::kInvalid), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(grpc_code(Code::kUnauthorized), grpc::UNAUTHENTICATED);
  EXPECT_EQ(grpc_code(Code::kOverloaded), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(grpc_code(Code::kNoSpace), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(grpc_code(Code::kUnavailable), grpc::UNAVAILABLE);
  EXPECT_EQ(grpc_code(Code::kTimedOut), grpc::DEADLINE_EXCEEDED);
  EXPECT_EQ(grpc_code(Code::kUnsupported), grpc::UNIMPLEMENTED);
  EXPECT_EQ(grpc_code(Code::kCorrupt), grpc::DATA_LOSS);
  for (uint8_t code = 1; code < kCodeCount; ++code)
    EXPECT_NE(grpc_code(static_cast<Code>(code)), grpc::OK);
  EXPECT_EQ(to_grpc(Refusal::not_found("x")).error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(to_grpc(Refusal::state("x")).error_code(), grpc::FAILED_PRECONDITION);
}

TEST(ControlCheck, TextsOfErrorsAreTameAndBounded) {
  const grpc::Status status = to_grpc(Refusal::of(Code::kIo, "a\nb\xff" + std::string(2000, 'x')));
  EXPECT_EQ(status.error_message().substr(0, 4), "a?b?");
  EXPECT_EQ(status.error_message().size(), 1024u);
}

TEST(ControlCheck, UnknownFieldsAreFoundAtAnyDepth) {
  v1::RegisterFormatRequest known;
  known.mutable_format()->add_ranks()->add_layers()->set_bytes(1);
  EXPECT_EQ(unknown_in(known), "");
  v1::RegisterFormatRequest request = known;
  v1::Layer* layer = request.mutable_format()->mutable_ranks(0)->mutable_layers(0);
  layer->GetReflection()->MutableUnknownFields(layer)->AddVarint(99, 1);
  EXPECT_EQ(unknown_in(request), "field 99 of Layer");
  v1::PurgeRequest purge;
  purge.GetReflection()->MutableUnknownFields(&purge)->AddVarint(9, 1);
  EXPECT_EQ(unknown_in(purge), "field 9 of PurgeRequest");
}

TEST(ControlCheck, UnknownValuesAreFound) {
  v1::PurgeRequest purge;
  purge.set_kind(static_cast<v1::PurgeKind>(7));
  EXPECT_EQ(unknown_in(purge), "value 7 of varve.v1.PurgeRequest.kind");
  purge.set_kind(v1::PURGE_KIND_DOMAIN);
  EXPECT_EQ(unknown_in(purge), "");
}

TEST(ControlCheck, TextsAreUtf8WithoutControlCharacters) {
  EXPECT_EQ(bad_text("x", "gr\xc3\xbc\xc3\x9f", 10), "");
  EXPECT_EQ(bad_text("x", "\xf0\x9f\x98\x80", 10), "");
  EXPECT_EQ(bad_text("x", "", 10), "");
  for (const char* bad : {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xe2\x82", "\x80", "\xf0\x80\x80\x80"}) {
    EXPECT_EQ(bad_text("x", bad, 10), "x is no UTF-8");
  }
  EXPECT_NE(bad_text("x", "a\nb", 10), "");
  EXPECT_NE(bad_text("x", "a\x7f", 10), "");
  EXPECT_NE(bad_text("x", "abcdefghijk", 10), "");
}

TEST(ControlCheck, PagesAndNamesAreBounded) {
  EXPECT_EQ(page_of(5, 0, 7)->rows_max, 7u);
  EXPECT_EQ(page_of(5, 3, 7)->rows_max, 3u);
  EXPECT_FALSE(page_of(5, 8, 7));
  EXPECT_FALSE(target_of(0, "x"));
  EXPECT_TRUE(target_of(0, std::string(16, 'x'))->has_uuid);
  EXPECT_FALSE(target_of(3, "")->has_uuid);
}

}  // namespace
}  // namespace varve::control
