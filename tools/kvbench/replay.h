// Replay: the subcommand that plays requests of a trace, or of the generator, against a server,
// closed or open loop, beside a raw socket that moves as much in the same rounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/kvbench/conditions.h"
#include "tools/kvbench/player.h"
#include "tools/kvbench/server_under_test.h"
#include "tools/trace/trace.h"

namespace varve::kvbench {

struct ReplayOptions {
  ServerOptions server;
  std::string trace_path;  // empty: the generator
  uint64_t seed = 1;       // of the generator
  uint32_t requests = 200;
  std::string loop = "closed";  // or "open"
  double speedup = 1;           // open loop: the trace's times, divided by it
  uint32_t concurrency = 4;     // requests under way; open loop: at most
  uint32_t rounds = 0;          // 0: 5 of a closed loop, 3 of an open one
  uint32_t depth = 32;          // of the drive's ceiling
  uint32_t layers = 16, layer_kib = 64, blocks_max = 256;
  uint32_t lanes = 1;
  std::string ack = "durable";  // or "cached"
  bool storage_only = false;    // every hit is read from flash, or there is no result
  uint32_t deadline_ms = 10000;
  std::string json_path, hardware_path;
};

// What of a trace is played: its first requests, cut to `blocks_max`, with dense content ids.
struct ReplayPlan {
  std::vector<Prompt> prompts;
  std::vector<LoadRequest> load;  // due as the trace says, since its first request, by `speedup`
  uint64_t blocks = 0, cut_blocks = 0, cut_requests = 0;
  uint64_t hits_possible = 0;         // of an unlimited cache that was empty at first
  std::vector<double> prefix_tokens;  // by request: what could hit
  uint64_t unique_blocks = 0;
  uint32_t sessions = 0;              // 0: the trace tells none
  std::vector<double> session_turns;  // by session
};
ReplayPlan plan_of(const trace::Trace& trace, uint32_t blocks_max, double speedup);

// The plan `times` times, each with blocks of its own: what the first left behind is no hit of the
// second. Pure.
ReplayPlan repeated(const ReplayPlan& plan, uint32_t times);

// Whether an open loop can keep the times of the trace: it has them, and they come to an end. Pure.
Status check_times(const ReplayOptions& options, const trace::Trace& trace);

struct Slice {  // of the prompts
  uint32_t first = 0, count = 0;
};
uint32_t rounds_asked(const ReplayOptions& options);
// Of `requests` as many as were asked for, the ceiling between them. A round of an open loop is the
// whole trace (its plan is repeated), because a stall must delay all that is due behind it; between
// rounds a queue is emptied, and the delay with it. Pure.
std::vector<Slice> rounds_of(const ReplayOptions& options, uint32_t requests);

// Time during which at least one of the spans ran. Pure.
struct Span {
  Nanos begin_ns = 0, end_ns = 0;
};
Nanos busy_ns(std::vector<Span> spans);

CLI::App* add_replay(CLI::App& app, ReplayOptions& options);
int run_replay(ReplayOptions options, const RunStart& start);

}  // namespace varve::kvbench
