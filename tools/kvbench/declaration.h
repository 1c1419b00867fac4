// Declaration: the one document of a run: what shaped its numbers, what is not declared and why,
// and the numbers.
//
// Its form is declaration.schema.json. Each field there is declared or omitted with a reason;
// silence, or a value of the wrong form, makes the document invalid, and what is invalid has no
// text: no result leaves the program without what made it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/base.h"

namespace varve::kvbench {

using Json = nlohmann::ordered_json;

struct DeclarationField {
  std::string name;     // as in `declaration`; of a result with "results." before it
  std::string comment;  // where it comes from
};
// Every field of the schema that is to be declared or omitted, in its order.
std::vector<DeclarationField> declaration_fields();

class Declaration {
 public:
  // Of the run itself: id, time, machine, command; see `head` in the schema.
  void head(const std::string& key, Json value) { document_[key] = std::move(value); }
  void declare(const std::string& field, Json value);
  void omit(const std::string& field, const std::string& reason);
  // The field is declared, but for a part of it.
  void omit_part(const std::string& field, const std::string& part, const std::string& reason);
  void result(const std::string& key, Json value) { results_[key] = std::move(value); }
  // Printed before the results, and part of the document.
  void warn(const std::string& text) { warnings_.push_back(text); }

  Json document() const;
  std::vector<std::string> problems() const;  // empty: valid
  // The document, indented; kInvalid, and each problem logged, when it is not valid.
  Result<std::string> text() const;
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Json document_ = Json::object(), declared_ = Json::object(), omitted_ = Json::array(),
       results_ = Json::object();
  std::vector<std::string> warnings_;
};

}  // namespace varve::kvbench
