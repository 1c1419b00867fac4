// Rebuild: rows come in, stripes are funded in order, wants go out in batches, outcomes go in.
#include "client/rebuild.h"

#include <algorithm>
#include <bit>

#include "client/pull.h"

namespace varve {

using State = StripeIn::Source::State;
using Why = StripeIn::Why;
using Fence = StripeIn::Fence;

Rebuild::Rebuild(ClientPullOp& pull) : pull_(pull), core_(pull.core()) {}

Rebuild::~Rebuild() {
  VARVE_ASSERT(empty());
}

void Rebuild::take(const wire::LostExtent& row) {
  if (!try_take(row)) deferred_.push_back(row);
}

// False: its stripe must deliver a hedge before there is a place for it.
bool Rebuild::try_take(const wire::LostExtent& row) {
  VARVE_ASSERT(pull_.misses(row.block, row.extent), row.block, row.extent);
  const ExtentTable& table = pull_.table();
  const Key key{table.stripe_at(row.extent), row.block};
  const Why why = row.state == wire::LostState::kLost ? Why::kLost : Why::kLate;
  StripeIn* stripe = find(key);
  if (why == Why::kLate && core_.options().hedge_percent == 0) return true;
  if (stripe == nullptr) {
    const auto made = waiting_.try_emplace(key, table, pull_.stripe_of(row.block, key.first));
    stripe = &made.first->second;
  }
  const StripeIn::Owe owe = stripe->owe(row.extent, why, row.entry);
  if (owe == StripeIn::Owe::kTaken) return true;
  if (why == Why::kLate) {
    ++core_.count().hedges_refused;
    return true;
  }
  if (owe == StripeIn::Owe::kWait) return false;
  pull_.fail_block(row.block, Code::kUnavailable);  // more than m are gone
  return true;
}

StripeIn* Rebuild::find(Key key) {
  for (Stripes* stripes : {&active_, &waiting_}) {
    const auto found = stripes->find(key);
    if (found != stripes->end()) return &found->second;
  }
  return nullptr;
}

void Rebuild::run() {
  const auto deferred = std::exchange(deferred_, {});
  for (const wire::LostExtent& row : deferred) {
    if (pull_.misses(row.block, row.extent)) take(row);
  }
  fund();
  bool rebuilt = false;
  for (auto it = active_.begin(); it != active_.end();) {
    StripeIn& stripe = it->second;
    drop_settled(stripe);
    plan(stripe);
    const StripeIn::Sight sight = pull_.sight(stripe.of());
    if (stripe.ready(sight) && rebuilt) {
      pull_.wake();  // one a turn: the lanes are not kept waiting
    } else if (stripe.ready(sight)) {
      rebuilt = true;
      const Status status = stripe.rebuild(sight, pull_.layout(), core_.gather());
      if (!status.ok()) {
        ++core_.count().corrupt_extents;
        if (stripe.owes(Why::kLost)) {
          pull_.fail_block(stripe.of().block, status.code());
        } else {
          refuse_hedges(stripe);  // the original may still come
        }
        drop_settled(stripe);
      }
    }
    deliver(stripe);
    drop_settled(stripe);  // what nobody is owed any more is not asked for
    const bool over = !stripe.owes() && stripe.quiet();
    if (over) core_.rebuild_scratch().give(stripe.columns());
    it = over ? active_.erase(it) : std::next(it);
  }
  if (!waiting_.empty()) fund();
  ask();
  retire_asks();
}

// What arrived after all, or went with its block, is owed no more.
void Rebuild::drop_settled(StripeIn& stripe) {
  for (StripeIn::Owed& owed : stripe.owed()) {
    if (owed.extent == StripeIn::kNone) continue;
    if (!pull_.misses(stripe.of().block, owed.extent)) owed = StripeIn::Owed();
  }
  if (stripe.owes()) return;
  for (StripeIn::Source& source : stripe.sources()) {
    if (source.state != State::kWanted) continue;
    stripe.forget(source);
    VARVE_ASSERT(wanted_ > 0);
    --wanted_;
  }
}

void Rebuild::refuse_hedges(StripeIn& stripe) {
  for (StripeIn::Owed& owed : stripe.owed()) {
    if (owed.extent == StripeIn::kNone || owed.why == Why::kLost || owed.rebuilt) continue;
    core_.count().hedges_refused += owed.begun ? 0 : 1;
    owed = StripeIn::Owed();
  }
}

// In line behind whoever came first; a hedge does not stand in it.
void Rebuild::fund() {
  Scratch& scratch = core_.rebuild_scratch();
  while (!waiting_.empty()) {
    StripeIn& stripe = waiting_.begin()->second;
    drop_settled(stripe);
    if (stripe.owes() && scratch.take(pull_, stripe.columns_needed(), stripe.columns())) {
      active_.insert(waiting_.extract(waiting_.begin()));
      continue;
    }
    if (stripe.owes(Why::kLost)) return;
    refuse_hedges(stripe);
    waiting_.erase(waiting_.begin());
  }
  scratch.leave(pull_);
}

// Asks for what is missing to k. For a hedge it is paid from the budget; for a loss it is not, but
// what is late may be all that is left to hope for.
void Rebuild::plan(StripeIn& stripe) {
  if (!stripe.owes()) return;
  const StripeIn::Sight sight = pull_.sight(stripe.of());
  const uint32_t missing = stripe.missing(sight);
  const auto idle = static_cast<uint32_t>(std::popcount(stripe.idle(sight)));
  if (!stripe.owes(Why::kLost)) {
    if (stripe.free_sources() < missing) return;  // paid for when all can be asked for
    const uint64_t bytes = uint64_t{missing} * stripe.stripe().bytes;
    const bool paid = idle >= missing && (missing == 0 || core_.hedge_budget().take(bytes));
    if (!paid) {
      refuse_hedges(stripe);
      return drop_settled(stripe);
    }
    core_.count().hedged_bytes += bytes;
  } else if (missing > idle + static_cast<uint32_t>(std::popcount(sight.late))) {
    if (stripe.look_again()) {
      if (pull_.may_ask()) pull_.pause();  // one for all that look again in this turn
      return;
    }
    pull_.fail_block(stripe.of().block, Code::kUnavailable);  // more than m are gone
    return drop_settled(stripe);
  }
  for (StripeIn::Owed& owed : stripe.owed()) {
    if (owed.extent == StripeIn::kNone || owed.why == Why::kLost || owed.begun) continue;
    owed.begun = true;
    ++core_.count().hedges;
  }
  std::vector<uint32_t> extents;
  stripe.want(sight, missing, extents);
  VARVE_ASSERT(extents.size() <= missing, extents.size(), missing);
  wanted_ += static_cast<uint32_t>(extents.size());
}

void Rebuild::ask() {
  while (wanted_ > 0 && asks_.size() < kAsksMax && core_.session().usable() && pull_.may_ask()) {
    in_line_ = !core_.pace().take(Pace::Kind::kPull, pull_, pull_.due_ns());
    if (in_line_) return;  // woken when it is its turn
    Ask ask;
    ask.wire_op = core_.next_wire_op();
    const std::vector<wire::Want> wants = next_wants(ask.blocks);
    VARVE_ASSERT(!wants.empty() && wants.size() <= wanted_, wants.size(), wanted_);
    if (!pull_.send_wants(ask.wire_op, ask.blocks, wants)) {
      core_.pace().give(Pace::Kind::kPull);
      return pull_.pause();
    }
    for (const wire::Want& want : wants) {
      StripeIn& stripe = active_.at({pull_.table().stripe_at(want.extent), ask.blocks[want.block]});
      StripeIn::Source& source = *stripe.find_source(want.extent);
      VARVE_ASSERT(source.state == State::kWanted && !source.receiving, want.extent);
      source.state = State::kAsked;
      source.ask = ask.wire_op;
    }
    ask.asked = static_cast<uint32_t>(wants.size());
    wanted_ -= ask.asked;
    asks_.push_back(std::move(ask));
  }
  if (in_line_ && wanted_ == 0) core_.pace().leave(pull_);
  in_line_ = in_line_ && wanted_ > 0;
}

// As many as fit one frame, and the blocks that they are of.
std::vector<wire::Want> Rebuild::next_wants(std::vector<uint32_t>& blocks) const {
  std::vector<wire::Want> wants;
  std::map<uint32_t, uint32_t> index;  // of a block of the pull, in `blocks`
  for (const auto& [key, stripe] : active_) {
    for (const StripeIn::Source& source : stripe.sources()) {
      if (source.state != State::kWanted) continue;
      if (wants.size() == wire::kWantsMax) return wants;
      const auto [at, fresh] = index.try_emplace(key.second, static_cast<uint32_t>(blocks.size()));
      if (fresh) blocks.push_back(key.second);
      wants.push_back({at->second, source.extent});
    }
  }
  return wants;
}

void Rebuild::deliver(StripeIn& stripe) {
  const uint32_t block = stripe.of().block;
  for (StripeIn::Owed& owed : stripe.owed()) {
    if (owed.extent == StripeIn::kNone || !owed.rebuilt) continue;
    if (owed.why == Why::kLate && owed.fence == Fence::kOpen &&
        pull_.send_cancel(block, owed.extent)) {
      owed.fence = Fence::kAsked;
    }
    const bool ours = owed.why == Why::kLost || owed.fence == Fence::kHeld;
    if (!ours || pull_.receives(block, owed.extent)) continue;  // D3
    ++core_.count().rebuilt_extents;
    core_.count().rebuilt_bytes += pull_.table().bytes_at(owed.extent);
    core_.count().hedges_won += owed.why == Why::kLate ? 1 : 0;
    pull_.deliver(block, owed.extent, stripe.outcome(owed));
    owed = StripeIn::Owed();
  }
}

void Rebuild::on_fenced(uint32_t block, uint32_t extent) {
  StripeIn* stripe = find({pull_.table().stripe_at(extent), block});
  StripeIn::Owed* owed = stripe == nullptr ? nullptr : stripe->find_owed(extent);
  if (owed == nullptr || owed->fence != Fence::kAsked) return;  // the original came first
  owed->fence = Fence::kHeld;
  pull_.close_extent(block, extent);
}

Rebuild::Ask* Rebuild::find_ask(uint64_t wire_op) {
  const auto found = std::find_if(asks_.begin(), asks_.end(),
                                  [wire_op](const Ask& a) { return a.wire_op == wire_op; });
  return found == asks_.end() ? nullptr : &*found;
}

bool Rebuild::place(uint64_t op, const wire::Data& data, uint32_t payload_bytes, Placement& where) {
  Ask* ask = find_ask(op);
  const ExtentTable& table = pull_.table();
  if (ask == nullptr || data.block >= ask->blocks.size() || data.extent >= table.count()) {
    return false;
  }
  const uint32_t block = ask->blocks[data.block];
  StripeIn* stripe = find({table.stripe_at(data.extent), block});
  StripeIn::Source* source = stripe == nullptr ? nullptr : stripe->find_source(data.extent);
  if (source == nullptr || source->state != State::kAsked || source->ask != op) return false;
  const uint32_t bytes = table.bytes_at(data.extent);
  const bool fits = !source->receiving && data.offset == source->received &&
                    payload_bytes <= bytes - source->received &&
                    data.entry.codec == static_cast<uint8_t>(CodecId::kRaw) &&
                    data.entry.stored_bytes == bytes && data.entry.decoded_bytes == bytes;
  // Bytes of another attempt are of another block (I3): this source is as good as lost.
  if (!fits || data.attempt != stripe->of().attempt) {
    VARVE_ASSERT(ask->asked > 0);
    stripe->lose_for_good(*source);
    --ask->asked;
    pull_.wake();
    return false;
  }
  stripe->place(*source, payload_bytes, where);
  ++ask->lent;
  return true;
}

void Rebuild::on_data(uint64_t op, const wire::Data& data, const Placement& where) {
  Ask* ask = find_ask(op);
  VARVE_ASSERT(ask != nullptr && ask->lent > 0, op);  // it stays while anything of it is lent
  --ask->lent;
  StripeIn* stripe = find({pull_.table().stripe_at(data.extent), ask->blocks[data.block]});
  VARVE_ASSERT(stripe != nullptr);  // D4
  // By its memory: the source may have been given up meanwhile.
  StripeIn::Source* source = stripe->find_lent(where);
  VARVE_ASSERT(source != nullptr, data.extent);
  const bool awaited = source->state == State::kAsked;
  const bool whole = stripe->received(*source, where, data.entry.stored_crc);
  if (awaited && source->state != State::kAsked) {
    VARVE_ASSERT(ask->asked > 0);
    --ask->asked;
    core_.count().corrupt_extents += whole ? 0 : 1;
  }
  if (whole) pull_.forget_pauses();  // those of looks at others would add up
  pull_.wake();
}

void Rebuild::on_frame(const wire::Frame& frame) {
  Ask* ask = find_ask(frame.header.op);
  if (ask == nullptr) return;
  if (const auto* answer = std::get_if<wire::PulledView>(&frame.body)) {
    take_pulled(*ask, *answer);
  } else if (const auto* lost = std::get_if<wire::LostView>(&frame.body)) {
    take_lost(*ask, *lost);
  } else if (std::holds_alternative<wire::FencedView>(frame.body)) {
    answered(*ask);
  }
  pull_.wake();
}

void Rebuild::answered(Ask& ask) {
  if (!ask.answered) core_.pace().give(Pace::Kind::kPull);
  ask.answered = true;
}

// A block that failed takes its sources along; one refused for now is asked for again. What nobody
// waits for any more is not waited for: what is still under way of it is discarded.
void Rebuild::take_pulled(Ask& ask, const wire::PulledView& answer) {
  const auto code = static_cast<Code>(answer.body.code);
  const bool whole = code != Code::kOk && answer.codes.size() == 0;
  if (!whole && answer.codes.size() != ask.blocks.size()) {
    return pull_.cancel(Status::invalid("PULLED does not fit the pull"));
  }
  answered(ask);
  pull_.came_from(answer.body.tiers);
  // The pull's lease may have ended since; its blocks are still there.
  const bool leased = whole && code == Code::kTimedOut && pull_.forget_lease();
  bool any_again = leased;
  for (uint32_t i = 0; i < ask.blocks.size(); ++i) {
    const Code of_block = whole ? code : static_cast<Code>(answer.codes[i]);
    const bool failed = of_block != Code::kOk;
    const bool again = failed && (leased || is_for_now(of_block));
    any_again = any_again || again;
    for (auto& [key, stripe] : active_) {
      if (key.second != ask.blocks[i] || (!failed && stripe.owes())) continue;
      for (StripeIn::Source& source : stripe.sources()) {
        if (source.state != State::kAsked || source.ask != ask.wire_op) continue;
        VARVE_ASSERT(ask.asked > 0);
        --ask.asked;
        if (again || !failed) {
          stripe.forget(source);
        } else {
          stripe.lose_for_good(source);
        }
      }
    }
  }
  if (any_again) pull_.pause();
}

// A source that is lost itself: the next plan chooses another. One that is late stays the best
// there is.
void Rebuild::take_lost(Ask& ask, const wire::LostView& view) {
  const ExtentTable& table = pull_.table();
  for (uint32_t i = 0; i < view.lost.size(); ++i) {
    const wire::LostExtent row = view.lost[i];
    if (row.block >= ask.blocks.size() || row.extent >= table.count()) continue;
    if (row.state != wire::LostState::kLost) continue;
    StripeIn* stripe = find({table.stripe_at(row.extent), ask.blocks[row.block]});
    StripeIn::Source* source = stripe == nullptr ? nullptr : stripe->find_source(row.extent);
    if (source == nullptr || source->state != State::kAsked || source->ask != ask.wire_op) continue;
    VARVE_ASSERT(ask.asked > 0);
    stripe->lose(*source);
    --ask.asked;
  }
}

void Rebuild::retire_asks() {
  std::erase_if(asks_, [this](const Ask& ask) {
    if (!ask.answered || ask.asked > 0 || ask.lent > 0) return false;
    core_.unroute(ask.wire_op);
    return true;
  });
}

bool Rebuild::begin_fence() {
  ClientSession& session = core_.session();
  for (const Ask& ask : asks_) {
    if (ask.answered) continue;
    const wire::Cancel body{ask.wire_op};
    if (!session.send_urgent(session.encoder().cancel(ask.wire_op, body))) return false;
  }
  return true;
}

bool Rebuild::fenced() const {
  return std::all_of(asks_.begin(), asks_.end(), [](const Ask& ask) { return ask.answered; });
}

void Rebuild::lose_session() {
  for (Ask& ask : asks_)
    ask.answered = true;  // its slot went with the session
  end();
}

void Rebuild::end() {
  VARVE_ASSERT(fenced());
  for (const Ask& ask : asks_)
    core_.unroute(ask.wire_op);
  for (auto& [key, stripe] : active_)
    core_.rebuild_scratch().give(stripe.columns());
  core_.rebuild_scratch().leave(pull_);
  asks_.clear();
  active_.clear();
  waiting_.clear();
  deferred_.clear();
  wanted_ = 0;
  in_line_ = false;
  VARVE_ASSERT(empty());
}

}  // namespace varve
