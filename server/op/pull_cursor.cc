// The walk of a pull: a step over extents and blocks, or over wants, and two short lists.
#include "server/op/pull_cursor.h"

#include <algorithm>

namespace varve {

PullCursor::PullCursor() {
  fenced_.reserve(kFencedMax);
}

void PullCursor::begin(const PullPart& part) {
  VARVE_ASSERT(part.format != nullptr);
  VARVE_ASSERT(part.rank < part.format->tables.size(), part.rank);
  VARVE_ASSERT(part.begin <= part.end, part.begin, part.end);
  VARVE_ASSERT(part.end - part.begin <= wire::kIdsMax);
  part_ = &part;
  table_ = &part.format->tables[part.rank];
  if (part.wants == nullptr) {
    VARVE_ASSERT(part.extent_first < part.extent_end, part.extent_first, part.extent_end);
    VARVE_ASSERT(part.extent_end <= table_->data_count(), part.extent_end);
  }
  step_ = Step{.extent = part.extent_first};
  again_.clear();
  fenced_.clear();
  PullPair first;
  wanted_ns_ = at(step_, &first) ? wanted_of(first.extent) : part.first_wanted_ns;
}

bool PullCursor::next(PullPair* pair) const {
  if (again_.empty()) return at(step_, pair);
  *pair = again_.back();
  return true;
}

void PullCursor::pop() {
  if (again_.empty()) {
    advance(step_);
  } else {
    again_.pop_back();
  }
  PullPair pair;
  if (next(&pair)) wanted_ns_ = wanted_of(pair.extent);
}

void PullCursor::begin_again(PullPair pair) {
  VARVE_ASSERT(pair.item < items() && pair.extent < table_->count(), pair.item, pair.extent);
  const auto later = [](PullPair a, PullPair b) {
    return a.extent != b.extent ? a.extent > b.extent : a.item > b.item;
  };
  again_.insert(std::upper_bound(again_.begin(), again_.end(), pair, later), pair);
  wanted_ns_ = wanted_of(again_.back().extent);
}

PullCursor::Fence PullCursor::fence(PullPair pair) {
  const auto waiting = std::find(again_.begin(), again_.end(), pair);
  if (waiting != again_.end()) {
    again_.erase(waiting);
    return Fence::kDropped;
  }
  if (pair.item >= items() || !is_ahead(pair)) return Fence::kPast;
  if (fenced_.size() == kFencedMax) return Fence::kFull;
  fenced_.push_back(pair);
  return Fence::kAhead;
}

bool PullCursor::take_fence(PullPair pair) {
  const auto fenced = std::find(fenced_.begin(), fenced_.end(), pair);
  if (fenced == fenced_.end()) return false;
  *fenced = fenced_.back();
  fenced_.pop_back();
  return true;
}

uint32_t PullCursor::item_at(uint32_t wanted) const {
  const uint16_t* first = part_->request->positions + part_->begin;
  const uint16_t* end = part_->request->positions + part_->end;
  const uint16_t* found = std::lower_bound(first, end, wanted);
  return static_cast<uint32_t>((found == end || *found != wanted ? end : found) - first);
}

bool PullCursor::at(const Step& step, PullPair* pair) const {
  if (part_->wants != nullptr) {
    if (step.want == part_->want_count) return false;
    const wire::Want& want = part_->wants[step.want];
    *pair = {item_at(want.block), want.extent};
    VARVE_ASSERT(pair->item < items() && want.extent < table_->count(), want.block, want.extent);
    return true;
  }
  if (step.extent == part_->extent_end || items() == 0) return false;
  *pair = {step.item, step.extent};
  return true;
}

void PullCursor::advance(Step& step) const {
  if (part_->wants != nullptr) {
    VARVE_ASSERT(step.want < part_->want_count, step.want);
    ++step.want;
    return;
  }
  VARVE_ASSERT(step.extent < part_->extent_end, step.extent);
  if (++step.item < items()) return;
  step.item = 0;
  ++step.extent;
}

bool PullCursor::is_ahead(PullPair pair) const {
  if (part_->wants == nullptr) {
    if (pair.extent < part_->extent_first || pair.extent >= part_->extent_end) return false;
    return pair.extent != step_.extent ? pair.extent > step_.extent : pair.item >= step_.item;
  }
  PullPair other;
  for (Step ahead = step_; at(ahead, &other); advance(ahead)) {
    if (other == pair) return true;
  }
  return false;
}

Nanos PullCursor::wanted_of(uint32_t extent) const {
  const Nanos latest = kNever - 1;  // kNever itself is for what nobody waits for
  if (part_->wants != nullptr) return std::min(part_->first_wanted_ns, latest);
  const uint32_t layers =
      table_->extents[extent].layer_first - table_->extents[part_->extent_first].layer_first;
  // A nanosecond a layer keeps them in order where all are wanted at once.
  return std::min(part_->first_wanted_ns + (part_->layer_ns + 1) * layers, latest);
}

}  // namespace varve
