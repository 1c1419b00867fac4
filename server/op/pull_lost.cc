// What a pull does about lost extents: what they are rebuilt from is as urgent as they were.
//
// The reader of a lost extent waits for k others of its stripe. Those that the pull sends anyway
// come right behind it instead of in their layers. For the first layer, which somebody waits for
// now, the others (parity, mostly) are read before the reader has asked for them, and nothing of
// later layers goes to the devices before: they would be busy with a window of those.
#include <bit>
#include <utility>

#include "server/op/op.h"
#include "server/op/pull.h"

namespace varve {

// The one that was launched last is begun.
void PullOp::begun() {
  cursor_.pop();
  if (extents_.back()->lost()) lost(*extents_.back());
}

bool PullOp::is_readable(PullPair pair) const {
  const std::optional<Located> located = context_.index.find(block_id(pair.item));
  if (!located || located->state != BlockState::kFlash) return false;
  return (context_.catalog->readable(*located) >> holder_of(pair) & 1) != 0;
}

bool PullOp::may_leave_out(PullPair pair) const {
  const std::optional<Located> located = context_.index.find(block_id(pair.item));
  if (!located || located->state != BlockState::kFlash) return true;
  uint32_t out = 1u << holder_of(pair);
  const uint32_t stripe = table_->stripe_at(pair.extent);
  for (const LeftOut& one : left_out_) {
    if (one.item == pair.item && one.stripe == stripe) out |= one.positions;
  }
  const uint32_t others = context_.catalog->readable(*located) & ~out;
  return std::popcount(others) >= static_cast<int>(context_.options.scheme.k);
}

void PullOp::leave_out(PullPair pair) {
  const LeftOut out{pair.item, table_->stripe_at(pair.extent), 1u << holder_of(pair)};
  for (LeftOut& known : left_out_) {
    if (known.item != out.item || known.stripe != out.stripe) continue;
    known.positions |= out.positions;
    return;
  }
  if (left_out_.size() < kLeftOutMax) return left_out_.push_back(out);
  left_out_[left_out_next_++ % kLeftOutMax] = out;
}

void PullOp::lost(const ExtentOp& op) {
  const PullPair pair{op.item(), op.extent()};
  if (is_readable(pair)) leave_out(pair);
  const bool more = stage_ == Stage::kFlow && part_->wants == nullptr && !cut_short();
  if (!more || items_[pair.item].code != Code::kOk) return;
  cursor_.bring_forward(pair);
  if (cursor_.in_first_layer(pair.extent)) {
    read_ahead(pair);
    if (hold_until_ns_ == 0) hold_until_ns_ = context_.reactor.now_ns() + context_.options.hedge_ns;
  }
  context_.reactor.make_ready(*this);
}

// What this pull will not send of its stripe, as much as there must be besides what it sends.
void PullOp::read_ahead(PullPair lost) {
  const TierBlock* block = items_[lost.item].block;
  const std::optional<Located> located = context_.index.find(block_id(lost.item));
  const bool there = located && located->state == BlockState::kFlash;
  if (!there || block == nullptr || block->doomed) return;
  const uint32_t number = table_->stripe_at(lost.extent);
  const Stripe& stripe = table_->stripes[number];
  const uint16_t usable = context_.catalog->usable(*located);
  const auto is_ours = [&](uint32_t e) {
    return e >= part_->extent_first && e < part_->extent_end;
  };
  const auto is_usable = [&](uint32_t e) { return usable >> holder_of({lost.item, e}) & 1; };
  uint32_t missing = stripe.count;  // the positions without a member are known
  for (uint32_t e = stripe.first; e < stripe.first + stripe.count; ++e)
    missing -= is_ours(e) && is_usable(e) ? 1 : 0;
  for (uint32_t i = 0; i < stripe.count + table_->scheme.m && missing > 0; ++i) {
    const uint32_t e =
        i < stripe.count ? stripe.first + i : table_->parity_at(number, i - stripe.count);
    if (is_ours(e) || !is_usable(e)) continue;
    read_one_ahead({lost.item, e}, *located);
    --missing;
  }
}

// If there is room to spare: it is no loss if the reader has to ask first.
void PullOp::read_one_ahead(PullPair pair, const Located& located) {
  TierBlock& block = *items_[pair.item].block;
  PullTable& pulls = *context_.pulls;
  FetchTable& fetches = *context_.fetches;
  if (block.state[pair.extent] != ExtentState::kAbsent) return;
  const uint32_t bytes = extent_bytes(pair.extent);
  const uint32_t target = context_.index.place_of(located, holder_of(pair)).target;
  const bool room = pulls.has_extent() && !pulls.is_tight() && fetches.available() >= 2 &&
                    fetches.has_share(target, pages_of(bytes));
  if (!room || !context_.tier.take_extent(block, pair.extent, bytes)) return;
  context_.metrics.pull_extents_ahead.add();
  launch(pair, block, fetches.take(target, pages_of(bytes)), false, As::kAhead);
}

// Nothing is held back any more, and the pull does not wait for what it does not send.
void PullOp::detach_ahead() {
  for (ExtentOp* op = extents_.front(); op != nullptr;) {
    ExtentOp* following = extents_.next(op);
    if (op->ahead()) detach(*op);
    op = following;
  }
}

void PullOp::ahead_done(ExtentOp& op, uint32_t item) {
  VARVE_ASSERT(busy_ > 0 && items_[item].busy > 0, busy_);
  extents_.remove(&op);
  --busy_;
  --items_[item].busy;
  context_.pulls->share_drop(*part_, 0);
  context_.reactor.make_ready(*this);
}

// True: the next one is of a later layer, and of the first one something is lost and something
// under way. A device that keeps that for long does not keep the rest of the pull.
bool PullOp::hold_back() {
  const bool before = std::exchange(held_back_, false);
  PullPair pair;
  if (hold_until_ns_ <= context_.reactor.now_ns() || cursor_.is_forward()) return false;
  if (!cursor_.next(&pair) || cursor_.in_first_layer(pair.extent)) return false;
  if (busy_ == 0) {
    hold_until_ns_ = context_.reactor.now_ns();  // no second time
    return false;
  }
  if (!before) context_.metrics.pull_held_back.add();
  context_.pulls->leave_room_queue(*this);
  held_back_ = true;
  return true;
}

}  // namespace varve
