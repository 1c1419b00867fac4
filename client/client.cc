// Client: a thread with a reactor and a ClientCore, behind calls that any thread may make.
//
// Calls become messages to that thread; events come back through a locked queue and one eventfd.
// This file is the one place in the client where a mutex stands: it is outside of every data path.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "client/name_thread.h"
#include "client/varve.h"
#include "client/wait.h"
#include "common/reactor/io.h"

namespace varve {

namespace {

// Events of all ops that nobody took: beyond this nothing new is begun.
constexpr size_t kEventsQueuedMax = 65536;

// Runs `call` on the client's thread; made by the caller, freed by the thread.
struct Command {
  Message message;
  std::function<void()> call;
};

class ThreadedClient final : public Client, private NameUser {
 public:
  ThreadedClient(const ClientOptions& options, EventWatch* watch)
      : options_(options), watch_(watch) {}
  ~ThreadedClient() override;
  Status start(std::unique_ptr<Resolver> resolver);

  Status wait_ready(Nanos timeout_ns) override;
  Result<FormatId> format(const Format& format) override;
  Result<RegionId> register_memory(void* data, uint64_t bytes) override;
  Status unregister_memory(RegionId region) override;
  Result<std::vector<BaseId>> base_ids(FormatId format, const BaseId& parent,
                                       std::span<const uint32_t> tokens,
                                       std::span<const ConstByteSpan> extras) override;
  Result<BaseId> base_id_of_hash(FormatId format, ConstByteSpan hash) override;
  Result<OpId> match(MatchRequest request) override;
  Result<OpId> pull(PullRequest request) override;
  Result<OpId> follow(FollowRequest request) override;
  Result<OpId> push(PushRequest request) override;
  Status push_layer(OpId op, uint32_t layer) override;
  void cancel(OpId op) override;
  Status quiesce(OpId op, Nanos timeout_ns) override;
  Result<OpId> renew(RenewRequest request) override;
  void release(uint64_t lease) override;
  Nanos lease_left_ns(uint64_t lease) const override;
  Result<OpId> holds(HoldsRequest request) override;
  Result<OpId> purge(PurgeRequest request) override;
  int event_fd() const override { return event_fd_; }
  bool poll(Event& out) override;
  Result<Event> wait(OpId op, Nanos timeout_ns) override;
  SessionState state() const override { return state_.load(); }
  std::string last_error_text() const override;
  ClientCounters counters() const override;

 private:
  // Sees what the turn left behind: events, state, whether close is finished.
  struct Pump final : Task {
    ThreadedClient* client = nullptr;
    void run() override { client->pump(); }
    const char* name() const override { return "client.pump"; }
  };
  static bool terminal(const Event& e) {
    return e.kind != Event::Kind::kLayer && e.kind != Event::Kind::kReserved;
  }
  void on_looked_up(Result<std::vector<std::string>> found) override;
  Result<std::unique_ptr<ClientCore>> open_core();
  void pump();
  void post(std::function<void()> call) const;
  template <class T>
  T call(std::function<T()> body) const;
  // `layers`: of a push.
  template <class Submit>
  Result<OpId> submit(Event::Kind terminal_kind, uint64_t tag, Submit submit, uint32_t layers = 0);
  void deliver(Event event);
  void signal();  // mutex_ is held: the descriptor says whether there are events

  ClientOptions options_;
  EventWatch* watch_;
  SystemClock clock_;
  SystemEntropy entropy_;
  std::unique_ptr<Fabric> fabric_ = make_tcp_fabric();
  Env env_{clock_, entropy_, *fabric_};
  std::unique_ptr<IoBackend> io_;
  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<ClientCore> core_;
  std::unique_ptr<NameThread> names_;  // null: the address is a number
  std::thread thread_;
  Pump pump_;
  std::map<OpId, OpId> core_ops_;  // ours -> core's; the client's thread only
  std::map<OpId, OpId> our_ops_;   // core's -> ours
  int event_fd_ = -1;
  int pid_ = 0;
  bool closing_ = false;

  std::atomic<OpId> last_op_{0};
  std::atomic<SessionState> state_{SessionState::kConnecting};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;                          // mutex_
  bool signalled_ = false;                            // mutex_; event_fd_ is readable
  std::set<OpId> live_ops_;                           // mutex_; ours, until the terminal event
  std::map<OpId, uint32_t> live_pushes_;              // mutex_; of these, with their layers
  std::map<FormatId, std::vector<uint32_t>> layers_;  // mutex_; of each rank
  ClientCounters counters_;                           // mutex_
  Status last_error_;                                 // mutex_
  std::string last_error_text_;                       // mutex_
};

// The memory of its options is taken here, and who embeds us is told where there is none: what a
// thread throws ends the whole process.
Result<std::unique_ptr<ClientCore>> ThreadedClient::open_core() {
  try {
    const Names names = names_ == nullptr ? Names::kAsGiven : Names::kLookedUp;
    return ClientCore::open(env_, *reactor_, options_, names);
  } catch (const std::bad_alloc&) {
    return Status::internal("client: no memory for scratch (parity, rebuild, bounce)");
  }
}

Status ThreadedClient::start(std::unique_ptr<Resolver> resolver) {
  VARVE_ASSERT(event_fd_ < 0 && core_ == nullptr);
  VARVE_TRY(const AddressKind kind, address_kind(options_.address));
  event_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event_fd_ < 0) return Status::io("client: eventfd", errno);
  pid_ = getpid();
  VARVE_TRY(IoBackendChoice choice, make_io_backend(IoBackendPreference::kProbe, {}));
  if (!choice.reason.ok()) {
    logf(LogLevel::kInfo, "client", "io_uring is refused (%s); using epoll", choice.reason.what());
  }
  io_ = std::move(choice.backend);
  reactor_ = std::make_unique<Reactor>(clock_, io_.get(), ReactorOptions{});
  pump_.client = this;
  if (kind == AddressKind::kName) {
    if (resolver == nullptr) resolver = make_system_resolver();
    NameUser& user = *this;
    names_ = std::make_unique<NameThread>(std::move(resolver), user);
  }
  Status opened;
  std::mutex ready_mutex;
  std::condition_variable ready;
  bool done = false;
  thread_ = std::thread([&] {
    reactor_->turn();  // claims the thread, reads the clock
    auto core = open_core();
    const bool ok = core.has_value();
    {
      std::lock_guard lock(ready_mutex);
      if (ok) {
        core_ = std::move(*core);
      } else {
        opened = core.error();
      }
      done = true;
      ready.notify_one();
    }
    if (!ok) return;
    core_->notify(pump_);
    reactor_->make_ready(pump_);  // for what it has to say already
    reactor_->run();
    core_.reset();
  });
  std::unique_lock lock(ready_mutex);
  ready.wait(lock, [&] { return done; });
  lock.unlock();
  if (!opened.ok()) thread_.join();
  return opened;
}

ThreadedClient::~ThreadedClient() {
  if (thread_.joinable()) {
    if (getpid() == pid_) {
      if (names_ != nullptr) names_->stop();  // so that nothing is posted behind this:
      post([this] {
        closing_ = true;
        core_->close();
        reactor_->make_ready(pump_);
      });
      thread_.join();
    } else {
      // After fork there is no such thread, and what it owned stands as it stood: left alone.
      thread_.detach();
      static_cast<void>(names_.release());
      static_cast<void>(core_.release());
      static_cast<void>(reactor_.release());
      static_cast<void>(io_.release());
      static_cast<void>(fabric_.release());
    }
  }
  if (event_fd_ >= 0) close(event_fd_);
}

void ThreadedClient::on_looked_up(Result<std::vector<std::string>> found) {
  post([this, found = std::move(found)] { core_->looked_up(found); });
}

void ThreadedClient::pump() {
  if (core_->take_lookup()) names_->ask(options_.address);
  Event event;
  while (core_->next_event(event)) {
    const auto found = our_ops_.find(event.op);
    if (found == our_ops_.end()) continue;
    const OpId ours = found->second;
    if (terminal(event)) {
      VARVE_ASSERT(core_ops_.at(ours) == event.op, ours);
      core_ops_.erase(ours);
      our_ops_.erase(found);
    }
    event.op = ours;
    deliver(std::move(event));
  }
  if (closing_ && core_->at_rest()) reactor_->stop();
  const SessionState now = core_->state();
  {
    std::lock_guard lock(mutex_);
    state_.store(now);
    last_error_ = core_->last_error();
    last_error_text_ = core_->last_error_text();
    counters_ = core_->counters();
  }
  changed_.notify_all();
}

void ThreadedClient::deliver(Event event) {
  const bool queued = watch_ == nullptr || watch_->on_event(event) == EventWatch::Queue::kYes;
  {
    std::lock_guard lock(mutex_);
    VARVE_ASSERT(live_ops_.count(event.op) == 1, event.op);  // nothing behind the terminal one (C3)
    if (terminal(event)) {
      live_ops_.erase(event.op);
      live_pushes_.erase(event.op);
      counters_ = core_->counters();
    }
    if (queued) events_.push_back(std::move(event));
    signal();
  }
  changed_.notify_all();
}

void ThreadedClient::signal() {
  if (signalled_ == !events_.empty()) return;
  signalled_ = !signalled_;
  uint64_t count = 1;
  // Neither can fail: the counter goes from 0 to 1 and back.
  const ssize_t done =
      signalled_ ? write(event_fd_, &count, sizeof(count)) : read(event_fd_, &count, sizeof(count));
  VARVE_ASSERT(done == sizeof(count), errno);
}

void ThreadedClient::post(std::function<void()> body) const {
  auto* command = new Command;
  command->call = std::move(body);
  command->message.owner = command;
  command->message.deliver = [](Message& m) {
    auto* c = static_cast<Command*>(m.owner);
    c->call();
    delete c;
  };
  reactor_->post(command->message);
}

// Set-up calls: wait for the client's thread, which never blocks.
template <class T>
T ThreadedClient::call(std::function<T()> body) const {
  VARVE_ASSERT(std::this_thread::get_id() != thread_.get_id());  // it would wait for itself
  std::mutex m;
  std::condition_variable cv;
  std::optional<T> result;
  post([&] {
    T value = body();
    std::lock_guard lock(m);
    result.emplace(std::move(value));
    cv.notify_one();
  });
  std::unique_lock lock(m);
  cv.wait(lock, [&] { return result.has_value(); });
  return *std::move(result);
}

template <class Submit>
Result<OpId> ThreadedClient::submit(Event::Kind terminal_kind, uint64_t tag, Submit run,
                                    uint32_t layers) {
  const OpId ours = ++last_op_;
  {
    std::lock_guard lock(mutex_);
    if (events_.size() >= kEventsQueuedMax) {
      return Status::overloaded("65536 events wait for poll()");
    }
    live_ops_.insert(ours);
    if (terminal_kind == Event::Kind::kPushed) live_pushes_[ours] = layers;
  }
  post([this, ours, terminal_kind, tag, run]() mutable {
    Result<OpId> made = run(*core_);
    if (made.has_value()) {
      VARVE_ASSERT(our_ops_.count(*made) == 0, *made);
      core_ops_[ours] = *made;
      our_ops_[*made] = ours;
      return;
    }
    Event e;
    e.kind = terminal_kind;
    e.op = ours;
    e.tag = tag;
    e.status = made.error();
    deliver(std::move(e));
  });
  return ours;
}

Status ThreadedClient::wait_ready(Nanos timeout_ns) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return state_.load() == SessionState::kReady; };
  if (changed_.wait_until(lock, after(timeout_ns), ready)) return Status();
  return last_error_.ok() ? Status::timed_out("the daemon does not answer") : last_error_;
}

Result<FormatId> ThreadedClient::format(const Format& format) {
  Result<FormatId> id = call<Result<FormatId>>([&] { return core_->format(format); });
  if (!id) return id;
  std::lock_guard lock(mutex_);
  std::vector<uint32_t>& layers = layers_[*id];
  layers.clear();
  for (const auto& rank : format.ranks)
    layers.push_back(static_cast<uint32_t>(rank.size()));
  return id;
}
Result<RegionId> ThreadedClient::register_memory(void* data, uint64_t bytes) {
  return call<Result<RegionId>>([&] { return core_->register_memory(data, bytes); });
}
Status ThreadedClient::unregister_memory(RegionId region) {
  return call<Status>([&] { return core_->unregister_memory(region); });
}
Result<std::vector<BaseId>> ThreadedClient::base_ids(FormatId format, const BaseId& parent,
                                                     std::span<const uint32_t> tokens,
                                                     std::span<const ConstByteSpan> extras) {
  return call<Result<std::vector<BaseId>>>(
      [&] { return core_->base_ids(format, parent, tokens, extras); });
}
Result<BaseId> ThreadedClient::base_id_of_hash(FormatId format, ConstByteSpan hash) {
  return call<Result<BaseId>>([&] { return core_->base_id_of_hash(format, hash); });
}

Result<OpId> ThreadedClient::match(MatchRequest request) {
  const uint64_t tag = request.tag;
  return submit(Event::Kind::kMatched, tag, [r = std::move(request)](ClientCore& core) mutable {
    return core.match(std::move(r));
  });
}
Result<OpId> ThreadedClient::pull(PullRequest request) {
  const uint64_t tag = request.tag;
  return submit(Event::Kind::kPulled, tag, [r = std::move(request)](ClientCore& core) mutable {
    return core.pull(std::move(r));
  });
}
Result<OpId> ThreadedClient::follow(FollowRequest request) {
  const uint64_t tag = request.tag;
  return submit(Event::Kind::kFollowed, tag, [r = std::move(request)](ClientCore& core) mutable {
    return core.follow(std::move(r));
  });
}
Result<OpId> ThreadedClient::renew(RenewRequest request) {
  return submit(Event::Kind::kRenewed, request.tag,
                [request](ClientCore& core) { return core.renew(request); });
}
Result<OpId> ThreadedClient::holds(HoldsRequest request) {
  return submit(Event::Kind::kHolds, request.tag,
                [request](ClientCore& core) { return core.holds(request); });
}
Result<OpId> ThreadedClient::purge(PurgeRequest request) {
  const uint64_t tag = request.tag;
  return submit(Event::Kind::kPurged, tag, [r = std::move(request)](ClientCore& core) mutable {
    return core.purge(std::move(r));
  });
}
Result<OpId> ThreadedClient::push(PushRequest request) {
  const uint64_t tag = request.tag;
  uint32_t layers = 0;  // where there is no such format or rank, the push says so
  {
    std::lock_guard lock(mutex_);
    const auto found = layers_.find(request.format);
    if (found != layers_.end() && request.rank < found->second.size()) {
      layers = found->second[request.rank];
    }
  }
  const auto run = [r = std::move(request)](ClientCore& core) mutable {
    return core.push(std::move(r));
  };
  return submit(Event::Kind::kPushed, tag, run, layers);
}

// An op that ended meanwhile said why in its terminal event; the call itself cannot fail later.
Status ThreadedClient::push_layer(OpId op, uint32_t layer) {
  {
    std::lock_guard lock(mutex_);
    if (op == 0 || op > last_op_.load()) return Status::invalid("push_layer: no such op");
    if (live_ops_.count(op) == 0) return Status();
    const auto push = live_pushes_.find(op);
    if (push == live_pushes_.end()) return Status::invalid("push_layer: the op is no push");
    if (layer != ClientCore::kEveryLayer && layer >= push->second) {
      return Status::invalid("push_layer: no such layer");
    }
  }
  post([this, op, layer] {
    const auto found = core_ops_.find(op);
    if (found == core_ops_.end()) return;
    if (Status s = core_->push_layer(found->second, layer); !s.ok()) core_->cancel(found->second);
  });
  return Status();
}

void ThreadedClient::cancel(OpId op) {
  post([this, op] {
    const auto found = core_ops_.find(op);
    if (found != core_ops_.end()) core_->cancel(found->second);
  });
}

void ThreadedClient::release(uint64_t lease) {
  post([this, lease] { core_->release(lease); });
}

Nanos ThreadedClient::lease_left_ns(uint64_t lease) const {
  return call<Nanos>([&] { return core_->lease_left_ns(lease); });
}

Status ThreadedClient::quiesce(OpId op, Nanos timeout_ns) {
  cancel(op);
  std::unique_lock lock(mutex_);
  const auto ended = [&] { return live_ops_.count(op) == 0; };
  if (changed_.wait_until(lock, after(timeout_ns), ended)) return Status();
  return Status::timed_out("quiesce: the op has not ended; its memory is still in use");
}

bool ThreadedClient::poll(Event& out) {
  std::lock_guard lock(mutex_);
  if (events_.empty()) return false;
  out = std::move(events_.front());
  events_.pop_front();
  signal();
  return true;
}

Result<Event> ThreadedClient::wait(OpId op, Nanos timeout_ns) {
  std::unique_lock lock(mutex_);
  const auto ended = [&] { return live_ops_.count(op) == 0; };
  if (!changed_.wait_until(lock, after(timeout_ns), ended)) {
    return Status::timed_out("wait: no terminal event yet");
  }
  const auto last = std::find_if(events_.begin(), events_.end(),
                                 [op](const Event& e) { return e.op == op && terminal(e); });
  if (last == events_.end())
    return Status::invalid("wait: no such op, or its last event was taken");
  Event out = std::move(*last);
  // An op's terminal event is its last: the earlier ones, not taken yet, go with it.
  std::erase_if(events_, [op](const Event& e) { return e.op == op; });
  signal();
  return out;
}

std::string ThreadedClient::last_error_text() const {
  std::lock_guard lock(mutex_);
  return last_error_text_;
}

ClientCounters ThreadedClient::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace

Result<std::unique_ptr<Client>> Client::open(const ClientOptions& options, EventWatch* watch,
                                             std::unique_ptr<Resolver> resolver) {
  auto client = std::make_unique<ThreadedClient>(options, watch);
  VARVE_RETURN_IF_ERROR(client->start(std::move(resolver)));
  return std::unique_ptr<Client>(std::move(client));
}

}  // namespace varve
