// Book: the accounts of one data folder, what was promised for each block and what became of it.
//
// Pure, no clock, no client: the load writes down what it began, handed over and was acknowledged;
// the audit says what it found; the book answers which of the six classes that is. Callers on
// several threads share it under their own lock.
// Invariants:
//   B1 a block's bytes are accepted only from a writer that handed over its last layer (I2, I3).
//   B2 a loss is reported once; from then on the block counts as absent until it is acknowledged
//      again or found again.
//   B3 that more targets lost their bytes than the scheme can do without, since the block was
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

namespace varve::ledger {

enum class Class : uint8_t {
  kIntact,   // acknowledged, and there
  kEvicted,  // acknowledged, gone, and the daemon had no room to keep everything
  kRevived,  // written off as gone, and there again: legal (I10)
  kLost,     // durable, gone, and nothing was evicted: a broken promise (I10)
  kCorrupt,  // delivered as good, but nobody's bytes: a broken promise (I1)
  kPhantom,  // delivered, but its writer never finished, or there was none: a broken promise (I2)
};
inline constexpr uint32_t kClassCount = 6;
const char* class_name(Class c);

// May the daemon have evicted? When it may, a missing block proves nothing.
enum class Room : uint8_t { kRoomy, kTight };

struct Tally {
  std::array<uint64_t, kClassCount> classes{};
  uint64_t cached_lost = 0;   // acknowledged as cached only and gone: legal
  uint64_t partial_gone = 0;  // durable, but a sibling rank never was: may be dropped
  uint64_t unanswered = 0;    // found; its acknowledgement never arrived: legal
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
  // A life begins: which loop it is, for the findings only, and, as bits, the targets that new
  // blocks have to do without.
  void at_start(uint32_t loop, uint32_t thin) { loop_ = loop, thin_ = thin; }
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
  void acknowledge(const BlockId& block, bool durable);
  // "It exists": as good as a durable acknowledgement, but of a block of any age, which may have
  // lost fragments in a crash before they were flushed.
  void confirm(const BlockId& block);

  // ---- asked by load and audit
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
  void judge_bytes(const BlockId& block, std::optional<Salt> writer);
  // These ranks of the base id are gone; all in one call, because what one rank was promised
  // depends on its siblings.
  void missing(const BaseId& base, const std::vector<uint32_t>& ranks, Room room);
  // A durable block whose reservation was granted again is gone as well.
  void granted_again(const BlockId& block, Room room);

  const Tally& tally() const { return tally_; }
  const std::vector<std::string>& findings() const { return findings_; }
  uint64_t blocks_acknowledged() const;

 private:
  static constexpr size_t kFindingsMax = 50;  // more of the same helps nobody
  struct Page {
    std::set<Salt> begun;     // never finished
    std::set<Salt> finished;  // may be committed
    bool acknowledged = false;
    bool durable = false;
    bool written_off = false;  // evicted, lost or cached lost
    std::set<Salt> gone;       // the writers of that time; later ones do not revive it
    uint32_t hurt = 0;         // targets, as bits, that were struck since it was written
    bool frail = false;        // confirmed only: it may have had no fragment to spare
    uint32_t acknowledged_loop = 0;
    std::optional<uint32_t> seen_loop;  // by the last audit that found it
  };
  std::optional<Class> bytes_class(const BlockId& block, std::optional<Salt> writer) const;
  void count(const BlockId& block, Class c);
  void write_off(Page& page);
  bool beyond(const Page& page) const;
  bool beyond(const BaseId& base) const;

  std::map<BlockId, Page> pages_;
  std::map<BaseId, uint32_t> rank_counts_;
  Tally tally_;
  std::vector<std::string> findings_;
  uint32_t loop_ = 0, thin_ = 0, budget_ = 0;
};

}  // namespace varve::ledger
