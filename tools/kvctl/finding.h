// Finding: one thing that doctor looked at: how bad it is, its one cause, its one remedy.
#pragma once

#include <string>
#include <vector>

#include "common/base/base.h"

namespace varve::kvctl {

enum class Severity { kOk, kNote, kWarning, kError };  // from kWarning on something is wrong

struct Finding {
  Severity severity = Severity::kOk;
  std::string check;   // "io_uring", "target 2"
  std::string cause;   // or, when it is ok, what there is
  std::string remedy;  // empty when it is ok
  bool operator==(const Finding&) const = default;
};

const char* severity_name(Severity severity);  // "ok", "note", "warning", "error"
// "cause; remedy" as varved writes them: what stands behind the last semicolon is the remedy, and
// `remedy` where nothing does.
Finding finding_of(Severity severity, std::string check, const std::string& text,
                   const std::string& remedy = "see the node's log");
// A Status of varved's in that form: its errno belongs to the cause.
std::string told(Status status);
inline Finding ok_finding(std::string check, std::string what) {
  return {Severity::kOk, std::move(check), std::move(what), ""};
}
// Of a token file, whose problems varved states without one.
inline constexpr const char* kTokenRemedy =
    "write a token of 16 to 256 printable characters into it, on one line";

}  // namespace varve::kvctl
