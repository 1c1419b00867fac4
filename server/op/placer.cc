// Places of groups are kept until a target fails, is drained or no longer so, or is replaced:
// asking for one costs some thousand steps.
#include "server/op/placer.h"

#include <algorithm>
#include <bit>

#include "server/op/op.h"

namespace varve {

namespace {

constexpr uint8_t kUnknown = 0xFE;

}  // namespace

static_assert(kTargetsMax <= 32 && kTargetsMax < kUnknown);

Placer::Placer(OpContext& context) : context_(context) {
  const uint32_t count = context.flash.target_count();
  VARVE_ASSERT(count > 0 && count <= kTargetsMax, count);
  map_.epoch = context.options.epoch;
  for (uint32_t t = 0; t < count; ++t)
    map_.targets.push_back(spec_of(t));
  const uint32_t width = context.options.scheme.width();
  if (width > 1) cache_.resize(size_t{kPlacementGroups} * width, kUnknown);
  look();
}

TargetSpec Placer::spec_of(uint32_t target) const {
  const uint64_t gib = bytes_of(context_.flash.usage(target).capacity_pages) >> 30;
  return {.key = context_.flash.target_key(target),
          .weight = static_cast<uint32_t>(std::clamp<uint64_t>(gib, 1, kTargetWeightMax))};
}

void Placer::target_replaced(uint32_t target) {
  VARVE_ASSERT(target < map_.targets.size(), target);
  map_.targets[target] = spec_of(target);
  usable_ = 0;  // all places are asked for anew
  look();
}

uint32_t Placer::usable() const {
  uint32_t usable = 0;
  for (uint32_t t = 0; t < context_.flash.target_count(); ++t) {
    if (context_.flash.target_ok(t) && !is_draining(context_, t)) usable |= 1u << t;
  }
  return usable;
}

void Placer::look() {
  const uint32_t now = usable();
  if (now == usable_) return;
  usable_ = now;
  for (uint32_t t = 0; t < map_.targets.size(); ++t) {
    map_.targets[t].state = (now >> t & 1) != 0 ? TargetState::kUsable : TargetState::kLost;
  }
  std::fill(cache_.begin(), cache_.end(), kUnknown);
}

uint8_t Placer::preferred(const BaseId& id, uint32_t position) {
  const Scheme scheme = context_.options.scheme;
  VARVE_ASSERT(scheme.width() > 1 && position < scheme.width(), position);
  const uint32_t group = group_of(id);
  uint8_t* of_group = &cache_[size_t{group} * scheme.width()];
  if (of_group[0] == kUnknown) {
    const StripePlace place = thin_place(place_stripe(map_, group, scheme.width()), scheme.k);
    for (uint32_t p = 0; p < scheme.width(); ++p) {
      of_group[p] = place.target[p] == kNoTarget ? kNone : static_cast<uint8_t>(place.target[p]);
    }
  }
  return of_group[position];
}

Placer::Spots Placer::place(const BaseId& id, uint32_t only, uint32_t used, Take take,
                            void* take_context) {
  look();
  const uint32_t width = context_.options.scheme.width();
  Spots spots;
  std::fill_n(spots.target, kWidthMax, kNone);
  uint32_t tried = 0;  // targets that refused: a position more of this block they do not get either
  const auto give = [&](uint32_t position, uint32_t target) {
    if ((used >> target & 1) != 0 || (tried >> target & 1) != 0) return;
    if (!take(take_context, position, target)) {
      tried |= 1u << target;
      return;
    }
    used |= 1u << target;
    spots.target[position] = static_cast<uint8_t>(target);
    ++spots.count;
  };
  for (uint32_t p = 0; p < width && width > 1; ++p) {
    if ((only >> p & 1) == 0) continue;
    if (const uint8_t target = preferred(id, p); target != kNone) give(p, target);
  }
  const uint32_t count = context_.flash.target_count();
  uint64_t keys[kTargetsMax];
  uint8_t order[kTargetsMax];
  for (uint32_t t = 0; t < count; ++t)
    keys[t] = map_.targets[t].key;
  target_order(id, std::span<const uint64_t>(keys, count), std::span<uint8_t>(order, count));
  for (uint32_t p = 0; p < width; ++p) {
    if ((only >> p & 1) == 0) continue;
    for (uint32_t i = 0; i < count && spots.target[p] == kNone; ++i) {
      if ((usable_ >> order[i] & 1) != 0) give(p, order[i]);
    }
  }
  return spots;
}

}  // namespace varve
