// DomainBook: the domains of this node, in memory and in the data folder (tenant, FORMAT 11).
//
// A change is in the file, durably, before it is anywhere else; where it cannot be written nothing
// changes. Any thread; who asks waits for no file, who changes does. Who changes things one after
// the other, and tells the cores, is NodeIngress.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "common/time/time.h"
#include "server/control/control.h"
#include "server/host/host.h"
#include "server/tenant/tenant.h"

namespace varve {

class DomainBook {
 public:
  // `token`: of the default domain, empty: none. Sets the domains of `identity`.
  Failure load(const std::string& folder, std::string_view token, Identity* identity);
  Domains now() const;

  // Drives know of this id. One above those that were given is to be marked, so that it is none
  // that is given: it was, before the lists were lost.
  bool is_above(uint32_t id) const;
  void seen(uint32_t id);

  // The list of targets is to say how many changes this one has seen, so that an older one is told
  // from the last: whether it says so of all of them.
  bool is_marked() const;
  void marked(uint32_t changes);

  // With the token, which stands nowhere else. Up to `id_seen` no id is given, nor up to what was
  // seen before.
  control::Answer<control::DomainToken> add(const std::string& folder, const std::string& name,
                                            Entropy& entropy, uint32_t boot_generation,
                                            uint32_t id_seen = 0);
  control::Answer<control::DomainToken> rotate(const std::string& folder, const std::string& name,
                                               Entropy& entropy);
  // It is no domain of this node any more, in no later start either. Until ended() says that the
  // purge of it was answered, the same name is answered again, and is nobody else's.
  control::Answer<Domain> drop(const std::string& folder, const std::string& name);
  void ended(uint32_t id);

 private:
  Domain* ending(const std::string& name);
  std::optional<control::Refusal> keep(const std::string& folder, Domains next);
  std::mutex writing_;  // a change, also while it waits for the file; before the other
  mutable std::mutex mutex_;
  Domains table_;  // changed under both
  uint32_t id_seen_ = 0;
  uint32_t changes_marked_ = 0;
  std::vector<Domain> ending_;  // dropped, and not purged yet
};

}  // namespace varve
