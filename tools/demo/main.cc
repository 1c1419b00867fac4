// varve_demo: one worker process of the demo, driven by lines on standard input.
//
//   varve_demo --role prefill --address 127.0.0.1:7440 --trace FILE --requests 100
//
// Each line read is the number of a request; each line written is a JSON object with what it did.
// Without --trace the generator's requests are played. The first line written describes the trace.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/demo/worker.h"
#include "tools/trace/trace.h"

namespace {

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
          {"pulled_bytes", r.pulled_bytes},
          {"pushed_bytes", r.pushed_bytes},
          {"pull_ns", r.pull_ns},
          {"first_layer_ns", r.first_layer_ns},
          {"push_ns", r.push_ns},
          {"error", r.error}};
}

int serve(const varve::trace::Trace& trace, const varve::demo::WorkerOptions& options) {
  auto worker = varve::demo::Worker::open(options);
  if (!worker) {
    std::cerr << "varve_demo: " << worker.error().what() << " (" << options.address << ")\n";
    return 1;
  }
  std::cout << nlohmann::json{{"source", trace.source},
                              {"requests", trace.requests.size()},
                              {"blocks", trace.blocks()},
                              {"hits_possible", trace.hits_possible()}}
            << std::endl;
  uint32_t number = 0;
  while (std::cin >> number) {
    if (number >= trace.requests.size()) {
      std::cerr << "varve_demo: there is no request " << number << "\n";
      return 2;
    }
    std::cout << to_json(number, (*worker)->play(trace.requests[number])) << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"One worker of the Varve demo; request numbers on standard input, JSON lines out."};
  varve::demo::WorkerOptions options;
  std::string role = "prefill", trace_path;
  uint32_t requests = 100;
  app.add_option("--role", role)->check(CLI::IsMember({"prefill", "decode"}));
  app.add_option("--address", options.address);
  app.add_option("--trace", trace_path, "JSON lines; absent: the generator");
  app.add_option("--requests", requests)->check(CLI::Range(1u, varve::trace::kTraceRequestsMax));
  app.add_option("--layers", options.layers)->check(CLI::Range(1u, 256u));
  app.add_option("--layer-bytes", options.layer_bytes)->check(CLI::Range(8u, 4u << 20));
  CLI11_PARSE(app, argc, argv);
  options.role = role == "decode" ? varve::demo::Role::kDecode : varve::demo::Role::kPrefill;
  if (trace_path.empty()) return serve(varve::trace::generate_trace(requests, 1), options);
  auto trace = varve::trace::read_trace(trace_path, requests);
  if (!trace) {
    std::cerr << "varve_demo: " << trace_path << ": " << trace.error().what() << "\n";
    return 2;
  }
  return serve(*trace, options);
}
