// Judging a node by what it says of itself: its own words where it has some.
#include "tools/kvctl/node_check.h"

#include <algorithm>
#include <map>

#include "common/time/time.h"
#include "tools/kvctl/text.h"

namespace varve::kvctl {

namespace {

constexpr Nanos kNumbersAgeMax = 10 * kSecond;  // they are made anew each second
constexpr uint64_t kSessionsPercentMax = 90;

void check_ready(const v1::GetStatusResponse& status, std::vector<Finding>& out) {
  if (status.ready()) {
    out.push_back(
        ok_finding("ready", printable(status.version()) + ", up " + age_text(status.uptime_ns())));
  } else {
    out.push_back({Severity::kError, "ready",
                   "the node is not ready: " + printable(status.ready_why_not()),
                   "wait while it starts, recovers or drains; else see its log"});
  }
  if (status.numbers_age_ns() > kNumbersAgeMax) {
    out.push_back({Severity::kWarning, "numbers",
                   "the node's numbers are " + age_text(status.numbers_age_ns()) +
                       " old, and should be a second old",
                   "look at the load of its machine, and at its log"});
  }
}

bool is_degraded(const v1::GetStatusResponse& status, const char* reason) {
  for (const v1::Degradation& degradation : status.degraded()) {
    if (degradation.reason() == reason) return true;
  }
  return false;
}

bool is_away(const v1::Target& target) {
  return target.state() == v1::TARGET_STATE_FAILED || target.state() == v1::TARGET_STATE_LOST;
}

// A node has a flag for what is degraded; where a row says the same, and of what, the flag does not
// say it again.
std::vector<std::string> said_by_rows(const v1::GetStatusResponse& status,
                                      const v1::ListTargetsResponse& targets) {
  std::vector<std::string> said;
  for (const v1::Shard& shard : status.shards()) {
    if (!shard.io_refusal().empty()) said.emplace_back("io_fallback");
    if (!shard.answers()) said.emplace_back("stalled");
  }
  for (const v1::Target& target : targets.targets()) {
    if (is_away(target)) said.emplace_back("target");
  }
  if (!status.ready()) said.emplace_back("recovering");
  return said;
}

void check_degraded(const v1::GetStatusResponse& status, const std::vector<std::string>& said,
                    std::vector<Finding>& out) {
  for (const v1::Degradation& degradation : status.degraded()) {
    const std::string& reason = degradation.reason();
    if (std::find(said.begin(), said.end(), reason) != said.end()) continue;
    // What ends by itself, or may be a use like any other, is no warning; so says the node's log.
    const bool passing = reason == "recovering" || reason == "no_hits";
    out.push_back(finding_of(passing ? Severity::kNote : Severity::kWarning, printable(reason),
                             printable(degradation.remedy())));
  }
}

void check_shards(const v1::GetStatusResponse& status, std::vector<Finding>& out) {
  std::map<std::string, std::string> refused;  // shards by why: mostly it is the same for all
  for (const v1::Shard& shard : status.shards()) {
    const std::string index = std::to_string(shard.index());
    if (!shard.answers()) {
      out.push_back(
          {Severity::kError, "shard " + index, "it does not answer",
           "look at the load of the machine and at its log; a restart helps when it hangs"});
    }
    if (shard.io_refusal().empty()) continue;
    std::string& shards = refused[shard.io_refusal()];
    shards += (shards.empty() ? "shard " : ", ") + index;
  }
  for (const auto& [why, shards] : refused)
    out.push_back(finding_of(Severity::kWarning, shards, printable(why)));
}

// One whose state a newer node has, or none at all, is not judged.
Finding state_finding(const v1::Target& target, const std::string& check) {
  const std::string text = printable(target.path()) + ": " + printable(target.why());
  if (is_away(target)) return finding_of(Severity::kError, check, text);
  switch (target.state()) {
    case v1::TARGET_STATE_OK:
      return ok_finding(check, "works");
    case v1::TARGET_STATE_SUSPECT:
      return finding_of(Severity::kWarning, check, text);
    case v1::TARGET_STATE_DRAINING:
    case v1::TARGET_STATE_DRAINED:
      return finding_of(Severity::kNote, check, text);
    default:
      return {Severity::kNote, check,
              printable(target.path()) + " is in a state that this kvctl does not know",
              "use the kvctl of the node's version"};
  }
}

void check_target(const v1::Target& target, std::vector<Finding>& out) {
  const std::string check = "target " + std::to_string(target.index());
  const std::string name = printable(target.path());
  Finding state = state_finding(target, check);
  if (state.severity != Severity::kOk) out.push_back(std::move(state));
  if (target.limbo() > 0) {
    out.push_back({Severity::kWarning, check,
                   name + " has not given back the memory of " + plural(target.limbo(), "transfer"),
                   "check the drive; a restart gets the memory back"});
  }
  if (target.scrub().rot() > 0) {
    out.push_back(
        {Severity::kWarning, check,
         plural(target.scrub().rot(), "fragment") + " on " + name +
             " found wrong or unreadable since the start",
         "look at the drive's own health (smartctl, nvme smart-log), and drain it when it "
         "goes on"});
  }
  if (target.missed_purges()) {
    out.push_back({Severity::kNote, check,
                   name + " missed purges, so it may not start without the others",
                   "keep the others beside it until recovery has ended"});
  }
}

void check_repair(const v1::GetStatusResponse& status, std::vector<Finding>& out) {
  const v1::Repair& repair = status.repair();
  if (repair.blocks_left() == 0) {
    out.push_back(ok_finding("repair", "nothing to do"));
    return;
  }
  const std::string left = plural(repair.blocks_left(), "block") + " left to be rebuilt or moved";
  if (repair.rate_bytes_per_s() == 0) {
    out.push_back(
        {Severity::kWarning, "repair", left + ", and repair is off",
         "kvctl policy set repair_mb_per_s 200; where --repair-mb-per-s was 0 at the start, "
         "restart with a rate"});
  } else {
    // That blocks lack a fragment is "thin", which the node says itself; this may be a drain.
    const std::string when = repair.eta_ns() > 0
                                 ? "done in about " + age_text(repair.eta_ns())
                                 : std::string("it is not known yet how long that takes");
    out.push_back({Severity::kNote, "repair", left + ", " + when,
                   "wait; a larger kvctl policy set repair_mb_per_s makes it faster"});
  }
}

}  // namespace

std::vector<Finding> check_node(const v1::GetStatusResponse& status,
                                const v1::ListTargetsResponse& targets) {
  std::vector<Finding> out;
  check_ready(status, out);
  check_degraded(status, said_by_rows(status, targets), out);
  check_shards(status, out);
  const size_t before = out.size();
  for (const v1::Target& target : targets.targets())
    check_target(target, out);
  if (out.size() == before) {
    out.push_back(ok_finding(
        "targets",
        plural(static_cast<uint64_t>(targets.targets_size()), "target") + ", all of them work"));
  }
  // "thin" says what repair does, but not that it is off.
  const bool is_off = status.repair().rate_bytes_per_s() == 0;
  if (is_off || !is_degraded(status, "thin")) check_repair(status, out);
  if (status.sessions_max() > 0 &&
      status.sessions() * 100 >= status.sessions_max() * kSessionsPercentMax) {
    out.push_back({Severity::kWarning, "sessions",
                   count_text(status.sessions()) + " of " + count_text(status.sessions_max()) +
                       " clients are there: further ones are refused soon",
                   "restart with more --sessions, or close some (kvctl sessions)"});
  }
  return out;
}

}  // namespace varve::kvctl
