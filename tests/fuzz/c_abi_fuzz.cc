// c_abi_fuzz: any bytes as a sequence of calls of varve_c.h, right ones and wrong ones, on one
// client with a scripted daemon in a thread, or with none. Findings: a crash, an assert, a leak, a
// status that is none, a touch of memory after varve_quiesce said that there is none, a second end
// of an op.
#include <cstdlib>
#include <set>

#include "client/varve_c.h"
#include "tests/client/daemon_thread.h"

namespace varve {
namespace {

constexpr uint32_t kLayers = 2, kSlots = 4, kLayerBytes = 3000, kIds = 6, kActsMax = 60;
constexpr std::byte kPoison{0xAB};
constexpr uint64_t kMilli = 1000000;

void require(bool ok) {
  if (!ok) std::abort();
}

class Script {
 public:
  Script(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  uint8_t u8() { return empty() ? uint8_t{0} : data_[at_++]; }
  uint32_t below(uint32_t limit) { return u8() % limit; }
  // Mostly `value`, sometimes something near the limits.
  uint32_t near(uint32_t value) {
    static constexpr uint32_t kOdd[] = {0, 1, 2, 255, 256, 2049, 0x7fffffff, 0xffffffff};
    return u8() < 220 ? value : kOdd[below(8)];
  }
  bool rarely() { return u8() > 235; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

// One for all inputs, with some blocks; never torn down.
DaemonThread& daemon() {
  static auto* thread = [] {
    auto* made = new DaemonThread;
    Format format;
    format.model.bytes[0] = std::byte{7};
    format.lineage = "fuzz";
    format.tokens_per_block = 4;
    format.ranks.emplace_back(kLayers, LayerSpec{LayerKind::kFull, kLayerBytes});
    const ExtentTable table = *ExtentTable::of(format.ranks[0], Scheme{});
    made->call([&](ScriptedDaemon& d) {
      for (uint8_t n = 0; n < 3; ++n) {
        BaseId id;
        id.bytes[0] = std::byte{n};
        id.bytes[31] = std::byte{1};
        d.put(BlockId{id, 0}, table);
      }
    });
    return made;
  }();
  return *thread;
}

class Run {
 public:
  Run(const uint8_t* data, size_t size) : script_(data, size) {}
  void go();

 private:
  void open();
  void act();
  void submit();
  void look();
  void change_memory();
  void end_one();
  void take();
  void seen(const varve_completion& done);
  varve_status check(varve_status status) {
    require(std::string(varve_strerror(status)) != varve_strerror(-1));
    require(status != VARVE_INTERNAL && status != VARVE_FORKED);
    return status;
  }
  varve_blocks blocks();
  varve_op any_op() {
    if (ops_.empty() || script_.rarely()) return script_.u8();
    return ops_[script_.u8() % ops_.size()];
  }
  void began(varve_status status, varve_op op) {
    if (check(status) == VARVE_OK) ops_.push_back(op);
  }
  template <class T>
  void size(T& request) {
    request.struct_size = script_.near(request.struct_size);
    // A larger struct than ours would be read beyond its end: that is the caller's promise.
    if (request.struct_size > sizeof request && request.struct_size <= 4096)
      request.struct_size = sizeof request;
  }

  Script script_;
  varve_client* client_ = nullptr;
  bool is_poisoned() const {
    const auto poisoned = [](std::byte b) { return b == kPoison; };
    return std::all_of(memory_.begin(), memory_.end(), poisoned) &&
           std::all_of(stray_.begin(), stray_.end(), poisoned);
  }
  void poison() {
    std::fill(memory_.begin(), memory_.end(), kPoison);
    std::fill(stray_.begin(), stray_.end(), kPoison);
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(kLayers * kSlots * kLayerBytes, kPoison);
  std::vector<std::byte> stray_ = memory_;  // in no region
  varve_id ids_[kIds + 2];
  uint32_t slots_[kIds + 2];
  varve_buffer buffers_[(kIds + 2) * kLayers];
  varve_format format_ = 0;
  varve_region region_ = 0;
  varve_layout layout_ = 0;
  std::vector<varve_op> ops_;
  std::set<varve_op> ended_;
  std::vector<varve_lease> leases_;
  varve_follow_tag tags_[kIds + 2];
};

void Run::open() {
  varve_options options;
  VARVE_INIT(&options);
  options.log_level = VARVE_LOG_ERROR;
  options.ops_max = 1 + script_.below(8);
  options.fence_ns_max = 200 * kMilli;
  const bool alone = script_.rarely();
  const std::string address = alone ? "127.0.0.1:1" : daemon().address();
  require(varve_options_set(&options, "address", address.c_str()) == VARVE_OK);
  require(varve_open(&options, &client_) == VARVE_OK);
  if (!alone && script_.u8() < 200) check(varve_wait_ready(client_, 1000 * kMilli));
  const varve_layer layers[kLayers] = {{VARVE_LAYER_FULL, kLayerBytes},
                                       {VARVE_LAYER_FULL, kLayerBytes}};
  const varve_rank rank = {layers, kLayers, 0};
  varve_format_desc desc;
  VARVE_INIT(&desc);
  desc.type = VARVE_TYPE_BF16;
  desc.order = VARVE_ORDER_NHD;
  desc.tokens_per_block = 4;
  desc.model[0] = 7;
  desc.lineage = "fuzz";
  desc.ranks = &rank;
  desc.rank_count = 1;
  require(varve_format_register(client_, &desc, &format_) == VARVE_OK);
  varve_region_desc region;
  VARVE_INIT(&region);
  region.data = memory_.data();
  region.bytes = memory_.size();
  require(varve_region_register(client_, &region, &region_) == VARVE_OK);
  varve_layer_layout places[kLayers];
  for (uint32_t l = 0; l < kLayers; ++l)
    places[l] = {region_, 1, uint64_t{l} * kSlots * kLayerBytes, kLayerBytes, 0};
  varve_layout_desc where;
  VARVE_INIT(&where);
  where.format = format_;
  where.layer_count = kLayers;
  where.layers = places;
  require(varve_layout_define(client_, &where, &layout_) == VARVE_OK);
  std::memset(ids_, 0, sizeof ids_);
  std::memset(tags_, 1, sizeof tags_);
  for (uint8_t n = 0; n < kIds + 2; ++n) {
    ids_[n].bytes[0] = n;
    ids_[n].bytes[31] = 1;
    slots_[n] = n % kSlots;
  }
}

varve_blocks Run::blocks() {
  varve_blocks of = {ids_, script_.near(1 + script_.below(3)), layout_, slots_, nullptr, 0, 0};
  if (of.count > kIds && of.count <= 2048) of.count = kIds;
  if (script_.rarely()) slots_[script_.below(kIds)] = script_.near(1);
  if (script_.u8() < 60) {
    of.layout = script_.rarely() ? layout_ : 0;
    of.buffers = script_.rarely() ? nullptr : buffers_;
    for (uint32_t i = 0; i < (kIds + 2) * kLayers; ++i) {
      auto& memory = (i + of.count) % 3 == 0 ? stray_ : memory_;
      buffers_[i] = {memory.data() + size_t{i % (kLayers * kSlots)} * kLayerBytes,
                     script_.rarely() ? script_.u8() : kLayerBytes};
    }
    of.format = script_.near(format_);
    of.rank = script_.near(0);
  }
  if (script_.rarely()) of.ids = nullptr;
  if (script_.rarely()) of.layout = script_.u8();
  return of;
}

void Run::submit() {
  varve_op op = 0;
  const uint64_t deadline = (1 + script_.below(20)) * kMilli;
  switch (script_.below(7)) {
    case 0: {
      varve_match_request request;
      VARVE_INIT(&request);
      request.format = script_.near(format_);
      request.ids = script_.rarely() ? nullptr : ids_;
      request.count = script_.near(1 + script_.below(kIds));
      if (request.count > kIds && request.count <= (1u << 20)) request.count = kIds;
      request.lease_ms = script_.below(2) * 100;
      request.flags = script_.near(script_.below(2));
      request.deadline_ns = deadline;
      request.tag = script_.below(4);
      size(request);
      const varve_status status = check(varve_match_submit(client_, &request, &op));
      const bool known = std::find(ops_.begin(), ops_.end(), op) != ops_.end();
      if (status == VARVE_OK && !known) ops_.push_back(op);
      return;
    }
    case 1: {
      varve_exists_request request;
      VARVE_INIT(&request);
      request.format = format_;
      request.ids = ids_;
      request.count = script_.near(1 + script_.below(kIds));
      if (request.count > kIds && request.count <= (1u << 20)) request.count = kIds;
      request.deadline_ns = deadline;
      size(request);
      return began(varve_exists_submit(client_, &request, &op), op);
    }
    case 2: {
      varve_pull_request request;
      VARVE_INIT(&request);
      request.blocks = blocks();
      request.flags = script_.near(script_.below(2));
      request.layer_first = script_.near(script_.below(2));
      request.layer_count = script_.near(script_.below(2));
      request.lease = leases_.empty() ? 0 : leases_[script_.u8() % leases_.size()];
      request.deadline_ns = deadline;
      size(request);
      return began(varve_pull_submit(client_, &request, &op), op);
    }
    case 3: {
      varve_follow_request request;
      VARVE_INIT(&request);
      request.blocks = blocks();
      if (script_.u8() < 200) request.blocks.ids = nullptr;
      request.tags = script_.rarely() ? nullptr : tags_;
      request.deadline_ns = deadline;
      size(request);
      return began(varve_follow_submit(client_, &request, &op), op);
    }
    case 4: {
      varve_push_request request;
      VARVE_INIT(&request);
      request.blocks = blocks();
      request.flags = script_.near(script_.below(16) & ~VARVE_TELL_LAYERS);
      request.deadline_ns = deadline;
      size(request);
      return began(varve_push_submit(client_, &request, &op), op);
    }
    case 5:
      return began(varve_holds_submit(client_, deadline, 0, &op), op);
    default:
      return began(varve_lease_renew(client_, leases_.empty() ? script_.u8() : leases_.back(),
                                     script_.near(100), 0, &op),
                   op);
  }
}

void Run::look() {
  varve_match_answer answer;
  VARVE_INIT(&answer);
  uint32_t number = 0;
  uint64_t wide = 0;
  uint8_t bits[2];
  char why[40];
  varve_stats stats;
  VARVE_INIT(&stats);
  switch (script_.below(7)) {
    case 0:
      size(answer);
      check(varve_match_peek(client_, script_.below(5), &answer));
      return;
    case 1:
      check(varve_layers_done(client_, any_op(), &number));
      return;
    case 2:
      check(varve_wait_layer(client_, any_op(), script_.near(script_.below(3)), kMilli, bits,
                             script_.below(3)));
      return;
    case 3:
      size(stats);
      check(varve_stats_read(client_, &stats));
      return;
    case 4:
      check(varve_state(client_, &number, why, 1 + script_.below(sizeof why)));
      return;
    case 5:
      check(varve_lease_left(client_, leases_.empty() ? script_.u8() : leases_.back(), &wide));
      return;
    default: {
      varve_tokens tokens;
      VARVE_INIT(&tokens);
      const uint32_t numbers[12] = {1, 2, 3, 4};
      varve_id ids[3];
      size_t count = 0;
      tokens.format = script_.near(format_);
      tokens.tokens = numbers;
      tokens.token_count = script_.below(13);
      size(tokens);
      check(varve_base_ids(client_, &tokens, ids, script_.below(4), &count));
      check(varve_base_id_of_hash(client_, format_, numbers, script_.below(49), ids));
    }
  }
}

void Run::change_memory() {
  switch (script_.below(3)) {
    case 0:
      check(varve_layout_undefine(client_, script_.near(layout_)));
      return;
    case 1:
      check(varve_region_unregister(client_, script_.near(region_)));
      return;
    default: {
      varve_region_desc region;
      VARVE_INIT(&region);
      region.kind = script_.near(0);
      region.data = memory_.data();
      region.bytes = script_.below(2) * memory_.size();
      check(varve_region_register(client_, &region, &region_));
    }
  }
}

void Run::end_one() {
  const varve_op op = any_op();
  switch (script_.below(4)) {
    case 0:
      check(varve_cancel(client_, op));
      return;
    case 1:
      check(varve_push_layer(client_, op, script_.near(script_.below(3))));
      return;
    case 2:
      check(varve_match_forget(client_, script_.below(5)));
      return;
    default:
      // All of them, so that the memory is ours as a whole.
      for (const varve_op each : ops_)
        if (check(varve_quiesce(client_, each, 5000 * kMilli)) != VARVE_OK) return;
      poison();
      take();
      require(is_poisoned());
  }
}

void Run::seen(const varve_completion& done) {
  const bool end = done.kind < VARVE_DONE_LAYER;
  require(done.kind != 0 && done.reason != nullptr && ended_.count(done.op) == 0);
  if (end) ended_.insert(done.op);
  if (done.lease != 0 && leases_.size() < 8) leases_.push_back(done.lease);
  uint32_t ok = 0;
  for (uint32_t i = 0; i < done.count; ++i)
    ok += (done.bitmap[i / 8] >> i % 8) & 1;
  require(ok == done.ok_count);
  if (done.tag_count > 0) tags_[0] = done.tags[0];
}

void Run::take() {
  varve_completion done[3];
  VARVE_INIT(&done[0]);
  if (script_.rarely()) {
    if (check(varve_wait(client_, any_op(), kMilli, &done[0])) == VARVE_OK) {
      seen(done[0]);
      varve_completion_clear(&done[0]);
    }
    return;
  }
  size_t count = 0;
  require(varve_poll(client_, done, script_.below(4), &count) == VARVE_OK);
  for (size_t i = 0; i < count; ++i) {
    seen(done[i]);
    varve_completion_clear(&done[i]);
  }
}

void Run::act() {
  switch (script_.below(9)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return submit();
    case 4:
      return look();
    case 5:
      return script_.u8() < 60 ? change_memory() : look();
    case 6:
      return end_one();
    case 7:
      if (!leases_.empty()) check(varve_lease_release(client_, leases_[0]));
      return;
    default:
      return take();
  }
}

void Run::go() {
  open();
  for (uint32_t acts = 0; acts < kActsMax && !script_.empty(); ++acts)
    act();
  if (script_.below(2) == 0) {
    require(varve_close(client_) == VARVE_OK);
    varve_stats stats;
    VARVE_INIT(&stats);
    require(varve_stats_read(client_, &stats) == VARVE_CLOSED);
    poison();
  }
  varve_free(client_);
}

}  // namespace
}  // namespace varve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  varve::Run(data, size).go();
  return 0;
}
