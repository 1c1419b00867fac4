// The life of a TCP link: fresh, connecting, open, closing, closed. Completions of the three Io
// records and the link's task are the only entries besides the door; each ends by starting the next
// I/O or, when closing, by waiting for the rest.
#include "common/fabric/tcp_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace varve {

namespace {

// Worth trying again, nothing moved.
bool is_transient(int64_t result) {
  return result == -EINTR || result == -EAGAIN;
}

Status lost(const char* what, int64_t result) {
  return Status(Code::kUnavailable, what, static_cast<int32_t>(-result));
}

}  // namespace

TcpLink::TcpLink(Reactor& reactor, Socket socket, const SocketAddress& peer, Begin begin,
                 const LinkOptions& options)
    : reactor_(reactor),
      socket_(std::move(socket)),
      peer_(peer),
      begin_(begin),
      stall_ns_max_(options.stall_ns_max),
      stall_bytes_min_(options.stall_bytes_min),
      queue_(options.send_messages_max, options.send_bytes_max),
      reader_(options.head_bytes_max) {
  VARVE_ASSERT(socket_.is_open());
  connect_.owner = send_.owner = receive_.owner = stall_.owner = this;
  connect_.on_done = [](Io& io) { static_cast<TcpLink*>(io.owner)->connected(io.result); };
  send_.on_done = [](Io& io) { static_cast<TcpLink*>(io.owner)->sent(io.result); };
  receive_.on_done = [](Io& io) { static_cast<TcpLink*>(io.owner)->received(io.result); };
  stall_.on_fire = [](Timer& timer) { static_cast<TcpLink*>(timer.owner)->check_stall(); };
}

TcpLink::~TcpLink() {
  VARVE_ASSERT(state_ == State::kFresh || state_ == State::kClosed);
  VARVE_ASSERT(quiet() && !stall_.armed());
}

void TcpLink::start(LinkUser& user) {
  VARVE_ASSERT(reactor_.on_owner_core());
  VARVE_ASSERT(state_ == State::kFresh);
  user_ = &user;
  send_progress_.since_ns = receive_progress_.since_ns = reactor_.now_ns();
  if (begin_ == Begin::kConnect) {
    state_ = State::kConnecting;
    start_connect();
    watch();
  } else {
    open();
  }
}

void TcpLink::open() {
  state_ = State::kOpen;
  send_progress_.since_ns = receive_progress_.since_ns = reactor_.now_ns();
  start_receive();
  if (!queue_.empty()) reactor_.make_ready(*this);
}

bool TcpLink::can_send(uint32_t payload_bytes) const {
  return (state_ == State::kConnecting || state_ == State::kOpen) && queue_.has_room(payload_bytes);
}

void TcpLink::send(SendRequest& request) {
  VARVE_ASSERT(request.payload_count <= kPayloadPiecesMax, request.payload_count);
  VARVE_ASSERT(can_send(request.payload_bytes()));  // F4
  request.status = Status();
  queue(request.head, &request);
}

bool TcpLink::send_head(ConstByteSpan head) {
  if (!can_send(0)) return false;
  queue(head, nullptr);
  return true;
}

// Nothing is started here: what one turn queues leaves in one system call.
void TcpLink::queue(ConstByteSpan head, SendRequest* request) {
  VARVE_ASSERT(reactor_.on_owner_core());
  if (queue_.empty()) {
    send_progress_ = {.since_ns = reactor_.now_ns(), .messages = counters_.sent_messages};
  }
  queue_.push(head, request);
  watch();
  if (state_ == State::kOpen && !send_.in_flight) reactor_.make_ready(*this);
}

void TcpLink::run() {
  if (state_ == State::kOpen) {
    if (!send_.in_flight && !queue_.empty()) start_send();
    return;
  }
  if (state_ != State::kClosing || !quiet()) return;
  if (reactor_.counters().turns == close_turn_) return reactor_.make_ready(*this);
  finish();
}

void TcpLink::start_connect() {
  connect_.kind = IoKind::kConnect;
  connect_.fd = socket_.fd();
  connect_.address = &peer_.storage;
  connect_.address_bytes = peer_.bytes;
  reactor_.io().start(connect_);
}

void TcpLink::connected(int64_t result) {
  if (state_ == State::kClosing) return reactor_.make_ready(*this);
  VARVE_ASSERT(state_ == State::kConnecting);
  if (is_transient(result)) return start_connect();
  if (result < 0) return close(lost("could not connect", result));
  open();
}

void TcpLink::start_send() {
  send_.kind = IoKind::kSend;
  send_.fd = socket_.fd();
  send_.iov = send_iov_.data();
  send_.iov_count = queue_.gather(send_iov_.data(), kSendPiecesMax, kSendBytesMax);
  VARVE_ASSERT(send_.iov_count > 0);
  reactor_.io().start(send_);
}

void TcpLink::sent(int64_t result) {
  if (state_ == State::kClosing) return reactor_.make_ready(*this);
  VARVE_ASSERT(state_ == State::kOpen);
  if (result < 0 && !is_transient(result)) return close(lost("send failed", result));
  SendRequests finished;
  if (result > 0) {
    queue_.sent(static_cast<uint64_t>(result), finished, counters_);
    note(send_progress_, static_cast<uint64_t>(result), counters_.sent_messages);
  }
  if (!queue_.empty()) reactor_.make_ready(*this);
  // Last: an owner may queue more, or close the link, whose end comes in a later turn.
  while (SendRequest* request = finished.pop()) {
    if (request->on_sent != nullptr) request->on_sent(*request);
  }
}

void TcpLink::start_receive() {
  receive_.kind = IoKind::kReceive;
  receive_.fd = socket_.fd();
  receive_.iov = receive_iov_.data();
  receive_.iov_count = reader_.next_iov(receive_iov_.data());
  reactor_.io().start(receive_);
}

void TcpLink::received(int64_t result) {
  if (state_ == State::kClosing) return reactor_.make_ready(*this);
  VARVE_ASSERT(state_ == State::kOpen);
  if (result == 0) {
    return close(reader_.in_message() ? Status::unavailable("peer closed inside a message")
                                      : Status::unavailable("peer closed"));
  }
  if (result < 0 && !is_transient(result)) return close(lost("receive failed", result));
  if (result > 0) {
    const bool was_idle = !reader_.in_message();
    const Status status = reader_.received(static_cast<uint64_t>(result), *user_, counters_);
    if (state_ != State::kOpen) return;  // an upcall closed the link
    if (!status.ok()) return close(status);
    if (was_idle) receive_progress_.since_ns = reactor_.now_ns();  // silence before it counts not
    note(receive_progress_, static_cast<uint64_t>(result), counters_.received_messages);
  }
  start_receive();
  watch();
}

void TcpLink::close(Status cause) {
  VARVE_ASSERT(reactor_.on_owner_core());
  VARVE_ASSERT(state_ != State::kFresh);
  VARVE_ASSERT(!cause.ok());
  if (closing()) return;
  state_ = State::kClosing;
  cause_ = cause;
  close_turn_ = reactor_.counters().turns;
  reader_.stop();
  reactor_.cancel(stall_);
  // Ends what the kernel holds for this socket; the completions are the proof (F2).
  (void)::shutdown(socket_.fd(), SHUT_RDWR);
  for (Io* io : {&connect_, &send_, &receive_}) {
    if (io->in_flight) reactor_.io().cancel(*io);
  }
  reactor_.make_ready(*this);
}

void TcpLink::finish() {
  VARVE_ASSERT(state_ == State::kClosing && quiet());
  socket_.reset();
  SendRequests unfinished;
  queue_.take_all(unfinished);
  while (SendRequest* request = unfinished.pop()) {
    request->status = Status::unavailable("link closed before the message left");
    if (request->on_sent != nullptr) request->on_sent(*request);  // F3
  }
  state_ = State::kClosed;
  user_->on_closed(cause_);  // may destroy this link
}

void TcpLink::note(Progress& progress, uint64_t bytes, uint64_t messages) {
  VARVE_ASSERT(messages >= progress.messages, messages, progress.messages);
  progress.bytes += bytes;
  if (messages == progress.messages && progress.bytes < stall_bytes_min_) return;
  progress = {.since_ns = reactor_.now_ns(), .bytes = 0, .messages = messages};
}

void TcpLink::watch() {
  const bool owed = state_ == State::kConnecting || !queue_.empty() || reader_.in_message();
  if (owed && !stall_.armed()) reactor_.arm(stall_, stall_ns_max_);
}

// Lazy: the timer is not moved with every completion, it looks back when it fires.
void TcpLink::check_stall() {
  VARVE_ASSERT(state_ == State::kConnecting || state_ == State::kOpen);
  const bool sending = state_ == State::kConnecting || !queue_.empty();
  Nanos since_ns = kNever;
  if (sending) since_ns = send_progress_.since_ns;
  if (reader_.in_message()) since_ns = std::min(since_ns, receive_progress_.since_ns);
  if (since_ns == kNever) return;  // idle; armed again when something is owed
  // The peer may have moved while this core stood still (R4).
  const Nanos waited_ns = reactor_.now_ns() - std::max(since_ns, reactor_.awake_ns());
  if (waited_ns < stall_ns_max_) return reactor_.arm(stall_, stall_ns_max_ - waited_ns);
  if (state_ == State::kConnecting) return close(Status::timed_out("no answer to connect"));
  close(sending && since_ns == send_progress_.since_ns
            ? Status::timed_out("peer drains nothing, or next to nothing")
            : Status::timed_out("peer sends half a message and next to nothing more"));
}

}  // namespace varve
