// Book: the accounts of one data folder, what was promised for each block and what became of it.
//
// Pure, no clock, no client: the load writes down what it began, handed over and was acknowledged;
// the audit says what it found; the book answers which of the seven classes that is. Callers on
// several threads share it under their own lock. A *clouded* write is one that a purge under way
// may have ended or not: it may be there or not, and is owed again once it was seen in a later
// life. Invariants:
//   B1 a block's bytes are accepted only from a writer that handed over its last layer (I2, I3).
//   B2 a loss is reported once; from then on the block counts as absent until it is acknowledged
//      again or found again.
//   B3 what a purge ended that was answered is never accepted again, from any op that began later.
//   B4 that more targets lost their bytes than the scheme can do without, since the block was
//      written and before all was whole again, excuses its absence; nothing excuses wrong bytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/ledger/content.h"
#include "tools/ledger/purge_log.h"

namespace varve::ledger {

enum class Class : uint8_t {
  kIntact,    // acknowledged, and there
  kEvicted,   // acknowledged, gone, and the daemon had no room to keep everything
  kRevived,   // written off as gone, and there again: legal (I10)
  kLost,      // durable, gone, and nothing was evicted: a broken promise (I10)
  kCorrupt,   // delivered as good, but nobody's bytes: a broken promise (I1)
  kPhantom,   // delivered, but its writer never finished, or there was none: a broken promise (I2)
  kUnpurged,  // there, though a purge that was answered had ended it: a broken promise (I10)
};
inline constexpr uint32_t kClassCount = 7;
const char* class_name(Class c);
bool is_violation(Class c);

// May the daemon have evicted? When it may, a missing block proves nothing.
enum class Room : uint8_t { kRoomy, kTight };

struct Tally {
  std::array<uint64_t, kClassCount> classes{};
  uint64_t cached_lost = 0;   // acknowledged as cached only and gone: legal
  uint64_t partial_gone = 0;  // durable, but a sibling rank never was: may be dropped
  uint64_t unanswered = 0;    // found; its acknowledgement never arrived: legal
  uint64_t purged = 0;  // blocks that were there for all that is known, and that a purge ended
  uint64_t clouded_gone = 0;  // gone; a purge had met its write or had no answer: legal
  uint64_t clouded_kept = 0;  // the same, and there
  // Of blocks that were durable when targets were hurt: within the scheme's budget, or beyond.
  uint64_t within_kept = 0, beyond_kept = 0;
  uint64_t beyond_gone = 0;  // legal
  uint64_t of(Class c) const { return classes[static_cast<uint32_t>(c)]; }
  uint64_t violations() const;
  void merge(const Tally& other);
};

class Book {
 public:
  // Targets that a block can do without: m of the scheme.
  void budget(uint32_t targets) { budget_ = targets; }
  // A life begins: which loop it is, for the findings only; as bits, the targets that new blocks
  // have to do without; and whether all targets are there, so that all that was purged is known.
  void at_start(uint32_t loop, uint32_t thin, bool all_here);
  // These targets lost something, or all.
  void struck(uint32_t targets);
  // Every block has all its fragments again, on targets that were read to the end.
  void healed();

  // ---- written by the load
  void declare(const BaseId& base, uint32_t rank_count);
  // A new writer for the block; nothing of it may ever be seen before finish().
  void begin(const BlockId& block, Salt salt);
  // Its last layer is about to be handed over: from now on its bytes may be committed.
  void finish(const BlockId& block, Salt salt);
  // It handed over its last layer, but its reservation had not been granted: nobody took the bytes.
  void retract(const BlockId& block, Salt salt);
  // Its push has ended, so what it was granted was granted by now.
  void settle(const BlockId& block, Salt salt);
  // `since`: when its push began. False: a follower was told that this push had failed.
  bool acknowledge(const BlockId& block, Salt salt, bool durable, Tick since);
  // A follower is told that a push was committed, as its pusher had asked: an acknowledgement.
  bool followed(const BlockId& block, Salt salt, bool durable, Tick since);
  // A follower is told that it was not. False: it was acknowledged, and no purge met it.
  bool deny(const BlockId& block, Salt salt, Tick since);
  // "It exists": as good as a durable acknowledgement, but of a block of any age, which may have
  // lost fragments in a crash before they were flushed.
  void confirm(const BlockId& block, Tick since);
  // All ranks of the base ids, of all that was committed by then.
  uint32_t purge_asked(const std::vector<BaseId>& bases, bool lineage);
  void purge_answered(uint32_t purge, bool done);

  // ---- asked by load and audit
  Tick now() const { return purges_.now(); }
  // A purge of it was under way at some time from then on: it may be gone.
  bool purging(const BaseId& base, Tick since) const { return purges_.touches(base, since); }
  bool durable(const BlockId& block) const;
  // Every rank of it is durable: nothing allows the daemon to drop it but eviction.
  bool must_keep(const BaseId& base) const;
  // Some rank of it is not owed: more targets were hurt than the scheme can do without, or any
  // was and it was never durable.
  bool excused(const BaseId& base) const;
  // Some rank of it may have been committed; the rest of the world must be absent.
  bool may_exist(const BlockId& block) const;

  // ---- told by pulls; `during_load` judges bytes only, an absence proves nothing then
  // The bytes that a pull delivered as good; null = no writer's bytes.
  std::optional<Class> found(const BlockId& block, std::optional<Salt> writer);
  void judge_bytes(const BlockId& block, std::optional<Salt> writer, Tick since);
  // A layer that was followed is not of the attempt that it was asked of.
  void followed_wrong(const BlockId& block) { count(block, Class::kCorrupt); }
  // A match that began then says that all of it is there.
  void judge_hit(const BaseId& base, Tick since);
  // These ranks of the base id are gone; all in one call, because what one rank was promised
  // depends on its siblings.
  void missing(const BaseId& base, const std::vector<uint32_t>& ranks, Room room);
  // A durable block whose reservation was granted again is gone as well.
  void granted_again(const BlockId& block, Room room, Tick since);

  const Tally& tally() const { return tally_; }
  const std::vector<std::string>& findings() const { return findings_; }
  uint64_t blocks_acknowledged() const;

 private:
  static constexpr size_t kFindingsMax = 50;  // more of the same helps nobody
  struct Page {
    std::set<Salt> begun;            // never finished
    std::set<Salt> finished;         // may be committed
    std::set<Salt> open;             // of both: its push has not ended
    std::map<Salt, uint32_t> ended;  // of those finished: by which purge
    std::set<Salt> clouded;          // of those finished
    std::set<Salt> denied;           // a follower was told that they failed
    std::set<Salt> answered;         // acknowledged, in this life
    Salt acknowledged_salt = 0;      // the last of them, in any life
    bool acknowledged = false;
    bool durable = false;
    bool written_off = false;  // evicted, lost or cached lost
    std::set<Salt> gone;       // the writers of that time; later ones do not revive it
    uint32_t hurt = 0;         // targets, as bits, that were struck since it was written
    bool frail = false;        // confirmed only: it may have had no fragment to spare
    uint32_t acknowledged_loop = 0;
    std::optional<uint32_t> seen_loop;  // by the last audit that found it
  };
  std::optional<Class> bytes_class(const BlockId& block, std::optional<Salt> writer,
                                   Tick since) const;
  bool is_ended(const Page& page, Salt salt, Tick since) const;
  bool all_ended(const Page& page, Tick since) const;
  void cloud(Page& page) const;
  void count(const BlockId& block, Class c);
  void write_off(Page& page);
  template <typename Visit>
  void for_each_page(const BaseId& base, Visit visit);
  bool beyond(const Page& page) const;
  bool beyond(const BaseId& base) const;

  std::map<BlockId, Page> pages_;
  std::map<BaseId, uint32_t> rank_counts_;
  PurgeLog purges_;
  std::map<uint32_t, std::vector<std::pair<BlockId, Salt>>> doomed_;  // by purges without an answer
  bool all_here_ = true;
  Tally tally_;
  std::vector<std::string> findings_;
  uint32_t loop_ = 0, thin_ = 0, budget_ = 0;
};

}  // namespace varve::ledger
