// A graceful stop, asked of the shards step by step within one bound.
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

bool drain(Node& node, Pause pause, void* context) {
  VARVE_ASSERT(node.go && pause != nullptr);
  node.watch.drains();
  const Nanos limit_ns = node.config.drain_ms * kMillisecond;
  const Stop stop{node, pause, context, node.clock.now_ns() + limit_ns};
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

}  // namespace varve
