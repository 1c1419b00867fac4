// One function per kind of keyword; a schema is walked once for its keywords, then with the
// document.
#include "tools/kvbench/schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/base/base.h"

namespace varve::kvbench {

namespace {

using Json = nlohmann::ordered_json;
using Problems = std::vector<std::string>;

constexpr uint32_t kDepthMax = 64;
constexpr size_t kProblemsMax = 100;
constexpr std::string_view kPlain[] = {"const", "$comment", "$schema", "title", "description"};
constexpr std::string_view kOfNumber[] = {"minimum",  "maximum",   "exclusiveMinimum",
                                          "minItems", "minLength", "minProperties"};
constexpr std::string_view kOfSchema[] = {"not", "if", "then", "else", "contains", "items"};
constexpr std::string_view kOfSchemas[] = {"allOf", "anyOf", "oneOf"};

template <class Names>
bool is_one_of(const std::string& key, const Names& names) {
  return std::find(std::begin(names), std::end(names), key) != std::end(names);
}

// Every keyword is known, and what it holds has the form that the checks below rely on.
void check_keywords(const Json& schema, const std::string& at, uint32_t depth, Problems& out) {
  if (schema.is_boolean()) return;
  if (!schema.is_object() || depth > kDepthMax) {
    out.push_back("schema " + at + ": is no schema, or too deep");
    return;
  }
  for (const auto& [key, value] : schema.items()) {
    const std::string below = at + "/" + key;
    bool good = true;
    if (is_one_of(key, kOfSchema) || key == "additionalProperties") {
      check_keywords(value, below, depth + 1, out);
    } else if (is_one_of(key, kOfSchemas)) {
      good = value.is_array() && !value.empty();
      for (const Json& one : good ? value : Json::array())
        check_keywords(one, below, depth + 1, out);
    } else if (key == "properties") {
      good = value.is_object();
      for (const auto& [name, one] : value.items())
        check_keywords(one, below + "/" + name, depth + 1, out);
    } else if (key == "required" || key == "enum") {
      good = value.is_array() && !value.empty();
      for (const Json& one : good ? value : Json::array())
        good = good && (key == "enum" || one.is_string());
    } else if (is_one_of(key, kOfNumber)) {
      good = value.is_number();
    } else if (key == "type") {
      good = value.is_string() || value.is_array();
    } else {
      good = is_one_of(key, kPlain);
    }
    if (!good) out.push_back("schema " + below + ": this keyword is not known to the checker");
  }
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return type == "integer" && value.is_number_integer();
}

class Check {
 public:
  Problems problems;
  void run(const Json& schema, const Json& value, const std::string& at);

 private:
  static bool holds(const Json& schema, const Json& value) {
    Check inner;
    inner.run(schema, value, "");
    return inner.problems.empty();
  }
  void say(const std::string& at, const std::string& what) {
    if (problems.size() < kProblemsMax) problems.push_back((at.empty() ? "/" : at) + ": " + what);
  }
  void check_value(const Json& schema, const Json& value, const std::string& at);
  void check_number(const Json& schema, const Json& value, const std::string& at);
  void check_array(const Json& schema, const Json& value, const std::string& at);
  void check_object(const Json& schema, const Json& value, const std::string& at);
  void check_combined(const Json& schema, const Json& value, const std::string& at);
};

// A schema that fails as a whole says so in its comment, if it has one.
std::string comment_of(const Json& schema, const char* otherwise) {
  const bool has = schema.is_object() && schema.contains("$comment");
  return has ? schema["$comment"].get<std::string>() : otherwise;
}

void Check::check_value(const Json& schema, const Json& value, const std::string& at) {
  if (schema.contains("type")) {
    const Json& type = schema["type"];
    bool fits = false;
    for (const Json& one : type.is_array() ? type : Json::array({type}))
      fits = fits || (one.is_string() && has_type(value, one.get<std::string>()));
    if (!fits) say(at, "is not of type " + type.dump());
  }
  if (schema.contains("const") && schema["const"] != value) {
    say(at, "is not " + schema["const"].dump());
  }
  if (schema.contains("enum")) {
    const Json& all = schema["enum"];
    if (std::find(all.begin(), all.end(), value) == all.end()) {
      say(at, value.dump() + " is none of " + all.dump());
    }
  }
  const bool short_text = value.is_string() && schema.contains("minLength") &&
                          value.get_ref<const std::string&>().size() < schema["minLength"];
  if (short_text) say(at, "is too short");
}

void Check::check_number(const Json& schema, const Json& value, const std::string& at) {
  const auto number = value.get<double>();
  if (schema.contains("minimum") && number < schema["minimum"].get<double>()) {
    say(at, "is below " + schema["minimum"].dump());
  }
  if (schema.contains("maximum") && number > schema["maximum"].get<double>()) {
    say(at, "is above " + schema["maximum"].dump());
  }
  if (schema.contains("exclusiveMinimum") && number <= schema["exclusiveMinimum"].get<double>()) {
    say(at, "is not above " + schema["exclusiveMinimum"].dump());
  }
}

void Check::check_array(const Json& schema, const Json& value, const std::string& at) {
  if (schema.contains("minItems") && value.size() < schema["minItems"]) say(at, "is too short");
  if (schema.contains("items")) {
    for (size_t i = 0; i < value.size(); ++i)
      run(schema["items"], value[i], at + "/" + std::to_string(i));
  }
  if (schema.contains("contains")) {
    const bool has = std::any_of(value.begin(), value.end(),
                                 [&](const Json& one) { return holds(schema["contains"], one); });
    if (!has) say(at, "contains nothing of the kind that it must");
  }
}

void Check::check_object(const Json& schema, const Json& value, const std::string& at) {
  for (const Json& name : schema.contains("required") ? schema["required"] : Json::array()) {
    if (!value.contains(name.get_ref<const std::string&>())) say(at, "lacks " + name.dump());
  }
  if (schema.contains("minProperties") && value.size() < schema["minProperties"]) {
    say(at, "has too few members");
  }
  static const Json kNone = Json::object();
  const Json& properties = schema.contains("properties") ? schema["properties"] : kNone;
  for (const auto& [name, member] : value.items()) {
    const std::string below = at + "/" + name;
    if (properties.contains(name)) {
      run(properties[name], member, below);
    } else if (schema.contains("additionalProperties")) {
      const Json& other = schema["additionalProperties"];
      if (other == false) {
        say(below, "is not known");
      } else {
        run(other, member, below);
      }
    }
  }
}

void Check::check_combined(const Json& schema, const Json& value, const std::string& at) {
  for (const Json& one : schema.contains("allOf") ? schema["allOf"] : Json::array())
    run(one, value, at);
  for (const char* key : {"anyOf", "oneOf"}) {
    if (!schema.contains(key)) continue;
    const auto fitting = std::count_if(schema[key].begin(), schema[key].end(),
                                       [&](const Json& one) { return holds(one, value); });
    const bool good = fitting == 1 || (fitting > 1 && std::string_view(key) == "anyOf");
    if (!good)
      say(at, comment_of(schema, "does not fit exactly one of the forms that it may have"));
  }
  if (schema.contains("not") && holds(schema["not"], value)) {
    say(at, comment_of(schema, "has a form that it must not have"));
  }
  if (!schema.contains("if")) return;
  const char* branch = holds(schema["if"], value) ? "then" : "else";
  if (schema.contains(branch) && !holds(schema[branch], value)) {
    say(at, comment_of(schema, "breaks a condition"));
    run(schema[branch], value, at);
  }
}

void Check::run(const Json& schema, const Json& value, const std::string& at) {
  if (schema.is_boolean()) {
    if (schema == false) say(at, "must not be there");
    return;
  }
  check_value(schema, value, at);
  if (value.is_number()) check_number(schema, value, at);
  if (value.is_array()) check_array(schema, value, at);
  if (value.is_object()) check_object(schema, value, at);
  check_combined(schema, value, at);
}

}  // namespace

std::vector<std::string> schema_problems(const Json& schema, const Json& document) {
  Check check;
  check_keywords(schema, "", 0, check.problems);
  if (check.problems.empty()) check.run(schema, document, "");
  return check.problems;
}

}  // namespace varve::kvbench
