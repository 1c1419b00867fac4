// What commands have in common: answers, questions, and reading what is given.
#include "tools/kvctl/call.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "common/base/base.h"
#include "server/host/host.h"
#include "tools/kvctl/finding.h"

namespace varve::kvctl {

namespace {

constexpr size_t kIdsMax = 2048;  // of one call of the control plane
constexpr size_t kIdsBytesMax = 256 * 1024;

Outcome take_all(std::istream& in, const std::string& name, size_t bytes_max,
                 std::string* content) {
  content->resize(bytes_max + 1);
  in.read(content->data(), static_cast<std::streamsize>(content->size()));
  content->resize(static_cast<size_t>(in.gcount()));
  if (in.bad()) return Outcome::failed(name + " cannot be read; check the drive");
  if (content->size() <= bytes_max) return Outcome::done();
  return Outcome::failed(name + " has more than " + size_text(bytes_max) +
                         "; is it the right file?");
}

}  // namespace

Outcome Call::show(const google::protobuf::Message& message, const std::string& text) {
  if (!arguments.json) {
    console.out << text;
    return Outcome::done();
  }
  return show(json_of(message), text);
}

Outcome Call::show(const Json& json, const std::string& text) {
  console.out << (arguments.json ? document(json) : text);
  return Outcome::done();
}

Outcome Call::confirm(const std::string& deed) {
  if (arguments.yes) return Outcome::done();
  if (!console.interactive || arguments.json) {  // K1: a question is no line of JSON
    return Outcome::usage("to " + deed + " cannot be taken back, and " +
                          (arguments.json ? "--json asks nobody" : "nobody can be asked here") +
                          "; give --yes as well, to do it");
  }
  console.err << "kvctl: " << deed << "? This cannot be taken back. [y/N] " << std::flush;
  std::string answer;
  std::getline(console.in, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return Outcome::done();
  return {Exit::kFailed, "CANCELLED", "not done: the answer was not y"};
}

Outcome load_token_file(const char* option, const std::string& file, std::string* token) {
  if (file.empty()) return Outcome::done();
  const Failure failure = load_token(option, file, token);
  if (failure.ok()) return Outcome::done();
  const Finding finding =
      finding_of(Severity::kError, option, printable(failure.text), kTokenRemedy);
  return Outcome::failed(finding.cause + "; " + finding.remedy);
}

Outcome read_hex(const std::string& what, const std::string& hex, size_t bytes_min,
                 size_t bytes_max, std::string* bytes) {
  bytes->assign(hex.size() / 2, '\0');
  const bool is_hex =
      hex.size() % 2 == 0 && from_hex(hex, std::as_writable_bytes(std::span(*bytes)));
  if (is_hex && bytes->size() >= bytes_min && bytes->size() <= bytes_max) return Outcome::done();
  const std::string digits = bytes_min == bytes_max
                                 ? std::to_string(2 * bytes_min)
                                 : std::to_string(2 * bytes_min) + " to " +
                                       std::to_string(2 * bytes_max) + ", an even number";
  return Outcome::usage(what + " is \"" + printable(hex) + "\"; it must be hex digits: " + digits);
}

Outcome read_ids(Call& call, std::vector<std::string>* ids) {
  std::vector<std::string> words = call.arguments.ids;
  if (!call.arguments.ids_file.empty()) {
    std::string content;
    Outcome outcome = read_whole(call, call.arguments.ids_file, kIdsBytesMax, &content);
    if (!outcome.ok()) return outcome;
    for (size_t at = content.find_first_not_of(" \t\r\n"); at < content.size();) {
      const size_t end = std::min(content.find_first_of(" \t\r\n", at), content.size());
      words.push_back(content.substr(at, end - at));
      at = std::min(content.find_first_not_of(" \t\r\n", end), content.size());
    }
  }
  if (words.empty() || words.size() > kIdsMax) {
    return Outcome::usage(count_text(words.size()) +
                          " base ids are given; give 1 to 2,048, as words or by --ids-file");
  }
  for (const std::string& word : words) {
    Outcome outcome = read_hex("a base id", word, 32, 32, &ids->emplace_back());
    if (!outcome.ok()) return outcome;
  }
  return Outcome::done();
}

Outcome read_whole(Call& call, const std::string& path, size_t bytes_max, std::string* content) {
  if (path == "-") return take_all(call.console.in, "standard input", bytes_max, content);
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return Outcome::usage(printable(path) + " is a folder; name a file in it");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return Outcome::usage(printable(path) + ": " + std::strerror(errno) +
                          "; check path and permissions");
  }
  return take_all(in, printable(path), bytes_max, content);
}

}  // namespace varve::kvctl
