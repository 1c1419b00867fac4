// World: the mix of formats, the ids of a folder, and a client's seat.
#include "tools/ledger/world.h"

#include <poll.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace varve::ledger {

namespace {

constexpr uint32_t kTokensPerBlock = 4;  // short runs: their bytes do not matter here
constexpr Nanos kReadyTimeout = 10 * kSecond;

Format format_of(uint32_t number, uint32_t folder) {
  Format format;
  format.model.bytes.fill(std::byte{0x1E});
  format.lineage = "ledger-" + std::to_string(folder) + "-" + std::to_string(number);
  format.tokens_per_block = kTokensPerBlock;
  return format;
}

std::vector<LayerSpec> layers_of(std::initializer_list<uint32_t> bytes) {
  std::vector<LayerSpec> layers;
  for (const uint32_t b : bytes)
    layers.push_back({LayerKind::kFull, b});
  return layers;
}

}  // namespace

std::vector<Kind> make_kinds(uint32_t folder, uint32_t scale) {
  std::vector<Kind> kinds(4);
  for (uint32_t k = 0; k < kinds.size(); ++k)
    kinds[k].format = format_of(k, folder);
  // Small layers that run together into one extent; odd sizes, so that padding is there.
  kinds[0].format.ranks = {layers_of({1000, 2000, 808, 4096})};
  kinds[0].id_count = 480 * scale;
  // A few extents of different size, the usual shape.
  kinds[1].format.ranks = {layers_of({65536, 65536, 40000, 65536, 9000})};
  kinds[1].id_count = 256 * scale;
  // Two ranks that differ.
  kinds[2].format.ranks = {layers_of({70000, 100000}), layers_of({30000, 20000, 66000})};
  kinds[2].id_count = 128 * scale;
  // Large: over a MiB in one extent, more than DRAM keeps of the whole set.
  kinds[3].format.ranks = {layers_of({1048576, 700000, 1200000})};
  kinds[3].id_count = 24 * scale;
  return kinds;
}

Status make_ids(Client& client, std::vector<Kind>& kinds) {
  for (uint32_t k = 0; k < kinds.size(); ++k) {
    Kind& kind = kinds[k];
    VARVE_TRY(const FormatId format, client.format(kind.format));
    kind.ids.clear();
    for (uint32_t first = 0; first < kind.id_count; first += kChainBlocks) {
      std::vector<uint32_t> tokens(kChainBlocks * kTokensPerBlock);
      std::iota(tokens.begin(), tokens.end(), first * kTokensPerBlock);
      VARVE_TRY(const auto ids, client.base_ids(format, BaseId(), tokens));
      VARVE_ASSERT(ids.size() == kChainBlocks);
      kind.ids.insert(kind.ids.end(), ids.begin(), ids.end());
    }
  }
  return Status();
}

uint64_t bytes_of_all(const std::vector<Kind>& kinds) {
  uint64_t bytes = 0;
  for (const Kind& kind : kinds) {
    for (uint32_t r = 0; r < kind.format.rank_count(); ++r)
      bytes += kind.format.block_bytes(r) * kind.id_count;
  }
  return bytes;
}

// All kinds and ranks share the memory: a seat has one op at a time.
Seat::Seat(const std::vector<Kind>& kinds) {
  uint64_t most = 0;
  for (const Kind& kind : kinds) {
    auto& layouts = layouts_.emplace_back();
    auto& sizes = layer_bytes_.emplace_back();
    for (const auto& rank : kind.format.ranks) {
      Layout layout;
      std::vector<uint32_t> bytes;
      uint64_t offset = 0;
      for (const LayerSpec& spec : rank) {
        LayerLayout layer;
        layer.offset = offset;
        layer.stride = round_up(spec.bytes, 64);
        offset += layer.stride * kSlots;
        layout.layers.push_back(layer);
        bytes.push_back(spec.bytes);
      }
      most = std::max(most, offset);
      layouts.push_back(std::move(layout));
      sizes.push_back(std::move(bytes));
    }
  }
  memory_.resize(most);
}

Status Seat::connect(const std::string& address, const std::vector<Kind>& kinds) {
  ClientOptions options;
  options.address = address;
  options.name = "ledger";
  options.bulk_lanes = 2;
  VARVE_TRY(client_, Client::open(options));
  VARVE_RETURN_IF_ERROR(client_->wait_ready(kReadyTimeout));
  VARVE_TRY(const RegionId region, client_->register_memory(memory_.data(), memory_.size()));
  formats_.clear();
  for (uint32_t k = 0; k < kinds.size(); ++k) {
    VARVE_TRY(const FormatId format, client_->format(kinds[k].format));
    formats_.push_back(format);
    for (Layout& layout : layouts_[k]) {
      for (LayerLayout& layer : layout.layers)
        layer.region = region;
    }
  }
  return Status();
}

ByteSpan Seat::layer(uint32_t kind, uint32_t rank, uint32_t layer, uint32_t slot) {
  VARVE_ASSERT(slot < kSlots, slot);
  const LayerLayout& at = layouts_[kind][rank].layers[layer];
  return {memory_.data() + at.offset + slot * at.stride, layer_bytes_[kind][rank][layer]};
}

void Seat::fill(const Kind& kind, uint32_t kind_index, const BlockId& block, uint32_t slot,
                Salt salt) {
  for (uint32_t l = 0; l < kind.format.ranks[block.rank].size(); ++l)
    fill_layer(block, l, salt, layer(kind_index, block.rank, l, slot));
}

std::optional<Salt> Seat::writer(const Kind& kind, uint32_t kind_index, const BlockId& block,
                                 uint32_t slot) {
  std::vector<ConstByteSpan> layers;
  for (uint32_t l = 0; l < kind.format.ranks[block.rank].size(); ++l)
    layers.push_back(layer(kind_index, block.rank, l, slot));
  return writer_of(block, layers);
}

Result<Event> Seat::next(OpId op, Nanos timeout_ns) {
  const SystemClock clock;
  const Nanos until = clock.now_ns() + timeout_ns;
  if (terminal_) {
    Event event = *std::exchange(terminal_, std::nullopt);
    if (event.op == op) return event;
  }
  Event event;
  for (;;) {
    while (client_->poll(event)) {
      if (event.op == op) return event;
    }
    const Nanos now = clock.now_ns();
    if (now >= until) return Status::timed_out("an op has no event");
    pollfd fd{client_->event_fd(), POLLIN, 0};
    ::poll(&fd, 1, static_cast<int>((until - now) / kMillisecond + 1));
  }
}

void Seat::await_reserved(OpId op, Nanos timeout_ns, Reserved* reserved) {
  Result<Event> event = next(op, timeout_ns);
  if (!event) return;
  if (event->kind != Event::Kind::kReserved) {
    terminal_ = *std::move(event);
    return;
  }
  reserved->codes = event->codes;
  reserved->granted.insert(reserved->granted.end(), event->granted.begin(), event->granted.end());
}

Result<Event> Seat::ended(OpId op, Nanos timeout_ns, Reserved* reserved) {
  const SystemClock clock;
  const Nanos until = clock.now_ns() + timeout_ns;
  for (;;) {
    VARVE_TRY(Event event, next(op, std::max<Nanos>(0, until - clock.now_ns())));
    if (event.kind == Event::Kind::kLayer) continue;
    if (event.kind != Event::Kind::kReserved) return event;
    if (reserved != nullptr) reserved->codes = event.codes;
  }
}

void Seat::poison(const Kind& kind, uint32_t kind_index, uint32_t rank, uint32_t slot) {
  for (uint32_t l = 0; l < kind.format.ranks[rank].size(); ++l) {
    const ByteSpan bytes = layer(kind_index, rank, l, slot);
    std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});
  }
}

}  // namespace varve::ledger
