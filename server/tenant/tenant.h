// tenant: the domains of a node, which are who may share: their names, ids, salts, and whose token
// it is that a client brings (ADR-0007).
//
// Owns: Domains, a table of at most 32 as a value, and its text in the data folder; DomainLimit,
// how they share what is limited. Pure: who makes secrets, keeps the file and asks for changes is
// others. Called by server/session (whose token is it?), server/op (shares) and server/node
// (changes). Thread rule: a value; each thread has a copy of its own.
// Invariants:
//   T1 an id is given once in the life of a node: never again after its domain is gone.
//   T2 a name, an id, a salt and a token are each of one domain.
//   T3 a token is known by its SHA-256 only, and the question whose it is takes the same time
//      whoever's it is, or nobody's.
//   T4 the default domain is there always, first, and not in the text: salt and token of it have
//      files of their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/base.h"
#include "common/model/model.h"

namespace varve {

inline constexpr uint32_t kNodeDomainsMax = 32;  // with the default one
inline constexpr uint32_t kDomainNameBytesMax = 64;
inline constexpr std::string_view kDomainNameDefault = "default";

// 1 to 64 of a-z, 0-9, '-', '_' and '.'.
bool is_domain_name(std::string_view name);
Digest token_hash(std::string_view token);

struct Domain {
  uint32_t id = kDomainDefault;
  std::string name{kDomainNameDefault};
  Digest salt;
  bool has_token =
      false;  // only the default one may have none: then it is whoever's is on loopback
  Digest token_hash;
  uint32_t boot_generation = 0;  // of the start in which it was made
};

class Domains {
 public:
  Domains() : Domains(Digest(), {}) {}
  // `token` empty: none.
  Domains(const Digest& salt, std::string_view token);

  const std::vector<Domain>& all() const { return rows_; }  // by rising id
  const Domain& by_default() const { return rows_.front(); }
  const Domain* find(uint32_t id) const;
  const Domain* find(std::string_view name) const;
  const Domain* of_token(ConstByteSpan token) const;  // T3; null: nobody's
  uint32_t id_last() const { return id_last_; }       // of all that were ever given
  uint32_t changes() const { return changes_; }       // what was ever added, rotated or dropped

  // What cannot be leaves the table as it was: kInvalid (name), kQuota (32), kUnsupported (no id is
  // left), kInternal (a secret that is another domain's).
  struct Secrets {
    Digest salt;
    std::string token;
  };
  [[nodiscard]] Status add(std::string_view name, const Secrets& secrets, uint32_t boot_generation);
  // kInvalid: there is none of that name, or it is the default one.
  [[nodiscard]] Status rotate(std::string_view name, std::string_view token);
  [[nodiscard]] Status drop(std::string_view name);
  // No id up to this one is given any more (T1).
  void id_last_raise(uint32_t id);
  // There were that many changes, whatever this text knows of.
  void changes_raise(uint32_t changes);

  // The text of all but the default one, FORMAT.md 11.
  std::string text() const;
  // The same table with the domains of such a text: kCorrupt, or kUnsupported of a newer version's.
  Result<Domains> with_text(std::string_view text) const;

 private:
  Status take_row(std::string_view line);
  Domain* change(std::string_view name);  // null: there is none, or it is the default one
  bool knows(const Digest& token_hash) const;
  bool is_taken(const Digest& salt, const Digest& token_hash) const;
  std::vector<Domain> rows_;
  uint32_t id_last_ = kDomainDefault;
  uint32_t changes_ = 0;
};

// One limit that all domains of a node share: who may have how much more of it.
//
// Half of it is set aside in equal parts, one for each, and of at least one; the other half is for
// whoever comes first. So no domain is refused below its part, whatever the others ask for (who
// shares it among its sessions is another rule), and a node of one domain has all of it. A value:
// the question is put together, and asked.
class DomainLimit {
 public:
  DomainLimit(uint64_t limit, uint32_t domains);
  uint64_t part() const { return part_; }
  uint64_t most() const;       // that whoever asks may have in all; its part at least
  void other(uint64_t used);   // of another domain; whoever is not named has nothing
  void ending(uint64_t used);  // of one that was dropped: nothing is set aside for it
  enum class Share : uint8_t { kNone, kPart, kCommon };
  // Of whoever asks, with what it asks for: within its part, of what is common, or neither.
  Share share(uint64_t own) const;

 private:
  uint64_t limit_, part_;
  uint64_t others_ = 0, aside_ = 0;
  uint32_t unnamed_;
};

}  // namespace varve
