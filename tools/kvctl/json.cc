// By reflection, so that a field which is added to the proto is printed without a line here.
#include "tools/kvctl/json.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "common/base/base.h"
#include "tools/kvctl/text.h"

namespace varve::kvctl {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

Json json_of_enum(const EnumValueDescriptor* value) {
  return value->name();
}

// A single field, or element `at` of a repeated one.
class Reader {
 public:
  Reader(const Message& message, const FieldDescriptor* field, int at)
      : message_(message), reflection_(*message.GetReflection()), field_(field), at_(at) {}

  Json value() const {
    switch (field_->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        return text();
      case FieldDescriptor::CPPTYPE_UINT64:
        return number64();
      case FieldDescriptor::CPPTYPE_UINT32:
        return at_ < 0 ? reflection_.GetUInt32(message_, field_)
                       : reflection_.GetRepeatedUInt32(message_, field_, at_);
      case FieldDescriptor::CPPTYPE_BOOL:
        return at_ < 0 ? reflection_.GetBool(message_, field_)
                       : reflection_.GetRepeatedBool(message_, field_, at_);
      case FieldDescriptor::CPPTYPE_ENUM:
        return json_of_enum(at_ < 0 ? reflection_.GetEnum(message_, field_)
                                    : reflection_.GetRepeatedEnum(message_, field_, at_));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return json_of(at_ < 0 ? reflection_.GetMessage(message_, field_)
                               : reflection_.GetRepeatedMessage(message_, field_, at_));
      default:
        VARVE_ASSERT(false, field_->cpp_type());  // the proto has no other types
        return nullptr;
    }
  }

 private:
  Json text() const {
    const std::string text = at_ < 0 ? reflection_.GetString(message_, field_)
                                     : reflection_.GetRepeatedString(message_, field_, at_);
    return field_->type() == FieldDescriptor::TYPE_BYTES ? hex_text(text) : text;
  }
  Json number64() const {
    const uint64_t value = at_ < 0 ? reflection_.GetUInt64(message_, field_)
                                   : reflection_.GetRepeatedUInt64(message_, field_, at_);
    if (field_->type() == FieldDescriptor::TYPE_FIXED64) return session_text(value);
    return value;
  }

  const Message& message_;
  const Reflection& reflection_;
  const FieldDescriptor* field_;
  int at_;
};

std::optional<std::string> bytes_of_hex(const std::string& hex) {
  std::string bytes(hex.size() / 2, '\0');
  if (hex.size() % 2 != 0 || !from_hex(hex, std::as_writable_bytes(std::span(bytes)))) return {};
  return bytes;
}

// Sets a field, or adds to a repeated one; answers what it must be instead, or nothing.
std::string put(const Json& json, Message* message, const FieldDescriptor* field) {
  const Reflection& reflection = *message->GetReflection();
  const bool adds = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: {
      if (!json.is_string()) return "must be a text";
      std::optional<std::string> text = json.get<std::string>();
      if (field->type() == FieldDescriptor::TYPE_BYTES) text = bytes_of_hex(*text);
      if (!text) return "must be bytes in hex";
      adds ? reflection.AddString(message, field, *text)
           : reflection.SetString(message, field, *text);
      return {};
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      if (!json.is_number_unsigned() || json.get<uint64_t>() > ~uint32_t{0}) {
        return "must be a whole number below 4294967296";
      }
      const auto value = json.get<uint32_t>();
      adds ? reflection.AddUInt32(message, field, value)
           : reflection.SetUInt32(message, field, value);
      return {};
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumValueDescriptor* value =
          json.is_string() ? field->enum_type()->FindValueByName(json.get<std::string>()) : nullptr;
      if (value == nullptr) {
        return "must be a value of " + field->enum_type()->name() + ", as " +
               field->enum_type()->value(field->enum_type()->value_count() - 1)->name();
      }
      adds ? reflection.AddEnum(message, field, value) : reflection.SetEnum(message, field, value);
      return {};
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      Message* inner =
          adds ? reflection.AddMessage(message, field) : reflection.MutableMessage(message, field);
      return read_json(json, inner);
    }
    default:
      return "cannot be read from JSON by this version";
  }
}

std::string at(const std::string& name, const std::string& problem) {
  const bool is_place = problem.starts_with(".") || problem.starts_with("[");
  return "." + name + (is_place ? "" : " ") + problem;
}

std::string put_all(const Json& json, Message* message, const FieldDescriptor* field) {
  if (!json.is_array()) return "must be a list";
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string problem = put(json[i], message, field);
    if (problem.empty()) continue;
    return "[" + std::to_string(i) + "]" + (problem.starts_with(".") ? "" : " ") + problem;
  }
  return {};
}

}  // namespace

Json json_of(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const Descriptor& type = *message.GetDescriptor();
  Json out = Json::object();
  for (int f = 0; f < type.field_count(); ++f) {
    const FieldDescriptor* field = type.field(f);
    Json& value = out[field->name()];
    if (field->is_repeated()) {
      value = Json::array();
      for (int i = 0; i < reflection.FieldSize(message, field); ++i)
        value.push_back(Reader(message, field, i).value());
    } else if (!field->has_presence() || reflection.HasField(message, field)) {
      value = Reader(message, field, -1).value();
    }
  }
  return out;
}

std::string document(const Json& json) {
  // Texts of clients may be anything: what is no UTF-8 is replaced, not thrown at us.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string read_json(const Json& json, Message* message) {
  if (!json.is_object()) return "must be an object";
  for (const auto& [name, value] : json.items()) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) return "." + printable(name) + " is unknown";
    if (value.is_null()) continue;
    const std::string problem =
        field->is_repeated() ? put_all(value, message, field) : put(value, message, field);
    if (!problem.empty()) return at(name, problem);
  }
  return {};
}

}  // namespace varve::kvctl
