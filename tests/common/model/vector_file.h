// Reads the golden vectors of tests/vectors: blank-line separated records of "key value" lines,
// '#' starts a comment line. A key may repeat. Tests run from the root of the tree.
#pragma once

#include <gtest/gtest.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/model/model.h"

namespace varve::vectors {

struct Record {
  std::vector<std::pair<std::string, std::string>> lines;
  std::vector<std::string> all(const std::string& key) const {
    std::vector<std::string> values;
    for (const auto& [k, v] : lines) {
      if (k == key) values.push_back(v);
    }
    return values;
  }
  bool has(const std::string& key) const { return !all(key).empty(); }
  std::string text(const std::string& key) const {
    const std::vector<std::string> values = all(key);
    EXPECT_EQ(values.size(), 1u) << key;
    return values.empty() ? "" : values[0];
  }
  uint64_t number(const std::string& key) const { return std::stoull(text(key)); }
  std::vector<std::byte> bytes(const std::string& key) const {
    const std::string hex = text(key);
    std::vector<std::byte> out(hex.size() / 2);
    EXPECT_TRUE(from_hex(hex, out)) << key;
    return out;
  }
  Digest digest(const std::string& key) const {
    Digest d;
    EXPECT_TRUE(from_hex(text(key), d.bytes)) << key;
    return d;
  }
};

inline std::vector<Record> read(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path << ": run from the root of the tree";
  std::vector<Record> records(1);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    if (line.empty()) {
      if (!records.back().lines.empty()) records.emplace_back();
      continue;
    }
    const size_t space = std::min(line.find(' '), line.size());
    const std::string value = space < line.size() ? line.substr(space + 1) : "";
    records.back().lines.emplace_back(line.substr(0, space), value);
  }
  if (records.back().lines.empty()) records.pop_back();
  return records;
}

// The enumerator from 1 to `last` whose name is `text`.
template <class E>
E named(const std::string& text, const char* (*name)(E), E last) {
  for (uint8_t i = 1; i <= static_cast<uint8_t>(last); ++i) {
    if (text == name(static_cast<E>(i))) return static_cast<E>(i);
  }
  ADD_FAILURE() << "unknown name " << text;
  return last;
}

// "full:4096*3 state:10": kind, bytes, and how many of them.
inline std::vector<LayerSpec> layers(const std::string& text) {
  std::vector<LayerSpec> out;
  std::istringstream items(text);
  for (std::string item; items >> item;) {
    const size_t colon = item.find(':');
    const size_t star = item.find('*');
    LayerSpec layer;
    layer.kind = named(item.substr(0, colon), &layer_kind_name, LayerKind::kOpaque);
    layer.bytes = static_cast<uint32_t>(std::stoul(item.substr(colon + 1)));
    out.insert(out.end(), star == std::string::npos ? 1 : std::stoul(item.substr(star + 1)), layer);
  }
  return out;
}

}  // namespace varve::vectors
