// Book: one page a block; each page moves between absent, promised and written off.
#include "tools/ledger/book.h"

#include <bit>

namespace varve::ledger {

const char* class_name(Class c) {
  switch (c) {
    case Class::kIntact:
      return "intact";
    case Class::kEvicted:
      return "evicted";
    case Class::kRevived:
      return "revived";
    case Class::kLost:
      return "lost";
    case Class::kCorrupt:
      return "corrupt";
    case Class::kPhantom:
      return "phantom";
  }
  return "?";
}

uint64_t Tally::violations() const {
  return of(Class::kLost) + of(Class::kCorrupt) + of(Class::kPhantom);
}

void Tally::merge(const Tally& other) {
  for (uint32_t i = 0; i < kClassCount; ++i)
    classes[i] += other.classes[i];
  cached_lost += other.cached_lost;
  partial_gone += other.partial_gone;
  unanswered += other.unanswered;
  within_kept += other.within_kept;
  beyond_kept += other.beyond_kept;
  beyond_gone += other.beyond_gone;
}

void Book::struck(uint32_t targets) {
  for (auto& [block, page] : pages_)
    page.hurt |= targets;
}

void Book::healed() {
  for (auto& [block, page] : pages_) {
    page.hurt = 0;
    page.frail = false;
  }
}

void Book::declare(const BaseId& base, uint32_t rank_count) {
  rank_counts_[base] = rank_count;
}

void Book::begin(const BlockId& block, Salt salt) {
  pages_[block].begun.insert(salt);
}

void Book::finish(const BlockId& block, Salt salt) {
  Page& page = pages_[block];
  VARVE_ASSERT(page.begun.count(salt) == 1, salt);
  page.begun.erase(salt);
  page.finished.insert(salt);
}

void Book::retract(const BlockId& block, Salt salt) {
  Page& page = pages_[block];
  if (page.finished.erase(salt) == 1) page.begun.insert(salt);
}

void Book::acknowledge(const BlockId& block, bool durable) {
  Page& page = pages_[block];
  VARVE_ASSERT(!page.finished.empty());
  page.acknowledged = true;
  page.durable |= durable;
  page.written_off = false;
  page.acknowledged_loop = loop_;
  page.hurt = thin_;
  page.frail = false;
}

void Book::confirm(const BlockId& block) {
  Page& page = pages_[block];
  VARVE_ASSERT(!page.finished.empty());
  page.frail |= !page.durable;
  page.acknowledged = page.durable = true;
  page.written_off = false;
  page.acknowledged_loop = loop_;
}

bool Book::beyond(const Page& page) const {
  if (page.frail && page.hurt != 0) return true;
  return static_cast<uint32_t>(std::popcount(page.hurt)) > budget_;
}

// Siblings are dropped together.
bool Book::beyond(const BaseId& base) const {
  const auto ranks = rank_counts_.find(base);
  for (uint32_t r = 0; ranks != rank_counts_.end() && r < ranks->second; ++r) {
    const auto page = pages_.find({base, r});
    if (page != pages_.end() && beyond(page->second)) return true;
  }
  return false;
}

bool Book::excused(const BaseId& base) const {
  if (beyond(base)) return true;
  if (must_keep(base)) return false;
  const auto ranks = rank_counts_.find(base);
  for (uint32_t r = 0; ranks != rank_counts_.end() && r < ranks->second; ++r) {
    const auto page = pages_.find({base, r});
    if (page != pages_.end() && page->second.hurt != 0) return true;
  }
  return false;
}

bool Book::durable(const BlockId& block) const {
  const auto found = pages_.find(block);
  return found != pages_.end() && found->second.durable;
}

bool Book::must_keep(const BaseId& base) const {
  const auto ranks = rank_counts_.find(base);
  if (ranks == rank_counts_.end()) return false;
  for (uint32_t r = 0; r < ranks->second; ++r) {
    if (!durable({base, r})) return false;
  }
  return true;
}

bool Book::may_exist(const BlockId& block) const {
  const auto found = pages_.find(block);
  return found != pages_.end() && !found->second.finished.empty();
}

// None: these bytes may be there.
std::optional<Class> Book::bytes_class(const BlockId& block, std::optional<Salt> writer) const {
  if (!writer) return Class::kCorrupt;
  const auto page = pages_.find(block);
  if (page == pages_.end() || page->second.finished.count(*writer) == 0) return Class::kPhantom;
  return std::nullopt;
}

void Book::count(const BlockId& block, Class c) {
  ++tally_.classes[static_cast<uint32_t>(c)];
  const bool violation = c == Class::kLost || c == Class::kCorrupt || c == Class::kPhantom;
  if (!violation || findings_.size() >= kFindingsMax) return;
  std::string text = std::string(class_name(c)) + ": block " + short_name(block.base) + " rank " +
                     std::to_string(block.rank) + " in loop " + std::to_string(loop_);
  if (const auto page = pages_.find(block); page != pages_.end() && page->second.acknowledged) {
    text += ", acknowledged in loop " + std::to_string(page->second.acknowledged_loop);
    if (page->second.hurt != 0) {
      text += ", " + std::to_string(std::popcount(page->second.hurt)) + " targets hurt since";
    }
    if (page->second.seen_loop) text += ", seen in loop " + std::to_string(*page->second.seen_loop);
  }
  findings_.push_back(std::move(text));
}

void Book::write_off(Page& page) {
  page.acknowledged = page.durable = false;
  page.written_off = true;
  page.gone = page.finished;
}

std::optional<Class> Book::found(const BlockId& block, std::optional<Salt> writer) {
  if (const auto bad = bytes_class(block, writer)) {
    count(block, *bad);
    return bad;
  }
  Page& page = pages_[block];
  page.seen_loop = loop_;
  const bool written_off = page.written_off;
  page.written_off = false;
  if (written_off && page.gone.count(*writer) == 1) {
    count(block, Class::kRevived);
    return Class::kRevived;
  }
  if (!page.acknowledged) {
    ++tally_.unanswered;
    return std::nullopt;
  }
  if (page.durable && page.hurt != 0) ++(beyond(page) ? tally_.beyond_kept : tally_.within_kept);
  count(block, Class::kIntact);
  return Class::kIntact;
}

void Book::judge_bytes(const BlockId& block, std::optional<Salt> writer) {
  if (const auto bad = bytes_class(block, writer)) count(block, *bad);
}

void Book::missing(const BaseId& base, const std::vector<uint32_t>& ranks, Room room) {
  const bool promised = must_keep(base);
  const bool excused = beyond(base);
  for (const uint32_t rank : ranks) {
    const BlockId block{base, rank};
    const auto found = pages_.find(block);
    if (found == pages_.end() || !found->second.acknowledged) continue;
    Page& page = found->second;
    if (room == Room::kTight) {
      count(block, Class::kEvicted);
    } else if (promised && excused) {
      ++tally_.beyond_gone;
    } else if (promised) {
      count(block, Class::kLost);
    } else if (page.durable) {
      ++tally_.partial_gone;
    } else {
      ++tally_.cached_lost;
    }
    write_off(page);
  }
}

void Book::granted_again(const BlockId& block, Room room) {
  if (room == Room::kTight || !must_keep(block.base)) return;
  if (beyond(block.base)) {
    ++tally_.beyond_gone;
    return write_off(pages_[block]);
  }
  count(block, Class::kLost);
  write_off(pages_[block]);
}

uint64_t Book::blocks_acknowledged() const {
  uint64_t n = 0;
  for (const auto& [block, page] : pages_)
    n += page.acknowledged ? 1 : 0;
  return n;
}

}  // namespace varve::ledger
