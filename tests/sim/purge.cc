// Purging blocks, a lineage or the domain, in the middle of everything else.
#include "tests/sim/actor.h"

namespace varve::sim {

void Actor::start_purge() {
  PurgeRequest request;
  request.format = 0;
  std::set<BlockId> ids;
  const uint64_t what = random_.below(10);
  if (what < 4 && !library_.board.empty()) {  // what is being pushed, maybe
    for (const Posted& posted : library_.board.take(static_cast<uint32_t>(random_.between(1, 4))))
      request.ids.push_back(posted.tag.id);
  } else if (what < 7) {
    const std::vector<BaseId>& chain = ids_[format_][document_];
    const auto first = static_cast<uint32_t>(random_.below(chain.size()));
    const auto count = random_.between(1, chain.size() - first);
    request.ids.assign(chain.begin() + first, chain.begin() + first + static_cast<long>(count));
  } else {
    const bool domain = what == 9;
    request.kind = domain ? wire::PurgeKind::kDomain : wire::PurgeKind::kLineage;
    if (!domain) request.format = format_ids_[format_];
    for (uint32_t f = 0; f < ids_.size(); ++f) {
      for (const std::vector<BaseId>& chain : ids_[f]) {
        if (!domain && f != format_) continue;
        for (const BaseId& id : chain)
          ids.insert(block_of(id, 0));
      }
    }
  }
  for (const BaseId& id : request.ids)
    ids.insert(block_of(id, 0));
  const Nanos deadline_ns = random_.between(100, 1500) * kMillisecond;
  request.deadline_ns = deadline_ns;
  purge_ = library_.truth->purge_begins(std::move(ids), what >= 7, library_.oracle.granted());
  begin(core_->purge(std::move(request)), Step::kPurge, deadline_ns);
}

void Actor::on_purged(const Event& event) {
  step_ = Step::kIdle;
  wait_until_ns_ = world_.now_ns() + random_.below(3 * kMillisecond);
  world_.note(event.purged.generation);
  world_.note(event.purged.blocks);
  library_.truth->purge_ends(purge_, event.status.ok());
}

}  // namespace varve::sim
