// Report: how a run leaves the program: lines for people, the declaration for machines, or an
// error and nothing else.
#pragma once

#include <string>
#include <vector>

#include "tools/kvbench/bar.h"
#include "tools/kvbench/declaration.h"

namespace varve::kvbench {

// {"min", "median", "max", "rounds": [...]}; not empty.
Json spread_json(const std::vector<double>& values);
// {"p50", "p99", ..., "n"} of times in milliseconds, null when there are none: a percentile that
// has fewer than a hundredth, or a thousandth, behind it is the largest value, and says so by n.
Json times_json(std::vector<double> times_ms);
// {"mean", "p50", "p95", "p99", "max"}; not empty.
Json stats_json(const std::vector<double>& values);

// Of a run that failed before it had a result. Returns the exit code, 1.
int report_failure(const Status& status);
// Prints warnings and `lines` and writes the document to `json_path` (empty: nowhere), when the
// declaration is valid; else says what is wrong with it. Returns the exit code: 1 also where what
// was asked for could not be written.
int report(const Declaration& declaration, const std::vector<std::string>& lines,
           const std::string& json_path);

// The whole document or none of it: what was there before stays until it is whole. To a pipe or a
// device it is written as it is.
bool write_document(const std::string& text, const std::string& path);

// Whether all that was printed is on standard output: 0, or 1 and a line on standard error that
// names the consequence.
int flush_output(const char* consequence);

}  // namespace varve::kvbench
