// Lineages: of which lineage, and which generation of it, each block of the index is.
//
// The index knows no lineages. Here each (domain, lineage, generation) that was met since the start
// has a number, and each block slot the number of its block (2 bytes). A purge makes the numbers of
// what it ends dead and gives the lineage a new one, so what is committed after it is told apart
// from what was before, exactly, while a walk takes the dead ones out (ADR-0004); then they may be
// given again.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "common/base/base.h"
#include "server/flash/flash.h"

namespace varve {

class Lineages {
 public:
  Lineages(uint32_t blocks_max, flash::Generations rows);

  // A block of this lineage was published, or recovered with a mark that is not old, in this slot.
  void set(uint32_t block_slot, uint32_t domain, uint64_t lineage);
  bool is_dead(uint32_t block_slot) const;

  // What a header that is filled now carries.
  flash::LineageMark mark(uint32_t domain, uint64_t lineage) const {
    return flash::current_mark(rows_, domain, lineage);
  }
  bool is_old(const flash::LineageMark& mark) const { return flash::is_old(rows_, mark); }
  const flash::Generations& rows() const { return rows_; }
  // A purge of a lineage (0: of its domain): what is known of it by now is dead. A walk follows.
  void purge(uint32_t domain, uint64_t lineage, const flash::Generations& rows);
  // The walk of a purge took all out that was dead when it began. When no other walks, nothing of
  // the index has a dead number any more, and they may be given again.
  void walked();

 private:
  // The lineage of what no number was left for: it dies with the next purge of its domain, whatever
  // that is of. Each domain has its own, so that none ends what is another's.
  static constexpr uint64_t kOther = ~uint64_t{0};
  using Key = std::pair<uint32_t, uint64_t>;  // domain, lineage
  bool number_left(Key key) const;
  void count(Key key);
  uint16_t take_number(Key key);
  void end(Key key);

  flash::Generations rows_;
  std::vector<uint16_t> numbers_;    // by block slot
  std::vector<bool> dead_;           // by number
  std::vector<uint16_t> free_;       // of the dead ones, those no block has
  uint32_t walks_ = 0;               // purges whose walk has not ended
  std::map<Key, uint16_t> current_;  // the numbers of what lives
  // By domain, the numbers it has, dead ones included until they may be given again; but for that
  // of what has none.
  std::map<uint32_t, uint32_t> taken_;
  uint32_t taken_sum_ = 0;  // of these
  uint32_t shared_ = 0;     // of these: beyond what each domain has for itself
};

}  // namespace varve
