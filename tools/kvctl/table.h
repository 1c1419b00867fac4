// Table: rows under heads, each column as wide as its widest cell; two blanks between.
#pragma once

#include <string>
#include <vector>

#include "tools/kvctl/text.h"

namespace varve::kvctl {

struct Cell {
  std::string text;
  Tone tone = Tone::kPlain;

  Cell(std::string said, Tone in = Tone::kPlain)  // NOLINT(google-explicit-constructor)
      : text(std::move(said)), tone(in) {}
  Cell(const char* said) : text(said) {}  // NOLINT(google-explicit-constructor)
};

class Table {
 public:
  // A head that begins with '>' is of a column of numbers, which stand to the right.
  explicit Table(std::vector<std::string> heads);
  void row(std::vector<Cell> cells);  // as many as there are heads
  bool empty() const { return rows_.empty(); }
  std::string text(const Paint& paint) const;

 private:
  std::vector<std::string> heads_;
  std::vector<bool> right_;
  std::vector<std::vector<Cell>> rows_;
};

// Facts of one thing, line by line: "name   value".
class Facts {
 public:
  void add(std::string name, std::string value, Tone tone = Tone::kPlain);
  std::string text(const Paint& paint) const;

 private:
  std::vector<std::pair<std::string, Cell>> lines_;
};

}  // namespace varve::kvctl
