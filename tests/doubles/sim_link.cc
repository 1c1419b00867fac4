// The life of one simulated end. Everything that happens to it happens in a timer of its own
// reactor; the peer only arms those timers.
#include "tests/doubles/sim_link.h"

#include <algorithm>
#include <utility>

namespace varve {

namespace {

// Copies bytes [offset, offset + bytes) of one scatter list to the same bytes of another.
void copy_range(const iovec* source, uint32_t source_count, const iovec* target,
                uint32_t target_count, uint32_t offset, uint32_t bytes) {
  uint32_t s = 0, t = 0;
  uint64_t s_skip = offset, t_skip = offset;
  while (bytes > 0) {
    while (s < source_count && s_skip >= source[s].iov_len)
      s_skip -= source[s++].iov_len;
    while (t < target_count && t_skip >= target[t].iov_len)
      t_skip -= target[t++].iov_len;
    VARVE_ASSERT(s < source_count && t < target_count);
    const uint64_t n =
        std::min<uint64_t>({bytes, source[s].iov_len - s_skip, target[t].iov_len - t_skip});
    std::memcpy(static_cast<std::byte*>(target[t].iov_base) + t_skip,
                static_cast<const std::byte*>(source[s].iov_base) + s_skip, n);
    s_skip += n;
    t_skip += n;
    bytes -= static_cast<uint32_t>(n);
  }
}

uint32_t payload_crc(const SendRequest& request) {
  uint32_t crc = 0;
  for (uint32_t i = 0; i < request.payload_count; ++i) {
    const iovec& piece = request.payload[i];
    crc = crc32c(crc, {static_cast<const std::byte*>(piece.iov_base), piece.iov_len});
  }
  return crc;
}

}  // namespace

SimLink::SimLink(SimFabric& fabric, Reactor& reactor, const std::string& address,
                 const LinkOptions& options)
    : fabric_(fabric),
      reactor_(reactor),
      address_(address),
      options_(options),
      id_(++fabric.link_ids_),
      head_bytes_max_(options.head_bytes_max) {
  for (Timer* timer : {&receive_, &ack_, &lost_timer_, &end_, &stall_})
    timer->owner = this;
  receive_.on_fire = [](Timer& t) { static_cast<SimLink*>(t.owner)->on_receive(); };
  ack_.on_fire = [](Timer& t) { static_cast<SimLink*>(t.owner)->on_ack(); };
  lost_timer_.on_fire = [](Timer& t) { static_cast<SimLink*>(t.owner)->on_lost(); };
  end_.on_fire = [](Timer& t) { static_cast<SimLink*>(t.owner)->finish(); };
  stall_.on_fire = [](Timer& t) { static_cast<SimLink*>(t.owner)->check_stall(); };
  fabric_.links_.push_back(this);
}

SimLink::~SimLink() {
  VARVE_ASSERT(state_ == State::kFresh || state_ == State::kClosed || state_ == State::kDead);
  if (peer_ != nullptr) {  // never started: the other end sees the connection close
    SimLink* peer = peer_;
    peer->peer_ = peer_ = nullptr;
    peer->lose_peer(Status::unavailable("peer closed"), reactor_.now_ns());
  }
  if (state_ == State::kFresh) {
    for (Timer* timer : {&receive_, &lost_timer_})
      reactor_.cancel(*timer);
  }
  fabric_.remove(*this);
}

void SimLink::start(LinkUser& user) {
  VARVE_ASSERT(state_ == State::kFresh && reactor_.on_owner_core());
  user_ = &user;
  send_progress_ns_ = reactor_.now_ns();
  if (!connects_) {
    state_ = State::kOpen;
    expect();
    if (!lost_.ok() && !is_silent()) {
      reactor_.arm(lost_timer_, fabric_.latency());
    }
    return;
  }
  state_ = State::kConnecting;
  watch();
  if (fabric_.is_partitioned(address_)) return;  // nobody answers; F5 ends it
  SimListener* listener = fabric_.listener_of(address_);
  const Nanos due_ns = reactor_.now_ns() + fabric_.latency();
  if (listener != nullptr) return listener->knock(*this, due_ns);
  ++fabric_.counters_.refusals;
  lose_peer(Status::unavailable("could not connect"), reactor_.now_ns());
}

void SimLink::join(SimLink& other) {
  VARVE_ASSERT(state_ == State::kConnecting && other.state_ == State::kFresh);
  peer_ = &other;
  other.peer_ = this;
  state_ = State::kOpen;
  ++fabric_.counters_.connects;
}

bool SimLink::can_send(uint32_t payload_bytes) const {
  return (state_ == State::kConnecting || state_ == State::kOpen) &&
         outbox_.size() < options_.send_messages_max &&
         outbox_payload_bytes_ + payload_bytes <= options_.send_bytes_max;
}

void SimLink::send(SendRequest& request) {
  VARVE_ASSERT(request.payload_count <= kPayloadPiecesMax, request.payload_count);
  VARVE_ASSERT(can_send(request.payload_bytes()));  // F4
  request.status = Status();
  queue(request.head, &request);
}

bool SimLink::send_head(ConstByteSpan head) {
  if (!can_send(0)) return false;
  queue(head, nullptr);
  return true;
}

void SimLink::queue(ConstByteSpan head, SendRequest* request) {
  VARVE_ASSERT(!head.empty() && head.size() <= kHeadBytesMax, head.size());
  VARVE_ASSERT(reactor_.on_owner_core());
  Flight flight;
  flight.head.assign(head.begin(), head.end());
  flight.request = request;
  if (request != nullptr) {
    flight.payload_bytes = request->payload_bytes();
    VARVE_ASSERT(flight.payload_bytes <= kPayloadBytesMax, flight.payload_bytes);
    flight.payload_crc = payload_crc(*request);
  }
  last_due_ns_ = std::max(last_due_ns_, reactor_.now_ns() + fabric_.latency());
  flight.due_ns = last_due_ns_;
  if (outbox_.empty()) send_progress_ns_ = reactor_.now_ns();
  outbox_payload_bytes_ += flight.payload_bytes;
  outbox_.push_back(std::move(flight));
  watch();
  if (peer_ != nullptr) peer_->expect();
}

bool SimLink::is_silent() const {
  return silenced_ || fabric_.is_partitioned(address_);
}

void SimLink::expect() {
  if (state_ != State::kOpen || receive_.armed() || is_silent()) return;
  if (!pieces_.empty()) {
    if (peer_ != nullptr) reactor_.arm(receive_, fabric_.latency());  // a silence has ended
  } else if (!last_words_.empty()) {
    reactor_.timers().arm(receive_, last_words_.front().due_ns);
  } else if (peer_ != nullptr && !peer_->outbox_.empty() && peer_->state_ == State::kOpen) {
    reactor_.timers().arm(receive_, peer_->outbox_.front().due_ns);
  }
}

void SimLink::on_receive() {
  if (state_ == State::kClosing) {
    // The card has not stopped yet: one more write before the fence.
    if (!pieces_.empty() && peer_ != nullptr && !peer_->outbox_.empty()) {
      ++fabric_.counters_.pieces_after_close;
      copy_piece();
    }
    return;
  }
  VARVE_ASSERT(state_ == State::kOpen);
  if (is_silent()) return;
  if (pieces_.empty()) return begin_message();
  if (peer_ == nullptr) return;  // lost in the middle of a message; on_lost follows
  copy_piece();
  receive_progress_ns_ = reactor_.now_ns();
  if (pieces_.empty()) return finish_message();
  reactor_.arm(receive_, 1 + fabric_.random_.below(fabric_.options_.piece_ns_max + 1));
}

void SimLink::begin_message() {
  const bool last = !last_words_.empty();
  if (!last && (peer_ == nullptr || peer_->outbox_.empty() || peer_->state_ != State::kOpen)) {
    return;
  }
  const Flight& flight = last ? last_words_.front() : peer_->outbox_.front();
  if (flight.due_ns > reactor_.now_ns()) return expect();
  if (flight.head.size() > head_bytes_max_) return close(Status::invalid("head over its limit"));
  head_ = flight.head;
  placement_.count = 0;
  if (flight.payload_bytes == 0) return finish_message();
  const Status status = user_->place(head_, flight.payload_bytes, placement_);
  if (state_ != State::kOpen) return;
  if (!status.ok()) return close(status);
  if (placement_.count == 0) {
    counters_.discarded_bytes += flight.payload_bytes;
    fabric_.counters_.discarded_bytes += flight.payload_bytes;
    return finish_message();
  }
  uint64_t placed_bytes = 0;
  for (uint32_t i = 0; i < placement_.count; ++i)
    placed_bytes += placement_.pieces[i].iov_len;
  VARVE_ASSERT(placed_bytes == flight.payload_bytes, placed_bytes, flight.payload_bytes);
  // Cut at random places and shuffled: the order of arrival says nothing.
  const uint64_t count = 1 + fabric_.random_.below(fabric_.options_.pieces_max);
  uint32_t offset = 0;
  for (uint64_t i = 0; i < count && offset < flight.payload_bytes; ++i) {
    const uint32_t left = flight.payload_bytes - offset;
    const uint32_t bytes =
        i + 1 == count ? left : 1 + static_cast<uint32_t>(fabric_.random_.below(left));
    pieces_.push_back({offset, bytes});
    offset += bytes;
  }
  for (size_t i = pieces_.size(); i > 1; --i) {
    std::swap(pieces_[i - 1], pieces_[fabric_.random_.below(i)]);
  }
  receive_progress_ns_ = reactor_.now_ns();
  watch();
  reactor_.arm(receive_, 1 + fabric_.random_.below(fabric_.options_.piece_ns_max + 1));
}

void SimLink::copy_piece() {
  const SendRequest& request = *peer_->outbox_.front().request;
  const Piece piece = pieces_.back();
  pieces_.pop_back();
  copy_range(request.payload, request.payload_count, placement_.pieces, placement_.count,
             piece.offset, piece.bytes);
}

void SimLink::finish_message() {
  uint32_t payload_bytes = 0;
  if (!last_words_.empty()) {
    last_words_.pop_front();
  } else {
    Flight flight = std::move(peer_->outbox_.front());
    peer_->outbox_.pop_front();
    payload_bytes = flight.payload_bytes;
    if (flight.request != nullptr && placement_.count > 0) {
      // Whoever changes a lent payload before on_sent has a bug that TCP would hide.
      VARVE_ASSERT(payload_crc(*flight.request) == flight.payload_crc, id_);
    }
    peer_->acked(std::move(flight), reactor_.now_ns());
  }
  counters_.received_messages += 1;
  counters_.received_bytes += head_.size() + payload_bytes;
  fabric_.counters_.messages += 1;
  fabric_.counters_.payload_bytes += payload_bytes;
  const std::vector<std::byte> head = std::move(head_);
  user_->on_message(head, payload_bytes);
  expect();
}

void SimLink::acked(Flight flight, Nanos now_ns) {
  outbox_payload_bytes_ -= flight.payload_bytes;
  counters_.sent_messages += 1;
  counters_.sent_bytes += flight.head.size() + flight.payload_bytes;
  send_progress_ns_ = std::max(send_progress_ns_, now_ns);
  if (flight.request == nullptr) return;
  const Nanos floor_ns = acks_.empty() ? 0 : acks_.back().due_ns;
  acks_.push_back({flight.request, std::max(floor_ns, now_ns + fabric_.latency())});
  if (!ack_.armed() && state_ == State::kOpen) reactor_.timers().arm(ack_, acks_.front().due_ns);
}

void SimLink::on_ack() {
  VARVE_ASSERT(state_ == State::kOpen);
  while (!acks_.empty() && acks_.front().due_ns <= reactor_.now_ns() && state_ == State::kOpen) {
    SendRequest* request = acks_.front().request;
    acks_.pop_front();
    if (request->on_sent != nullptr) request->on_sent(*request);
  }
  if (!acks_.empty() && state_ == State::kOpen) {
    reactor_.timers().arm(ack_, acks_.front().due_ns);
  }
}

void SimLink::lose_peer(Status cause, Nanos now_ns) {
  VARVE_ASSERT(peer_ == nullptr);
  if (closing()) return;
  lost_ = cause;
  // Fresh links hear of it when they start; silent ones when the silence ends, if it does.
  if (state_ == State::kFresh || is_silent()) return;
  reactor_.timers().arm(lost_timer_,
                        std::max(now_ns, last_words_.empty() ? now_ns : last_words_.back().due_ns) +
                            fabric_.latency());
}

void SimLink::on_lost() {
  VARVE_ASSERT(!lost_.ok());
  if (is_silent()) return;
  close(lost_);
}

void SimLink::sever() {
  SimLink* peer = peer_;
  VARVE_ASSERT(peer != nullptr);
  peer->peer_ = peer_ = nullptr;
  lose_peer(Status::unavailable("connection reset"), reactor_.now_ns());
  peer->lose_peer(Status::unavailable("connection reset"), peer->reactor_.now_ns());
}

void SimLink::close(Status cause) {
  VARVE_ASSERT(state_ != State::kFresh && !cause.ok());
  if (closing()) return;
  VARVE_ASSERT(reactor_.on_owner_core());
  state_ = State::kClosing;
  cause_ = cause;
  for (Timer* timer : {&ack_, &lost_timer_, &stall_})
    reactor_.cancel(*timer);
  // With a coin a write in progress goes on until the fence.
  const bool late_write = !pieces_.empty() && receive_.armed() && fabric_.random_.chance(500);
  if (!late_write) reactor_.cancel(receive_);
  // Head-only messages on their way may still arrive, in order, up to the first payload.
  if (peer_ != nullptr && peer_->pieces_.empty() && !peer_->closing() && !is_silent()) {
    while (!outbox_.empty() && outbox_.front().payload_bytes == 0 && fabric_.random_.chance(700)) {
      Flight flight = std::move(outbox_.front());
      outbox_.pop_front();
      Flight word;
      word.head = flight.head;
      word.due_ns = flight.due_ns;
      peer_->last_words_.push_back(std::move(word));
      acks_.push_back({flight.request, 0});
      if (flight.request == nullptr) acks_.pop_back();
    }
    peer_->expect();
  }
  reactor_.arm(end_, 1 + fabric_.random_.below(fabric_.options_.latency_ns_max));
}

void SimLink::finish() {
  VARVE_ASSERT(state_ == State::kClosing);
  reactor_.cancel(receive_);
  pieces_.clear();
  if (peer_ != nullptr) {
    SimLink* peer = peer_;
    peer->peer_ = peer_ = nullptr;
    peer->lose_peer(Status::unavailable("peer closed"), reactor_.now_ns());
  }
  for (SimListener* listener : fabric_.listeners_)
    listener->forget(*this);
  std::deque<SendRequest*> unfinished;
  for (const Ack& ack : acks_)
    unfinished.push_back(ack.request);
  for (const Flight& flight : outbox_) {
    if (flight.request != nullptr) unfinished.push_back(flight.request);
  }
  acks_.clear();
  outbox_.clear();
  for (SendRequest* request : unfinished) {
    request->status = Status::unavailable("link closed before the message left");
    if (request->on_sent != nullptr) request->on_sent(*request);  // F3
  }
  state_ = State::kClosed;
  user_->on_closed(cause_);  // may destroy this link
}

void SimLink::set_head_bytes_max(uint32_t bytes) {
  VARVE_ASSERT(bytes > 0 && bytes <= options_.head_bytes_max, bytes);
  head_bytes_max_ = bytes;
}

void SimLink::watch() {
  if (!stall_.armed()) reactor_.arm(stall_, options_.stall_ns_max);
}

void SimLink::check_stall() {
  VARVE_ASSERT(state_ == State::kConnecting || state_ == State::kOpen);
  Nanos since_ns = kNever;
  if (state_ == State::kConnecting || !outbox_.empty()) since_ns = send_progress_ns_;
  if (!pieces_.empty()) since_ns = std::min(since_ns, receive_progress_ns_);
  if (since_ns == kNever) return;
  const Nanos waited_ns = reactor_.now_ns() - std::min(reactor_.now_ns(), since_ns);
  if (waited_ns < options_.stall_ns_max) {
    return reactor_.arm(stall_, options_.stall_ns_max - waited_ns);
  }
  if (state_ == State::kConnecting) return close(Status::timed_out("no answer to connect"));
  close(!outbox_.empty() && since_ns == send_progress_ns_
            ? Status::timed_out("peer drains nothing")
            : Status::timed_out("peer sends half a message"));
}

void SimLink::die() {
  for (Timer* timer : {&receive_, &ack_, &lost_timer_, &end_, &stall_})
    reactor_.cancel(*timer);
  for (SimListener* listener : fabric_.listeners_)
    listener->forget(*this);
  outbox_.clear();
  acks_.clear();
  pieces_.clear();
  state_ = State::kDead;
}

SimListener::SimListener(SimFabric& fabric, Reactor& reactor, std::string address,
                         const LinkOptions& options)
    : fabric_(fabric), reactor_(reactor), address_(std::move(address)), options_(options) {
  accept_.owner = this;
  accept_.on_fire = [](Timer& t) { static_cast<SimListener*>(t.owner)->on_accept(); };
  fabric_.listeners_.push_back(this);
}

SimListener::~SimListener() {
  stop();
  fabric_.remove(*this);
}

void SimListener::start(ListenerUser& user) {
  VARVE_ASSERT(user_ == nullptr && !stopped_);
  user_ = &user;
  if (!knocks_.empty()) reactor_.timers().arm(accept_, knocks_.front().due_ns);
}

void SimListener::stop() {
  if (stopped_) return;
  reactor_.cancel(accept_);
  die();
}

// Stopped or killed: who waits for an answer is refused.
void SimListener::die() {
  if (stopped_) return;
  stopped_ = true;
  reactor_.cancel(accept_);
  for (const Knock& knock : std::exchange(knocks_, {})) {
    ++fabric_.counters_.refusals;
    knock.link->lose_peer(Status::unavailable("could not connect"), knock.link->reactor_.now_ns());
  }
}

void SimListener::knock(SimLink& link, Nanos due_ns) {
  if (!knocks_.empty()) due_ns = std::max(due_ns, knocks_.back().due_ns);
  knocks_.push_back({&link, due_ns});
  if (user_ != nullptr && !accept_.armed()) reactor_.timers().arm(accept_, due_ns);
}

void SimListener::forget(SimLink& link) {
  std::erase_if(knocks_, [&](const Knock& knock) { return knock.link == &link; });
}

void SimListener::on_accept() {
  while (!knocks_.empty() && knocks_.front().due_ns <= reactor_.now_ns() && !stopped_) {
    SimLink& link = *knocks_.front().link;
    knocks_.pop_front();
    if (link.closing() || fabric_.is_partitioned(address_)) continue;
    auto accepted = std::make_unique<SimLink>(fabric_, reactor_, address_, options_);
    link.join(*accepted);
    user_->on_accepted(std::move(accepted));
    link.expect();
  }
  if (!stopped_ && !knocks_.empty()) reactor_.timers().arm(accept_, knocks_.front().due_ns);
}

}  // namespace varve
