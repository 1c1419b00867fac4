// Options: what every subcommand takes, and the checks that refuse wrong use before anything runs.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace varve::kvbench {

// Checks in the form of CLI11: empty, or what is wrong.
//
// A finite number between the two: CLI::Range lets "nan" through, which is below no bound.
std::string problem_of_number(const std::string& text, double low, double high);
// A file that is there and can be written, or a name in a folder where one can be made.
std::string problem_of_output(const std::string& path);
// A system description that can be embedded, see read_hardware.
std::string problem_of_hardware(const std::string& path);
// A regular file or a folder: a pipe would be read once to play it and once more for its digest.
std::string problem_of_trace(const std::string& path);

// --json and --hardware.
void add_document_options(CLI::App& command, std::string& json_path, std::string& hardware_path);

}  // namespace varve::kvbench
