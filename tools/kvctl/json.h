// json: messages of the control plane as JSON, and back.
//
// The proto's names are the keys, all of them, in its order; enums are the names of their values.
// Bytes are hex. What is counted or measured (uint64 and smaller) is a number; what only names
// something (fixed64) is 16 hex digits, because readers of JSON round large numbers. A message or
// choice that is not there is null.
#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace varve::kvctl {

using Json = nlohmann::ordered_json;

Json json_of(const google::protobuf::Message& message);
// One document, with a newline behind it.
std::string document(const Json& json);
// Fills the message; answers what is wrong, with the place, or nothing. Unknown keys are wrong.
std::string read_json(const Json& json, google::protobuf::Message* message);

}  // namespace varve::kvctl
