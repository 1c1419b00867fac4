// Widths are of the text, colours are put around it afterwards, and no line ends in blanks.
#include "tools/kvctl/table.h"

#include <algorithm>

#include "common/base/base.h"

namespace varve::kvctl {

namespace {

constexpr size_t kGap = 2;
constexpr size_t kValueColumns = 96;  // beside the names of facts

std::string filled(const std::string& text, size_t width, bool right, const std::string& shown) {
  const std::string blanks(width - std::min(width, columns_of(text)), ' ');
  return right ? blanks + shown : shown + blanks;
}

void end_line(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
}

}  // namespace

Table::Table(std::vector<std::string> heads) : heads_(std::move(heads)) {
  VARVE_ASSERT(!heads_.empty());
  for (std::string& head : heads_) {
    right_.push_back(head.starts_with(">"));
    if (right_.back()) head.erase(0, 1);
  }
}

void Table::row(std::vector<Cell> cells) {
  VARVE_ASSERT(cells.size() == heads_.size(), cells.size(), heads_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(const Paint& paint) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < heads_.size(); ++c) {
    widths.push_back(columns_of(heads_[c]));
    for (const auto& row : rows_)
      widths[c] = std::max(widths[c], columns_of(row[c].text));
  }
  std::string out;
  const auto add = [&](size_t column, const std::string& text, Tone tone) {
    if (column > 0) out += std::string(kGap, ' ');
    out += filled(text, widths[column], right_[column], paint(tone, text));
  };
  for (size_t c = 0; c < heads_.size(); ++c)
    add(c, heads_[c], Tone::kDim);
  end_line(out);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c)
      add(c, row[c].text, row[c].tone);
    end_line(out);
  }
  return out;
}

void Facts::add(std::string name, std::string value, Tone tone) {
  lines_.emplace_back(std::move(name), Cell(std::move(value), tone));
}

std::string Facts::text(const Paint& paint) const {
  size_t width = 0;
  for (const auto& [name, value] : lines_)
    width = std::max(width, columns_of(name));
  std::string out;
  const std::string indent(width + kGap, ' ');
  for (const auto& [name, value] : lines_) {
    out += filled(name, width, false, paint(Tone::kDim, name)) + std::string(kGap, ' ');
    out += paint(value.tone, wrapped(value.text, kValueColumns, indent));
    end_line(out);
  }
  return out;
}

}  // namespace varve::kvctl
