// The parts of the document, put together and checked.
#include "tools/kvbench/declaration.h"

#include "tools/kvbench/schema.h"

namespace varve::kvbench {

namespace {

// The schema is part of the program: that it parses is an invariant of the build.
const Json& schema() {
  static const Json parsed = Json::parse(kDeclarationSchema);
  return parsed;
}

}  // namespace

std::vector<DeclarationField> declaration_fields() {
  std::vector<DeclarationField> fields;
  for (const char* part : {"declaration", "results"}) {
    const std::string before = std::string_view(part) == "results" ? "results." : "";
    for (const auto& [name, form] : schema()["properties"][part]["properties"].items()) {
      if (form.contains("$comment")) fields.push_back({before + name, form["$comment"]});
    }
  }
  return fields;
}

void Declaration::declare(const std::string& field, Json value) {
  declared_[field] = std::move(value);
}

void Declaration::omit(const std::string& field, const std::string& reason) {
  omitted_.push_back({{"field", field}, {"reason", reason}});
}

void Declaration::omit_part(const std::string& field, const std::string& part,
                            const std::string& reason) {
  omitted_.push_back({{"field", field}, {"part", part}, {"reason", reason}});
}

Json Declaration::document() const {
  Json document = {{"schema", "varve-kvbench-declaration-1"}};
  document.update(document_);
  document["warnings"] = warnings_;
  document["declaration"] = declared_;
  document["omissions"] = omitted_;
  document["results"] = results_;
  return document;
}

std::vector<std::string> Declaration::problems() const {
  return schema_problems(schema(), document());
}

Result<std::string> Declaration::text() const {
  const std::vector<std::string> wrong = problems();
  for (const std::string& problem : wrong)
    logf(LogLevel::kError, "kvbench", "declaration: %s", problem.c_str());
  if (!wrong.empty()) return Status::invalid("kvbench: the declaration is invalid: no result");
  return document().dump(2) + "\n";
}

}  // namespace varve::kvbench
