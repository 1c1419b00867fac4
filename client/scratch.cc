// Scratch: one allocation, a list of what is free, a line of who waits.
#include "client/scratch.h"

#include <algorithm>
#include <new>

#include "client/core.h"

namespace varve {

namespace {
constexpr std::align_val_t kHugePage{2 * kMiB};  // where the system gives huge pages unasked
}  // namespace

Scratch::Scratch(uint64_t bytes_max) : capacity_(static_cast<uint32_t>(bytes_max / kColumnBytes)) {
  VARVE_ASSERT(capacity_ > 0, bytes_max);
  memory_ = static_cast<std::byte*>(::operator new (uint64_t{capacity_} * kColumnBytes, kHugePage));
  free_.reserve(capacity_);
  for (uint32_t i = capacity_; i > 0; --i)
    free_.push_back(memory_ + uint64_t{i - 1} * kColumnBytes);
}

Scratch::~Scratch() {
  ::operator delete(memory_, kHugePage);
}

void Scratch::populate() {
  VARVE_ASSERT(used_ == 0, used_);  // what is lent holds bytes
  for (uint64_t at = 0; at < uint64_t{capacity_} * kColumnBytes; at += kPageBytes)
    memory_[at] = std::byte{0};
}

bool Scratch::take(uint32_t count, Columns& out) {
  VARVE_ASSERT(count > 0 && count <= capacity_, count, capacity_);
  if (count > free_.size()) return false;
  out.insert(out.end(), free_.end() - count, free_.end());
  free_.resize(free_.size() - count);
  used_ += count;
  VARVE_ASSERT(used_ + free_.size() == capacity_, used_);  // S1
  return true;
}

bool Scratch::take(ClientOp& op, uint32_t count, Columns& out) {
  if (std::find(line_.begin(), line_.end(), &op) == line_.end()) line_.push_back(&op);
  if (line_.front() != &op || !take(count, out)) return false;
  leave(op);
  return true;
}

void Scratch::leave(ClientOp& op) {
  const bool first = !line_.empty() && line_.front() == &op;
  std::erase(line_, &op);
  if (first && !line_.empty()) line_.front()->wake();
}

void Scratch::give(Columns& columns) {
  VARVE_ASSERT(columns.size() <= used_, columns.size(), used_);
  used_ -= static_cast<uint32_t>(columns.size());
  free_.insert(free_.end(), columns.begin(), columns.end());
  columns.clear();
  if (!line_.empty()) line_.front()->wake();
}

}  // namespace varve
