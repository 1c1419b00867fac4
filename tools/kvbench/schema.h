// Schema: checks a JSON document against a JSON Schema. Pure.
//
// It knows the keywords of draft 7 that our schema uses and refuses a schema that has another: a
// keyword that nobody looks at would be a check that is not made. (The one library for this that
// Debian has brings Qt and 90 packages along.)
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace varve::kvbench {

// What is wrong with `document`, "place: what" each; empty: nothing. A schema that is not
// understood is a problem too.
std::vector<std::string> schema_problems(const nlohmann::ordered_json& schema,
                                         const nlohmann::ordered_json& document);

// tools/kvbench/declaration.schema.json, part of the program.
extern const char* const kDeclarationSchema;

}  // namespace varve::kvbench
