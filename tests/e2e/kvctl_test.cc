// Goal: kvctl does to a real node what each of its commands says, and a file that it put comes back
// as it was, also after kill -9.
// Method: the kvctl and the varved of this build, as an operator runs them: words in, JSON, exit
// code and one line of error out. Everything waited for is a state.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <list>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/e2e/engine.h"
#include "tests/e2e/peer.h"
#include "tests/tools/ledger/real_daemon.h"

namespace varve {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kFailed = 1, kUsage = 2, kUnreached = 3, kDenied = 4;  // exit codes of kvctl

struct Said {
  int exit = -1;
  Json json;  // of standard output, or of the error
  std::string code() const { return json["error"]["code"]; }
  std::string message() const { return json["error"]["message"]; }
};

class KvctlOnANode : public ::testing::Test {
 protected:
  void SetUp() override {
    program = fs::path(ledger::RealDaemon::program()).replace_filename("kvctl").string();
    if (!ledger::RealDaemon::available() || !fs::exists(program)) {
      GTEST_SKIP() << "varved or kvctl is not built beside this test";
    }
    real.control = "127.0.0.1:0";
    real.shape = {"--scheme",           "2+1", "--targets",    "3",      "--target-bytes", "400MiB",
                  "--shards",           "2",   "--dram-bytes", "128MiB", "--drain-ms",     "2000",
                  "--free-floor-bytes", "0"};
  }
  void start() {
    const size_t before = real.log().size();
    ASSERT_TRUE(real.start().ok()) << real.log();
    const std::string log = real.log().substr(before), mark = "control plane on ";
    const size_t at = log.find(mark);
    ASSERT_NE(at, std::string::npos) << log;
    address = log.substr(at + mark.size(), log.find(',', at) - at - mark.size());
  }
  void wait_until_ready() {
    Said status;
    for (Nanos waited = 0; waited < kPatience; waited += 100 * kMillisecond) {
      status = kvctl("status");
      if (status.exit == 0 && status.json["ready"] == true) return;
      pause(100 * kMillisecond);
    }
    FAIL() << status.json;
  }
  // With the address of this node in the environment, as an operator's shell has it.
  Said kvctl(const std::string& words, const std::string& control = {}) {
    const std::string out = real.folder() + "/out", err = real.folder() + "/err";
    const std::string command = "VARVE_CONTROL=" + (control.empty() ? address : control) +
                                " VARVE_ADDRESS=" + real.daemon().address() + " '" + program +
                                "' --json " + words + " >'" + out + "' 2>'" + err + "' </dev/null";
    const int status = std::system(command.c_str());
    Said said;
    said.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const std::string printed = ledger::read_text(out), error = ledger::read_text(err);
    EXPECT_TRUE(printed.empty() || error.empty()) << words << "\n" << printed << error;
    said.json = Json::parse(printed.empty() ? error : printed, nullptr, false);
    EXPECT_FALSE(said.json.is_discarded()) << words << "\n" << printed << error;
    return said;
  }
  // The same for people: only that something was printed.
  std::string text(const std::string& words) {
    const std::string out = real.folder() + "/out";
    const std::string command =
        "'" + program + "' --control " + address + " " + words + " >'" + out + "' 2>&1 </dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << words << "\n" << ledger::read_text(out);
    return ledger::read_text(out);
  }
  std::string make_file(const std::string& name, uint64_t bytes) {
    const std::string path = real.folder() + "/" + name;
    std::ofstream out(path, std::ios::binary);
    Random random(bytes + 1);
    for (uint64_t at = 0; at < bytes; ++at)
      out.put(static_cast<char>(random.next()));
    return path;
  }
  static std::string hex_of(const BaseId& id) { return to_hex(id.bytes); }

  ledger::RealDaemon real{"kvctl"};
  std::string program, address;
};

TEST_F(KvctlOnANode, LooksAtEverything) {
  start();
  wait_until_ready();
  Engine writer(real.daemon().address(), "writer");
  const std::vector<BaseId> ids = writer.ids(1);
  writer.store_blocks(ids);
  const Event leased = writer.match(ids, 30000);
  ASSERT_NE(leased.lease, 0u);

  EXPECT_EQ(kvctl("status").json["k"], 2);
  EXPECT_EQ(kvctl("tiers").json["tiers"].size(), 2u);
  const Json targets = kvctl("targets").json["targets"];
  ASSERT_EQ(targets.size(), 3u);
  EXPECT_EQ(targets[0]["state"], "TARGET_STATE_OK");
  const Json found = kvctl("block locate " + hex_of(ids[0])).json;
  EXPECT_EQ(found["found"], true);
  EXPECT_EQ(found["blocks"][0]["fragments"].size(), 3u);
  EXPECT_EQ(kvctl("block locate " + std::string(64, '0')).json["found"], false);
  EXPECT_EQ(kvctl("match " + hex_of(ids[0]) + " " + hex_of(ids[1])).json["length"], 2);
  const Json holds = kvctl("leases").json["holds"];
  ASSERT_EQ(holds.size(), 1u);
  EXPECT_EQ(holds[0]["client"], "writer");
  EXPECT_EQ(kvctl("policy").json["policies"].size(), 4u);
  EXPECT_EQ(kvctl("domain").json["domains"][0]["name"], "default");
  for (const char* words : {"status", "tiers", "targets", "leases", "sessions", "policy", "domain",
                            "format", "--version", "completion bash"})
    EXPECT_NE(text(words), "") << words;
  EXPECT_NE(text("block locate " + hex_of(ids[0])).find("parity"), std::string::npos);
  EXPECT_NE(text("match " + hex_of(ids[0])).find("the first 1 of 1 id"), std::string::npos);

  const Json sessions = kvctl("sessions").json["sessions"];
  ASSERT_EQ(sessions.size(), 1u);
  const std::string session = sessions[0]["session"];
  EXPECT_EQ(kvctl("sessions close " + session).exit, 0);
  std::set<std::string> there = {session};
  for (Nanos waited = 0; there.count(session) > 0 && waited < kPatience;
       waited += 50 * kMillisecond) {
    there.clear();
    const Said said = kvctl("sessions");  // outlives the loop over what is in it
    for (const Json& row : said.json["sessions"])
      there.insert(row["session"]);
    pause(50 * kMillisecond);
  }
  EXPECT_EQ(there.count(session), 0u);
  const Said again = kvctl("sessions close " + session);
  EXPECT_EQ(again.exit, kFailed);
  EXPECT_EQ(again.code(), "NOT_FOUND");
}

TEST_F(KvctlOnANode, ComparesAndKeepsFormats) {
  start();
  const Engine writer(real.daemon().address(), "writer");  // it registers in the background
  Json list;
  for (Nanos waited = 0; list.empty() && waited < kPatience; waited += 100 * kMillisecond) {
    list = kvctl("format list").json["formats"];
    pause(100 * kMillisecond);  // the node looks once a second
  }
  ASSERT_EQ(list.size(), 1u);
  const std::string first = list[0]["fingerprint"];
  Json shown = kvctl("format show " + first.substr(0, 8)).json;
  EXPECT_EQ(shown["format"]["lineage"], "e2e");
  const std::string file = real.folder() + "/format.json";
  std::ofstream(file) << shown;
  const Said known = kvctl("format register " + file);
  EXPECT_EQ(known.json["known_before"], true);
  EXPECT_EQ(known.json["fingerprint"], first);
  shown["format"]["tokens_per_block"] = 32;
  std::ofstream(file) << shown;
  const std::string second = kvctl("format register " + file).json["fingerprint"];
  const Json diff = kvctl("format diff " + first + " " + second.substr(0, 16)).json;
  ASSERT_EQ(diff["differences"].size(), 1u);
  EXPECT_EQ(diff["differences"][0]["field"], "tokens_per_block");
  EXPECT_EQ(kvctl("format show 00000000").code(), "NOT_FOUND");
}

TEST_F(KvctlOnANode, ChangesThings) {
  start();
  wait_until_ready();
  EXPECT_EQ(kvctl("policy set log_level debug").json["before"], "info");
  EXPECT_EQ(kvctl("policy set log_level loud").code(), "INVALID_ARGUMENT");
  const Json begun = kvctl("scrub 0 1").json;
  EXPECT_EQ(begun["begun"].get<int>() + begun["running"].get<int>(), 2);
  // Three targets of 2+1: none of them may be emptied.
  EXPECT_EQ(kvctl("targets drain 1").code(), "FAILED_PRECONDITION");
  EXPECT_EQ(kvctl("targets undrain 1").exit, 0);
  EXPECT_EQ(kvctl("targets replace 1").exit, kUsage) << "nobody can be asked";
  EXPECT_EQ(kvctl("targets replace 1 --yes").code(), "FAILED_PRECONDITION");
  EXPECT_EQ(kvctl("targets fail 1").exit, kUsage) << "nobody can be asked";
  EXPECT_EQ(kvctl("targets fail 9 --yes").code(), "NOT_FOUND");
  EXPECT_EQ(kvctl("targets fail 1 --yes").json["target"]["state"], "TARGET_STATE_FAILED");
  EXPECT_EQ(kvctl("targets fail 2 --yes").code(), "FAILED_PRECONDITION");
  const Said doctor = kvctl("doctor --remote");
  EXPECT_EQ(doctor.exit, kFailed);
  int named = 0;
  for (const Json& finding : doctor.json["findings"]) {
    named += finding["check"] == "target 1" && finding["severity"] == "error" ? 1 : 0;
    EXPECT_NE(finding["check"], "target") << "which one is said by its row";
  }
  EXPECT_EQ(named, 1) << doctor.json;
  EXPECT_EQ(kvctl("domain drop default --yes").exit, kFailed);
  // The last of all: it stops.
  EXPECT_EQ(kvctl("drain").exit, kUsage);
  EXPECT_EQ(kvctl("drain --yes").json["bound_ns"], 2 * kSecond);
  for (Nanos waited = 0; real.daemon().running() && waited < 30 * kSecond;
       waited += 10 * kMillisecond)
    pause(10 * kMillisecond);
  EXPECT_EQ(real.daemon().ending(), "exit 0") << real.log();
  const Said gone = kvctl("status");
  EXPECT_EQ(gone.exit, kUnreached);
  EXPECT_EQ(gone.code(), "UNAVAILABLE");
  EXPECT_NE(gone.message().find("--control"), std::string::npos);
}

// Method: more mute peers than the control plane takes. Expect: the node is not said to be absent,
// and is there again when they have gone.
TEST_F(KvctlOnANode, SaysThatAllConnectionsAreTaken) {
  start();
  wait_until_ready();
  {
    std::list<PeerLane> mute;
    for (uint32_t i = 0; i < 40; ++i)
      mute.emplace_back(address);
    const Said status = kvctl("status");
    EXPECT_EQ(status.exit, kUnreached);
    EXPECT_NE(status.message().find("ends each connection at once"), std::string::npos)
        << status.message();
  }
  wait_until_ready();
}

TEST_F(KvctlOnANode, PutsAFileAndGetsItBackAfterAKill) {
  start();
  // No multiple of a block, none at all, and what just fills a block or a window, or just does not.
  const std::vector<std::string> files = {make_file("large", 18 * kMiB + 12345),
                                          make_file("small", 100),
                                          make_file("empty", 0),
                                          make_file("block", kMiB - 64),
                                          make_file("beyond", kMiB - 63),
                                          make_file("window", 16 * kMiB - 64)};
  std::vector<std::string> keys;
  for (const std::string& file : files) {
    const Said put = kvctl("put " + file);
    ASSERT_EQ(put.exit, 0) << put.json;
    const std::string content = ledger::read_text(file);
    EXPECT_EQ(put.json["key"],
              to_hex(Sha256().update(std::as_bytes(std::span(content))).finish().bytes));
    EXPECT_EQ(put.json["bytes"], content.size());
    EXPECT_EQ(put.json["blocks_there_before"], 0);
    keys.push_back(put.json["key"]);
  }
  const auto get_all = [&](const std::string& name) {
    for (size_t n = 0; n < files.size(); ++n) {
      const std::string copy = real.folder() + "/" + name + std::to_string(n);
      const Said got = kvctl("get " + keys[n] + " " + copy);
      ASSERT_EQ(got.exit, 0) << got.json;
      EXPECT_TRUE(ledger::read_text(copy) == ledger::read_text(files[n])) << files[n];
    }
  };
  get_all("before");
  real.daemon().kill_now();
  start();
  get_all("after");
  EXPECT_EQ(kvctl("get " + keys[1] + " " + files[0]).exit, kUsage) << "it is there";
  EXPECT_EQ(kvctl("get " + keys[1] + " " + files[2] + " --force").exit, 0);
  EXPECT_EQ(ledger::read_text(files[2]), ledger::read_text(files[1]));
  const Json again = kvctl("put " + files[0]).json;
  EXPECT_EQ(again["blocks_there_before"], again["blocks"]);
  const std::string first = again["base_ids"][0];
  EXPECT_EQ(kvctl("block locate " + first).json["found"], true);

  // Expect: what is purged is gone, and said so; nothing is left behind in its place.
  EXPECT_EQ(kvctl("purge --lineage kvctl-file --yes").exit, 0);
  const Said gone = kvctl("get " + keys[0] + " " + real.folder() + "/gone");
  EXPECT_EQ(gone.exit, kFailed);
  EXPECT_EQ(gone.code(), "NOT_FOUND");
  for (const auto& entry : fs::directory_iterator(real.folder()))
    EXPECT_EQ(entry.path().filename().string().rfind("gone", 0), std::string::npos);
  EXPECT_EQ(kvctl("put " + files[0]).json["blocks_there_before"], 0);
  EXPECT_EQ(kvctl("purge " + first + " --yes").json["blocks"], 1);
}

TEST_F(KvctlOnANode, NeedsBothTokensWhereThereAreTwo) {
  const auto token_file = [&](const std::string& name, const std::string& token) {
    const std::string file = real.folder() + "/" + name;
    std::ofstream(file) << token;
    fs::permissions(file, fs::perms::owner_read);
    return file;
  };
  const std::string operators = token_file("operators", "0123456789abcdef"),
                    clients = token_file("clients", "fedcba9876543210"),
                    small = make_file("small", 1000);
  real.shape.insert(real.shape.end(), {"--control-token-file", operators, "--token-file", clients});
  start();
  EXPECT_EQ(kvctl("status").exit, kDenied);
  EXPECT_EQ(kvctl("status --token-file " + clients).exit, kDenied);
  EXPECT_EQ(kvctl("status --token-file " + operators).exit, 0);
  EXPECT_EQ(kvctl("doctor --remote").exit, kFailed);
  EXPECT_EQ(kvctl("put " + small).exit, kDenied);
  EXPECT_EQ(kvctl("put " + small + " --client-token-file " + operators).exit, kDenied);
  EXPECT_EQ(kvctl("put " + small + " --client-token-file " + clients).exit, 0);
  // The data plane speaks no gRPC: an address that is taken for the other must not hang.
  EXPECT_EQ(kvctl("status --timeout 2", real.daemon().address()).exit, kUnreached);
}

}  // namespace
}  // namespace varve
