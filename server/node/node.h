// node: one varved process put together: its targets, one thread per shard, the sessions.
//
// Owns: every resource of the daemon from its settings to its end, what it says at start, its
// metrics file and its degraded state. Called by main, on main's thread, which otherwise only waits
// for signals. Invariants:
//   N1 a target that was lost (absent, unreadable, shrunk) costs that target, never the daemon; one
//      that is somebody else's is refused untouched (I9).
//   N2 nothing is made in the place of a target that this node had, unless it was asked for.
//   N3 nobody's mailbox goes while another core may still post to it.
//   N4 what main and the control plane's threads share stands under Node::mutex, and nobody waits
//      for a core or a file with it.
//   N5 in normal running main writes no file: it would wait where its file system stands still, and
//      takes signals, and looks at the cores, and tells the service manager that it lives. Who
//      changes targets.list holds Node::list_mutex, which main does not take; N4 comes after it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/device/device.h"
#include "common/device/fault_device.h"
#include "common/env/env.h"
#include "common/metrics/metrics.h"
#include "server/config/config.h"
#include "server/control/control.h"
#include "server/host/host.h"
#include "server/node/call.h"
#include "server/node/degraded.h"
#include "server/node/domain_book.h"
#include "server/node/file_thread.h"
#include "server/node/format_book.h"
#include "server/node/target.h"
#include "server/node/watch.h"
#include "server/session/session.h"
#include "server/shard/shard.h"

namespace varve {

inline constexpr uint32_t kSessionShard = 0;  // owns the listener and every lane

struct Node;

struct ShardThread {
  ShardThread(Node& owner, uint32_t shard_index) : node(owner), index(shard_index) {}
  // What main waits for, asked on the shard's core.
  using Ask = bool (*)(ShardThread&);
  Node& node;
  const uint32_t index;
  std::thread thread;
  ByteSpan arena;
  std::unique_ptr<IoBackend> io;
  Status io_refusal;  // why it is not io_uring; ok = it is, or epoll was asked for
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<Shard> shard;
  std::vector<BlockDevice*> devices;  // by target; the shard's
  FaultDevice* sticking = nullptr;    // of them, --fault-stuck-target
  Failure failure;
  ShardCall call;
  Ask ask = nullptr;
  bool answer = false;
  MetricSnapshot answered;  // written on the shard's core inside a call, read by main after it
  std::vector<DomainUse> uses_answered;         // the same
  std::vector<std::vector<std::byte>> formats;  // the same, of the session shard: new ones
  std::vector<DomainUse> uses;                  // main's, as the snapshot
  MetricSnapshot snapshot;  // main's: the last answer, so that a counter never seems to go back
  bool has_snapshot = false;
};

// What main saw last, each second.
struct NodeView {
  MetricSnapshot sum;  // of all shards that ever answered
  Nanos at_ns = 0;     // 0: nothing yet
  uint32_t shards_counted = 0;
  std::vector<bool> answers;  // by shard, this time
  bool degraded[kDegradedReasons] = {};
};

// A round of main's looks at the cores, as what writes the lists has it.
struct Seen {
  MetricSnapshot sum;  // of all shards that ever answered
  uint32_t shards_counted = 0;
  uint64_t round = 0;
};

struct Node {
  explicit Node(const ServerConfig& settings);
  ServerConfig config;  // fixed once the targets are known: they bound the number of shards
  SystemClock clock;
  SystemEntropy entropy;
  std::unique_ptr<Fabric> fabric;
  Gate built, run, stopped;
  Env env;
  Identity identity;
  std::string token;
  std::vector<NodeTarget> targets;
  uint32_t absent_targets = 0;  // bit t: it has target t, which is beyond --targets now
  std::vector<std::unique_ptr<ShardThread>> threads;
  std::unique_ptr<SessionTable> sessions;  // built, used and destroyed on the session shard
  MetricSet session_metrics;
  Degraded degraded;
  Watch watch{clock};
  std::unique_ptr<Monitor> monitor;  // shows `watch`; null with --http none
  LogLimit metrics_log{60 * kSecond};
  LogLimit drained_log{60 * kSecond};
  LogLimit missed_log{60 * kSecond};
  LogLimit domains_log{60 * kSecond};
  uint32_t shards_stalled = 0;  // that did not answer when last asked for their metrics
  bool go = false;              // set by main before the gate `run`
  uint64_t boot_id = 0;
  Nanos started_ns = 0;
  FormatBook book;
  DomainBook domains;
  std::string control_token;

  // N4: these, and the states of `targets`.
  std::mutex mutex;
  NodeView view;
  uint64_t round = 0;        // of main's looks, from 1; it began to ask the cores for their numbers
  bool stop_wanted = false;  // by the control plane
  bool draining = false;     // it stops
  std::string control_address;

  std::unique_ptr<control::Ingress> ingress;
  std::unique_ptr<control::Server> control;  // null: --control none
  std::thread closing;                       // of both listeners; main waits with a bound
  std::condition_variable closed_changed;
  bool closed = false;  // N4

  std::timed_mutex list_mutex;  // N5
  // What they write is theirs until they are idle.
  std::string metrics_text;
  Failure metrics_failure;  // of the last one
  Seen lists_seen;
  FileThread metrics_file{clock}, lists{clock};
  LogLimit metrics_still_log{60 * kSecond}, lists_still_log{60 * kSecond};
};

// On the core of `thread`: its device of a target, with the faults that are asked for.
Result<std::unique_ptr<BlockDevice>> open_device(const Node& node, ShardThread& thread,
                                                 uint32_t index);
// Folder, identity, targets: nothing runs yet.
Failure prepare(Node& node);
// A thread for each shard, and what it needs. Nothing is served yet; after a failure they ended.
Failure build(Node& node);
// The shards run and the listener opens. After a failure the shards run already.
Failure start(Node& node);
// The control plane, once main has seen the node; nothing where it is off.
Failure open_control(Node& node);
// Whether it was asked to stop by there.
bool stop_wanted(Node& node);
control::Readiness readiness(const Node& node);  // as /readyz
// Says on the log what these settings came to, in two lines.
void say_start(const Node& node);

// One round: sums what every shard counts, shows it, and has the metrics file and the lists written
// behind that, each by a thread of its own, unless it still writes what an earlier round gave it. A
// file that cannot be written, or is not, is said once a minute and never stops the daemon.
void see_node(Node& node);
// The same, and waits for the files: why the metrics file cannot be written, and in `unended` what
// was not written within the bound, as it is called on the log.
[[nodiscard]] Failure see_node_whole(Node& node, Nanos limit_ns, std::string* unended);
// Opens --http; after the first numbers.
[[nodiscard]] Failure open_monitor(Node& node);

// N5. What the numbers of a round say of targets that are being drained: one of which nothing is
// left is marked in the list of targets, durably, and then said to be removable, once. False: there
// was something to write, and it could not be.
bool see_drains(Node& node, const Seen& seen);

// The same of targets that fail, or have learnt of what they missed.
bool see_missed(Node& node, const Seen& seen);

// The same of an id of a domain that drives know of and no list has: it is none to be given again.
// And of changes of the domains that the list of targets does not tell of yet.
bool see_domains(Node& node, const Seen& seen);

// The target of --fault-stuck-target keeps what it is asked (kOn), or answers it all (kOff).
enum class Sticking : uint8_t { kOff, kOn };
void stick(Node& node, Sticking sticking);

// GOODBYE, then half of the time for clients to finish, then everything left is closed; the rest of
// the time for write-behind, seal and checkpoint. `pause` waits between questions and ends the
// process at a second signal. False: not done by `until_ns`; recovery is for the rest.
using Pause = void (*)(void* context);
[[nodiscard]] bool drain(Node& node, Nanos until_ns, Pause pause, void* context);
// Lets operators and probes go, then ends the cores. Answers what was not gone by `until_ns`,
// listeners or files; nothing else is left to do then, so the process is to end as it is.
[[nodiscard]] std::string stop(Node& node, Nanos until_ns);
[[nodiscard]] bool close_listeners(Node& node, Nanos until_ns);  // its first part

}  // namespace varve
