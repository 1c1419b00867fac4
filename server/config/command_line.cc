// The command line of varved, through CLI11, which no other file names.
//
// CLI11 reports by exceptions; they are caught here, at the border, and become an exit code and a
// text.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <limits>

#include "server/config/config.h"

namespace varve {

namespace {

// Least edits from a to b; texts of options are short.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// "did you mean --x?" for each argument that looks like a misspelt option.
std::string suggestions(const CLI::App& app, int argc, const char* const* argv) {
  std::string out;
  for (int i = 1; i < argc; ++i) {
    std::string given = argv[i];
    given = given.substr(0, given.find('='));
    if (given.rfind("--", 0) != 0) continue;
    std::string best;
    size_t best_distance = 4;  // further away is another word
    bool known = false;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) {
        const size_t d = distance(given, "--" + name);
        known = known || d == 0;
        if (d < best_distance) {
          best = "--" + name;
          best_distance = d;
        }
      }
    }
    if (!known && !best.empty()) out += given + ": did you mean " + best + "?\n";
  }
  return out;
}

// Every value is read here and not by CLI11, whose "Could not convert" names no remedy.
[[noreturn]] void refuse(const char* name, const std::string& given, const std::string& wanted) {
  throw CLI::ValidationError(name, "\"" + given + "\": " + wanted);
}

CLI::Option* add_bytes(CLI::App& app, const char* name, uint64_t& out, const char* help) {
  const auto read = [&out, name](const CLI::results_t& texts) {
    const Result<uint64_t> bytes = parse_bytes(texts.at(0));
    if (!bytes) {
      refuse(name, texts.at(0), std::string(bytes.error().what()) + ", as in 64MiB or 10GiB");
    }
    out = *bytes;
    return true;
  };
  return app.add_option(name, read, help)->type_name("SIZE")->expected(1);
}

template <class Number>
CLI::Option* add_number(CLI::App& app, const char* name, Number& out, const char* help) {
  const auto read = [&out, name](const CLI::results_t& texts) {
    constexpr uint64_t kMax = std::numeric_limits<Number>::max();
    const std::string& text = texts.at(0);
    uint64_t value = 0;
    bool good = !text.empty();
    for (const char c : text) {
      const auto digit = static_cast<uint64_t>(c - '0');  // anything but a digit is huge
      good = good && digit <= 9 && value <= (kMax - digit) / 10;
      value = good ? value * 10 + digit : 0;
    }
    if (!good) {
      refuse(name, text, "it must be a whole number from 0 to " + std::to_string(kMax));
    }
    out = static_cast<Number>(value);
    return true;
  };
  return app.add_option(name, read, help)->type_name("NUMBER")->expected(1);
}

std::string schemes_text() {
  std::string text;
  for (const Scheme& scheme : kSchemes) {
    if (!text.empty()) text += &scheme == &kSchemes.back() ? " or " : ", ";
    text += scheme.text();
  }
  return text;
}

void describe(CLI::App& app, ServerConfig& config) {
  app.add_option("--data", config.data_dir, "folder of the daemon [./varve-data]")
      ->type_name("DIR");
  app.add_option("--listen", config.listen, "address of the data plane [127.0.0.1:7440]")
      ->type_name("HOST:PORT");
  app.add_option("--token-file", config.token_file,
                 "bearer token (mode 0600); needed beyond loopback")
      ->type_name("PATH");
  add_number(app, "--targets", config.targets, "file-backed targets in the data folder [4]");
  app.add_option("--target", config.target_paths, "a target file or block device (repeat)")
      ->type_name("PATH")
      ->expected(1, 32)
      ->take_all();
  add_bytes(app, "--target-bytes", config.target_bytes,
            "size of a target file that is created [1GiB]");
  const auto read_scheme = [&config](const CLI::results_t& texts) -> bool {
    const Result<Scheme> scheme = Scheme::parse(texts.at(0));
    if (!scheme) refuse("--scheme", texts.at(0), "it must be " + schemes_text());
    config.scheme = *scheme;
    return true;
  };
  app.add_option("--scheme", read_scheme,
                 "K+M: data and parity fragments of a block, each on a target of its own; of "
                 "targets that are formatted, else as they were [1+0]")
      ->type_name("K+M")
      ->expected(1);
  app.add_flag(
      "--create-targets", config.create_targets,
      "make missing or empty target files of a node that had them (what lay there is lost)");
  app.add_flag(
      "--accept-stale", config.accept_stale,
      "start though targets missed purges that none here saw (purged blocks may come back)");
  add_bytes(app, "--free-floor-bytes", config.free_floor_bytes,
            "what creating targets leaves free on the file system [2GiB]");
  add_bytes(app, "--dram-bytes", config.dram_bytes,
            "DRAM tier [a quarter of the available memory, at most 1GiB]");
  add_number(app, "--shards", config.shards, "cores that own data, 1 to 16 [half of the cores]");
  const auto read_io = [&config](const CLI::results_t& texts) -> bool {
    for (const IoSetting io : {IoSetting::kAuto, IoSetting::kUring, IoSetting::kEpoll}) {
      if (texts.at(0) != io_setting_name(io)) continue;
      config.io = io;
      return true;
    }
    refuse("--io", texts.at(0), "it must be auto, uring or epoll");
  };
  app.add_option("--io", read_io, "uring, epoll, or auto: uring where the kernel allows it [auto]")
      ->type_name("KIND")
      ->expected(1);
  add_number(app, "--sessions", config.sessions, "clients at once, 1 to 4096 [256]");
  app.add_option("--metrics-file", config.metrics_file,
                 "Prometheus text, each second [DATA/metrics.prom]")
      ->type_name("PATH");
  add_number(app, "--drain-ms", config.drain_ms, "bound of a graceful stop [10000]");
  add_number(app, "--scrub-interval-s", config.scrub_interval_s,
             "read and verify all of the flash once in this time; 0: never [86400]");
  add_number(app, "--repair-mb-per-s", config.repair_mb_per_s,
             "fragments that blocks lack are rebuilt at this rate of MB written; 0: never [200]");
  app.add_option("--drain-target", config.drain_targets,
                 "empty this target while it works, to take it out; a path as of --target (repeat)")
      ->type_name("PATH")
      ->expected(1, 32)
      ->take_all();
  add_number(app, "--sibling-ms-max", config.sibling_ms_max,
             "a run of which a rank is missing for longer is dropped [60000]");
  app.add_option("--log-level", config.log_level, "debug, info, warn or error [info]");
  app.add_flag("--print-config", config.print_config, "print the effective settings and exit");
  const char* testing = "Testing (breaks promises on purpose)";
  app.add_flag("--i-am-testing", config.testing, "allows the options below")->group(testing);
  app.add_flag("--fault-volatile-cache", config.faults.volatile_cache,
               "unflushed writes die with the process")
      ->group(testing);
  add_number(app, "--fault-spill-per-mille", config.faults.spill_per_mille,
             "chance that an unflushed page reaches the medium early")
      ->group(testing);
  add_number(app, "--fault-seed", config.faults.seed, "of all coins")->group(testing);
  app.add_flag("--fault-ack-before-flush", config.faults.ack_before_flush,
               "mutant: durable is answered before its flush")
      ->group(testing);
  app.add_flag("--fault-purge-before-flush", config.faults.purge_before_flush,
               "mutant: a purge is answered before its flush")
      ->group(testing);
  add_number(app, "--fault-stuck-target", config.faults.stuck_target,
             "this target swallows requests from SIGUSR1 until SIGUSR2")
      ->group(testing);
}

}  // namespace

const char* version_text() {
  return "varved 0.1 (wire 1, format 1)";
}

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine out;
  CLI::App app(
      "varved: a KV-cache storage server. Without options it serves on loopback from "
      "./varve-data.\n"
      "Exit: 0 drained, 2 a setting is wrong, 3 the environment, 4 a target is refused, 5 not "
      "drained "
      "in time.",
      "varved");
  app.set_version_flag("--version", version_text());
  describe(app, out.config);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    out.exit_code = 0;
    out.text = app.help();
    return out;
  } catch (const CLI::CallForVersion& version) {
    out.exit_code = 0;
    out.text = std::string(version.what()) + "\n";
    return out;
  } catch (const CLI::ParseError& error) {
    out.exit_code = kExitUsage;
    out.text = std::string("varved: ") + error.what() + "\n" + suggestions(app, argc, argv) +
               "varved --help lists the options\n";
    return out;
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0)
      out.config.from_command_line.push_back("--" + option->get_lnames().at(0));
  }
  return out;
}

}  // namespace varve
