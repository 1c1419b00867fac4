// monitor: what a node says of itself to those who watch it: its numbers as Prometheus text, and
// over HTTP GET /metrics, /healthz and /readyz.
//
// Owns: the HTTP listener with its threads, the words and codes of its answers, the text of a
// snapshot. It knows no node: MonitorSource is what it asks. Called by server/node. Thread rule:
// Monitor belongs to main's thread; MonitorSource is called by its threads, several at once.
// Invariants:
//   O1 nothing here waits for a shard's core: a scrape gets the numbers of the last second (I11).
//   O2 /healthz is 200 while the node moves, /readyz while a client may be sent here; else both are
//      503 and say why. Neither says more than the source did.
//   O3 bounded: threads, connections that wait, bytes and seconds of a request. Only GET and HEAD,
//      only these paths; no file is ever served.
//   O4 nothing is thrown through the frames of the C library: what cannot be answered is 503.
#pragma once

#include <memory>
#include <string>

#include "common/base/base.h"
#include "common/metrics/metrics.h"

namespace varve {

// Families together in order of first mention; histograms with one bucket for each power of two,
// and in seconds when the name ends in _seconds.
std::string prometheus_text(const MetricSnapshot& snapshot);

// Why a node should be restarted (not alive) or sent nobody (not ready); empty = it is well.
struct Health {
  std::string not_alive;
  std::string not_ready;
};

class MonitorSource {
 public:
  virtual ~MonitorSource() = default;
  virtual std::string metrics_text() const = 0;
  virtual Health health() const = 0;
};

struct MonitorOptions {
  std::string address;             // HOST:PORT with a number or "localhost" as HOST; port 0: any
  uint32_t threads = 8;            // each is one connection's
  uint32_t waiting = 16;           // connections that no thread has taken yet
  uint32_t request_ms_max = 1000;  // to say a request, and from one part of the answer to the next
};

class Monitor {
 public:
  // kInvalid: the address; kUnavailable with errno: it cannot be listened on. `source` outlives it.
  static Result<std::unique_ptr<Monitor>> open(const MonitorOptions& options,
                                               const MonitorSource& source);
  virtual ~Monitor() = default;             // ends its threads; bounded by request_ms_max
  virtual std::string address() const = 0;  // as it listens, with its port
};

}  // namespace varve
