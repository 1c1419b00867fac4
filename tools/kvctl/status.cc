// kvctl status: what a node is, how it is, what it did; kvctl drain: its graceful stop.
#include "tools/kvctl/call.h"
#include "tools/kvctl/table.h"

namespace varve::kvctl {

namespace {

const char* state_text(v1::NodeState state) {
  switch (state) {
    case v1::NODE_STATE_STARTING:
      return "starting";
    case v1::NODE_STATE_RECOVERING:
      return "recovering";
    case v1::NODE_STATE_SERVING:
      return "serving";
    case v1::NODE_STATE_DRAINING:
      return "draining";
    default:
      return "in a state that this kvctl does not know";
  }
}

std::string shards_text(const v1::GetStatusResponse& status) {
  uint32_t answer = 0;
  std::string io, refusal;
  for (const v1::Shard& shard : status.shards()) {
    answer += shard.answers() ? 1 : 0;
    if (io.find(shard.io()) == std::string::npos) io += (io.empty() ? "" : ", ") + shard.io();
    if (!shard.io_refusal().empty()) refusal = shard.io_refusal();
  }
  std::string text = std::to_string(answer) + " of " + std::to_string(status.shards_size()) +
                     " answer, io by " + io;
  return refusal.empty() ? text : text + ": " + refusal;
}

std::string lookups_text(const v1::Counts& counts) {
  if (counts.match_ids() == 0) return "none since the start";
  const uint64_t all = counts.match_ids();
  std::string text = count_text(all) + " ids: " + share_text(counts.hits_dram(), all) +
                     " hits in DRAM, " + share_text(counts.hits_flash(), all) + " on flash, " +
                     share_text(counts.misses(), all) + " misses";
  const auto add = [&text, all](uint64_t ids, const char* how) {
    if (ids > 0) text += ", " + share_text(ids, all) + " " + how;
  };
  add(counts.refused(), "refused");
  add(counts.errors(), "failed");
  add(counts.timeouts(), "timed out");
  add(counts.cancelled(), "cancelled");
  return text;
}

std::string repair_text(const v1::Repair& repair) {
  std::string text = repair.blocks_left() == 0 ? std::string("nothing to do")
                                               : plural(repair.blocks_left(), "block") + " left";
  if (repair.eta_ns() > 0) text += ", done in about " + age_text(repair.eta_ns());
  text += ", " + count_text(repair.done_blocks()) + " done since the start";
  if (repair.rate_bytes_per_s() == 0) return text + ", OFF";
  return text + ", at most " + size_text(repair.rate_bytes_per_s()) + "/s";
}

std::string status_text(const v1::GetStatusResponse& status, const Paint& paint) {
  Facts facts;
  const bool ready = status.ready();
  facts.add("node", hex_text(status.node_uuid()) + ", " + printable(status.version()));
  facts.add("state",
            std::string(state_text(status.state())) +
                (ready ? ", ready" : ", NOT READY: " + printable(status.ready_why_not())) +
                "; up " + age_text(status.uptime_ns()) + ", start " +
                std::to_string(status.boot_generation()),
            ready ? Tone::kGood : Tone::kBad);
  for (const v1::Degradation& degradation : status.degraded()) {
    facts.add("degraded", printable(degradation.reason() + ": " + degradation.remedy()),
              Tone::kWarn);
  }
  facts.add("data", printable(status.data_dir()) + ", scheme " + std::to_string(status.k()) + "+" +
                        std::to_string(status.m()) + ", " + std::to_string(status.slices()) +
                        " slices a target");
  facts.add("listens", "data plane " + printable(status.listen()) + ", control plane " +
                           printable(status.control()));
  facts.add("shards", shards_text(status));
  facts.add("sessions", count_text(status.sessions()) + " of " + count_text(status.sessions_max()));
  const v1::Counts& counts = status.counts();
  facts.add("lookups", lookups_text(counts));
  facts.add("traffic", size_text(counts.pushed_bytes()) + " pushed, " +
                           size_text(counts.pulled_bytes()) + " pulled since the start");
  facts.add("blocks", count_text(counts.committed_blocks()) + " committed, " +
                          count_text(counts.evicted_blocks()) + " evicted, " +
                          count_text(counts.purged_blocks()) + " purged, " +
                          count_text(counts.lost_blocks()) + " lost");
  facts.add("repair", repair_text(status.repair()));
  facts.add("numbers", age_text(status.numbers_age_ns()) + " old");
  return facts.text(paint);
}

Outcome show_status(Call& call) {
  v1::GetStatusResponse status;
  Outcome outcome = call.node.ask(v1::GetStatusRequest(), &status);
  return outcome.ok() ? call.show(status, status_text(status, call.paint)) : outcome;
}

Outcome drain_node(Call& call) {
  Outcome outcome = call.confirm("stop the node at " + call.arguments.control);
  v1::DrainResponse out;
  if (outcome.ok()) outcome = call.node.ask(v1::DrainRequest(), &out);
  if (!outcome.ok()) return outcome;
  return call.show(out, "it drains and stops, in " + age_text(out.bound_ns()) +
                            " at the latest; what is durable is kept\n");
}

}  // namespace

Noun status_noun() {
  return {"status",
          "",
          "What the node is, how it is, what it did since its start",
          {{"",
            "What the node is, how it is, what it did since its start",
            {},
            {"status", "--json status | jq .ready"},
            show_status}}};
}

Noun drain_noun() {
  return {"drain",
          "",
          "Stop the node gracefully, as SIGTERM does",
          {{"",
            "Stop the node gracefully, as SIGTERM does",
            {},
            {"drain", "--yes drain"},
            drain_node}}};
}

}  // namespace varve::kvctl
