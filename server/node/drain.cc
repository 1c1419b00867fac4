// A graceful stop, asked of the shards step by step within one bound.
#include <chrono>

#include "server/node/node.h"

namespace varve {

namespace {

struct Stop {
  Node& node;
  Pause pause;
  void* context;
  Nanos until_ns;  // of all steps together
  Nanos left_ns() const {
    const Nanos now_ns = node.clock.now_ns();
    return now_ns < until_ns ? until_ns - now_ns : 0;
  }
};

// Asks a shard again and again until it says yes or the bound passes.
bool wait_until(const Stop& stop, ShardThread& thread, ShardThread::Ask ask, Nanos until_ns) {
  thread.ask = ask;
  while (true) {
    const auto work = [](void* context) {
      auto& asked = *static_cast<ShardThread*>(context);
      asked.answer = asked.ask(asked);
    };
    const Nanos now_ns = stop.node.clock.now_ns();
    if (now_ns >= until_ns) return false;
    if (!thread.call.run(*thread.reactor, work, &thread, until_ns - now_ns)) return false;
    if (thread.answer) return true;
    stop.pause(stop.context);
  }
}

}  // namespace

bool drain(Node& node, Nanos until_ns, Pause pause, void* context) {
  VARVE_ASSERT(node.go && pause != nullptr);
  node.watch.drains();
  const Stop stop{node, pause, context, until_ns};
  const Nanos limit_ns = stop.left_ns();
  {
    const std::lock_guard<std::mutex> lock(node.mutex);
    node.draining = true;
  }
  if (node.control != nullptr) node.control->readiness_set(control::Readiness::kNotReady);
  ShardThread& session_thread = *node.threads[kSessionShard];
  const auto begin = [](void* of) { static_cast<Node*>(of)->sessions->drain(); };
  const auto close = [](void* of) {
    static_cast<Node*>(of)->sessions->close_all(Status::unavailable("the daemon stops"));
  };
  if (!session_thread.call.run(*session_thread.reactor, begin, &node, stop.left_ns())) return false;
  const auto left = [](ShardThread& t) { return t.node.sessions->session_count() == 0; };
  (void)wait_until(stop, session_thread, left, stop.until_ns - limit_ns / 2);
  if (!session_thread.call.run(*session_thread.reactor, close, &node, stop.left_ns())) return false;
  const auto rest = [](ShardThread& t) { return t.node.sessions->at_rest(); };
  if (!wait_until(stop, session_thread, rest, stop.until_ns)) return false;
  for (const auto& thread : node.threads) {
    const auto work = [](void* of) { static_cast<Shard*>(of)->drain(); };
    if (!thread->call.run(*thread->reactor, work, thread->shard.get(), stop.left_ns())) {
      return false;
    }
  }
  for (const auto& thread : node.threads) {
    const auto drained = [](ShardThread& t) { return t.shard->drained(); };
    if (!wait_until(stop, *thread, drained, stop.until_ns)) return false;
  }
  return true;
}

// Their libraries wait for their own threads, and have no bound for that which could be relied on.
bool close_listeners(Node& node, Nanos until_ns) {
  VARVE_ASSERT(!node.closing.joinable());
  const auto left_ns = [&node, until_ns] {
    const Nanos now_ns = node.clock.now_ns();
    return now_ns < until_ns ? until_ns - now_ns : 0;
  };
  node.closing = std::thread([&node, left_ns] {
    if (node.control != nullptr) node.control->stop(left_ns() / 2);
    node.control.reset();
    node.monitor.reset();
    const std::lock_guard<std::mutex> lock(node.mutex);
    node.closed = true;
    node.closed_changed.notify_all();
  });
  {
    std::unique_lock<std::mutex> lock(node.mutex);
    const auto closed = [&node] { return node.closed; };
    if (!node.closed_changed.wait_for(lock, std::chrono::nanoseconds(left_ns()), closed)) {
      return false;
    }
  }
  node.closing.join();
  return true;
}

}  // namespace varve
