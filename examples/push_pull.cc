// push_pull.cc: a prefill worker and a decode worker in one program, in C++ inside the tree.
//
// A project of its own takes Varve by add_subdirectory and links the target `varve`.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "client/varve.h"

namespace {

using namespace varve;

constexpr uint32_t kLayers = 8, kSlots = 64, kRun = 16, kPage = 16384, kBlocks = 4;

// As an engine has it: one tensor per layer, {K, V} x slots x page.
std::byte kv[kLayers][2][kSlots][kPage];

void check(const Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s (%s)\n", what, code_name(status.code()), status.what());
  std::exit(1);
}
template <class T>
T check(Result<T> result, const char* what) {
  check(result.has_value() ? Status() : result.error(), what);
  return *std::move(result);
}

}  // namespace

int main(int argc, char** argv) {
  ClientOptions options;
  if (argc > 1) options.address = argv[1];
  const auto client = check(Client::open(options), "open");
  check(client->wait_ready(5 * kSecond), "is varved running? wait_ready");

  Format shape;
  shape.model.bytes[0] = std::byte{42};  // the digest of the weights
  shape.lineage = "example";
  shape.tokens_per_block = kRun;
  shape.ranks = {std::vector<LayerSpec>(kLayers, {LayerKind::kFull, 2 * kPage})};
  const FormatId format = check(client->format(shape), "format");
  const RegionId region = check(client->register_memory(kv, sizeof kv), "region");
  Layout layout;  // slot s: K at s * kPage, V a whole K tensor behind
  for (uint32_t l = 0; l < kLayers; ++l)
    layout.layers.push_back({region, l * sizeof kv[0], kPage, 2, sizeof kv[0][0]});

  std::vector<uint32_t> tokens(kRun * kBlocks);
  std::iota(tokens.begin(), tokens.end(), 5000u);
  const auto ids = check(client->base_ids(format, BaseId(), tokens), "base ids");

  // Prefill: the attention of layer l fills slots 0 .. 3 of its tensor, then they may leave.
  PushRequest push;
  push.format = format;
  push.ids = ids;
  push.slots = {0, 1, 2, 3};
  push.layout = &layout;
  const OpId pushing = check(client->push(push), "push");
  for (uint32_t l = 0; l < kLayers; ++l) {
    for (uint32_t b = 0; b < kBlocks; ++b) {
      std::memset(kv[l][0][b], static_cast<int>(16 * l + b), kPage);
      std::memset(kv[l][1][b], static_cast<int>(128 + 16 * l + b), kPage);
    }
    check(client->push_layer(pushing, l), "push layer");
  }
  Event done = check(client->wait(pushing, 30 * kSecond), "wait for the push");
  check(done.status, "push");
  std::printf("pushed %zu blocks, durable\n", done.codes.size());

  // Decode: how much of the prompt is there? Its layers come in order.
  MatchRequest match;
  match.format = format;
  match.ids = ids;
  match.lease_ms = 10000;
  const Event hit = check(client->wait(check(client->match(match), "match"), 5 * kSecond), "match");
  check(hit.n_blocks == 0 ? Status::unavailable("nothing of it is there") : hit.status, "match");
  PullRequest pull;
  pull.format = format;
  pull.ids.assign(ids.begin(), ids.begin() + hit.n_blocks);
  pull.slots = {40, 13, 22, 31};
  pull.slots.resize(hit.n_blocks);
  pull.layout = &layout;
  pull.lease = hit.lease;
  done = check(client->wait(check(client->pull(pull), "pull"), 10 * kSecond), "pull");
  check(done.status, "pull");
  for (uint32_t l = 0; l < kLayers; ++l) {
    for (uint32_t b = 0; b < hit.n_blocks; ++b) {
      const bool same = std::memcmp(kv[l][0][pull.slots[b]], kv[l][0][b], kPage) == 0 &&
                        std::memcmp(kv[l][1][pull.slots[b]], kv[l][1][b], kPage) == 0;
      check(same ? Status() : Status::corrupt("other bytes"), "compare");
    }
  }
  std::printf("pulled %u of %u hits, %llu bytes; first layer after %llu us\n", hit.n_blocks,
              kBlocks, static_cast<unsigned long long>(done.bytes),
              static_cast<unsigned long long>(done.first_layer_ns / kMicrosecond));
  client->release(hit.lease);
  return 0;
}
