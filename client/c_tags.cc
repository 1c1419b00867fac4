// Tags: the map is the truth, the table is what readers without a lock see of it.
#include "client/c_tags.h"

#include <algorithm>

namespace varve {

namespace {

// What stands at which word of the table.
enum Word : uint32_t {
  kState,  // 0 = not answered
  kOp,
  kStatus,
  kHits,
  kFlagsAndTier,
  kLease,
  kLeaseEnd,
  kAnswered,
  kFirstLayer,
  kLastLayer,
  kWords
};
static_assert(kWords <= kPeekWords);

}  // namespace

wire::TierKind slowest_of(const std::vector<wire::TierKind>& tiers) {
  return tiers.empty() ? wire::TierKind::kNone : *std::max_element(tiers.begin(), tiers.end());
}

OpId Tags::running(uint64_t tag) const {
  const auto found = tags_.find(tag);
  return found == tags_.end() || found->second.answered != 0 ? 0 : found->second.op;
}

void Tags::erase(std::map<uint64_t, Tag>::iterator tag) {
  table_.erase(tag->first);
  answers_.erase(tag->second.answered);
  tags_.erase(tag);
}

bool Tags::make_room(uint64_t tag) {
  VARVE_ASSERT(tag != 0 && running(tag) == 0, tag);
  if (const auto found = tags_.find(tag); found != tags_.end()) erase(found);
  if (tags_.size() < kTagsMax) return true;
  if (answers_.empty()) return false;
  erase(tags_.find(answers_.begin()->second));
  ++forgotten_;
  return true;
}

void Tags::ask(uint64_t tag, OpId op) {
  VARVE_ASSERT(op != 0 && tags_.find(tag) == tags_.end(), tag);
  tags_[tag] = {op, 0};
  PeekWords words{};
  words[kOp] = op;
  const bool put = table_.put(tag, words);
  VARVE_ASSERT(put, tags_.size());  // make_room() said so
}

void Tags::answer(uint64_t tag, const Event& event, Nanos now_ns) {
  const auto found = tags_.find(tag);
  if (found == tags_.end() || found->second.op != event.op) return;
  VARVE_ASSERT(found->second.answered == 0, tag);  // one terminal event (C3)
  found->second.answered = ++last_answer_;
  answers_[last_answer_] = tag;
  PeekWords words{};
  words[kState] = 1;
  words[kOp] = event.op;
  words[kStatus] = static_cast<uint64_t>(event.status.code());
  words[kHits] = event.n_blocks;
  words[kFlagsAndTier] = (event.recovering ? VARVE_ANSWER_RECOVERING : 0) |
                         static_cast<uint64_t>(slowest_of(event.tiers)) << 32;
  words[kLease] = event.lease;
  words[kLeaseEnd] = now_ns + event.lease_ns;
  words[kAnswered] = now_ns;
  words[kFirstLayer] = event.first_layer_ns_estimate;
  words[kLastLayer] = event.last_layer_ns_estimate;
  const bool put = table_.put(tag, words);
  VARVE_ASSERT(put, tag);  // its place is kept
}

OpId Tags::forget(uint64_t tag) {
  const auto found = tags_.find(tag);
  if (found == tags_.end()) return 0;
  const OpId asking = running(tag);
  erase(found);
  return asking;
}

varve_status Tags::peek(uint64_t tag, Nanos now_ns, varve_match_answer& answer) const {
  PeekWords words;
  switch (table_.find(tag, words)) {
    case PeekTable::Found::kNo:
      return VARVE_UNKNOWN;
    case PeekTable::Found::kBusy:
      return VARVE_PENDING;
    case PeekTable::Found::kYes:
      break;
  }
  if (words[kState] == 0) return VARVE_PENDING;
  answer.status = static_cast<varve_status>(words[kStatus]);
  answer.op = words[kOp];
  answer.hit_count = static_cast<uint32_t>(words[kHits]);
  answer.flags = static_cast<uint32_t>(words[kFlagsAndTier]);
  answer.slowest_tier = static_cast<uint32_t>(words[kFlagsAndTier] >> 32);
  answer.lease = words[kLease];
  const bool held = words[kLease] != 0 && words[kLeaseEnd] > now_ns;
  answer.lease_left_ns = held ? words[kLeaseEnd] - now_ns : 0;
  answer.age_ns = now_ns > words[kAnswered] ? now_ns - words[kAnswered] : 0;
  answer.first_layer_ns_estimate = words[kFirstLayer];
  answer.last_layer_ns_estimate = words[kLastLayer];
  return VARVE_OK;
}

}  // namespace varve
