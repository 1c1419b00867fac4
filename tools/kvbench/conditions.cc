// One function per part of the schema.
#include "tools/kvbench/conditions.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "client/varve.h"
#include "common/erasure/erasure.h"
#include "common/fabric/fabric.h"
#include "common/reactor/io.h"
#include "tools/kvbench/machine.h"

namespace varve::kvbench {

namespace {

constexpr uint32_t kTargetInFlightBytes = 2 * kMiB;  // of a pull, at each target
constexpr uint64_t kWindowBytes = 5 * 4 * kMiB;      // pull_windows_max, of 4 MiB
constexpr int kHardwareDepthMax = 32;
constexpr const char* kNoStore = "no store takes part in this run: ceilings only";
constexpr const char* kNoDescription =
    "no system description was given (--hardware FILE); declared is what this machine tells";
constexpr const char* kCalled =
    "nothing of it takes part: rooms of the server are called in this process, without a daemon";

constexpr const char* kNoVarved = "no varved could be started, so none was measured";

bool is_loopback(const std::string& address) {
  return address.empty() || address.starts_with("127.") || address.starts_with("localhost");
}

void declare_head(const Conditions& c, Declaration& out) {
  std::string command;
  for (const std::string& argument : c.start.arguments)
    command += (command.empty() ? "" : " ") + shell_quoted(argument);
  out.head("run_id", c.start.run_id);
  out.head("timestamp", c.start.timestamp);
  out.head("git_commit", c.start.commit);
  out.head("host_fingerprint", fingerprint());
  out.head("declared_by", "kvbench");
  out.head("reproduction_command", command);
  const bool quiet = is_quiet(c.start.load_average, cores());
  out.head("machine_quiet", quiet);
  out.head("load_average", c.start.load_average);
  if (!quiet) {
    out.warn("the machine was not quiet: load " + std::to_string(c.start.load_average) + " on " +
             std::to_string(cores()) + " cores when the run began; not for publication");
  }
  if (const std::string warning = build_warning(build_cache()); !warning.empty()) out.warn(warning);
  if (c.start.commit.ends_with("-dirty")) {
    out.warn("the program was built of files that differ from its commit; not for publication");
  }
}

// A server of storage only has no tier in DRAM: what lies there is being written or sent.
Json of_tiers(const Conditions& c, Json dram, Json flash) {
  Json tiers = Json::object();
  if (c.mode == Mode::kStoragePlusMemory) tiers["dram"] = std::move(dram);
  tiers["nvme_local"] = std::move(flash);
  return tiers;
}

// The daemon that is measured may have been built at another time than what measures it.
void declare_server_commit(const Conditions& c, Declaration& out) {
  if (!c.server_commit.empty()) {
    out.head("server_commit", c.server_commit);
    if (c.server_commit == c.start.commit) return;
    out.warn("varved is of commit " + c.server_commit +
             ", kvbench of another; not for publication");
    return;
  }
  out.omit("server_commit", c.server == Server::kNone        ? kNoStore
                            : c.server == Server::kInProcess ? kCalled
                            : c.server == Server::kOthers    ? kNotTold
                                                             : kNoVarved);
}

void declare_own_tiers(const Conditions& c, bool emulated, Declaration& out) {
  const uint64_t flash_bytes = c.targets * c.target_bytes;
  const auto ratio = [](uint64_t bytes, uint64_t capacity) {
    return static_cast<double>(bytes) / static_cast<double>(capacity);
  };
  const uint64_t stored_bytes = c.pushed_bytes / c.scheme.k * c.scheme.width();
  const auto both = [&c](const Json& value) { return of_tiers(c, value, value); };
  const uint64_t cache_bytes = c.dram_bytes / 2;
  out.declare("tiers[].capacity_bytes", of_tiers(c, cache_bytes, flash_bytes));
  out.omit_part("tiers[].capacity_bytes", "what of them is heads and reserves",
                "dram: at most half of the arena of --dram-bytes stays as cache; nvme_local: the "
                "targets as they were made");
  out.declare("tiers[].working_set_ratio",
              of_tiers(c, ratio(c.pushed_bytes, cache_bytes), ratio(stored_bytes, flash_bytes)));
  Json flash = {{"emulated", emulated}};
  if (emulated) flash["why"] = "the drive below the targets is a virtual one";
  out.declare("tiers[].emulated", of_tiers(c, {{"emulated", false}}, flash));
  out.declare("tiers[].eviction.policy", of_tiers(c, "lru", "lru_leaf"));
  out.declare("tiers[].eviction.params", both(Json::object()));
  out.declare("tiers[].admission.gate", both("all"));
}

void declare_tiers(const Conditions& c, bool emulated, Declaration& out) {
  if (c.server == Server::kNone) return omit_rest({"tiers[]"}, kNoStore, out);
  if (c.server == Server::kOthers) return omit_rest({"tiers[]"}, kNotTold, out);
  Json names = Json::array({"nvme_local"});
  if (c.mode == Mode::kStoragePlusMemory) names.insert(names.begin(), "dram");
  out.declare("tiers[].name", names);
  declare_own_tiers(c, emulated, out);
  out.omit("tiers[].admission.params", "does not apply: a gate that lets everything in has none");
  out.declare("tiers[].persistence",
              of_tiers(c, {{"persistent", false}, {"shared_across_replicas", true}},
                       {{"persistent", true}, {"shared_across_replicas", true}}));
  out.declare("tiers[].movement", of_tiers(c, {{"promotion", "on_read"}, {"demotion", "none"}},
                                           {{"promotion", "none"}, {"demotion", "none"}}));
}

Json of_flash(Json value) {
  return Json{{"nvme_local", std::move(value)}};
}

// How our own daemon does its I/O.
void declare_server_io(const Conditions& c, uint32_t request_bytes, Declaration& out) {
  const auto flash = of_flash;
  // What it did not tell is probed here, on the same kernel.
  const std::string io = c.seen.io.empty() ? io_backend() : c.seen.io;
  const bool uring = io.starts_with("io_uring");
  out.declare("io[].mechanism", flash(uring ? "io_uring_direct" : "posix_direct"));
  const uint32_t per_target = kTargetInFlightBytes / request_bytes;
  out.declare("io[].queue_depth",
              flash({{"per_target", per_target},
                     {"total", per_target * std::max(1u, c.targets)},
                     {"limited_by", "bytes in flight: 2 MiB at a target, 20 MiB a pull"}}));
  out.declare("io[].concurrency",
              flash({{"rings", uring ? 1 : 0},
                     {"io_threads", uring ? 0u : IoBackendOptions().worker_threads},
                     {"concurrency", c.concurrency}}));
  if (!uring) {
    out.omit("io[].uring", "does not apply: io_uring is refused here, threads do it instead");
  } else if (!c.seen.registers) {
    out.omit("io[].uring", "varved did not tell what of it the kernel registered");
  } else {
    out.declare("io[].uring", flash({{"sqpoll", false},
                                     {"iopoll", false},
                                     {"fixed_buffers", c.seen.registered_bytes > 0},
                                     {"registered_files", c.seen.registered_files > 0},
                                     {"coop_taskrun", true}}));
  }
}

// How the ceilings of the drive do it: DriveCeiling and write_to_drive.
void declare_ceiling_io(const Conditions& c, Declaration& out) {
  out.declare("io[].mechanism", of_flash("io_uring_direct"));
  out.declare("io[].queue_depth",
              of_flash({{"per_target", c.drive_depth},
                        {"total", c.drive_depth},
                        {"limited_by", "--depth, at all files together; so many can be at one"}}));
  out.declare("io[].concurrency", of_flash({{"rings", 1}, {"io_threads", 0}, {"concurrency", 1}}));
  out.declare("io[].uring", of_flash({{"sqpoll", false},
                                      {"iopoll", false},
                                      {"fixed_buffers", false},
                                      {"registered_files", false},
                                      {"coop_taskrun", false}}));
}

void declare_io(const Conditions& c, Declaration& out) {
  if (c.server == Server::kOthers) return omit_rest({"io[]", "device[]"}, kNotTold, out);
  const auto flash = of_flash;
  const Mount mount = mount_of_folder(c.folder.empty() ? "." : c.folder);
  const Drive drive = drive_of_folder(c.folder.empty() ? "." : c.folder);
  out.declare("io[].tier", {"nvme_local"});
  out.declare(
      "io[].driver_layer",
      flash({{"layer", "vfs_fs"}, {"file_system", mount.type}, {"mount_options", mount.options}}));
  const uint32_t request_bytes = std::min(kPieceBytes, c.layer_bytes);
  out.declare("io[].block_bytes", flash({{"p50", request_bytes},
                                         {"p95", request_bytes},
                                         {"max", request_bytes},
                                         {"alignment", kPageBytes}}));
  if (c.server == Server::kOwn) declare_server_io(c, request_bytes, out);
  if (c.server == Server::kNone) declare_ceiling_io(c, out);
  out.declare("io[].sync_mode", flash("async"));
  out.declare("io[].durability", flash("fdatasync"));
  out.declare("io[].gds", flash("off"));
  out.declare("device[].identity", {{mount.device,
                                     {{"model", drive.model},
                                      {"lba_bytes", drive.lba_bytes},
                                      {"capacity_bytes", drive.capacity_bytes}}}});
  out.omit_part("device[].identity", "firmware, media, pcie, preconditioned, over_provision",
                "the kernel does not tell them of this drive");
  out.omit("device[].rated",
           "no data sheet was read; what the drive gives is measured as a ceiling of the same run");
  out.declare("device[].fdp", {{mount.device, "off"}});
}

void declare_os(const Conditions& c, Declaration& out) {
  Json sysctl = Json::object();
  for (const auto& [name, value] : sysctls())
    sysctl[name] = value;
  Json os = {
      {"kernel", kernel()},         {"cpu", cpu_model()},           {"cores", cores()},
      {"memory", memory_text()},    {"governor", governor()},       {"numa_nodes", numa_nodes()},
      {"huge_pages", huge_pages()}, {"mitigations", mitigations()}, {"sysctl", sysctl}};
  std::vector<std::pair<std::string, std::string>> threads = {
      {"kvbench", cores_of_threads(::getpid())}};
  const bool seen = !c.seen.cores.empty() && c.seen.cores != "unknown";
  if (seen) threads.emplace_back("varved", c.seen.cores);
  const std::string pinning = pinning_text(cores_online(), threads);
  if (!pinning.empty()) os["pinning"] = pinning;
  out.declare("os", os);
  if (pinning.empty()) {
    out.omit_part("os", "pinning", "the kernel does not tell where threads may run");
  } else if (c.server == Server::kOwn && !seen) {
    out.omit_part("os", "pinning of varved's threads", "no varved could be looked at");
  }
}

void declare_machine(const Conditions& c, Declaration& out) {
  out.declare("virtualization",
              {{"kind", hypervisor()}, {"gds_restriction", "no GPU takes part: GDS is not used"}});
  out.omit_part("virtualization", "iommu_mode", "the guest does not see how the host maps devices");
  if (c.server == Server::kOthers) {
    for (const char* field : {"virtualization", "os"})
      out.omit_part(field, "the server's machine", kNotTold);
  }
  declare_os(c, out);
  out.omit("power", "no meter: nothing here measures the power of the machine");
  out.omit("cost", "no prices are known for this machine");
  out.declare("division", "internal");
  const std::string march = cache_value(build_cache(), "VARVE_MARCH");
  const bool gfni = Kernel::loops().back() == Kernel::Loop::kGfni;
  out.declare("engine.params", {{"block_tokens", c.block_tokens},
                                {"compiler", std::string("g++ or clang++ ") + __VERSION__},
                                {"coding_loop", gfni ? "GFNI and AVX-512" : "ISA-L"},
                                {"compiler_flags", cache_value(build_cache(), "CMAKE_CXX_FLAGS")},
                                {"march", march}});
}

// Between the server's, or the ceilings', end and its drives.
void declare_nvmeof(const Conditions& c, Declaration& out) {
  if (c.server == Server::kOthers) return out.omit("network.nvmeof", kNotTold);
  const Drive drive = drive_of_folder(c.folder.empty() ? "." : c.folder);
  if (drive.nvmeof == "unknown") {
    return out.omit("network.nvmeof", "the kernel does not tell how it reaches this drive");
  }
  out.declare("network.nvmeof", drive.nvmeof);
  if (drive.is_virtual) {
    out.omit_part("network.nvmeof", "below the virtual drive",
                  "the guest does not see how the host reaches what it gives");
  }
}

void declare_path(const Conditions& c, Declaration& out) {
  const bool local = is_loopback(c.address);
  out.declare("topology.kind", local ? "single_node_local" : "disaggregated_pool");
  out.declare("transfer.granularity", {{"unit", "layer"}, {"bytes", c.layer_bytes}});
  out.declare("transfer.order", "layer_order");
  if (c.server == Server::kOwn) {
    out.declare("transfer.staging", {{"memory_bytes", kWindowBytes},
                                     {"bounce_buffers", true},
                                     {"where", "DRAM slabs of the daemon, of each pull"}});
  } else {
    out.omit("transfer.staging", c.server == Server::kNone ? kNoStore : kNotTold);
  }
  out.declare("network.present", true);
  out.declare("network.medium", local ? "loopback" : "tcp_ethernet");
  out.omit("network.link", local ? "does not apply: loopback has no link"
                                 : "the client does not know the links between the machines");
  out.declare("network.gpudirect_rdma", "n/a");
  out.declare("network.congestion_control", LinkOptions().congestion);
  out.declare("network.congestion_params", Json::object());
  if (c.server == Server::kNone) {
    out.omit("network.pacing", "does not apply: a raw socket, nothing paces it");
  } else {
    out.declare("network.pacing", {{"pull_credit_bytes", ClientOptions().pull_credit_bytes},
                                   {"bulk_lanes", c.lanes},
                                   {"per_flow_rate", nullptr}});
  }
  if (c.server == Server::kOthers) {
    for (const char* field : {"network.congestion_control", "network.transport_library"})
      out.omit_part(field, "the server's end", kNotTold);
  }
  declare_nvmeof(c, out);
  out.declare("network.transport_library", "kernel TCP, " + kernel());
  out.declare("network.emulation", nullptr);
  if (c.server == Server::kNone) {
    out.omit("interface", kNoStore);
  } else {
    out.declare("interface", "custom_tcp");
  }
  out.declare("proprietary_transport", false);
}

void declare_coding(const Conditions& c, Declaration& out) {
  if (c.scheme.m == 0) {
    out.declare("ec.scheme", {{"kind", "none"}, {"k", 1}, {"m", 0}});
    omit_rest({"ec."}, "does not apply: nothing is coded in this run (1+0)", out);
    return;
  }
  const bool is_copy = c.scheme.k == 1;
  const bool is_xor = matrix_of(c.scheme) == Matrix::kXor;
  out.declare("ec.scheme", {{"kind", is_copy  ? "replication"
                                     : is_xor ? "xor"
                                              : "rs"},
                            {"k", c.scheme.k},
                            {"m", c.scheme.m},
                            {"field", "GF(2^8)"},
                            {"library", "ISA-L's matrices; see engine.params for the loop"}});
  out.declare("ec.unit", {{"unit", "layer"},
                          {"shard_bytes", c.layer_bytes},
                          {"stripe", "k layers of a block that follow each other"},
                          {"align", kPageBytes}});
  out.declare("ec.read_policy", {{"policy", "k"},
                                 {"lost", "rebuilt by the client from the rest of the stripe"},
                                 {"late", "hedged by the client: read otherwise, within a budget"},
                                 {"hedge_percent", ClientOptions().hedge_percent}});
  out.declare("ec.parity_write", "sync");
}

void declare_bytes(const Conditions& c, Declaration& out) {
  out.omit("tensor.dtype",
           "the bytes stand for tensors of any type; the store does not look inside");
  out.declare("tensor.layout",
              {{"layers", c.layers}, {"layer_bytes", c.layer_bytes}, {"tp", 1}, {"pp", 1}});
  out.omit_part("tensor.layout", "kind, kv_heads, head_dim, rank",
                "scaled-down blocks of no particular model");
  if (c.block_tokens > 0) {
    out.declare("tensor.bytes_per_token",
                static_cast<double>(c.layers) * c.layer_bytes / c.block_tokens);
  } else {
    out.omit("tensor.bytes_per_token", "blocks of this run stand for bytes, not for tokens");
  }
  out.declare("tensor.data_source", "synthetic_uniform");
  if (c.server == Server::kOthers) {
    omit_rest({"codec.", "ec."}, kNotTold, out);
  } else {
    out.declare("codec.name", "none");
    out.declare("codec.class", "none");
    omit_rest({"codec."}, "does not apply: no codec, bytes are stored as they come", out);
    declare_coding(c, out);
  }
  out.declare(
      "accuracy.context_intensive",
      {{"bit_exact_proof", c.verified_bytes == 0 ? "nothing is measured, and nothing was compared"
                                                 : std::to_string(c.verified_bytes) +
                                                       " bytes compared: " + c.content}});
  out.declare("accuracy.access_pattern", "complete");
  Json copies = Json::array();
  copies.push_back({{"buffer", "the client's memory"},
                    {"bytes", c.client_memory_bytes},
                    {"reason",
                     "where an engine has its paged KV: pages of 64 KiB, none beside the "
                     "next, mapped and touched once"}});
  if (c.server == Server::kOwn) {
    copies.push_back(
        {{"buffer", "DRAM of the daemon"},
         {"bytes", c.dram_bytes},
         {"reason", c.mode == Mode::kStorageOnly ? "push slabs and pull windows; it keeps no block"
                                                 : "the dram tier, push slabs and pull windows"}});
  }
  out.declare("memory.resident_copies", copies);
  if (c.server == Server::kOthers)
    out.omit_part("memory.resident_copies", "DRAM of the daemon", kNotTold);
}

// What of it only a store decides.
void declare_policies(const Conditions& c, Declaration& out) {
  if (c.server != Server::kOwn) {
    const bool none = c.server == Server::kNone;
    if (none) omit_rest({"hits.", "scheduler."}, kNoStore, out);
    omit_rest({"placement.", "mixed_use", "failure_injection"}, none ? kNoStore : kNotTold, out);
  }
  if (c.server != Server::kNone) {
    out.declare("hits.counted_as", "any_prefix_hit");
    out.declare("scheduler.integration", "none");
    out.declare("scheduler.overlap_queue", false);
    out.omit("scheduler.preload", "does not apply: nothing is loaded ahead");
  }
  if (c.server != Server::kOwn) return;
  out.declare("placement.shard_policy", {{"policy", "rendezvous"}, {"failure_domains", 1}});
  out.declare("placement.gpu_to_shard", "none");
  out.declare("placement.hot_replication", nullptr);
  out.declare("mixed_use", false);
  out.omit("mixed_use.checkpoint", "does not apply: no checkpoints beside it");
  if (c.faults.empty()) {
    out.declare("failure_injection", "none");
  } else {
    out.declare("failure_injection", c.faults);
  }
}

void declare_engine(Declaration& out) {
  out.declare("engine.name", "none (kvbench)");
  out.declare("engine.connector", "none");
  out.omit("client_change", "does not apply: no engine takes part");
  out.omit("compute_model", "nothing is computed: what prefill would cost is not part of the run");
  out.omit("break_even", "the client has no planner yet: every block that hits is pulled");
  out.omit("break_even.outcome", "the client has no planner yet: nothing is declined");
}

// What this machine tells, where nobody describes it.
Json own_hardware(const Conditions& c) {
  const Mount mount = mount_of_folder(c.folder.empty() ? "." : c.folder);
  const Drive drive = drive_of_folder(c.folder.empty() ? "." : c.folder);
  return {{"read_from", "/proc and /sys of the machine that kvbench runs on"},
          {"virtualization", hypervisor()},
          {"cpu", cpu_model()},
          {"cores", cores()},
          {"numa_nodes", numa_nodes()},
          {"memory", memory_text()},
          {"drive",
           {{"device", mount.device},
            {"model", drive.model},
            {"virtual", drive.is_virtual},
            {"capacity_bytes", drive.capacity_bytes},
            {"lba_bytes", drive.lba_bytes}}}};
}

Status declare_hardware(const Conditions& c, Declaration& out) {
  if (c.hardware_path.empty()) {
    out.declare("hardware", own_hardware(c));
    out.omit_part("hardware", "a system description as MLPerf Storage has it", kNoDescription);
    if (c.server == Server::kOthers) out.omit_part("hardware", "the server's machine", kNotTold);
    return {};
  }
  VARVE_TRY(Json hardware, read_hardware(c.hardware_path));
  out.declare("hardware", std::move(hardware));
  return {};
}

// No daemon, no client, no ceiling: what is left is the machine.
void declare_called(Declaration& out) {
  out.declare("topology.kind", "single_node_local");
  out.declare("network.present", false);
  omit_rest({"tiers[]", "io[]", "device[]", "transfer.", "network.", "tensor.", "codec.", "ec.",
             "placement.", "hits.", "scheduler.", "mixed_use", "failure_injection", "interface",
             "proprietary_transport", "memory.", "accuracy."},
            kCalled, out);
}

}  // namespace

const char* mode_name(Mode mode) {
  return mode == Mode::kStorageOnly ? "storage_only" : "storage_plus_memory";
}

Result<Json> read_hardware(const std::string& path) {
  VARVE_TRY(const std::string text, read_regular(path, kHardwareBytesMax));
  bool deep = false;  // what is written recursively later must not use up the stack
  const auto is_shallow = [&deep](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > kHardwareDepthMax;
    return !deep;
  };
  Json hardware = Json::parse(text, is_shallow, false);
  if (deep) return Status::invalid("kvbench: a system description is nested too deep (32)");
  if (!hardware.is_object()) {
    return Status::invalid("kvbench: a system description is one JSON object, and this is none");
  }
  return hardware;
}

std::string build_warning(const std::string& cache) {
  const std::string debug = cache_value(cache, "VARVE_DEBUG");
  const std::string sanitize = cache_value(cache, "VARVE_SANITIZE");
  if (debug == "unknown" || sanitize == "unknown") {
    return "whether this is a release build is unknown: the program does not stand in its build; "
           "not for publication";
  }
  if (debug != "ON" && sanitize == "(none)") return "";
  return "this is no release build: it checks more and is slower; not for publication";
}

void declare_duration(const RunTimes& times, uint32_t repetitions, Declaration& out) {
  out.declare("workload.duration", {{"warmup_s", static_cast<double>(times.warmup_ns) / 1e9},
                                    {"duration_s", static_cast<double>(times.measured_ns) / 1e9},
                                    {"repetitions", repetitions}});
}

RunStart RunStart::now(int argc, char** argv, std::string commit) {
  RunStart start;
  start.arguments.assign(argv, argv + argc);
  start.timestamp = varve::kvbench::timestamp();
  start.commit = std::move(commit);
  start.began_ns = SystemClock().now_ns();
  start.load_average = varve::kvbench::load_average();
  SystemEntropy entropy;
  uint64_t number = 0;
  entropy.fill(std::as_writable_bytes(std::span(&number, 1)));
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(number));
  start.run_id = text;
  return start;
}

void omit_rest(const std::vector<std::string>& prefixes, const std::string& reason,
               Declaration& out) {
  const Json document = out.document();
  for (const DeclarationField& field : declaration_fields()) {
    const bool asked = std::any_of(prefixes.begin(), prefixes.end(),
                                   [&](const std::string& p) { return field.name.starts_with(p); });
    const bool is_result = field.name.starts_with("results.");
    bool said = is_result ? document["results"].contains(field.name.substr(8))
                          : document["declaration"].contains(field.name);
    for (const Json& omission : document["omissions"])
      said = said || (omission["field"] == field.name && !omission.contains("part"));
    if (asked && !said) out.omit(field.name, reason);
  }
}

Status declare_conditions(const Conditions& c, Declaration& out) {
  declare_head(c, out);
  declare_server_commit(c, out);
  const bool emulated =
      c.server != Server::kOthers && drive_of_folder(c.folder.empty() ? "." : c.folder).is_virtual;
  declare_machine(c, out);
  declare_engine(out);
  const bool others = c.server == Server::kOthers;  // what its tiers are nobody told
  const bool called = c.server == Server::kInProcess;
  if (called) {
    declare_called(out);
  } else {
    declare_tiers(c, emulated, out);
    declare_io(c, out);
    declare_path(c, out);
    declare_bytes(c, out);
    declare_policies(c, out);
  }
  out.result("label", others ? "unknown" : emulated && !called ? "emulated" : "measured");
  out.result("verified",
             {{"bytes", c.verified_bytes}, {"wrong_blocks", 0}, {"content", c.content}});
  return declare_hardware(c, out);
}

}  // namespace varve::kvbench
