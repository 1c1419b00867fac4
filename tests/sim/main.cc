// varve_sim: runs of the small world, each a function of (seed, commit), each in a process of its
// own.
//
//   varve_sim --seeds 200 --start 1     each seed twice; equal hashes, or it fails
//   varve_sim --seed 7 --trace          one run, with its numbers
//   varve_sim --seeds 60 --once --first up to the first that fails: how a mutant is caught
//   varve_sim --regressions FILE        the seeds that failed once: one a line, # and why behind it
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/base.h"
#include "tests/sim/run.h"

namespace {

struct Arguments {
  uint64_t seeds = 0, start = 1, seed = 0;
  std::vector<uint64_t> listed;  // what runs
  bool chosen = false;
  bool trace = false, mutant = false, once = false, first = false;
};

// False, with a message, when the file cannot be read or a line does not begin with a seed.
bool read_seeds(const char* path, std::vector<uint64_t>* seeds) {
  std::ifstream file(path);
  std::string line;
  for (uint32_t number = 1; std::getline(file, line); ++number) {
    const std::string text = line.substr(0, line.find('#'));
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    char* end = nullptr;
    const uint64_t seed = std::strtoull(text.c_str(), &end, 10);
    if (seed == 0 || text.find_first_not_of(" \t\r", static_cast<size_t>(end - text.c_str())) !=
                         std::string::npos) {
      std::fprintf(stderr, "varve_sim: %s:%u: not a seed\n", path, number);
      return false;
    }
    seeds->push_back(seed);
  }
  if (file.eof() && !file.bad()) return true;
  std::fprintf(stderr, "varve_sim: cannot read %s\n", path);
  return false;
}

bool parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto number = [&](uint64_t& value) {
      if (i + 1 >= argc) return false;
      char* end = nullptr;
      value = std::strtoull(argv[++i], &end, 10);
      return *end == 0 && end != argv[i];
    };
    bool ok = true;
    if (flag == "--seeds")
      ok = number(out.seeds);
    else if (flag == "--start")
      ok = number(out.start);
    else if (flag == "--seed")
      ok = number(out.seed);
    else if (flag == "--regressions")
      ok = out.chosen = i + 1 < argc && read_seeds(argv[++i], &out.listed);
    else if (flag == "--trace")
      out.trace = true;
    else if (flag == "--once")
      out.once = true;
    else if (flag == "--first")
      out.first = true;
    else if (flag == "--mutant-ack-before-flush")
      out.mutant = true;
    else
      ok = false;
    if (!ok) {
      std::fprintf(
          stderr,
          "varve_sim: bad argument %s\nusage: varve_sim --seeds N [--start S] | --seed X [--trace]"
          " | --regressions FILE; [--once] [--first] [--mutant-ack-before-flush]\n",
          flag.c_str());
      return false;
    }
  }
  if (out.seed > 0) out.listed.push_back(out.seed);
  for (uint64_t seed = out.start; seed < out.start + out.seeds; ++seed)
    out.listed.push_back(seed);
  return out.chosen || !out.listed.empty();
}

// The child's hash, or false when it failed (its message is on stderr already).
bool run_apart(uint64_t seed, const varve::sim::RunOptions& options,
               varve::sim::RunResult* result) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    close(ends[0]);
    const varve::sim::RunResult r = varve::sim::run(seed, options);
    const bool written = write(ends[1], &r, sizeof(r)) == sizeof(r);
    std::fflush(nullptr);
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  size_t got = 0;
  while (got < sizeof(*result)) {
    const ssize_t n = read(ends[0], reinterpret_cast<char*>(result) + got, sizeof(*result) - got);
    if (n <= 0) break;
    got += static_cast<size_t>(n);
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    std::fprintf(stderr,
                 "FAIL seed %" PRIu64 ": signal %d\nrepeat: tools/dev sim --seed %" PRIu64
                 " --trace\n",
                 seed, WTERMSIG(status), seed);
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 && got == sizeof(*result);
}

// What so many seeds never do is not tested by them.
constexpr size_t kSeedsOfAll = 100;
bool covers_all(const varve::sim::RunResult& sum) {
  bool all = true;
  for (const varve::sim::RunCount& count : varve::sim::kRunCounts) {
    if (sum.*count.of > 0) continue;
    std::fprintf(stderr, "varve_sim: a part of the workload never happened: %s\n", count.name);
    all = false;
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) return 2;
  varve::log_level_set(arguments.trace ? varve::LogLevel::kInfo : varve::LogLevel::kError);
  varve::sim::RunOptions options;
  options.trace = arguments.trace;
  options.ack_before_flush_mutant = arguments.mutant;
  uint64_t failed = 0;
  varve::sim::RunResult sum;
  for (const uint64_t seed : arguments.listed) {
    if (arguments.first && failed > 0) break;
    varve::sim::RunResult a, b;
    if (!run_apart(seed, options, &a)) {
      ++failed;
      continue;
    }
    if (!arguments.once) {
      if (!run_apart(seed, options, &b) || a.hash != b.hash) {
        std::fprintf(stderr,
                     "FAIL seed %" PRIu64 ": two runs differ (%016" PRIx64 " %016" PRIx64 ")\n",
                     seed, a.hash, b.hash);
        ++failed;
        continue;
      }
    }
    std::printf("seed %" PRIu64 " hash %016" PRIx64 "\n", seed, a.hash);
    for (const varve::sim::RunCount& count : varve::sim::kRunCounts)
      sum.*count.of += a.*count.of;
  }
  std::printf("sim: %zu seeds, %" PRIu64 " failed", arguments.listed.size(), failed);
  for (const varve::sim::RunCount& count : varve::sim::kRunCounts)
    std::printf(", %" PRIu64 " %s", sum.*count.of, count.name);
  std::printf("\n");
  if (arguments.listed.size() >= kSeedsOfAll && !covers_all(sum)) return 1;
  return failed == 0 ? 0 : 1;
}
