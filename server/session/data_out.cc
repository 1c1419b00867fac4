// The choice of lane, the waiting queues, and the way back home.
#include "server/session/data_out.h"

#include "server/session/requests.h"

namespace varve {

DataOut::Waiting& DataOut::Out::queue_of(const PendingPull& pull) {
  return pull.want_count > 0 ? wanted : waiting;
}

bool DataOut::Out::has_room(uint64_t bytes) const {
  if (queued_bytes > 0 && queued_bytes + bytes > kLaneBytesMax) return false;
  return lane->can_send(static_cast<uint32_t>(bytes));
}

void DataOut::attach(uint32_t lane_index, Lane& lane) {
  VARVE_ASSERT(lane_index < wire::kBulkLanesMax, lane_index);
  VARVE_ASSERT(!attached(lane_index));
  lanes_[lane_index].lane = &lane;
}

bool DataOut::any_lane() const {
  for (const Out& out : lanes_) {
    if (out.lane != nullptr) return true;
  }
  return false;
}

void DataOut::detach(uint32_t lane_index, Status cause) {
  Out& out = lanes_[lane_index];
  out.lane = nullptr;
  while (DataSend* send = out.first().pop())
    post_back(*send, cause);
  out.waiting_bytes = 0;
}

// The first piece of an extent chooses, the others follow it.
uint32_t DataOut::choose(PendingPull& pull, const DataSend& send) {
  PendingPull::BlockLane& last = pull.lane_of_block[send.data.block];
  if (send.data.offset > 0) {
    VARVE_ASSERT(last.extent == send.data.extent, last.extent, send.data.extent);
    return last.lane;
  }
  uint32_t best = wire::kBulkLanesMax;
  uint64_t best_bytes = ~uint64_t{0};
  for (uint32_t n = 0; n < wire::kBulkLanesMax; ++n) {
    const uint32_t i = (turn_ + n) % wire::kBulkLanesMax;
    const Out& out = lanes_[i];
    const uint64_t bytes = out.queued_bytes + out.waiting_bytes;
    if (out.lane == nullptr || bytes >= best_bytes) continue;
    best = i;
    best_bytes = bytes;
  }
  turn_ = best + 1;
  last.extent = static_cast<uint16_t>(send.data.extent);
  last.lane = static_cast<uint8_t>(best);
  return best;
}

void DataOut::send(DataSend& send) {
  auto& pull = *static_cast<PendingPull*>(send.part->owner);
  VARVE_ASSERT(send.data.block < pull.ids.count, send.data.block, pull.ids.count);
  const uint64_t bytes = send.request.payload_bytes();
  VARVE_ASSERT(bytes > 0 && bytes <= kPayloadBytesMax, bytes);
  if (scope_.over()) return post_back(send, Status::unavailable("the session ended"));
  if (pull.stopped()) {
    credit_.take_back(bytes);
    return post_back(send, Status::cancelled("the pull was cancelled"));
  }
  const uint32_t lane_index = choose(pull, send);
  if (lane_index == wire::kBulkLanesMax || lanes_[lane_index].lane == nullptr) {
    return post_back(send, Status::unavailable("no bulk lane"));
  }
  Out& out = lanes_[lane_index];
  out.queue_of(pull).push(&send);
  out.waiting_bytes += bytes;
  pump(out);
}

void DataOut::hand_over(Out& out, DataSend& send) {
  auto& pull = *static_cast<PendingPull*>(send.part->owner);
  const uint64_t bytes = send.request.payload_bytes();
  send.request.head = scope_.context.encoder().data(pull.op, send.data);
  send.request.owner = &send;
  send.request.on_sent = on_sent;
  send.out = &out;
  send.out_owner = this;
  credit_.sent(bytes);
  pull.sent_bytes += bytes;
  pull.lane_bytes += bytes;
  out.queued_bytes += bytes;
  ++out.queued_sends;
  scope_.context.metrics.pulled_bytes.add(bytes);
  scope_.counts->pulled_bytes.add(bytes);
  (send.from_dram ? scope_.counts->pulled_dram : scope_.counts->pulled_flash).add(bytes);
  out.lane->send(send.request);
}

void DataOut::on_sent(SendRequest& request) {
  auto& send = *static_cast<DataSend*>(request.owner);
  auto& self = *static_cast<DataOut*>(send.out_owner);
  auto& out = *static_cast<Out*>(send.out);
  VARVE_ASSERT(out.queued_sends > 0);
  --out.queued_sends;
  VARVE_ASSERT(out.queued_bytes >= request.payload_bytes(), out.queued_bytes);
  out.queued_bytes -= request.payload_bytes();
  auto& pull = *static_cast<PendingPull*>(send.part->owner);
  VARVE_ASSERT(pull.lane_bytes >= request.payload_bytes(), pull.lane_bytes);
  pull.lane_bytes -= request.payload_bytes();
  self.post_back(send, request.status);
  self.pump(out);
}

void DataOut::pump(Out& out) {
  while (out.waiting_bytes > 0 && out.lane != nullptr) {
    const uint64_t bytes = out.first().front()->request.payload_bytes();
    if (!out.has_room(bytes)) return;
    DataSend* send = out.first().pop();
    out.waiting_bytes -= bytes;
    hand_over(out, *send);
  }
}

void DataOut::drop(const PendingPull& pull) {
  for (Out& out : lanes_)
    drop(pull, out, out.queue_of(pull));
}

void DataOut::drop(const PendingPull& pull, Out& out, Waiting& waiting) {
  Waiting kept;
  while (DataSend* send = waiting.pop()) {
    if (send->part->owner != &pull) {
      kept.push(send);
      continue;
    }
    const uint64_t bytes = send->request.payload_bytes();
    out.waiting_bytes -= bytes;
    credit_.take_back(bytes);
    post_back(*send, Status::cancelled("the pull was cancelled"));
  }
  waiting.append(kept);
}

uint64_t DataOut::queued_bytes() const {
  uint64_t sum = 0;
  for (const Out& out : lanes_)
    sum += out.queued_bytes;
  return sum;
}

bool DataOut::idle() const {
  for (const Out& out : lanes_) {
    if (out.queued_sends > 0 || out.waiting_bytes > 0) return false;
  }
  return true;
}

void DataOut::post_back(DataSend& send, Status status) {
  VARVE_ASSERT(send.back != nullptr);
  send.status = status;
  send.message.deliver = send.back;
  send.message.owner = &send;
  scope_.context.post_to_home(*send.part, send.message);
}

}  // namespace varve
