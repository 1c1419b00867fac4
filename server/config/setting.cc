// How settings are read and written, each by its line of the table.
#include "server/config/setting.h"

#include <algorithm>
#include <limits>

namespace varve {

namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // clang 14 makes none by itself

Field field_of(const Setting& setting, const ServerConfig& config) {
  return setting.field(const_cast<ServerConfig&>(config));  // for a reader: nothing is changed
}

std::string or_list(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

constexpr IoSetting kIoSettings[] = {IoSetting::kAuto, IoSetting::kUring, IoSetting::kEpoll};

std::string scheme_list() {
  std::vector<std::string> words;
  for (const Scheme& scheme : kSchemes)
    words.push_back(scheme.text());
  return or_list(words);
}

template <class Number>
bool read_number(const std::string& text, Number& out) {
  constexpr uint64_t kMax = std::numeric_limits<Number>::max();
  uint64_t value = 0;
  if (text.empty()) return false;
  for (const char c : text) {
    const auto digit = static_cast<uint64_t>(c - '0');  // anything but a digit is huge
    if (digit > 9 || value > (kMax - digit) / 10) return false;
    value = value * 10 + digit;
  }
  out = static_cast<Number>(value);
  return true;
}

bool read_io(const std::string& text, IoSetting& out) {
  for (const IoSetting io : kIoSettings) {
    if (text != io_setting_name(io)) continue;
    out = io;
    return true;
  }
  return false;
}

bool read_scheme(const std::string& text, Scheme& out) {
  const Result<Scheme> scheme = Scheme::parse(text);
  if (scheme) out = *scheme;
  return scheme.has_value();
}

bool read_flag(const std::string& text, bool& out) {
  out = text == "true";
  return out || text == "false";
}

// A basic string of TOML. What is not UTF-8 has no place in a file; the caller leaves that out.
std::string quoted(const std::string& text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      out += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

bool is_size(const Setting& setting, const ServerConfig& config) {
  return std::holds_alternative<SizeField>(field_of(setting, config));
}

// Least edits from a to b; both are short.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

const Setting* find_setting(std::string_view option) {
  for (const Setting& setting : settings()) {
    if (option == setting.option) return &setting;
  }
  return nullptr;
}

std::string key_of(const Setting& setting) {
  std::string key = setting.option + 2;
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

std::string read_value(const Setting& setting, const std::string& text, ServerConfig& config) {
  const auto or_wanted = [&setting](bool good) { return good ? "" : wanted_text(setting); };
  return std::visit(
      Overloaded{
          [&](std::string* value) { return *value = text, std::string(); },
          [&](std::vector<std::string>* value) { return value->push_back(text), std::string(); },
          [&](uint32_t* value) { return or_wanted(read_number(text, *value)); },
          [&](uint64_t* value) { return or_wanted(read_number(text, *value)); },
          [&](TargetField field) { return or_wanted(read_number(text, *field.index)); },
          [&](bool* value) { return or_wanted(read_flag(text, *value)); },
          [&](Scheme* value) { return or_wanted(read_scheme(text, *value)); },
          [&](IoSetting* value) { return or_wanted(read_io(text, *value)); },
          [&](SizeField field) {
            const Result<uint64_t> bytes = parse_bytes(text);
            if (!bytes) return std::string(bytes.error().what()) + ", as in 64MiB or 10GiB";
            return *field.bytes = *bytes, std::string();
          },
      },
      setting.field(config));
}

std::string value_text(const Setting& setting, const ServerConfig& config) {
  return std::visit(
      Overloaded{
          [](const std::string* value) { return *value; },
          [](const std::vector<std::string>* value) {
            std::string text;
            for (const std::string& one : *value)
              text += (text.empty() ? "" : ", ") + one;
            return text;
          },
          [](const uint32_t* value) { return std::to_string(*value); },
          [](const uint64_t* value) { return std::to_string(*value); },
          [](SizeField field) { return bytes_text(*field.bytes); },
          [](TargetField field) {
            return *field.index == FaultSettings::kNoTarget ? "" : std::to_string(*field.index);
          },
          [](const bool* value) { return std::string(*value ? "true" : "false"); },
          [](const Scheme* value) { return value->text(); },
          [](const IoSetting* value) { return std::string(io_setting_name(*value)); },
      },
      field_of(setting, config));
}

std::string toml_text(const Setting& setting, const ServerConfig& config) {
  const std::string text = value_text(setting, config);
  if (text.empty()) return text;
  const auto plain = [&text](auto) { return text; };
  return std::visit(Overloaded{
                        [&](std::string*) { return quoted(text); },
                        [&](SizeField) { return quoted(text); },
                        [&](Scheme*) { return quoted(text); },
                        [&](IoSetting*) { return quoted(text); },
                        [&](std::vector<std::string>* value) {
                          std::string list;
                          for (const std::string& one : *value)
                            list += (list.empty() ? "[" : ", ") + quoted(one);
                          return list + "]";
                        },
                        plain,
                    },
                    field_of(setting, config));
}

std::string example_text(const Setting& setting) {
  ServerConfig config;
  const Field field = setting.field(config);
  if (const auto* size = std::get_if<SizeField>(&field); size != nullptr && *size->bytes == 0) {
    *size->bytes = setting.low;
  }
  std::string value = toml_text(setting, config);
  if (value.empty() && std::holds_alternative<TargetField>(field)) value = "0";
  if (value.empty()) value = "\"/a/path\"";
  if (std::holds_alternative<std::vector<std::string>*>(field)) value = "[" + value + "]";
  return key_of(setting) + " = " + value;
}

std::string default_text(const Setting& setting) {
  if (setting.derived != nullptr) return setting.derived;
  const ServerConfig config;
  const std::string text = value_text(setting, config);
  return text.empty() ? "none" : text;
}

std::string range_text(const Setting& setting) {
  if (setting.range != nullptr) return setting.range;
  if (setting.high == 0 || setting.high == kNoLimit) return {};
  const auto text = [size = is_size(setting, ServerConfig())](uint64_t value) {
    return size ? bytes_text(value) : std::to_string(value);
  };
  std::string out = text(setting.low) + " to " + text(setting.high);
  if (setting.zero != nullptr) out += std::string(", or 0: ") + setting.zero;
  return out;
}

std::string wanted_text(const Setting& setting) {
  const ServerConfig config;
  const std::string range = range_text(setting);
  const std::string within = range.empty() ? "" : ", " + range;
  const std::string number =
      std::string("it must be a whole number (") + setting.unit + ")" + within;
  const std::string text = std::string("it must be a text (") + setting.unit + ")";
  return std::visit(
      Overloaded{
          [&](const uint32_t*) { return number; },
          [&](const uint64_t*) { return number; },
          [&](TargetField) { return number; },
          [&](SizeField) { return "it must be a size" + within; },
          [&](const std::string*) { return text; },
          [&](const std::vector<std::string>*) {
            return std::string("it must be a list of texts (") + setting.unit + ")";
          },
          [](const bool*) { return std::string("it must be true or false"); },
          [](const Scheme*) { return "it must be " + scheme_list(); },
          [](const IoSetting*) { return std::string("it must be auto, uring or epoll"); },
      },
      field_of(setting, config));
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) continue;
    const size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || text.size() - i < more) return false;
    uint32_t point = lead & (0x3fu >> more);
    for (size_t end = i + more; i < end; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if ((byte & 0xc0u) != 0x80) return false;
      point = point << 6 | (byte & 0x3fu);
    }
    const uint32_t least = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
    if (point < least || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
  }
  return true;
}

std::string nearest(const std::string& given, const std::vector<std::string>& names) {
  std::string best;
  // Further away is another word, and of a short word most is another one.
  size_t best_distance = std::min<size_t>(4, given.size() / 2 + 1);
  if (given.size() > 64) return best;
  for (const std::string& name : names) {
    const size_t d = distance(given, name);
    if (d >= best_distance) continue;
    best = name;
    best_distance = d;
  }
  return best;
}

}  // namespace varve
