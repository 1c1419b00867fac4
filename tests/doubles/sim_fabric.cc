// SimFabric: delivery through the timers of the receiving reactor; nothing completes inside a call.
#include "tests/doubles/sim_fabric.h"

#include <algorithm>

namespace varve {

namespace {
constexpr Nanos kSilenceRetry = 10 * kMillisecond;
}

class SimLink final : public Link {
 public:
  SimLink(SimFabric& fabric, Reactor& reactor, const LinkOptions& options, std::string peer_name);
  ~SimLink() override;
  static void join(SimLink& a, SimLink& b) {
    a.peer_ = &b;
    b.peer_ = &a;
  }
  void start(LinkUser& user) override;
  bool can_send(uint32_t payload_bytes) const override;
  void send(SendRequest& request) override;
  bool send_head(ConstByteSpan head) override;
  void close(Status cause) override;
  bool closing() const override { return closing_; }
  std::string peer() const override { return peer_name_; }
  bool peer_is_loopback() const override { return true; }
  const Counters& counters() const override { return counters_; }

  void doom(Status cause) { doomed_ = cause; }  // closes with this once started
  void peer_closed();
  void abandon();
  Reactor& reactor() { return reactor_; }

 private:
  struct Outgoing {
    std::vector<std::byte> head;
    SendRequest* request = nullptr;  // null: head only
    uint32_t payload_bytes = 0;
    Nanos arrives_ns = 0;
  };
  void enqueue(ConstByteSpan head, SendRequest* request);
  void arm_receive(Nanos due_ns);
  void receive();
  void copy_some();
  void delivered();
  void flush_sent();
  void check_stall();
  void finish_close();

  SimFabric& fabric_;
  Reactor& reactor_;
  LinkOptions options_;
  std::string peer_name_;
  uint64_t number_;
  LinkUser* user_ = nullptr;
  SimLink* peer_ = nullptr;
  std::deque<Outgoing> out_;
  std::deque<SendRequest*> sent_;  // delivered, on_sent due in the next turn
  uint64_t out_bytes_ = 0;
  Nanos last_arrival_ns_ = 0;
  Nanos progress_ns_ = 0;
  // receiving the front of peer_->out_
  bool placing_ = false;
  Placement where_;
  uint32_t copied_ = 0;
  bool closing_ = false, closed_ = false, dead_ = false;
  Status doomed_, cause_;
  Timer receive_timer_, sent_timer_, close_timer_, stall_timer_, remote_timer_;
  Counters counters_;
};

class SimListener final : public Listener {
 public:
  SimListener(SimFabric& fabric, Reactor& reactor, std::string address, const LinkOptions& options)
      : fabric_(fabric), reactor_(reactor), address_(std::move(address)), options_(options) {
    timer_.owner = this;
    timer_.on_fire = [](Timer& t) { static_cast<SimListener*>(t.owner)->accept(); };
  }
  ~SimListener() override { stop(); }
  void start(ListenerUser& user) override {
    user_ = &user;
    fabric_.listeners_[address_] = this;
  }
  void stop() override {
    const auto found = fabric_.listeners_.find(address_);
    if (found != fabric_.listeners_.end() && found->second == this) fabric_.listeners_.erase(found);
    if (!dead_) reactor_.cancel(timer_);
    waiting_.clear();
    user_ = nullptr;
  }
  std::string address() const override { return address_; }
  void add(std::unique_ptr<Link> link, Nanos due_ns) {
    waiting_.push_back(std::move(link));
    if (!timer_.armed()) reactor_.timers().arm(timer_, due_ns);
  }
  void accept() {
    while (!waiting_.empty() && user_ != nullptr) {
      auto link = std::move(waiting_.front());
      waiting_.pop_front();
      user_->on_accepted(std::move(link));
    }
  }
  Reactor& reactor() { return reactor_; }
  const LinkOptions& options() const { return options_; }
  void abandon() { dead_ = true; }

 private:
  SimFabric& fabric_;
  Reactor& reactor_;
  std::string address_;
  LinkOptions options_;
  ListenerUser* user_ = nullptr;
  std::deque<std::unique_ptr<Link>> waiting_;
  Timer timer_;
  bool dead_ = false;
};

SimLink::SimLink(SimFabric& fabric, Reactor& reactor, const LinkOptions& options, std::string peer_name)
    : fabric_(fabric),
      reactor_(reactor),
      options_(options),
      peer_name_(std::move(peer_name)),
      number_(++fabric.last_link_) {
  fabric_.links_[number_] = this;
  const auto bind = [this](Timer& timer, Timer::Fire fire) {
    timer.owner = this;
    timer.on_fire = fire;
  };
  bind(receive_timer_, [](Timer& t) { static_cast<SimLink*>(t.owner)->receive(); });
  bind(sent_timer_, [](Timer& t) { static_cast<SimLink*>(t.owner)->flush_sent(); });
  bind(close_timer_, [](Timer& t) { static_cast<SimLink*>(t.owner)->finish_close(); });
  bind(stall_timer_, [](Timer& t) { static_cast<SimLink*>(t.owner)->check_stall(); });
  bind(remote_timer_, [](Timer& t) {
    static_cast<SimLink*>(t.owner)->close(Status::unavailable("the peer closed the connection"));
  });
}

SimLink::~SimLink() {
  if (dead_) return;
  VARVE_ASSERT(user_ == nullptr || closed_);
  for (Timer* t : {&receive_timer_, &sent_timer_, &close_timer_, &stall_timer_, &remote_timer_}) {
    reactor_.cancel(*t);
  }
  fabric_.links_.erase(number_);
  if (peer_ != nullptr) {
    peer_->peer_ = nullptr;
    if (user_ == nullptr) peer_->peer_closed();  // dropped before it was started
  }
}

void SimLink::start(LinkUser& user) {
  VARVE_ASSERT(user_ == nullptr);
  user_ = &user;
  if (!doomed_.ok()) return close(doomed_);
  arm_receive(fabric_.clock_.now_ns());
}

bool SimLink::can_send(uint32_t payload_bytes) const {
  return !closing_ && out_.size() < options_.send_messages_max &&
         out_bytes_ + payload_bytes <= options_.send_bytes_max;
}

void SimLink::send(SendRequest& request) {
  VARVE_ASSERT(can_send(request.payload_bytes()));
  enqueue(request.head, &request);
}

bool SimLink::send_head(ConstByteSpan head) {
  if (!can_send(0)) return false;
  enqueue(head, nullptr);
  return true;
}

void SimLink::enqueue(ConstByteSpan head, SendRequest* request) {
  VARVE_ASSERT(head.size() <= kHeadBytesMax);
  Outgoing item;
  item.head.assign(head.begin(), head.end());
  item.request = request;
  item.payload_bytes = request == nullptr ? 0 : request->payload_bytes();
  VARVE_ASSERT(item.payload_bytes <= kPayloadBytesMax);
  last_arrival_ns_ = std::max(last_arrival_ns_, fabric_.clock_.now_ns() + fabric_.latency());
  item.arrives_ns = last_arrival_ns_;
  out_bytes_ += item.payload_bytes;
  if (out_.empty()) {
    progress_ns_ = fabric_.clock_.now_ns();
    reactor_.timers().arm(stall_timer_, progress_ns_ + options_.stall_ns_max);
  }
  out_.push_back(std::move(item));
  if (peer_ != nullptr && !peer_->dead_) peer_->arm_receive(out_.front().arrives_ns);
}

void SimLink::arm_receive(Nanos due_ns) {
  if (user_ == nullptr || closing_ || receive_timer_.armed()) return;
  reactor_.timers().arm(receive_timer_, due_ns);
}

void SimLink::receive() {
  if (closing_ || peer_ == nullptr || peer_->out_.empty()) return;
  if (fabric_.silent_) return arm_receive(fabric_.clock_.now_ns() + kSilenceRetry);
  Outgoing& message = peer_->out_.front();
  const Nanos now = fabric_.clock_.now_ns();
  if (message.arrives_ns > now) return arm_receive(message.arrives_ns);
  if (!placing_) {
    where_.count = 0;
    copied_ = 0;
    if (message.head.size() > options_.head_bytes_max) {
      return close(Status::invalid("a head over its limit"));
    }
    if (message.payload_bytes > 0) {
      const Status placed = user_->place(message.head, message.payload_bytes, where_);
      if (closing_) return;
      if (!placed.ok()) return close(placed);
      uint64_t sum = 0;
      for (uint32_t i = 0; i < where_.count; ++i) sum += where_.pieces[i].iov_len;
      VARVE_ASSERT(where_.count == 0 || sum == message.payload_bytes, sum, message.payload_bytes);
      if (where_.count == 0) counters_.discarded_bytes += message.payload_bytes;
    }
    placing_ = true;
  }
  if (where_.count > 0 && copied_ < message.payload_bytes) {
    copy_some();
    if (copied_ < message.payload_bytes) return arm_receive(now + 1 + fabric_.random_.below(2000));
  }
  delivered();
}

// Copies a drawn number of bytes from the sender's pieces into ours: visible piecemeal, ordered only by on_message.
void SimLink::copy_some() {
  Outgoing& message = peer_->out_.front();
  const SendRequest& from = *message.request;
  const uint32_t left = message.payload_bytes - copied_;
  uint32_t budget = std::min<uint32_t>(
      left, static_cast<uint32_t>(fabric_.random_.between(1, fabric_.options_.copy_bytes_max)));
  while (budget > 0) {
    const auto find = [this](const iovec* pieces, uint64_t* inside) {
      uint64_t at = copied_;
      uint32_t i = 0;
      while (at >= pieces[i].iov_len) at -= pieces[i++].iov_len;
      *inside = at;
      return i;
    };
    uint64_t from_at = 0, to_at = 0;
    const uint32_t s = find(from.payload, &from_at);
    const uint32_t d = find(where_.pieces, &to_at);
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(
        {budget, from.payload[s].iov_len - from_at, where_.pieces[d].iov_len - to_at}));
    std::memcpy(static_cast<std::byte*>(where_.pieces[d].iov_base) + to_at,
                static_cast<const std::byte*>(from.payload[s].iov_base) + from_at, bytes);
    copied_ += bytes;
    budget -= bytes;
  }
}

void SimLink::delivered() {
  SimLink& sender = *peer_;
  Outgoing message = std::move(sender.out_.front());
  sender.out_.pop_front();
  sender.out_bytes_ -= message.payload_bytes;
  sender.counters_.sent_messages += 1;
  sender.counters_.sent_bytes += message.payload_bytes;
  sender.progress_ns_ = fabric_.clock_.now_ns();
  if (message.request != nullptr) {
    message.request->status = Status();
    sender.sent_.push_back(message.request);
    if (!sender.dead_) sender.reactor_.timers().arm(sender.sent_timer_, fabric_.clock_.now_ns());
  }
  placing_ = false;
  counters_.received_messages += 1;
  counters_.received_bytes += message.payload_bytes;
  if (!sender.out_.empty()) arm_receive(sender.out_.front().arrives_ns);
  user_->on_message(message.head, message.payload_bytes);
}

void SimLink::flush_sent() {
  while (!sent_.empty()) {
    SendRequest* request = sent_.front();
    sent_.pop_front();
    if (request->on_sent != nullptr) request->on_sent(*request);
  }
}

void SimLink::check_stall() {
  if (closing_ || out_.empty()) return;
  const Nanos due = progress_ns_ + options_.stall_ns_max;
  if (fabric_.clock_.now_ns() >= due) return close(Status::timed_out("the peer drains nothing"));
  reactor_.timers().arm(stall_timer_, due);
}

void SimLink::close(Status cause) {
  VARVE_ASSERT(!cause.ok());
  if (closing_) return;
  closing_ = true;
  cause_ = cause;
  placing_ = false;
  reactor_.timers().arm(close_timer_, fabric_.clock_.now_ns());
}

void SimLink::peer_closed() {
  if (dead_ || closing_ || remote_timer_.armed()) return;
  reactor_.timers().arm(remote_timer_, fabric_.clock_.now_ns() + fabric_.latency());
}

// F3 before F2's end: every send has its answer, then the last upcall.
void SimLink::finish_close() {
  if (closed_ || user_ == nullptr) return;
  for (Outgoing& message : out_) {
    if (message.request == nullptr) continue;
    message.request->status = Status::unavailable("the link closed");
    sent_.push_back(message.request);
  }
  out_.clear();
  out_bytes_ = 0;
  if (peer_ != nullptr) {
    peer_->placing_ = false;
    peer_->peer_closed();
    peer_->peer_ = nullptr;
    peer_ = nullptr;
  }
  flush_sent();
  closed_ = true;
  user_->on_closed(cause_);
}

void SimLink::abandon() {
  dead_ = true;
  fabric_.links_.erase(number_);
  if (peer_ != nullptr) {
    peer_->placing_ = false;
    peer_->peer_closed();
    peer_->peer_ = nullptr;
    peer_ = nullptr;
  }
}

SimFabric::SimFabric(const Clock& clock, uint64_t seed, const SimFabricOptions& options)
    : clock_(clock), random_(seed), options_(options) {}

SimFabric::~SimFabric() = default;

Result<std::unique_ptr<Listener>> SimFabric::listen(Reactor& reactor, const std::string& address,
                                                    const LinkOptions& options) {
  if (listeners_.count(address) > 0) return Status::io("sim: the address is in use", 98);
  return std::unique_ptr<Listener>(std::make_unique<SimListener>(*this, reactor, address, options));
}

Result<std::unique_ptr<Link>> SimFabric::connect(Reactor& reactor, const std::string& address,
                                                 const LinkOptions& options) {
  auto ours = std::make_unique<SimLink>(*this, reactor, options, address);
  const auto found = listeners_.find(address);
  if (found == listeners_.end() || silent_) {
    ours->doom(Status::unavailable("sim: nobody listens there"));
    return std::unique_ptr<Link>(std::move(ours));
  }
  SimListener& listener = *found->second;
  auto theirs = std::make_unique<SimLink>(*this, listener.reactor(), listener.options(), "sim-client");
  SimLink::join(*ours, *theirs);
  listener.add(std::move(theirs), clock_.now_ns() + latency());
  return std::unique_ptr<Link>(std::move(ours));
}

void SimFabric::break_all() {
  for (const auto& [number, link] : links_) link->close(Status::unavailable("sim: connection reset"));
}

void SimFabric::break_client(Reactor& reactor) {
  for (const auto& [number, link] : links_) {
    if (&link->reactor() == &reactor) link->close(Status::unavailable("sim: connection reset"));
  }
}

void SimFabric::abandon(const std::string& address) {
  const auto found = listeners_.find(address);
  if (found == listeners_.end()) return;
  SimListener* listener = found->second;
  listeners_.erase(found);
  listener->abandon();
  std::vector<SimLink*> dead;
  for (const auto& [number, link] : links_) {
    if (&link->reactor() == &listener->reactor()) dead.push_back(link);
  }
  for (SimLink* link : dead) link->abandon();
}

}  // namespace varve
