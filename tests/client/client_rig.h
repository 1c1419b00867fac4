// ClientRig: one ClientCore and one ScriptedDaemon over a SimFabric, in one thread and virtual
// time.
//
// Each has a reactor of its own; step() turns both once and moves the clock to the next work when
// nothing was done. Events are collected as they come. The destructor closes both sides and checks
// that the client is at rest.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "client/varve.h"
#include "tests/doubles/scripted_daemon.h"
#include "tests/doubles/sim_fabric.h"

namespace varve {

using Type = wire::FrameType;

inline BaseId id_of(uint32_t n) {
  BaseId id;
  store(std::span(id.bytes), 0, uint64_t{n} * 0x9E3779B97F4A7C15ull + 1);
  store(std::span(id.bytes), 8, n);
  return id;
}
inline std::vector<BaseId> ids_of(uint32_t first, uint32_t count) {
  std::vector<BaseId> ids;
  for (uint32_t i = 0; i < count; ++i)
    ids.push_back(id_of(first + i));
  return ids;
}
inline Format format_of(const std::vector<uint32_t>& layer_bytes, uint32_t ranks = 1) {
  Format format;
  format.model.bytes[0] = std::byte{7};
  format.lineage = "main";
  format.tokens_per_block = 16;
  for (uint32_t r = 0; r < ranks; ++r) {
    std::vector<LayerSpec> layers;
    for (const uint32_t bytes : layer_bytes)
      layers.push_back({LayerKind::kFull, bytes});
    format.ranks.push_back(std::move(layers));
  }
  return format;
}

// 80 MiB would be touched for each rig.
inline ClientOptions rig_client() {
  ClientOptions options;
  options.populate_scratch = false;
  return options;
}

struct RigOptions {
  uint64_t seed = 1;
  ClientOptions client = rig_client();
  ScriptedDaemon::Options daemon;
  SimFabricOptions fabric;
  bool daemon_up = true;
};

class ClientRig {
 public:
  explicit ClientRig(RigOptions options = {})
      : fabric(options.seed, options.fabric),
        entropy(options.seed),
        daemon_options(options.daemon) {
    if (options.daemon_up) start_daemon();
    options.client.address = options.daemon.address;
    auto opened = ClientCore::open(env, client_reactor, options.client);
    EXPECT_TRUE(opened.has_value());
    core = std::move(*opened);
  }
  ~ClientRig() { shut_down(); }
  void shut_down() {
    if (core != nullptr) {
      core->close();
      EXPECT_TRUE(run_until([&] { return core->at_rest(); }));
      EXPECT_EQ(core->state(), SessionState::kClosed);
      core.reset();
    }
    stop_daemon();
  }
  void start_daemon() {
    daemon = std::make_unique<ScriptedDaemon>(fabric, daemon_reactor, daemon_options);
  }
  void stop_daemon() {
    if (daemon == nullptr) return;
    daemon->stop();
    EXPECT_TRUE(run_until([&] { return daemon->lanes_open() == 0; }));
    daemon.reset();
  }

  void step() {
    bool did = client_reactor.turn();
    did |= daemon_reactor.turn();
    if (core != nullptr) {
      Event event;
      while (core->next_event(event))
        events.push_back(event);
    }
    if (did) return;
    const Nanos next = std::min(client_reactor.next_work_ns(), daemon_reactor.next_work_ns());
    const Nanos now = clock.now_ns();
    clock.advance_to(next == kNever ? now + kMillisecond : std::max(next, now));
  }
  bool run_until(const std::function<bool()>& done, Nanos limit_ns = 100 * kSecond) {
    const Nanos end = clock.now_ns() + limit_ns;
    while (!done()) {
      if (clock.now_ns() > end) return false;
      step();
    }
    return true;
  }
  void run_for(Nanos duration_ns) {
    const Nanos end = clock.now_ns() + duration_ns;
    while (clock.now_ns() < end)
      step();
  }
  bool ready() {
    return run_until([&] { return core->state() == SessionState::kReady; }, 5 * kSecond);
  }
  // The terminal event of `op`; fails the test when it does not come.
  Event finish(OpId op, Nanos limit_ns = 100 * kSecond) {
    EXPECT_TRUE(run_until([&] { return terminal(op) != nullptr; }, limit_ns)) << "op " << op;
    const Event* event = terminal(op);
    return event == nullptr ? Event() : *event;
  }
  const Event* terminal(OpId op) const {
    for (const Event& e : events) {
      if (e.op == op && e.kind != Event::Kind::kLayer && e.kind != Event::Kind::kReserved)
        return &e;
    }
    return nullptr;
  }
  std::vector<Event> of(OpId op, Event::Kind kind) const {
    std::vector<Event> found;
    for (const Event& e : events) {
      if (e.op == op && e.kind == kind) found.push_back(e);
    }
    return found;
  }
  bool saw(Type type) const { return daemon->count(type) > 0; }

  ManualClock clock;
  SimFabric fabric;
  SeededEntropy entropy;
  Env env{clock, entropy, fabric};
  Reactor client_reactor{clock, nullptr, ReactorOptions{}};
  Reactor daemon_reactor{clock, nullptr, ReactorOptions{}};
  ScriptedDaemon::Options daemon_options;
  std::unique_ptr<ScriptedDaemon> daemon;
  std::unique_ptr<ClientCore> core;
  std::vector<Event> events;
};

// A rig with one format, and memory for `slots` blocks of it laid out as an engine would: per layer
// one array of slots, each slot in two segments with a gap between, so that everything is
// scattered.
class KvRig : public ClientRig {
 public:
  KvRig(const std::vector<uint32_t>& layer_bytes, uint32_t slots, RigOptions options = {})
      : ClientRig(std::move(options)), format(format_of(layer_bytes)), slot_count(slots) {
    table = *ExtentTable::of(format.ranks[0], Scheme{daemon_options.k, daemon_options.m});
    uint64_t at = 0;
    for (const uint32_t bytes : layer_bytes) {
      LayerLayout layer;
      layer.offset = at;
      layer.segments = bytes % 2 == 0 ? 2 : 1;
      layer.segment_stride = bytes / layer.segments + kGap;
      layer.stride = layer.segments * layer.segment_stride;
      at += layer.stride * slots;
      layout.layers.push_back(layer);
    }
    memory.assign(at, kPoison);
    region = *core->register_memory(memory.data(), memory.size());
    for (LayerLayout& layer : layout.layers)
      layer.region = region;
    format_id = *core->format(format);
  }
  ~KvRig() { shut_down(); }  // before the memory goes

  static constexpr uint64_t kGap = 64;
  static constexpr std::byte kPoison{0xAB};

  PullRequest pull_of(std::vector<BaseId> ids) {
    PullRequest request;
    request.format = format_id;
    for (uint32_t i = 0; i < ids.size(); ++i)
      request.slots.push_back(i);
    request.ids = std::move(ids);
    request.layout = &layout;
    return request;
  }
  PushRequest push_of(std::vector<BaseId> ids) {
    PushRequest request;
    request.format = format_id;
    for (uint32_t i = 0; i < ids.size(); ++i)
      request.slots.push_back(i);
    request.ids = std::move(ids);
    request.layout = &layout;
    return request;
  }
  std::vector<std::byte> read_layer(uint32_t slot, uint32_t layer) const {
    std::vector<std::byte> out;
    const LayerLayout& l = layout.layers[layer];
    const uint32_t segment_bytes = format.ranks[0][layer].bytes / l.segments;
    for (uint32_t s = 0; s < l.segments; ++s) {
      const std::byte* from = memory.data() + l.offset + slot * l.stride + s * l.segment_stride;
      out.insert(out.end(), from, from + segment_bytes);
    }
    return out;
  }
  // The bytes that the store holds for a layer.
  std::vector<std::byte> stored_layer(const BaseId& id, uint32_t layer) const {
    const auto& stored = daemon->store().at(BlockId{id, 0});
    std::vector<std::byte> block;
    for (const auto& extent : stored.extents)
      block.insert(block.end(), extent.begin(), extent.end());
    uint64_t at = 0;
    for (uint32_t l = 0; l < layer; ++l)
      at += format.ranks[0][l].bytes;
    const auto begin = block.begin() + static_cast<ptrdiff_t>(at);
    return {begin, begin + format.ranks[0][layer].bytes};
  }
  bool layer_is_stored(const BaseId& id, uint32_t slot, uint32_t layer) const {
    return read_layer(slot, layer) == stored_layer(id, layer);
  }
  void fill(uint32_t slot, const BaseId& id, uint64_t salt = 0) {
    for (uint32_t layer = 0; layer < layout.layers.size(); ++layer) {
      const LayerLayout& l = layout.layers[layer];
      const uint32_t segment_bytes = format.ranks[0][layer].bytes / l.segments;
      const auto bytes = layer_content(id, layer, salt);
      for (uint32_t s = 0; s < l.segments; ++s) {
        std::memcpy(memory.data() + l.offset + slot * l.stride + s * l.segment_stride,
                    bytes.data() + size_t{s} * segment_bytes, segment_bytes);
      }
    }
  }
  // What the store holds of a block, into the memory of a slot.
  void put_into_memory(const BlockId& id, uint32_t slot) {
    for (uint32_t layer = 0; layer < layout.layers.size(); ++layer) {
      const LayerLayout& l = layout.layers[layer];
      const uint32_t segment_bytes = format.ranks[0][layer].bytes / l.segments;
      const auto bytes = stored_layer(id.base, layer);
      for (uint32_t s = 0; s < l.segments; ++s) {
        std::memcpy(memory.data() + l.offset + slot * l.stride + s * l.segment_stride,
                    bytes.data() + size_t{s} * segment_bytes, segment_bytes);
      }
    }
  }
  std::vector<std::byte> layer_content(const BaseId& id, uint32_t layer, uint64_t salt = 0) const {
    return ScriptedDaemon::content(BlockId{id, 1}, layer, format.ranks[0][layer].bytes, salt);
  }
  void poison() { std::fill(memory.begin(), memory.end(), kPoison); }
  bool poisoned() const {
    return std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == kPoison; });
  }
  void put(uint32_t first, uint32_t count) {
    for (const BaseId& id : ids_of(first, count))
      daemon->put(BlockId{id, 0}, table);
  }

  Format format;
  uint32_t slot_count;
  ExtentTable table;
  Layout layout;
  std::vector<std::byte> memory;
  RegionId region = 0;
  FormatId format_id = 0;
};

}  // namespace varve
