// Book: one page a block; each page moves between absent, promised and written off.
#include "tools/ledger/book.h"

#include <algorithm>
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
    case Class::kUnpurged:
      return "unpurged";
  }
  return "?";
}

bool is_violation(Class c) {
  return c == Class::kLost || c == Class::kCorrupt || c == Class::kPhantom || c == Class::kUnpurged;
}

uint64_t Tally::violations() const {
  uint64_t sum = 0;
  for (uint32_t c = 0; c < kClassCount; ++c)
    sum += is_violation(static_cast<Class>(c)) ? classes[c] : 0;
  return sum;
}

void Tally::merge(const Tally& other) {
  for (uint32_t i = 0; i < kClassCount; ++i)
    classes[i] += other.classes[i];
  cached_lost += other.cached_lost;
  partial_gone += other.partial_gone;
  unanswered += other.unanswered;
  purged += other.purged, clouded_gone += other.clouded_gone, clouded_kept += other.clouded_kept;
  within_kept += other.within_kept;
  beyond_kept += other.beyond_kept;
  beyond_gone += other.beyond_gone;
}

// Visits what pages there are of all ranks.
template <typename Visit>
void Book::for_each_page(const BaseId& base, Visit visit) {
  const auto from = pages_.lower_bound({base, 0});
  for (auto at = from; at != pages_.end() && at->first.base == base; ++at)
    visit(at->first, at->second);
}

void Book::at_start(uint32_t loop, uint32_t thin, bool all_here) {
  loop_ = loop, thin_ = thin, all_here_ = all_here;
  purges_.at_start(all_here);
  doomed_.clear();
  for (auto& [block, page] : pages_)
    page.open.clear(), page.answered.clear();
}

void Book::struck(uint32_t targets) {
  for (auto& [block, page] : pages_)
    page.hurt |= targets;
}

void Book::healed() {
  for (auto& [block, page] : pages_) {
    // What rot took in a folder without parity is known to that life only: the next one finds it
    // once more, and cannot deliver it.
    if (page.written_off) continue;
    page.hurt = 0;
    page.frail = false;
  }
}

void Book::declare(const BaseId& base, uint32_t rank_count) {
  rank_counts_[base] = rank_count;
}

void Book::begin(const BlockId& block, Salt salt) {
  pages_[block].begun.insert(salt);
  pages_[block].open.insert(salt);
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

void Book::settle(const BlockId& block, Salt salt) {
  pages_[block].open.erase(salt);
}

bool Book::acknowledge(const BlockId& block, Salt salt, bool durable, Tick since) {
  Page& page = pages_[block];
  VARVE_ASSERT(page.finished.count(salt) == 1, salt);
  const bool met = purges_.touches(block.base, since);
  const bool agreed = met || page.denied.count(salt) == 0;
  page.answered.insert(salt);
  if (page.ended.count(salt) == 1) return agreed;  // purged before the word of it came through
  page.acknowledged = true;
  page.durable |= durable;
  page.written_off = false;
  page.acknowledged_loop = loop_;
  page.acknowledged_salt = salt;
  page.hurt = thin_;
  page.frail = false;
  if (!met) page.clouded.clear();  // it was granted, so no other was there
  if (met) page.clouded.insert(salt);
  return agreed;
}

bool Book::followed(const BlockId& block, Salt salt, bool durable, Tick since) {
  if (pages_[block].finished.count(salt) == 1) return acknowledge(block, salt, durable, since);
  count(block, Class::kPhantom);
  return true;
}

bool Book::deny(const BlockId& block, Salt salt, Tick since) {
  Page& page = pages_[block];
  page.denied.insert(salt);
  return page.answered.count(salt) == 0 || purges_.touches(block.base, since);
}

void Book::confirm(const BlockId& block, Tick since) {
  Page& page = pages_[block];
  VARVE_ASSERT(!page.finished.empty());
  if (all_ended(page, since)) return count(block, Class::kUnpurged);
  if (all_ended(page, kNow)) return;  // it existed then
  if (purges_.touches(block.base, since)) cloud(page);
  page.frail |= !page.durable;
  page.acknowledged = page.durable = true;
  page.written_off = false;
  page.acknowledged_loop = loop_;
}

bool Book::is_ended(const Page& page, Salt salt, Tick since) const {
  const auto ended = page.ended.find(salt);
  return ended != page.ended.end() && purges_.done(ended->second, since);
}

bool Book::all_ended(const Page& page, Tick since) const {
  return !page.finished.empty() &&
         std::all_of(page.finished.begin(), page.finished.end(),
                     [&](Salt salt) { return is_ended(page, salt, since); });
}

// Whichever of its writes is there.
void Book::cloud(Page& page) const {
  for (const Salt salt : page.finished) {
    if (page.ended.count(salt) == 0) page.clouded.insert(salt);
  }
}

uint32_t Book::purge_asked(const std::vector<BaseId>& bases, bool lineage) {
  const uint32_t purge = purges_.ask(bases, lineage);
  auto& doomed = doomed_[purge];
  for (const BaseId& base : bases) {
    for_each_page(base, [&](const BlockId& block, Page& page) {
      cloud(page);
      // One whose push goes on may be granted before the purge or after it.
      for (const Salt salt : page.finished) {
        if (page.open.count(salt) == 0) doomed.emplace_back(block, salt);
      }
    });
  }
  return purge;
}

void Book::purge_answered(uint32_t purge, bool done) {
  purges_.answer(purge, done);
  const auto doomed = doomed_.find(purge);
  if (doomed == doomed_.end()) return;
  if (done) {
    for (const auto& [block, salt] : doomed->second) {
      pages_[block].ended.emplace(salt, purge);
      pages_[block].clouded.erase(salt);
    }
    for (const BaseId& base : purges_.bases(purge)) {
      for_each_page(base, [&](const BlockId&, Page& page) {
        const bool met =
            page.acknowledged_salt != 0 && page.ended.count(page.acknowledged_salt) == 0;
        if (!page.acknowledged || met) return;  // met: acknowledged, and clouded
        ++tally_.purged;
        page.acknowledged = page.durable = page.written_off = false;
      });
    }
  }
  doomed_.erase(doomed);
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
    const auto page = pages_.find({base, r});
    if (page == pages_.end() || !page->second.durable || !page->second.clouded.empty())
      return false;
  }
  return true;
}

bool Book::may_exist(const BlockId& block) const {
  const auto found = pages_.find(block);
  return found != pages_.end() && !found->second.finished.empty();
}

// None: these bytes may be there.
std::optional<Class> Book::bytes_class(const BlockId& block, std::optional<Salt> writer,
                                       Tick since) const {
  if (!writer) return Class::kCorrupt;
  const auto page = pages_.find(block);
  if (page == pages_.end() || page->second.finished.count(*writer) == 0) return Class::kPhantom;
  if (is_ended(page->second, *writer, since)) return Class::kUnpurged;
  return std::nullopt;
}

void Book::count(const BlockId& block, Class c) {
  ++tally_.classes[static_cast<uint32_t>(c)];
  if (!is_violation(c) || findings_.size() >= kFindingsMax) return;
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
  if (const auto bad = bytes_class(block, writer, kNow)) {
    count(block, *bad);
    return bad;
  }
  Page& page = pages_[block];
  page.seen_loop = loop_;
  tally_.clouded_kept += page.clouded.count(*writer);
  // Everything that could end it was read, and did not.
  if (all_here_ && !purges_.touches(block.base, kNow)) page.clouded.clear();
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

void Book::judge_bytes(const BlockId& block, std::optional<Salt> writer, Tick since) {
  if (const auto bad = bytes_class(block, writer, since)) count(block, *bad);
}

void Book::judge_hit(const BaseId& base, Tick since) {
  for_each_page(base, [&](const BlockId& block, const Page& page) {
    if (all_ended(page, since)) count(block, Class::kUnpurged);
  });
}

void Book::missing(const BaseId& base, const std::vector<uint32_t>& ranks, Room room) {
  const bool promised = must_keep(base);
  const bool excused = beyond(base);
  for (const uint32_t rank : ranks) {
    const BlockId block{base, rank};
    const auto found = pages_.find(block);
    if (found == pages_.end() || !found->second.acknowledged) continue;
    Page& page = found->second;
    if (!page.clouded.empty()) {
      ++tally_.clouded_gone;
    } else if (room == Room::kTight) {
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

void Book::granted_again(const BlockId& block, Room room, Tick since) {
  if (room == Room::kTight || !must_keep(block.base)) return;
  if (purges_.touches(block.base, since)) return;
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
