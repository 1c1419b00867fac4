// CRig: a C caller with one format, memory for sixteen blocks and a layout over it, and a scripted
// daemon on a thread of its own: what the tests of the C door begin with.
#pragma once

#include <gtest/gtest.h>

#include "client/varve_c.h"
#include "tests/client/client_rig.h"
#include "tests/client/daemon_thread.h"

namespace varve {

// A completion that gives itself back.
struct Completion : varve_completion {
  Completion() { VARVE_INIT(static_cast<varve_completion*>(this)); }
  ~Completion() { varve_completion_clear(this); }
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
};

class CRig : public testing::Test {
 protected:
  static constexpr uint32_t kLayerBytes = 70000;
  static constexpr uint32_t kLayers = 3;
  static constexpr uint32_t kSlots = 16;

  CRig() : shape_(format_of(std::vector<uint32_t>(kLayers, kLayerBytes))) {
    table_ = *ExtentTable::of(shape_.ranks[0], Scheme{});
    memory_.resize(size_t{kLayerBytes} * kLayers * kSlots, std::byte{0xAB});
    VARVE_INIT(&options_);
    options_.reconnect_ns_min = 5 * kMillisecond;
    options_.reconnect_ns_max = 20 * kMillisecond;
    options_.log_level = VARVE_LOG_ERROR;
  }
  ~CRig() override { varve_free(client_); }

  void open(const std::string& address) {
    ASSERT_EQ(varve_options_set(&options_, "address", address.c_str()), VARVE_OK);
    ASSERT_EQ(varve_open(&options_, &client_), VARVE_OK) << varve_last_error();
    for (uint32_t l = 0; l < kLayers; ++l)
      layers_[l] = {VARVE_LAYER_FULL, kLayerBytes};
    rank_ = {layers_, kLayers, 0};
    VARVE_INIT(&desc_);
    desc_.type = VARVE_TYPE_BF16;
    desc_.order = VARVE_ORDER_NHD;
    desc_.tokens_per_block = 16;
    desc_.model[0] = 7;
    desc_.lineage = "main";
    desc_.ranks = &rank_;
    desc_.rank_count = 1;
    ASSERT_EQ(varve_format_register(client_, &desc_, &format_), VARVE_OK) << varve_last_error();
    varve_region_desc region;
    VARVE_INIT(&region);
    region.data = memory_.data();
    region.bytes = memory_.size();
    ASSERT_EQ(varve_region_register(client_, &region, &region_), VARVE_OK);
    for (uint32_t l = 0; l < kLayers; ++l)
      places_[l] = {region_, 0, uint64_t{l} * kSlots * kLayerBytes, kLayerBytes, 0};
    ASSERT_EQ(varve_layout_define(client_, layout_desc(), &layout_), VARVE_OK);
  }
  void open_ready() {
    open(daemon_.address());
    ASSERT_EQ(varve_wait_ready(client_, kLong), VARVE_OK) << varve_last_error();
  }
  void put(uint32_t count) {
    daemon_.call([&](ScriptedDaemon& d) {
      for (const BaseId& id : ids_of(0, count))
        d.put(BlockId{id, 0}, table_);
    });
  }
  // The daemon says nothing to frames of this type from now on.
  void silence(Type type) {
    daemon_.call(
        [type](ScriptedDaemon& d) { d.hook = [type](const auto& r) { return r.type == type; }; });
  }
  void unsilence() {
    daemon_.call([](ScriptedDaemon& d) { d.hook = nullptr; });
  }
  void wait_asked(Type type, size_t count) {
    for (size_t asked = 0; asked < count;)
      daemon_.call([&](ScriptedDaemon& d) { asked = d.count(type); });
  }
  const varve_layout_desc* layout_desc() {
    VARVE_INIT(&layout_desc_);
    layout_desc_.format = format_;
    layout_desc_.layer_count = kLayers;
    layout_desc_.layers = places_;
    return &layout_desc_;
  }
  // Block i of ids first, first + 1, .. is in slot i.
  varve_blocks blocks(uint32_t first, uint32_t count) {
    ids_.clear();
    for (const BaseId& id : ids_of(first, count)) {
      varve_id c;
      std::memcpy(c.bytes, id.bytes.data(), sizeof c.bytes);
      ids_.push_back(c);
    }
    slots_.resize(count);
    for (uint32_t i = 0; i < count; ++i)
      slots_[i] = i;
    return {ids_.data(), count, layout_, slots_.data(), nullptr, 0, 0};
  }
  varve_match_request match_of(uint32_t first, uint32_t count, uint64_t tag = 0) {
    varve_match_request request;
    VARVE_INIT(&request);
    const varve_blocks of = blocks(first, count);
    request.format = format_;
    request.ids = of.ids;
    request.count = of.count;
    request.deadline_ns = kLong;
    request.tag = tag;
    return request;
  }
  varve_pull_request pull_of(uint32_t first, uint32_t count) {
    varve_pull_request request;
    VARVE_INIT(&request);
    request.blocks = blocks(first, count);
    return request;
  }
  varve_push_request push_of(uint32_t first, uint32_t count, uint32_t flags = VARVE_PUSH_FINAL) {
    varve_push_request request;
    VARVE_INIT(&request);
    request.blocks = blocks(first, count);
    request.flags = flags;
    return request;
  }
  varve_op pull(const varve_pull_request& request) {
    varve_op op = 0;
    EXPECT_EQ(varve_pull_submit(client_, &request, &op), VARVE_OK) << varve_last_error();
    return op;
  }
  varve_op push(const varve_push_request& request) {
    varve_op op = 0;
    EXPECT_EQ(varve_push_submit(client_, &request, &op), VARVE_OK) << varve_last_error();
    return op;
  }
  varve_op match(const varve_match_request& request) {
    varve_op op = 0;
    EXPECT_EQ(varve_match_submit(client_, &request, &op), VARVE_OK) << varve_last_error();
    return op;
  }
  varve_stats stats() {
    varve_stats stats;
    VARVE_INIT(&stats);
    EXPECT_EQ(varve_stats_read(client_, &stats), VARVE_OK);
    return stats;
  }
  std::byte* at(uint32_t slot, uint32_t layer) {
    return memory_.data() + (size_t{layer} * kSlots + slot) * kLayerBytes;
  }
  // What the daemon has of a block, against its slot.
  bool slot_holds(uint32_t slot, uint32_t n) {
    bool same = true;
    daemon_.call([&](ScriptedDaemon& d) {
      const auto& stored = d.store().at(BlockId{id_of(n), 0});
      for (uint32_t l = 0; l < kLayers; ++l) {
        const auto& bytes = stored.extents[l];
        same = same && std::memcmp(at(slot, l), bytes.data(), bytes.size()) == 0;
      }
    });
    return same;
  }

  DaemonThread daemon_;
  varve_options options_;
  varve_client* client_ = nullptr;
  Format shape_;
  ExtentTable table_;
  std::vector<std::byte> memory_;
  varve_layer layers_[kLayers];
  varve_rank rank_;
  varve_format_desc desc_;
  varve_format format_ = 0;
  varve_region region_ = 0;
  varve_layer_layout places_[kLayers];
  varve_layout_desc layout_desc_;
  varve_layout layout_ = 0;
  std::vector<varve_id> ids_;
  std::vector<uint32_t> slots_;
};

}  // namespace varve
