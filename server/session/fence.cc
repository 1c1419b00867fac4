// The way of a FencePart to one home and back.
#include "server/session/fence.h"

namespace varve {

bool Fences::owed(const wire::Cancel& body) const {
  // At most fences_max nodes for a frame that a client sends once per late extent.
  for (PendingFence* fence = live_.front(); fence != nullptr; fence = live_.next(fence)) {
    const wire::Fenced& answer = fence->answer;
    if (answer.target_op == body.target_op && answer.block == body.block &&
        answer.extent == body.extent) {
      return true;
    }
  }
  return false;
}

// Null: it is owed already, or the session goes.
PendingFence* Fences::take(uint64_t op, const wire::Cancel& body) {
  VARVE_ASSERT(body.block != wire::kWhole);
  VARVE_ASSERT(body.extent < kExtentsMax, body.extent);
  SessionContext& context = scope_.context;
  if (owed(body)) return nullptr;  // it is answered by the first
  if (count() >= context.options.fences_max) {
    scope_.fail(Status::quota("fences_max CANCELs of extents are unanswered"));
    return nullptr;
  }
  PendingFence* fence = context.fences->take(scope_.domain);
  if (fence == nullptr) {
    scope_.fail(Status::overloaded("fences_sum_max CANCELs of extents are unanswered"));
    return nullptr;
  }
  fence->fences = this;
  fence->op = op;
  fence->at_end = false;
  fence->answer = {body.target_op, body.block, body.extent};
  fence->began_ns = context.reactor.now_ns();
  live_.push_back(fence);
  return fence;
}

void Fences::fence(uint64_t op, const wire::Cancel& body, const PullPart& pull) {
  PendingFence* fence = take(op, body);
  if (fence == nullptr) return;
  FencePart& part = fence->part;
  part.session_reactor = &scope_.context.reactor;
  part.shard = pull.shard;
  part.status = Status();
  part.on_back = on_fenced;
  part.owner = fence;
  scope_.sign(part);
  part.pull = &pull;
  part.number = pull.number;
  part.position = body.block;
  part.extent = body.extent;
  scope_.context.shards[pull.shard]->submit(part);
}

void Fences::fence_at_end(uint64_t op, const wire::Cancel& body) {
  if (PendingFence* fence = take(op, body); fence != nullptr) fence->at_end = true;
}

void Fences::op_ended(uint64_t target_op) {
  PendingFence* next = nullptr;
  for (PendingFence* fence = live_.front(); fence != nullptr; fence = next) {
    next = live_.next(fence);
    if (fence->at_end && fence->answer.target_op == target_op) answer(*fence);
  }
}

void Fences::on_fenced(Part& part) {
  auto& fence = *static_cast<PendingFence*>(part.owner);
  VARVE_ASSERT(part.status.ok());  // there is nothing that a home could refuse
  VARVE_ASSERT(!fence.at_end);
  fence.fences->answer(fence);
}

void Fences::answer(PendingFence& fence) {
  SessionContext& context = scope_.context;
  VARVE_ASSERT(fence.linked());
  context.metrics.fence_ns.record(context.reactor.now_ns() - fence.began_ns);
  scope_.reply(context.encoder().fenced(fence.op, fence.answer));
  live_.remove(&fence);
  context.fences->give(&fence, scope_.domain);
  scope_.something_ended();
}

}  // namespace varve
