// Regions, layouts and lists of buffers through the C door.
#include "client/c_memory.h"

#include <numeric>

#include "client/c_border.h"

namespace varve {

namespace {

Status register_region(Handle& handle, const varve_region_desc* given, varve_region* out) {
  varve_region_desc desc;
  VARVE_RETURN_IF_ERROR(read_sized(given, desc));
  if (out == nullptr) return Status::invalid("region: nowhere to put it");
  switch (desc.kind) {
    case VARVE_MEMORY_HOST:
      break;
    case VARVE_MEMORY_SHARED:
      return Status::unsupported("region: no memory by descriptor (VARVE_CAN_SHARED_REGIONS)");
    case VARVE_MEMORY_CUDA:
      return Status::unsupported("region: no memory of a GPU (VARVE_CAN_CUDA_REGIONS)");
    default:
      return Status::invalid("region: no such kind of memory");
  }
  VARVE_TRY(*out, handle.client().register_memory(desc.data, desc.bytes));
  return Status();
}

Status define_layout(Handle& handle, const varve_layout_desc* given, varve_layout* out) {
  varve_layout_desc desc;
  VARVE_RETURN_IF_ERROR(read_sized(given, desc));
  if (out == nullptr || desc.layers == nullptr) return Status::invalid("layout: a null");
  if (desc.layer_count > kLayersMax) return Status::invalid("layout: at most 1024 layers");
  Layout layout;
  for (const varve_layer_layout& layer : std::span(desc.layers, desc.layer_count)) {
    layout.layers.push_back({.region = layer.region,
                             .offset = layer.offset,
                             .stride = layer.stride,
                             .segments = std::max(layer.segments, 1u),
                             .segment_stride = layer.segment_stride});
  }
  VARVE_TRY(*out, handle.define(std::move(layout), desc.format, desc.rank));
  return Status();
}

}  // namespace

Status read_blocks(const Handle& handle, const varve_blocks& blocks, BlocksOf& out, HandleOp& op) {
  if (blocks.count == 0 || blocks.count > wire::kIdsMax) {
    return Status::invalid("blocks: 1 to 2048 of one op; split the prefix");
  }
  op.count = blocks.count;
  if (blocks.ids != nullptr) out.ids = from_c(blocks.ids, blocks.count);
  if (blocks.layout != 0) {
    if (blocks.buffers != nullptr) return Status::invalid("blocks: a layout or buffers, not both");
    if (blocks.slots == nullptr) return Status::invalid("blocks: a layout wants slots");
    out.slots.assign(blocks.slots, blocks.slots + blocks.count);
    op.layout = blocks.layout;
    return Status();
  }
  if (blocks.buffers == nullptr) return Status::invalid("blocks: neither layout nor buffers");
  VARVE_TRY(const uint32_t layers, handle.layers_of(blocks.format, blocks.rank));
  op.own = std::make_unique<Layout>();
  for (const varve_buffer& b : std::span(blocks.buffers, size_t{layers} * blocks.count))
    op.own->buffers.push_back({b.data, b.bytes});
  op.format = blocks.format;
  op.rank = blocks.rank;
  if (op.layer_count == 0) op.layer_count = layers - std::min(layers, op.layer_first);
  out.slots.resize(blocks.count);
  std::iota(out.slots.begin(), out.slots.end(), 0u);
  return Status();
}

}  // namespace varve

extern "C" {

varve_status varve_region_register(varve_client* client, const varve_region_desc* desc,
                                   varve_region* region) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::register_region(handle, desc, region);
  });
}

varve_status varve_region_unregister(varve_client* client, varve_region region) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return handle.client().unregister_memory(region);
  });
}

varve_status varve_layout_define(varve_client* client, const varve_layout_desc* desc,
                                 varve_layout* layout) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::define_layout(handle, desc, layout);
  });
}

varve_status varve_layout_undefine(varve_client* client, varve_layout layout) {
  return varve::border(
      client, [&](varve::Handle& handle) -> varve::Outcome { return handle.undefine(layout); });
}

}  // extern "C"
