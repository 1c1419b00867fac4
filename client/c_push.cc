// Pushes through the C door: whole blocks, or layer by layer.
#include "client/c_border.h"
#include "client/c_memory.h"

namespace varve {

namespace {

static_assert(ClientCore::kEveryLayer == VARVE_NONE);

Status push(Handle& handle, const varve_push_request* given, varve_op* out) {
  varve_push_request in;
  VARVE_RETURN_IF_ERROR(read_sized(given, in));
  VARVE_RETURN_IF_ERROR(
      check_flags(in.flags, VARVE_TELL_RESERVED | VARVE_PUSH_FINAL | VARVE_PUSH_CACHED));
  const bool is_final = (in.flags & VARVE_PUSH_FINAL) != 0;
  if (!is_final && out == nullptr) return Status::invalid("push: its layers need the op");
  HandleOp op;
  op.kind = VARVE_DONE_PUSH;
  op.flags = in.flags;
  op.tag = in.tag;
  BlocksOf blocks;
  VARVE_RETURN_IF_ERROR(read_blocks(handle, in.blocks, blocks, op));
  if (blocks.ids.empty()) return Status::invalid("push: null ids");
  PushRequest request;
  request.parent = from_c(in.parent);
  request.ids = std::move(blocks.ids);
  request.slots = std::move(blocks.slots);
  const bool cached = (in.flags & VARVE_PUSH_CACHED) != 0;
  request.ack = cached ? wire::AckKind::kCached : wire::AckKind::kDurable;
  request.deadline_ns = or_default(in.deadline_ns, request.deadline_ns);
  request.tag = in.tag;
  const auto run = [&](Client& client, const Handle::Where& where) {
    request.format = where.format;
    request.rank = where.rank;
    request.layout = where.layout;
    return client.push(std::move(request));
  };
  VARVE_TRY(const OpId id, handle.submit(std::move(op), run));
  if (out != nullptr) *out = id;
  if (!is_final) return Status();
  return handle.client().push_layer(id, ClientCore::kEveryLayer);
}

}  // namespace

}  // namespace varve

extern "C" {

varve_status varve_push_submit(varve_client* client, const varve_push_request* request,
                               varve_op* op) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    return varve::push(handle, request, op);
  });
}

varve_status varve_push_layer(varve_client* client, varve_op op, uint32_t layer) {
  return varve::border(client, [&](varve::Handle& handle) -> varve::Outcome {
    if (!handle.knows(op)) return {VARVE_UNKNOWN, "push_layer: no such op, or it was taken"};
    return handle.client().push_layer(op, layer);
  });
}

}  // extern "C"
