// The walk of a pull: a step over extents and blocks, or over wants, what was brought forward of
// one block, and two short lists.
#include "server/op/pull_cursor.h"

#include <algorithm>

namespace varve {

PullCursor::PullCursor() {
  fenced_.reserve(kFencedMax);
  passed_.reserve(wire::kIdsMax);
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
  forward_ = Forward();
  passed_.assign(items(), 0);
  again_.clear();
  fenced_.clear();
  PullPair first;
  wanted_ns_ = at(step_, &first) ? wanted_of(first.extent) : part.first_wanted_ns;
}

bool PullCursor::next(PullPair* pair) const {
  if (is_forward()) {
    *pair = {forward_.item, forward_.extent};
    return true;
  }
  if (again_.empty()) return at(step_, pair);
  *pair = again_.back();
  return true;
}

void PullCursor::pop() {
  if (is_forward()) {
    ++forward_.extent;
  } else if (again_.empty()) {
    advance(step_);
  } else {
    again_.pop_back();
  }
  PullPair pair;
  if (!is_forward() && next(&pair)) wanted_ns_ = wanted_of(pair.extent);
}

// The members of a stripe follow each other, and of one block the walk goes upwards: what was not
// begun of them is from somewhere to their end.
void PullCursor::bring_forward(PullPair lost) {
  VARVE_ASSERT(lost.item < items() && lost.extent < table_->count(), lost.item, lost.extent);
  if (part_->wants != nullptr || is_forward()) return;
  const Stripe& stripe = table_->stripes[table_->stripe_at(lost.extent)];
  const uint32_t end = std::min(stripe.first + stripe.count, part_->extent_end);
  const uint32_t walked = step_.extent + (lost.item < step_.item ? 1 : 0);
  const uint32_t first = std::max({walked, stripe.first, uint32_t{passed_[lost.item]}});
  if (first >= end) return;
  forward_ = Forward{lost.item, first, end};
  passed_[lost.item] = static_cast<uint16_t>(end);
  pass_over(step_);
  wanted_ns_ = wanted_of(lost.extent);
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

bool PullCursor::in_first_layer(uint32_t extent) const {
  VARVE_ASSERT(part_->wants == nullptr && extent < table_->data_count(), extent);
  const auto& extents = table_->extents;
  return extents[extent].layer_first == extents[part_->extent_first].layer_first;
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
  if (++step.item == items()) {
    step.item = 0;
    ++step.extent;
  }
  pass_over(step);
}

void PullCursor::pass_over(Step& step) const {
  while (step.extent < part_->extent_end && step.extent < passed_[step.item]) {
    if (++step.item < items()) continue;
    step.item = 0;
    ++step.extent;
  }
}

bool PullCursor::is_ahead(PullPair pair) const {
  if (part_->wants == nullptr) {
    const bool forward = pair.item == forward_.item && pair.extent >= forward_.extent;
    if (forward && pair.extent < forward_.end) return true;
    if (pair.extent < passed_[pair.item]) return false;
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
