// varve_demo: one worker process of the demo, driven by lines on standard input.
//
//   varve_demo --role prefill --address 127.0.0.1:7440 --trace FILE --requests 100
//
// Lines read:     N               play request N
//                 hold N          the same, but once some of it was granted the push waits for one
//                                 more line before it goes on; needs --announce
//                 follow N TAGS   follow blocks of it that prefill is pushing
// Lines written:  what is played, once; per line read a JSON object with what it did, and before
//                 that, with --announce, as soon as they may be followed, {"request": N,
//                 "granted": TAGS}.
// The role `about` says what would be played and ends; `ceiling` moves raw messages instead
// (ceiling.h). TAGS are follow tags, 48 bytes each, in hex. Without --trace the generator's
// requests are played.
#include <CLI/CLI.hpp>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/demo/ceiling.h"
#include "tools/demo/worker.h"
#include "tools/trace/trace.h"

namespace {

using varve::FollowTag;
using varve::Result;
using varve::Status;
using varve::demo::RequestReport;

nlohmann::json to_json(uint32_t number, const RequestReport& r) {
  return {{"request", number},
          {"blocks", r.blocks},
          {"hit_blocks", r.hit_blocks},
          {"pulled_blocks", r.pulled_blocks},
          {"pushed_blocks", r.pushed_blocks},
          {"failed_blocks", r.failed_blocks},
          {"wrong_blocks", r.wrong_blocks},
          {"retries", r.retries},
          {"recovering_asks", r.recovering_asks},
          {"recovering_ns", r.recovering_ns},
          {"rebuilt_extents", r.rebuilt_extents},
          {"pulled_bytes", r.pulled_bytes},
          {"pushed_bytes", r.pushed_bytes},
          {"pull_ns", r.pull_ns},
          {"first_layer_ns", r.first_layer_ns},
          {"push_ns", r.push_ns},
          {"computed_at_ns", r.computed_at_ns},
          {"first_layer_at_ns", r.first_layer_at_ns},
          {"done_at_ns", r.done_at_ns},
          {"error", r.error}};
}

std::string to_text(const std::vector<FollowTag>& tags) {
  const auto* bytes = reinterpret_cast<const std::byte*>(tags.data());
  return varve::to_hex({bytes, tags.size() * sizeof(FollowTag)});
}

Result<std::vector<FollowTag>> tags_of(const std::string& text) {
  std::vector<FollowTag> tags(text.size() / (2 * sizeof(FollowTag)));
  auto* bytes = reinterpret_cast<std::byte*>(tags.data());
  const bool whole = !tags.empty() && text.size() == tags.size() * 2 * sizeof(FollowTag);
  if (!whole || !varve::from_hex(text, {bytes, tags.size() * sizeof(FollowTag)})) {
    return Status::invalid("tags are 96 hex digits each, one at least");
  }
  return tags;
}

// Says which blocks may be followed; with `holds`, the push stops there once, in its middle, until
// whoever reads this has done to the daemon what is to happen in a push.
varve::demo::Worker::OnGranted announcement(uint32_t number, bool holds) {
  return [number, holds](const std::vector<FollowTag>& tags) mutable {
    std::cout << nlohmann::json{{"request", number}, {"granted", to_text(tags)}} << std::endl;
    std::string line;
    if (holds) std::getline(std::cin, line);
    holds = false;
  };
}

// One line of standard input; false when it makes no sense.
bool serve_line(const std::string& line, const varve::trace::Trace& trace,
                varve::demo::Worker& worker, bool announce) {
  std::istringstream words(line);
  std::string first, text;
  uint32_t number = 0;
  const bool follows = line.starts_with("follow "), holds = line.starts_with("hold ");
  if (follows || holds) words >> first;
  if (holds && !announce) return false;
  words >> number;
  if (words.fail() || number >= trace.requests.size()) return false;
  const varve::trace::TraceRequest& request = trace.requests[number];
  if (follows) {
    words >> text;
    const Result<std::vector<FollowTag>> tags = tags_of(text);
    if (!tags) return false;
    std::cout << to_json(number, worker.follow(request, *tags)) << std::endl;
    return true;
  }
  varve::demo::Worker::OnGranted on_granted;
  if (announce) on_granted = announcement(number, holds);
  std::cout << to_json(number, worker.play(request, on_granted)) << std::endl;
  return true;
}

void cut(varve::trace::Trace& trace, uint32_t blocks_max) {
  for (varve::trace::TraceRequest& request : trace.requests) {
    if (request.ids.size() > blocks_max) request.ids.resize(blocks_max);
  }
}

int say_about(const varve::trace::Trace& trace, const varve::demo::WorkerOptions& options) {
  std::cout << nlohmann::json{{"source", trace.source},   {"requests", trace.requests.size()},
                              {"blocks", trace.blocks()}, {"hits_possible", trace.hits_possible()},
                              {"layers", options.layers}, {"layer_bytes", options.layer_bytes}}
            << std::endl;
  return 0;
}

int serve(const varve::trace::Trace& trace, const varve::demo::WorkerOptions& options,
          bool announce) {
  auto worker = varve::demo::Worker::open(options);
  if (!worker) {
    std::cerr << "varve_demo: " << worker.error().what() << " (" << options.address << ")\n";
    return 1;
  }
  say_about(trace, options);
  for (std::string line; std::getline(std::cin, line);) {
    if (!serve_line(line, trace, **worker, announce)) {
      std::cerr << "varve_demo: this is no line of its protocol, or no request of the trace: "
                << line.substr(0, 60) << "\n";
      return 2;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"One worker of the Varve demo; request numbers on standard input, JSON lines out."};
  varve::demo::WorkerOptions options;
  std::string role = "prefill", trace_path;
  uint32_t requests = 100, layer_us = 0;
  bool announce = false;
  varve::demo::CeilingOptions ceiling;
  app.add_option("--role", role)->check(CLI::IsMember({"prefill", "decode", "about", "ceiling"}));
  app.add_option("--address", options.address);
  app.add_option("--trace", trace_path, "JSON lines; absent: the generator");
  app.add_option("--requests", requests)->check(CLI::Range(1u, varve::trace::kTraceRequestsMax));
  app.add_option("--layers", options.layers)->check(CLI::Range(1u, 256u));
  app.add_option("--layer-bytes", options.layer_bytes)->check(CLI::Range(8u, 4u << 20));
  app.add_option("--layer-us", layer_us, "microseconds that a layer of a push takes to compute")
      ->check(CLI::Range(0u, 1000000u));
  app.add_option("--blocks", ceiling.blocks, "of a round of the ceiling")
      ->check(CLI::Range(1u, 4096u));
  app.add_flag("--announce", announce, "say which blocks may be followed while they are pushed");
  CLI11_PARSE(app, argc, argv);
  if (role == "ceiling") {
    ceiling.layers = options.layers;
    ceiling.layer_bytes = options.layer_bytes;
    return varve::demo::serve_ceiling(ceiling);
  }
  options.role = role == "decode" ? varve::demo::Role::kDecode : varve::demo::Role::kPrefill;
  options.layer_compute_ns = layer_us * varve::kMicrosecond;
  Result<varve::trace::Trace> trace = trace_path.empty()
                                          ? varve::trace::generate_trace(requests, 1)
                                          : varve::trace::read_any(trace_path, requests);
  if (!trace) {
    std::cerr << "varve_demo: " << trace_path << ": " << trace.error().what() << "\n";
    return 2;
  }
  cut(*trace, options.blocks_max);
  return role == "about" ? say_about(*trace, options) : serve(*trace, options, announce);
}
