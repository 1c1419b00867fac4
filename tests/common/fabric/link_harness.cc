// link_harness: see the header. Nothing here sleeps; loops are bounded by turns.
#include "tests/common/fabric/link_harness.h"

#include <algorithm>

namespace varve {

const char* fabric_kind_name(FabricKind kind) {
  switch (kind) {
    case FabricKind::kTcpUring:
      return "TcpUring";
    case FabricKind::kTcpEpoll:
      return "TcpEpoll";
    case FabricKind::kSim:
      return "Sim";
  }
  return "?";
}

ConstByteSpan text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

LinkWorld::LinkWorld(FabricKind kind, uint64_t seed) : kind_(kind) {
  const auto backend = [&]() -> std::unique_ptr<IoBackend> {
    if (kind == FabricKind::kSim) return nullptr;
    const auto preference =
        kind == FabricKind::kTcpUring ? IoBackendPreference::kUring : IoBackendPreference::kEpoll;
    auto choice = make_io_backend(preference, {});
    has_backend_ = choice.has_value();
    return has_backend_ ? std::move(choice->backend) : nullptr;
  };
  fabric_ = kind == FabricKind::kSim ? std::make_unique<SimFabric>(seed) : make_tcp_fabric();
  server_io_ = backend();
  client_io_ = backend();
  server_ = std::make_unique<Reactor>(clock_, server_io_.get(), ReactorOptions{});
  client_ = std::make_unique<Reactor>(clock_, client_io_.get(), ReactorOptions{.shard = 1});
}

LinkWorld::~LinkWorld() {
  if (kind_ != FabricKind::kSim && has_backend_) settle();
}

std::string LinkWorld::dead_address() {
  // Bound once, so that the number is free, then given up.
  auto listener = fabric_->listen(*server_, any_address(), {});
  VARVE_ASSERT(listener.has_value());
  const std::string address = (*listener)->address();
  (*listener)->stop();
  return address;
}

bool LinkWorld::turn_in_place(Turn which) {
  const bool worked = client_->turn();
  return which == Turn::kBoth && server_->turn() ? true : worked;
}

void LinkWorld::turn(Turn which) {
  const bool worked = turn_in_place(which);
  if (kind_ != FabricKind::kSim || worked) return;
  Nanos next_ns = client_->next_work_ns();
  if (which == Turn::kBoth) next_ns = std::min(next_ns, server_->next_work_ns());
  // Timers far away are for pass(): a stall must not come of waiting for nothing.
  if (next_ns > clock_.now_ns() && next_ns - clock_.now_ns() < kSecond) {
    clock_.advance_to(next_ns);
  }
}

void LinkWorld::settle(Turn which) {
  for (uint32_t i = 0; i < 2000; ++i)
    turn(which);
}

void LinkWorld::pass(Nanos duration_ns, Turn which) {
  constexpr uint32_t kSteps = 50;
  for (uint32_t i = 0; i < kSteps; ++i) {
    clock_.advance_by(duration_ns / kSteps);
    for (uint32_t t = 0; t < 20; ++t)
      turn_in_place(which);
  }
}

Status RecordingUser::place(ConstByteSpan head, uint32_t payload_bytes, Placement& where) {
  VARVE_ASSERT(!closed_ && !placed_ && payload_bytes > 0);
  if (at_place) at_place(head, payload_bytes);
  if (!place_status.ok()) return place_status;
  ++payloads_;
  discarded_ = discard_every != 0 && payloads_ % discard_every == 0;
  if (discarded_) return {};
  placed_ = true;
  for (uint32_t offset = 0; offset < payload_bytes; offset += piece_bytes) {
    where.add(memory_.data() + offset, std::min(piece_bytes, payload_bytes - offset));
  }
  return {};
}

void RecordingUser::on_message(ConstByteSpan head, uint32_t payload_bytes) {
  VARVE_ASSERT(!closed_);
  VARVE_ASSERT(placed_ == (payload_bytes > 0 && !discarded_));
  ++count_;
  if (keep) {
    Message message;
    message.head.assign(reinterpret_cast<const char*>(head.data()), head.size());
    if (placed_) message.payload.assign(memory_.begin(), memory_.begin() + payload_bytes);
    messages_.push_back(std::move(message));
  }
  placed_ = discarded_ = false;
  if (at_message) at_message(head);
}

void RecordingUser::on_closed(Status cause) {
  VARVE_ASSERT(!closed_);
  closed_ = true;
  cause_ = cause;
  if (at_closed) at_closed();
  link_.reset();  // allowed here, see the door
}

LinkPair::LinkPair(LinkWorld& world, const LinkOptions& server_options,
                   const LinkOptions& client_options)
    : world_(world), client_options_(client_options) {
  auto listener = world.fabric().listen(world.server(), world.any_address(), server_options);
  VARVE_ASSERT(listener.has_value());
  listener_ = std::move(*listener);
  listener_->start(server);
}

LinkPair::~LinkPair() {
  close();
}

bool LinkPair::connect() {
  auto link = world_.fabric().connect(world_.client(), listener_->address(), client_options_);
  if (!link.has_value()) return false;
  client.take(std::move(*link));
  return world_.until([&] { return server.link() != nullptr; });
}

void LinkPair::close() {
  listener_->stop();
  for (RecordingUser* user : {&server, &client}) {
    if (user->link() != nullptr) user->link()->close(Status::cancelled("end of test"));
  }
  const bool closed =
      world_.until([&] { return server.link() == nullptr && client.link() == nullptr; });
  VARVE_ASSERT(closed);
}

TestMessage::TestMessage(Random& random, uint32_t head_bytes, uint32_t payload_bytes,
                         uint32_t pieces) {
  head.resize(head_bytes);
  payload.resize(payload_bytes);
  for (char& c : head)
    c = static_cast<char>(random.next());
  for (std::byte& b : payload)
    b = static_cast<std::byte>(random.next());
  request.head = text_bytes(head);
  request.owner = this;
  request.on_sent = [](SendRequest& r) { ++static_cast<TestMessage*>(r.owner)->completions; };
  uint32_t offset = 0;
  for (uint32_t i = 0; i < pieces && offset < payload_bytes; ++i) {
    const uint32_t left = payload_bytes - offset;
    const uint32_t bytes = i + 1 == pieces ? left : std::max(1u, left / (pieces - i));
    request.payload[request.payload_count++] = iovec{payload.data() + offset, bytes};
    offset += bytes;
  }
}

}  // namespace varve
