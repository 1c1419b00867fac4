// Asking for each block of a document by itself, whatever is missing before it.
#include "tests/sim/actor.h"

namespace varve::sim {

void Actor::start_exists() {
  MatchRequest request;
  request.format = format_ids_[format_];
  request.ids = ids_[format_][document_];
  request.of = MatchOf::kEach;
  request.deadline_ns = 500 * kMillisecond;
  before_ = this_moment(library_.formats[format_].rank_count());
  begin(core_->match(std::move(request)), Step::kExists, 500 * kMillisecond);
}

// I9, I10: as of a match, of each block.
void Actor::on_exists(const Event& event) {
  step_ = Step::kIdle;
  wait_until_ns_ = world_.now_ns() + random_.below(3 * kMillisecond);
  if (!event.status.ok()) return;
  const std::vector<BaseId>& ids = ids_[format_][document_];
  world_.expect(event.codes.size() == ids.size(), "not every id is answered");
  world_.expect(event.lease == 0, "I4 a lease that nobody asked for");
  const Moment after = this_moment(library_.formats[format_].rank_count());
  const PurgeLog& purges = library_.truth->purges();
  const bool calm = !event.recovering && !before_.recovering && after.boot == before_.boot &&
                    after.evicted == before_.evicted;
  for (uint32_t i = 0; i < ids.size(); ++i) {
    const bool hit = event.codes[i] == Code::kOk;
    for (uint32_t r = 0; hit && r < library_.formats[format_].rank_count(); ++r) {
      world_.expect(library_.oracle.may_be_found(block_of(ids[i], r), purges, before_.at_ns),
                    "I10 what nobody wrote, or what was purged, is there");
    }
    const bool owed = calm && before_.safe[i] && after.safe[i] &&
                      !purges.touches(block_of(ids[i], 0), before_.at_ns);
    world_.expect(hit || !owed, "I9 a block within the fault budget is not there");
    stats_.existing += hit ? 1 : 0;
  }
}

}  // namespace varve::sim
