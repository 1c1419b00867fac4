// Pulls and follows through the C door, and how far they are.
#include "client/c_border.h"
#include "client/c_memory.h"

namespace varve {

namespace {

// What both have: the same fields by the same names.
template <class Given, class Request>
void copy_common(const Given& in, Request& request, HandleOp& op) {
  request.layer_first = in.layer_first;
  request.layer_count = in.layer_count;
  request.deadline_ns = or_default(in.deadline_ns, request.deadline_ns);
  request.slack_ns = in.slack_ns;
  request.layer_ns = in.layer_ns;
  request.tag = in.tag;
  op.flags = in.flags;
  op.layer_first = in.layer_first;
  op.layer_count = in.layer_count;
  op.tag = in.tag;
}

template <class Request>
void place(const Handle::Where& where, Request& request) {
  request.format = where.format;
  request.rank = where.rank;
  request.layout = where.layout;
}

Status pull(Handle& handle, const varve_pull_request* given, varve_op* out) {
  varve_pull_request in;
  VARVE_RETURN_IF_ERROR(read_sized(given, in));
  VARVE_RETURN_IF_ERROR(check_flags(in.flags, VARVE_TELL_LAYERS));
  PullRequest request;
  HandleOp op;
  op.kind = VARVE_DONE_PULL;
  copy_common(in, request, op);
  request.lease = in.lease;
  BlocksOf blocks;
  VARVE_RETURN_IF_ERROR(read_blocks(handle, in.blocks, blocks, op));
  if (blocks.ids.empty()) return Status::invalid("pull: null ids");
  request.ids = std::move(blocks.ids);
  request.slots = std::move(blocks.slots);
  const auto run = [&](Client& client, const Handle::Where& where) {
    place(where, request);
    return client.pull(std::move(request));
  };
  VARVE_TRY(const OpId id, handle.submit(std::move(op), run));
  if (out != nullptr) *out = id;
  return Status();
}

Status follow(Handle& handle, const varve_follow_request* given, varve_op* out) {
  varve_follow_request in;
  VARVE_RETURN_IF_ERROR(read_sized(given, in));
  VARVE_RETURN_IF_ERROR(check_flags(in.flags, VARVE_TELL_LAYERS));
  FollowRequest request;
  HandleOp op;
  op.kind = VARVE_DONE_FOLLOW;
  copy_common(in, request, op);
  BlocksOf blocks;
  VARVE_RETURN_IF_ERROR(read_blocks(handle, in.blocks, blocks, op));
  if (in.tags == nullptr) return Status::invalid("follow: null tags");
  request.blocks.resize(in.blocks.count);
  std::memcpy(static_cast<void*>(request.blocks.data()), in.tags,
              in.blocks.count * sizeof(FollowTag));
  for (size_t i = 0; i < blocks.ids.size(); ++i) {
    if (blocks.ids[i] != request.blocks[i].id) {
      return Status::invalid("follow: an id is not that of its tag");
    }
  }
  request.slots = std::move(blocks.slots);
  const auto run = [&](Client& client, const Handle::Where& where) {
    place(where, request);
    return client.follow(std::move(request));
  };
  VARVE_TRY(const OpId id, handle.submit(std::move(op), run));
  if (out != nullptr) *out = id;
  return Status();
}

Outcome wait_layer(Handle& handle, OpId op, uint32_t layer, Nanos timeout_ns,
                   std::span<uint8_t> bitmap) {
  std::vector<Code> codes;
  const varve_status status = handle.wait_layer(op, layer, timeout_ns, codes);
  std::fill(bitmap.begin(), bitmap.end(), uint8_t{0});
  if (!bitmap.empty() && bitmap.size() < (codes.size() + 7) / 8) {
    return Status::invalid("wait_layer: the bitmap is too small");
  }
  for (size_t i = 0; i < codes.size() && !bitmap.empty(); ++i)
    bitmap[i / 8] |= static_cast<uint8_t>((codes[i] == Code::kOk ? 1u : 0u) << i % 8);
  return {status, varve_strerror(status)};
}

}  // namespace

}  // namespace varve

extern "C" {

varve_status varve_pull_submit(varve_client* client, const varve_pull_request* request,
                               varve_op* op) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::pull(handle, request, op);
  });
}

varve_status varve_follow_submit(varve_client* client, const varve_follow_request* request,
                                 varve_op* op) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::follow(handle, request, op);
  });
}

varve_status varve_layers_done(varve_client* client, varve_op op, uint32_t* layers) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    if (layers == nullptr) return varve::Status::invalid("layers_done: nowhere to put it");
    const varve_status status = handle.layers_done(op, *layers);
    return {status, varve_strerror(status)};
  });
}

varve_status varve_wait_layer(varve_client* client, varve_op op, uint32_t layer,
                              uint64_t timeout_ns, uint8_t* bitmap, size_t bitmap_bytes) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    if ((bitmap == nullptr) != (bitmap_bytes == 0)) {
      return varve::Status::invalid("wait_layer: a bitmap and its bytes");
    }
    return varve::wait_layer(handle, op, layer, timeout_ns, {bitmap, bitmap_bytes});
  });
}

}  // extern "C"
