// Each keyword accepts and refuses, and a keyword that the checker does not know is a problem of
// the schema, never a check that is silently not made.
#include "tools/kvbench/schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace varve::kvbench {
namespace {

using Json = nlohmann::ordered_json;

bool fits(const char* schema, const char* document) {
  return schema_problems(Json::parse(schema), Json::parse(document)).empty();
}

struct Case {
  const char *schema, *good, *bad;
};

TEST(Schema, EachKeywordTakesWhatFitsAndRefusesTheRest) {
  for (const Case& c : {
           Case{R"({"type":"object"})", "{}", "[]"},
           {R"({"type":["object","null"]})", "null", "3"},
           {R"({"type":"integer"})", "3", "3.5"},
           {R"({"type":"number"})", "3.5", "\"3\""},
           {R"({"type":"boolean"})", "true", "1"},
           {R"({"enum":["a","b"]})", "\"b\"", "\"c\""},
           {R"({"const":0})", "0", "1"},
           {R"({"minimum":2})", "2", "1"},
           {R"({"maximum":1})", "1", "1.5"},
           {R"({"exclusiveMinimum":0})", "1", "0"},
           {R"({"minLength":2})", "\"ab\"", "\"a\""},
           {R"({"minItems":1})", "[1]", "[]"},
           {R"({"minProperties":1})", "{\"a\":1}", "{}"},
           {R"({"required":["a"]})", "{\"a\":1}", "{\"b\":1}"},
           {R"({"properties":{"a":{"type":"string"}}})", "{\"a\":\"x\"}", "{\"a\":1}"},
           {R"({"properties":{"a":{}},"additionalProperties":false})", "{\"a\":1}", "{\"b\":1}"},
           {R"({"additionalProperties":{"type":"string"}})", "{\"b\":\"x\"}", "{\"b\":1}"},
           {R"({"items":{"type":"string"}})", "[\"a\"]", "[\"a\",1]"},
           {R"({"contains":{"const":3}})", "[1,3]", "[1,2]"},
           {R"({"allOf":[{"minimum":1},{"maximum":3}]})", "2", "4"},
           {R"({"anyOf":[{"const":1},{"minimum":1}]})", "1", "0"},
           {R"({"oneOf":[{"const":1},{"minimum":1}]})", "2", "1"},
           {R"({"not":{"const":1}})", "2", "1"},
           {R"({"if":{"minimum":5},"then":{"maximum":7}})", "3", "8"},
           {R"({"if":{"minimum":5},"then":true,"else":{"const":1}})", "1", "2"},
       }) {
    EXPECT_TRUE(fits(c.schema, c.good)) << c.schema << " " << c.good;
    EXPECT_FALSE(fits(c.schema, c.bad)) << c.schema << " " << c.bad;
  }
}

TEST(Schema, AProblemNamesItsPlaceAndWhatItsSchemaSays) {
  const auto problems =
      schema_problems(Json::parse(R"({"properties":{"a":{"items":{"type":"string"}}},
                      "allOf":[{"$comment":"b is needed","oneOf":[{"required":["b"]}]}]})"),
                      Json::parse(R"({"a":["x",1]})"));
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0], "/a/1: is not of type \"string\"");
  EXPECT_EQ(problems[1], "/: b is needed");
}

TEST(Schema, AKeywordThatIsNotKnownIsRefused) {
  for (const char* schema : {
           R"({"pattern":"^a"})",
           R"({"properties":{"a":{"format":"date"}}})",
           R"({"allOf":[{"minProps":1}]})",
           R"({"required":"a"})",
           R"({"allOf":{}})",
           R"({"items":3})",
           R"({"minimum":"1"})",
       }) {
    EXPECT_FALSE(fits(schema, "{}")) << schema;
  }
}

TEST(Schema, OneThatIsTooDeepIsRefused) {
  std::string deep = "{}";
  for (int i = 0; i < 100; ++i)
    deep = R"({"not":)" + deep + "}";
  EXPECT_FALSE(fits(deep.c_str(), "{}"));
}

}  // namespace
}  // namespace varve::kvbench
