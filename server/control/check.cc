// Unknown fields are found by reflection, because Protobuf keeps them without a word; everything
// else is a length or a range.
#include "server/control/check.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <cstring>

namespace varve::control {

namespace {

namespace pb = google::protobuf;

constexpr size_t kTextBytesMax = 1024;
constexpr uint32_t kFingerprintBytesMin = 4;

bool is_utf8(const std::string& text) {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = at + text.size();
  while (at < end) {
    const unsigned char lead = *at++;
    if (lead < 0x80) continue;
    const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || end - at < more) return false;
    // Overlong forms, surrogates and what is beyond U+10FFFF differ in the second byte.
    const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (*at < low || *at > high) return false;
    for (int i = 1; i < more; ++i) {
      if ((at[i] & 0xc0) != 0x80) return false;
    }
    at += more;
  }
  return true;
}

std::string unknown_value(const pb::Message& message, const pb::FieldDescriptor& field, int index) {
  const pb::Reflection& reflection = *message.GetReflection();
  const int value = field.is_repeated() ? reflection.GetRepeatedEnumValue(message, &field, index)
                                        : reflection.GetEnumValue(message, &field);
  if (field.enum_type()->FindValueByNumber(value) != nullptr) return {};
  return "value " + std::to_string(value) + " of " + field.full_name();
}

}  // namespace

grpc::StatusCode grpc_code(Code code) {
  switch (code) {
    case Code::kOk:
      return grpc::StatusCode::OK;
    case Code::kInvalid:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::kUnauthorized:
      return grpc::StatusCode::UNAUTHENTICATED;
    case Code::kQuota:
    case Code::kOverloaded:
    case Code::kNoSpace:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Code::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case Code::kTimedOut:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Code::kCancelled:
      return grpc::StatusCode::CANCELLED;
    case Code::kCorrupt:
      return grpc::StatusCode::DATA_LOSS;
    case Code::kUnsupported:
      return grpc::StatusCode::UNIMPLEMENTED;
    case Code::kIo:
    case Code::kInternal:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

grpc::Status to_grpc(const Refusal& refusal) {
  VARVE_ASSERT(refusal.code != Code::kOk && !refusal.text.empty());
  grpc::StatusCode code = grpc_code(refusal.code);
  if (refusal.kind == Refusal::Kind::kNotFound) code = grpc::StatusCode::NOT_FOUND;
  if (refusal.kind == Refusal::Kind::kState) code = grpc::StatusCode::FAILED_PRECONDITION;
  std::string text = refusal.text.substr(0, kTextBytesMax);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) c = '?';
  }
  return {code, text};
}

grpc::Status invalid(const std::string& text) {
  return to_grpc(Refusal::of(Code::kInvalid, text));
}

std::string unknown_in(const pb::Message& message) {
  const pb::Reflection& reflection = *message.GetReflection();
  const pb::UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    return "field " + std::to_string(unknown.field(0).number()) + " of " +
           message.GetDescriptor()->name();
  }
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    const bool is_message = field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE;
    const bool is_enum = field->cpp_type() == pb::FieldDescriptor::CPPTYPE_ENUM;
    if (!is_message && !is_enum) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      std::string found;
      if (is_enum) {
        found = unknown_value(message, *field, i);
      } else {
        found = unknown_in(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                : reflection.GetMessage(message, field));
      }
      if (!found.empty()) return found;
    }
  }
  return {};
}

std::string bad_text(const char* field, const std::string& text, uint32_t bytes_max) {
  if (text.size() > bytes_max) {
    return std::string(field) + " has " + std::to_string(text.size()) + " bytes; at most " +
           std::to_string(bytes_max);
  }
  if (!is_utf8(text)) return std::string(field) + " is no UTF-8";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return std::string(field) + " has a control character";
    }
  }
  return {};
}

Answer<Digest> digest_of(const char* field, const std::string& bytes) {
  Digest digest;
  if (bytes.size() != digest.bytes.size()) {
    return Refusal::of(Code::kInvalid, std::string(field) + " has " + std::to_string(bytes.size()) +
                                           " bytes; it must have 32");
  }
  std::memcpy(digest.bytes.data(), bytes.data(), bytes.size());
  return digest;
}

Answer<std::string> fingerprint_begin_of(const char* field, const std::string& bytes) {
  if (bytes.size() < kFingerprintBytesMin || bytes.size() > sizeof(Digest)) {
    return Refusal::of(Code::kInvalid, std::string(field) + " has " + std::to_string(bytes.size()) +
                                           " bytes; give the first 4 to all 32 of a fingerprint");
  }
  return bytes;
}

Answer<TargetName> target_of(uint32_t index, const std::string& uuid) {
  TargetName name;
  name.index = index;
  if (uuid.empty()) return name;
  if (uuid.size() != sizeof(name.uuid)) {
    return Refusal::of(Code::kInvalid, "uuid has " + std::to_string(uuid.size()) +
                                           " bytes; it must have 16, or "
                                           "none");
  }
  name.has_uuid = true;
  std::memcpy(name.uuid, uuid.data(), uuid.size());
  return name;
}

Answer<PageAsk> page_of(uint64_t cursor, uint32_t page_size, uint32_t rows_max) {
  VARVE_ASSERT(rows_max > 0);
  if (page_size > rows_max) {
    return Refusal::of(Code::kInvalid, "page_size is " + std::to_string(page_size) +
                                           "; it may be at most " + std::to_string(rows_max));
  }
  return PageAsk{cursor, page_size == 0 ? rows_max : page_size};
}

}  // namespace varve::control
