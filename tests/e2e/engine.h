// Engine: a process of an engine for tests with a real daemon: a client of its own, and memory for
// two blocks, layer-major, whose content follows from their ids.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "client/varve.h"

namespace varve {

inline constexpr uint32_t kLayers = 4, kBlocks = 2;
inline constexpr uint32_t kLayerBytes = 128 * kKiB;
inline constexpr Nanos kPatience = 20 * kSecond;

inline void pause(Nanos ns) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
}

class Engine {
 public:
  Engine(const std::string& address, const std::string& name, const std::string& token = "") {
    ClientOptions options;
    options.address = address;
    options.name = name;
    options.token = token;
    auto opened = Client::open(options);
    EXPECT_TRUE(opened.has_value());
    client = std::move(*opened);
    EXPECT_TRUE(client->wait_ready(kPatience).ok()) << client->last_error_text();
    Format shape;
    shape.model.bytes[0] = std::byte{7};
    shape.lineage = "e2e";
    shape.tokens_per_block = 16;
    shape.ranks.emplace_back(kLayers, LayerSpec{LayerKind::kFull, kLayerBytes});
    format = *client->format(shape);
    memory.assign(size_t{kLayers} * kBlocks * kLayerBytes, std::byte{0xAB});
    const RegionId region = *client->register_memory(memory.data(), memory.size());
    for (uint32_t l = 0; l < kLayers; ++l) {
      layout.layers.push_back(
          {.region = region, .offset = uint64_t{l} * kBlocks * kLayerBytes, .stride = kLayerBytes});
    }
  }
  // Prefix number n of kBlocks blocks.
  std::vector<BaseId> ids(uint32_t n) {
    std::vector<uint32_t> tokens(16 * kBlocks, n + 1);
    return *client->base_ids(format, BaseId{}, tokens);
  }
  ByteSpan layer(uint32_t block, uint32_t l) {
    return ByteSpan(memory).subspan((size_t{l} * kBlocks + block) * kLayerBytes, kLayerBytes);
  }
  static std::vector<std::byte> content(const BaseId& id, uint32_t l) {
    std::vector<std::byte> bytes(kLayerBytes);
    Random random(load<uint64_t>(ConstByteSpan(id.bytes)) + l);
    for (size_t at = 0; at < bytes.size(); at += 8)
      store(ByteSpan(bytes), at, random.next());
    return bytes;
  }
  void fill(const std::vector<BaseId>& of, uint32_t l) {
    for (uint32_t b = 0; b < kBlocks; ++b) {
      const auto bytes = content(of[b], l);
      std::copy(bytes.begin(), bytes.end(), layer(b, l).begin());
    }
  }
  bool holds_layer(const std::vector<BaseId>& of, uint32_t l) {
    for (uint32_t b = 0; b < kBlocks; ++b) {
      const auto bytes = content(of[b], l);
      if (!std::equal(bytes.begin(), bytes.end(), layer(b, l).begin())) return false;
    }
    return true;
  }
  OpId push(const std::vector<BaseId>& of) {
    PushRequest request;
    request.format = format;
    request.ids = of;
    request.slots = {0, 1};
    request.layout = &layout;
    return *client->push(std::move(request));
  }
  OpId follow(const std::vector<FollowTag>& tags) {
    FollowRequest request;
    request.format = format;
    request.blocks = tags;
    request.slots = {0, 1};
    request.layout = &layout;
    return *client->follow(std::move(request));
  }
  Event pull(const std::vector<BaseId>& of, uint64_t lease) {
    PullRequest request;
    request.format = format;
    request.ids = of;
    request.slots = {0, 1};
    request.layout = &layout;
    request.lease = lease;
    return ended(*client->pull(std::move(request)));
  }
  // The same into memory that is in no region.
  Event pull_elsewhere(const std::vector<BaseId>& of, std::vector<std::byte>& elsewhere) {
    Layout list;
    elsewhere.assign(memory.size(), std::byte{0xAB});
    for (uint32_t i = 0; i < kBlocks * kLayers; ++i)
      list.buffers.push_back({elsewhere.data() + size_t{i} * kLayerBytes, kLayerBytes});
    PullRequest request;
    request.format = format;
    request.ids = of;
    request.slots = {0, 1};
    request.layout = &list;
    return ended(*client->pull(std::move(request)));
  }
  Event match(const std::vector<BaseId>& of, uint32_t lease_ms = 0) {
    MatchRequest request;
    request.format = format;
    request.ids = of;
    request.lease_ms = lease_ms;
    return ended(*client->match(std::move(request)));
  }
  std::vector<HoldRow> held() { return ended(*client->holds({})).holds; }
  // The next event of an op, which is the only one with news.
  Event next(OpId op) {
    Event event;
    for (Nanos waited = 0; waited < kPatience; waited += kMillisecond) {
      while (client->poll(event)) {
        if (event.op == op) return event;
      }
      pause(kMillisecond);
    }
    ADD_FAILURE() << "no event of op " << op;
    return Event();
  }
  Event ended(OpId op) {
    Result<Event> event = client->wait(op, kPatience);
    EXPECT_TRUE(event.has_value());
    return event.has_value() ? *event : Event();
  }
  // A whole push, durable.
  void store_blocks(const std::vector<BaseId>& of) {
    for (uint32_t l = 0; l < kLayers; ++l)
      fill(of, l);
    const OpId op = push(of);
    EXPECT_TRUE(client->push_layer(op, ClientCore::kEveryLayer).ok());
    EXPECT_EQ(ended(op).codes, std::vector<Code>(kBlocks, Code::kOk));
  }

  std::unique_ptr<Client> client;
  FormatId format = 0;
  std::vector<std::byte> memory;
  Layout layout;
};

}  // namespace varve
