// Ceiling: the rounds of a raw socket, one for each line that asks for one.
#include "tools/demo/ceiling.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/kvbench/socket_ceiling.h"

namespace varve::demo {

int serve_ceiling(const CeilingOptions& options) {
  kvbench::SocketCeilingOptions raw;
  // Small layers travel together: an extent is what a message is made of.
  const uint64_t block_bytes = uint64_t{options.layers} * options.layer_bytes;
  raw.shape.layer_bytes = std::max(options.layer_bytes, kvbench::kPageOfLayerBytes);
  raw.shape.layers = static_cast<uint32_t>(block_bytes / raw.shape.layer_bytes);
  raw.shape.blocks = options.blocks;
  raw.connections = options.lanes;
  if (raw.shape.layer_bytes % kvbench::kPageOfLayerBytes != 0 || raw.shape.layers == 0) {
    std::cerr << "varve_demo: the raw socket moves extents of whole 64 KiB\n";
    return 2;
  }
  auto ceiling = kvbench::SocketCeiling::start(raw);
  auto set = kvbench::WorkingSet::make(raw.shape);
  if (!ceiling || !set) {
    const Status why = ceiling ? set.error() : ceiling.error();
    std::cerr << "varve_demo: the raw socket: " << why.what() << "\n";
    return 1;
  }
  std::cout << nlohmann::json{{"message_bytes",
                               std::min(raw.shape.layer_bytes, kvbench::kPieceBytes)},
                              {"lanes", options.lanes}}
            << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const Result<Nanos> took = (*ceiling)->round(**set);
    if (!took) {
      std::cerr << "varve_demo: the raw socket: " << took.error().what() << "\n";
      return 1;
    }
    std::cout << nlohmann::json{{"bytes", raw.shape.bytes()}, {"ns", *took}} << std::endl;
  }
  return 0;
}

}  // namespace varve::demo
