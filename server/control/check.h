// What stands between the bytes of a request and the Ingress (C1), and the way back: the one table
// from our codes to those of gRPC.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <string>

#include "server/control/control.h"

namespace varve::control {

// ok() for kOk; the message is the text of the refusal, printable, at most 1 KiB.
grpc::Status to_grpc(const Refusal& refusal);
grpc::StatusCode grpc_code(Code code);
grpc::Status invalid(const std::string& text);

// The first field or enum value, at any depth, that this version does not know ("field 9 of
// PurgeRequest"); empty: none.
std::string unknown_in(const google::protobuf::Message& message);

// kOk, or which text is no UTF-8 or has control characters, by name.
std::string bad_text(const char* field, const std::string& text, uint32_t bytes_max);

// 32 bytes, else a sentence that names the field.
Answer<Digest> digest_of(const char* field, const std::string& bytes);
// 4 to 32 bytes of one.
Answer<std::string> fingerprint_begin_of(const char* field, const std::string& bytes);
Answer<TargetName> target_of(uint32_t index, const std::string& uuid);
Answer<PageAsk> page_of(uint64_t cursor, uint32_t page_size, uint32_t rows_max);

inline ConstByteSpan bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string text_of(ConstByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Statement form, for functions that answer a grpc::Status: `declaration` = the value, or return.
#define VARVE_ASK(declaration, ...) \
  VARVE_ASK_INNER(VARVE_CONCAT(varve_ask_, __LINE__), declaration, __VA_ARGS__)
#define VARVE_ASK_INNER(temporary, declaration, ...)   \
  auto temporary = (__VA_ARGS__);                      \
  if (!temporary) return to_grpc(temporary.refusal()); \
  declaration = *std::move(temporary)

}  // namespace varve::control
