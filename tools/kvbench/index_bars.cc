// Both bars fill one index to its capacity with ids as a hash makes them: uniform, no order.
#include "tools/kvbench/index_bars.h"

#include <unistd.h>

#include <cstdio>

#include "common/time/time.h"
#include "server/index/index.h"
#include "server/policy/policy.h"

namespace varve::kvbench {

namespace {

constexpr const char* kIdsOnly = "no block has bytes here: a table of ids is asked";

constexpr double kMatchTarget = 3e6;  // base ids a second and core
constexpr double kBytesTarget = 96;   // a fragment

std::vector<BaseId> make_ids(uint32_t count) {
  Random random(20260802);
  std::vector<BaseId> ids(count);
  for (BaseId& id : ids) {
    for (size_t i = 0; i < id.bytes.size(); i += 8)
      store(ByteSpan(id.bytes), i, random.next());
  }
  return ids;
}

void shuffle(std::vector<BaseId>& ids) {
  Random random(7);
  for (size_t i = ids.size(); i > 1; --i)
    std::swap(ids[i - 1], ids[random.below(i)]);
}

// Inserts every id as a block on flash, with all its fragments; how many went in.
uint32_t fill(Index& index, uint32_t width, EvictionPolicy* policy,
              const std::vector<BaseId>& ids) {
  uint32_t done = 0;
  for (const BaseId& id : ids) {
    const flash::Place place{.target = static_cast<uint8_t>(done % 4),
                             .slice = static_cast<uint8_t>(done % 16),
                             .segment = static_cast<uint16_t>(done / 4096),
                             .page = 1 + done % 4000,
                             .pages = 16,
                             .lead_pages = 2};
    Located located;
    if (index.insert({id, 0}, BlockState::kMemory, &located) != Index::Insert::kDone) break;
    for (uint32_t p = 0; p < width; ++p)
      index.place_add(located, p, place);
    index.settle(located);
    if (policy != nullptr) policy->insert(located.base_slot, place.slice);
    ++done;
  }
  return done;
}

uint64_t resident_bytes() {
  unsigned long long size = 0, resident = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  const int read = std::fscanf(file, "%llu %llu", &size, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

Bar match_bar(const IndexBarOptions& options) {
  Bar bar;
  bar.name = "match";
  bar.unverified = kIdsOnly;
  bar.unit = "ids/s";
  bar.target = kMatchTarget;
  std::vector<BaseId> ids = make_ids(options.fragments);
  Index index({.blocks_max = options.fragments, .hash_seed = 11});
  if (fill(index, 1, nullptr, ids) != options.fragments) {
    bar.refused = "the index did not take all entries";
    return bar;
  }
  shuffle(ids);  // random access: the order of asking is not that of inserting
  const uint32_t prefixes = options.fragments / options.prefix_ids;
  const SystemClock clock;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    const Nanos begin_ns = clock.now_ns();
    uint64_t hits = 0;
    for (uint32_t p = 0; p < prefixes; ++p) {
      hits += index.match(kDomainDefault,
                          {ids.data() + uint64_t{p} * options.prefix_ids, options.prefix_ids}, 1);
    }
    const Nanos took_ns = clock.now_ns() - begin_ns;
    if (hits != uint64_t{prefixes} * options.prefix_ids) {
      bar.refused = "ids that are there were not found";
      return bar;
    }
    bar.rounds.push_back(static_cast<double>(hits) * 1e9 / static_cast<double>(took_ns));
  }
  bar.fact("entries", std::to_string(options.fragments) + " (load 0.8)");
  bar.fact("prefix", std::to_string(options.prefix_ids) + " ids, " + std::to_string(prefixes) +
                         " of them a round, random access, all hits");
  return bar;
}

Bar index_bytes_bar(const IndexBarOptions& options) {
  Bar bar;
  bar.name = "index_bytes_per_fragment";
  bar.unverified = kIdsOnly;
  bar.unit = "bytes";
  bar.target = kBytesTarget;
  bar.sense = Sense::kAtMost;
  const std::vector<BaseId> ids = make_ids(options.fragments);
  const uint64_t before_bytes = resident_bytes();
  Index index({.blocks_max = options.fragments, .hash_seed = 11});
  const auto policy = make_leaf_first_lru(options.fragments, kSlicesDefault);
  if (fill(index, 1, policy.get(), ids) != options.fragments) {
    bar.refused = "the index did not take all entries";
    return bar;
  }
  const uint64_t grown_bytes = resident_bytes() - before_bytes;
  bar.rounds.push_back(static_cast<double>(index.memory_bytes()) / index.block_count());
  bar.fact("fragments", std::to_string(index.block_count()) + " of one rank (load 0.8)");
  bar.fact("counted", "entries, fragments, buckets, eviction links, map to blocks in DRAM");
  for (const Scheme scheme : {Scheme{2, 1}, Scheme{4, 2}}) {
    Index coded({.blocks_max = options.fragments / scheme.width(), .scheme = scheme});
    if (fill(coded, scheme.width(), nullptr, ids) != coded.blocks_max()) {
      bar.refused = "the index did not take all blocks of " + scheme.text();
      return bar;
    }
    const auto fragments = static_cast<double>(uint64_t{coded.block_count()} * scheme.width());
    bar.fact(scheme.text(), number_text(static_cast<double>(coded.memory_bytes()) / fragments) +
                                " bytes a fragment");
  }
  bar.fact("resident", number_text(static_cast<double>(grown_bytes) / index.block_count()) +
                           " bytes a fragment grew the process by index and eviction links");
  return bar;
}

}  // namespace varve::kvbench
