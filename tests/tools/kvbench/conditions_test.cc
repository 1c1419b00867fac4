// What both ends are is declared or omitted with a reason, whoever started the server.
#include "tools/kvbench/conditions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "tools/kvbench/machine.h"

namespace varve::kvbench {
namespace {

Conditions conditions_of(Server server) {
  Conditions c;
  c.start.arguments = {"kvbench", "replay", "it's"};
  c.start.run_id = "1";
  c.start.timestamp = "now";
  c.start.commit = std::string(40, 'a');
  c.server = server;
  c.server_commit = server == Server::kOwn ? c.start.commit : "";
  if (server == Server::kOwn) {
    c.seen = {.io = "io_uring",
              .registers = true,
              .registered_bytes = kGiB,
              .registered_files = 2,
              .cores = cores_online()};
  }
  c.verified_bytes = server == Server::kInProcess ? 0 : 1000;
  c.address = "127.0.0.1:7440";
  c.folder = ".";
  c.dram_bytes = kGiB;
  c.target_bytes = kGiB;
  c.targets = 2;
  c.layers = 4;
  c.layer_bytes = 64 * kKiB;
  c.block_tokens = 512;
  c.pushed_bytes = kGiB;
  c.content = "made for this test";
  return c;
}

// The rest is what a subcommand says.
std::vector<std::string> problems_of(const Conditions& conditions) {
  Declaration declaration;
  EXPECT_TRUE(declare_conditions(conditions, declaration).ok());
  declaration.declare("cache_state", "cold");
  declaration.declare("cache_state_proof", {{"method", "none"}});
  declaration.declare("workload.source", {{"name", "n"}, {"source", "s"}});
  declaration.declare("workload.arrival", {{"kind", "poisson"}});
  declaration.declare("workload.concurrent_requests", 1);
  declaration.declare("workload.tenants", {{"count", 1}, {"cross_tenant_sharing", false}});
  declaration.declare("workload.prefix_reuse_rate", {{"ideal", 1}, {"observed", 1}});
  declare_duration({.warmup_ns = kSecond / 2, .measured_ns = 3 * kSecond}, 1, declaration);
  declaration.declare("persistence",
                      {{"tier", "t"}, {"medium", "m"}, {"restart_survival_proved", false}});
  declaration.result("mode", conditions.server == Server::kNone ? "no_store"
                             : conditions.server == Server::kInProcess
                                 ? "in_process"
                                 : mode_name(conditions.mode));
  declaration.result(
      "served", {{"dram_blocks", 0}, {"flash_blocks", 1}, {"dram_bytes", 0}, {"flash_bytes", 1}});
  omit_rest({"engine.pd", "engine.kv", "workload.", "results."},
            "said by the subcommand, not in this test", declaration);
  return declaration.problems();
}

std::set<std::string> declared_of(const Declaration& declaration) {
  std::set<std::string> fields;
  const Json declared = declaration.document()["declaration"];
  for (const auto& [field, value] : declared.items())
    fields.insert(field);
  return fields;
}

TEST(Conditions, EveryFieldOfThemIsSaidForEveryKindOfServer) {
  for (const Server server : {Server::kNone, Server::kInProcess, Server::kOwn, Server::kOthers})
    EXPECT_EQ(problems_of(conditions_of(server)), std::vector<std::string>());
}

TEST(Conditions, WithoutAComparedByteOrTheDaemonsCommitThereIsNoResult) {
  Conditions c = conditions_of(Server::kOwn);
  c.verified_bytes = 0;
  EXPECT_NE(problems_of(c), std::vector<std::string>());
  c = conditions_of(Server::kOwn);
  c.server_commit.clear();
  EXPECT_NE(problems_of(c), std::vector<std::string>());
}

TEST(Conditions, AServerOfStorageOnlyHasNoTierInDram) {
  Conditions c = conditions_of(Server::kOwn);
  c.mode = Mode::kStorageOnly;
  EXPECT_EQ(problems_of(c), std::vector<std::string>());
  Declaration declaration;
  ASSERT_TRUE(declare_conditions(c, declaration).ok());
  const Json declared = declaration.document()["declaration"];
  EXPECT_EQ(declared["tiers[].name"], Json({"nvme_local"}));
  for (const auto& [field, value] : declared.items()) {
    if (field.starts_with("tiers[]")) {
      EXPECT_FALSE(value.contains("dram")) << field;
    }
  }
}

TEST(Conditions, AServerOfOthersIsNotDescribed) {
  Declaration declaration;
  ASSERT_TRUE(declare_conditions(conditions_of(Server::kOthers), declaration).ok());
  const std::set<std::string> ours = {"topology.kind",
                                      "virtualization",
                                      "os",
                                      "hardware",
                                      "division",
                                      "transfer.granularity",
                                      "transfer.order",
                                      "network.present",
                                      "network.medium",
                                      "network.gpudirect_rdma",
                                      "network.congestion_control",
                                      "network.congestion_params",
                                      "network.pacing",
                                      "network.transport_library",
                                      "network.emulation",
                                      "interface",
                                      "proprietary_transport",
                                      "tensor.layout",
                                      "tensor.bytes_per_token",
                                      "tensor.data_source",
                                      "accuracy.context_intensive",
                                      "accuracy.access_pattern",
                                      "memory.resident_copies",
                                      "engine.name",
                                      "engine.connector",
                                      "engine.params",
                                      "hits.counted_as",
                                      "scheduler.integration",
                                      "scheduler.overlap_queue"};
  EXPECT_EQ(declared_of(declaration), ours) << "what only the server knows is not among them";
  EXPECT_EQ(declaration.document()["results"]["label"], "unknown");
}

TEST(Conditions, OfARunWithoutAStoreTheCeilingsIoIsDeclaredAndNoDaemons) {
  Conditions c = conditions_of(Server::kNone);
  c.drive_depth = 7;
  Declaration declaration;
  ASSERT_TRUE(declare_conditions(c, declaration).ok());
  const Json declared = declaration.document()["declaration"];
  EXPECT_EQ(declared["io[].queue_depth"]["nvme_local"]["total"], 7);
  EXPECT_EQ(declared["io[].uring"]["nvme_local"]["registered_files"], false);
  const std::set<std::string> keys = declared_of(declaration);
  for (const char* field : {"transfer.staging", "network.pacing", "placement.shard_policy",
                            "hits.counted_as", "interface", "tiers[].name"})
    EXPECT_EQ(keys.count(field), 0u) << field;
}

Json declared_with(const DaemonSeen& seen, Json* omissions) {
  Conditions c = conditions_of(Server::kOwn);
  c.seen = seen;
  EXPECT_EQ(problems_of(c), std::vector<std::string>());
  Declaration declaration;
  EXPECT_TRUE(declare_conditions(c, declaration).ok());
  *omissions = declaration.document()["omissions"];
  return declaration.document()["declaration"];
}

bool omits(const Json& omissions, const std::string& field, const std::string& part) {
  return std::any_of(omissions.begin(), omissions.end(), [&](const Json& omission) {
    return omission["field"] == field && omission.value("part", "") == part;
  });
}

TEST(Conditions, WhatIoUringRegisteredIsWhatTheDaemonSays) {
  DaemonSeen seen = conditions_of(Server::kOwn).seen;
  Json omissions;
  Json uring = declared_with(seen, &omissions)["io[].uring"]["nvme_local"];
  EXPECT_EQ(uring["fixed_buffers"], true);
  EXPECT_EQ(uring["registered_files"], true);
  // Expect: a memlock that is too small for the arena is declared.
  seen.registered_bytes = 0;
  uring = declared_with(seen, &omissions)["io[].uring"]["nvme_local"];
  EXPECT_EQ(uring["fixed_buffers"], false);
  EXPECT_EQ(uring["registered_files"], true);
  // Expect: of a daemon that does not say so nothing is claimed.
  seen.registers = false;
  EXPECT_FALSE(declared_with(seen, &omissions).contains("io[].uring"));
  EXPECT_TRUE(omits(omissions, "io[].uring", ""));
  // Expect: where threads do its I/O there is no io_uring, whatever this process could have.
  seen.io = "epoll";
  const Json declared = declared_with(seen, &omissions);
  EXPECT_EQ(declared["io[].mechanism"]["nvme_local"], "posix_direct");
  EXPECT_TRUE(omits(omissions, "io[].uring", ""));
}

TEST(Conditions, PinningIsWhatTheKernelSaysOfBothEnds) {
  DaemonSeen seen = conditions_of(Server::kOwn).seen;
  Json omissions;
  seen.cores = "7";
  const std::string pinning = declared_with(seen, &omissions)["os"]["pinning"];
  EXPECT_EQ(pinning.find("none"), std::string::npos) << pinning;
  EXPECT_NE(pinning.find("varved on 7"), std::string::npos) << pinning;
  EXPECT_FALSE(omits(omissions, "os", "pinning of varved's threads"));
  seen.cores = "unknown";
  (void)declared_with(seen, &omissions);
  EXPECT_TRUE(omits(omissions, "os", "pinning of varved's threads"));
}

TEST(Conditions, HowLongWhatDoesNotCountTookIsApart) {
  Declaration declaration;
  declare_duration({.warmup_ns = kSecond / 2, .measured_ns = 3 * kSecond}, 4, declaration);
  const Json duration = declaration.document()["declaration"]["workload.duration"];
  EXPECT_EQ(duration["warmup_s"], 0.5);
  EXPECT_EQ(duration["duration_s"], 3.0);
  EXPECT_EQ(duration["repetitions"], 4);
}

TEST(Conditions, ALoadedMachineIsAWarningInTheDocument) {
  Conditions c = conditions_of(Server::kOwn);
  c.start.load_average = 1000;
  Declaration declaration;
  ASSERT_TRUE(declare_conditions(c, declaration).ok());
  const Json document = declaration.document();
  EXPECT_EQ(document["machine_quiet"], false);
  ASSERT_GE(document["warnings"].size(), 1u);
  EXPECT_NE(document["warnings"][0].get<std::string>().find("not quiet"), std::string::npos);
  EXPECT_EQ(document["reproduction_command"], "kvbench replay 'it'\\''s'");
}

TEST(Conditions, AHardwareDescriptionIsEmbeddedOrRefused) {
  Conditions c = conditions_of(Server::kOwn);
  c.hardware_path = testing::TempDir() + "/kvbench_hardware.json";
  std::ofstream(c.hardware_path) << "{\"nodes\": 1}";
  EXPECT_EQ(problems_of(c), std::vector<std::string>());
  std::ofstream(c.hardware_path) << "[]";
  Declaration declaration;
  EXPECT_FALSE(declare_conditions(c, declaration).ok());
}

TEST(Conditions, AHardwareDescriptionHasBounds) {
  const std::string path = testing::TempDir() + "/kvbench_hardware_bounds.json";
  const auto read = [&path](const std::string& text) {
    std::ofstream(path) << text;
    return read_hardware(path);
  };
  EXPECT_TRUE(read("{\"a\": \"" + std::string(kHardwareBytesMax - 9, 'x') + "\"}").has_value());
  EXPECT_FALSE(read("{\"a\": \"" + std::string(kHardwareBytesMax, 'x') + "\"}").has_value());
  EXPECT_FALSE(read("{\"a\": 1").has_value());
  EXPECT_FALSE(read("").has_value());
  const auto nested = [](size_t depth) {
    return "{\"a\": " + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(read(nested(20)).has_value());
  EXPECT_FALSE(read(nested(40)).has_value());
  EXPECT_FALSE(read(nested(500000)).has_value()) << "what writes it would use up the stack";
  EXPECT_FALSE(read_hardware("/dev/zero").has_value()) << "it has no end";
}

TEST(Conditions, AProgramOutsideOfItsBuildDoesNotKnowWhetherItIsARelease) {
  const std::string release = "#\nVARVE_DEBUG:BOOL=OFF\nVARVE_SANITIZE:STRING=\n";
  EXPECT_EQ(build_warning(release), "");
  EXPECT_NE(build_warning("#\nVARVE_DEBUG:BOOL=ON\nVARVE_SANITIZE:STRING=\n").find("no release"),
            std::string::npos);
  EXPECT_NE(
      build_warning("#\nVARVE_DEBUG:BOOL=OFF\nVARVE_SANITIZE:STRING=address\n").find("no release"),
      std::string::npos);
  for (const char* cache : {"", "#\nCMAKE_CXX_FLAGS:STRING=-O3\n"}) {
    EXPECT_NE(build_warning(cache).find("unknown"), std::string::npos);
    EXPECT_EQ(build_warning(cache).find("no release"), std::string::npos);
  }
}

TEST(Conditions, ACodedServerHasAllOfItsCode) {
  const std::pair<Scheme, const char*> kinds[] = {
      {{1, 1}, "replication"}, {{2, 1}, "xor"}, {{4, 2}, "rs"}};
  for (const auto& [scheme, kind] : kinds) {
    Conditions c = conditions_of(Server::kOwn);
    c.scheme = scheme;
    EXPECT_EQ(problems_of(c), std::vector<std::string>()) << scheme.text();
    Declaration declaration;
    ASSERT_TRUE(declare_conditions(c, declaration).ok());
    const Json declared = declaration.document()["declaration"];
    EXPECT_EQ(declared["ec.scheme"]["kind"], kind);
    EXPECT_EQ(declared["ec.scheme"]["k"], scheme.k);
    EXPECT_EQ(declared["ec.unit"]["shard_bytes"], 64 * kKiB);
    EXPECT_EQ(declared["tiers[].working_set_ratio"]["nvme_local"], 0.5 * scheme.width() / scheme.k);
  }
}

TEST(Conditions, TheRestIsOmittedOnlyWhereNothingIsSaid) {
  Declaration declaration;
  declaration.declare("ec.scheme", {{"kind", "none"}});
  declaration.omit("ec.unit", "said before in this test");
  declaration.omit_part("ec.scheme", "field", "a part does not count");
  omit_rest({"ec."}, "the rest of this test", declaration);
  const Json omissions = declaration.document()["omissions"];
  EXPECT_EQ(omissions.size(), 4u);  // unit, the part, read_policy, parity_write
}

}  // namespace
}  // namespace varve::kvbench
