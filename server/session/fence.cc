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

void Fences::fence(uint64_t op, const wire::Cancel& body, const PullPart& pull) {
  VARVE_ASSERT(body.block != wire::kWhole);
  VARVE_ASSERT(body.extent < kExtentsMax, body.extent);
  SessionContext& context = scope_.context;
  if (owed(body)) return;  // it is answered by the first
  if (count() >= context.options.fences_max) {
    return scope_.fail(Status::quota("fences_max CANCELs of extents are unanswered"));
  }
  PendingFence* fence = context.fences->take();
  if (fence == nullptr) {
    return scope_.fail(Status::overloaded("fences_sum_max CANCELs of extents are unanswered"));
  }
  fence->fences = this;
  fence->op = op;
  fence->answer = {body.target_op, body.block, body.extent};
  fence->began_ns = context.reactor.now_ns();
  live_.push_back(fence);
  FencePart& part = fence->part;
  part.session_reactor = &context.reactor;
  part.shard = pull.shard;
  part.status = Status();
  part.on_back = on_fenced;
  part.owner = fence;
  part.session = scope_.id;
  part.pull = &pull;
  part.number = pull.number;
  part.position = body.block;
  part.extent = body.extent;
  context.shards[pull.shard]->submit(part);
}

void Fences::on_fenced(Part& part) {
  auto& fence = *static_cast<PendingFence*>(part.owner);
  Fences& self = *fence.fences;
  SessionContext& context = self.scope_.context;
  VARVE_ASSERT(fence.linked());
  VARVE_ASSERT(part.status.ok());  // there is nothing that a home could refuse
  context.metrics.fence_ns.record(context.reactor.now_ns() - fence.began_ns);
  self.scope_.reply(context.encoder().fenced(fence.op, fence.answer));
  self.live_.remove(&fence);
  context.fences->give(&fence);
  self.scope_.something_ended();
}

}  // namespace varve
