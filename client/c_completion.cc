// Completions: an event of the client as a struct that C can read, with one piece of memory behind.
#include "client/c_border.h"

namespace varve {

namespace {

static_assert(static_cast<int>(wire::TierKind::kDram) == VARVE_TIER_DRAM);
static_assert(static_cast<int>(wire::TierKind::kFlash) == VARVE_TIER_FLASH);
static_assert(static_cast<int>(wire::TierKind::kObject) == VARVE_TIER_OBJECT);
static_assert(wire::tier_bit(wire::TierKind::kDram) == VARVE_FROM_DRAM);
static_assert(wire::tier_bit(wire::TierKind::kFlash) == VARVE_FROM_FLASH);
static_assert(wire::tier_bit(wire::TierKind::kObject) == VARVE_FROM_OBJECT);
static_assert(Event::kTierRebuilt == VARVE_FROM_REBUILT);
static_assert(static_cast<int>(wire::HoldKind::kLease) == VARVE_HOLD_LEASE);
static_assert(static_cast<int>(wire::HoldKind::kReservation) == VARVE_HOLD_GRANT);
static_assert(static_cast<int>(wire::HoldKind::kPull) == VARVE_HOLD_PULL);
static_assert(static_cast<int>(wire::HoldKind::kFollow) == VARVE_HOLD_FOLLOW);

// The lists of a completion, one behind the other; those with the widest alignment first.
class Lists {
 public:
  explicit Lists(const Event& e) : event_(e) {
    const size_t codes = e.codes.size();
    bytes_ = e.holds.size() * sizeof(varve_hold) + e.granted.size() * sizeof(varve_follow_tag) +
             codes + (codes + 7) / 8 + e.tiers.size();
  }
  // What is put into a completion is its owner's: given back by varve_completion_clear.
  void give(varve_completion& c) {
    if (bytes_ == 0) return;
    memory_ = std::make_unique<std::byte[]>(bytes_);
    at_ = memory_.get();
    c.holds = holds();
    c.tags = tags();
    c.codes = codes(c);
    c.bitmap = bitmap(c);
    c.tiers = tiers();
    VARVE_ASSERT(at_ == memory_.get() + bytes_, bytes_);
    c.memory = memory_.release();
  }

 private:
  template <class T>
  T* room(size_t count) {
    T* place = reinterpret_cast<T*>(at_);
    at_ += count * sizeof(T);
    return place;
  }
  const varve_hold* holds() {
    auto* rows = room<varve_hold>(event_.holds.size());
    for (size_t i = 0; i < event_.holds.size(); ++i) {
      const HoldRow& from = event_.holds[i];
      varve_hold row{};
      row.session = from.session;
      row.number = from.number;
      row.age_ns = from.age_ns;
      row.left_ns = from.left_ns;
      row.bytes = from.bytes;
      row.blocks = from.blocks;
      row.kind = static_cast<uint32_t>(from.kind);
      std::memcpy(row.name, from.name.data(), std::min(from.name.size(), sizeof row.name - 1));
      rows[i] = row;
    }
    return event_.holds.empty() ? nullptr : rows;
  }
  const varve_follow_tag* tags() {
    auto* tags = room<varve_follow_tag>(event_.granted.size());
    if (event_.granted.empty()) return nullptr;
    std::memcpy(tags, event_.granted.data(), event_.granted.size() * sizeof(varve_follow_tag));
    return tags;
  }
  // Where the daemon answered, a block that is unavailable is one that is not there.
  const uint8_t* codes(const varve_completion& c) {
    const bool reads = c.kind == VARVE_DONE_PULL || c.kind == VARVE_DONE_FOLLOW ||
                       c.kind == VARVE_DONE_EXISTS || c.kind == VARVE_DONE_LAYER;
    auto* codes = room<uint8_t>(event_.codes.size());
    for (size_t i = 0; i < event_.codes.size(); ++i) {
      const Code code = event_.codes[i];
      const bool miss = reads && event_.status.ok() && code == Code::kUnavailable;
      codes[i] = miss ? uint8_t{VARVE_MISS} : static_cast<uint8_t>(code);
    }
    return event_.codes.empty() ? nullptr : codes;
  }
  const uint8_t* bitmap(varve_completion& c) {
    auto* bits = room<uint8_t>((event_.codes.size() + 7) / 8);
    for (size_t i = 0; i < event_.codes.size(); ++i) {
      const bool ok = event_.codes[i] == Code::kOk;
      bits[i / 8] |= static_cast<uint8_t>((ok ? 1u : 0u) << i % 8);
      c.ok_count += ok ? 1 : 0;
    }
    return event_.codes.empty() ? nullptr : bits;
  }
  const uint8_t* tiers() {
    auto* tiers = room<uint8_t>(event_.tiers.size());
    for (size_t i = 0; i < event_.tiers.size(); ++i)
      tiers[i] = static_cast<uint8_t>(event_.tiers[i]);
    return event_.tiers.empty() ? nullptr : tiers;
  }

  const Event& event_;
  size_t bytes_ = 0;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* at_ = nullptr;
};
static_assert(alignof(varve_hold) <= alignof(std::max_align_t) && alignof(varve_follow_tag) == 1);

uint32_t kind_of(const Event& event, const HandleOp& op) {
  if (event.kind == Event::Kind::kLayer) return VARVE_DONE_LAYER;
  if (event.kind == Event::Kind::kReserved) return VARVE_DONE_RESERVED;
  return op.kind;
}

varve_completion completion_of(const Event& event, const HandleOp& op) {
  varve_completion c{};
  c.kind = kind_of(event, op);
  c.op = event.op;
  c.tag = event.tag;
  c.status = static_cast<varve_status>(event.status.code());
  c.reason = event.status.what();
  c.count = static_cast<uint32_t>(event.codes.size());
  c.layers_done = op.layers_done;
  c.bytes = event.bytes;
  c.first_layer_ns = event.first_layer_ns;
  c.done_ns = event.done_ns;
  c.layer = event.layer;
  if (c.kind == VARVE_DONE_LAYER) c.layers_done = event.layer - op.layer_first + 1;
  c.hit_count = event.n_blocks;
  c.flags = event.recovering ? VARVE_ANSWER_RECOVERING : 0;
  c.slowest_tier = static_cast<uint32_t>(slowest_of(event.tiers));
  c.lease = event.lease;
  c.lease_left_ns = event.lease_ns;
  c.first_layer_ns_estimate = event.first_layer_ns_estimate;
  c.last_layer_ns_estimate = event.last_layer_ns_estimate;
  if (c.kind == VARVE_DONE_PURGE) {
    c.bytes = event.purged.bytes;
    c.purged_blocks = event.purged.blocks;
    c.erased_ns = event.purged.erased_ns;
    c.generation = event.purged.generation;
  }
  c.tag_count = static_cast<uint32_t>(event.granted.size());
  c.hold_count = event.holds.size();
  c.tier_mask = event.tier_mask;
  Lists(event).give(c);
  return c;
}

Status poll(Handle& handle, varve_completion* to, size_t capacity, size_t* count) {
  if (count == nullptr) return Status::invalid("poll: nowhere to put the count");
  *count = 0;
  if (capacity == 0) return Status();
  VARVE_RETURN_IF_ERROR(check_sized(to));
  const uint32_t stride = to->struct_size;
  Event event;
  while (*count < capacity && handle.client().poll(event)) {
    const HandleOp op = handle.take(event);
    if (op.kind == 0) continue;
    auto* place = reinterpret_cast<varve_completion*>(reinterpret_cast<std::byte*>(to) +
                                                      *count * size_t{stride});
    place->struct_size = stride;
    write_sized(completion_of(event, op), place);
    ++*count;
  }
  return Status();
}

Outcome wait(Handle& handle, OpId id, Nanos timeout_ns, varve_completion* to) {
  VARVE_RETURN_IF_ERROR(check_sized(to));
  Result<Event> event = handle.client().wait(id, timeout_ns);
  if (!event.has_value()) {
    if (event.error().code() != Code::kInvalid) return event.error();
    return {VARVE_UNKNOWN, event.error().what()};
  }
  const HandleOp op = handle.take(*event);
  if (op.kind == 0) return {VARVE_UNKNOWN, "wait: its completion was taken"};
  write_sized(completion_of(*event, op), to);
  return Status();
}

}  // namespace

}  // namespace varve

extern "C" {

int varve_event_fd(varve_client* client) {
  int fd = -1;
  const varve_status status = varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    fd = handle.client().event_fd();
    return varve::Status();
  });
  return status == VARVE_OK ? fd : -1;
}

varve_status varve_poll(varve_client* client, varve_completion* completions, size_t capacity,
                        size_t* count) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::poll(handle, completions, capacity, count);
  });
}

varve_status varve_wait(varve_client* client, varve_op op, uint64_t timeout_ns,
                        varve_completion* completion) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::wait(handle, op, timeout_ns, completion);
  });
}

void varve_completion_clear(varve_completion* completion) {
  if (!varve::check_sized(completion).ok()) return;  // null, or zeroed as a whole
  delete[] static_cast<std::byte*>(completion->memory);
  varve::write_sized(varve_completion{}, completion);
}

}  // extern "C"
