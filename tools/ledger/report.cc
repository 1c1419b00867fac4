// The report of a run: the seven classes first, then what shaped them.
#include <nlohmann/json.hpp>

#include "tools/ledger/ledger.h"

namespace varve::ledger {

namespace {

struct Row {
  const char* name;
  uint64_t value;
  const char* meaning;
};

std::vector<Row> class_rows(const LedgerTotals& t) {
  const Tally& y = t.tally;
  return {
      {"intact", y.of(Class::kIntact), "acknowledged and there, every byte, over all audits"},
      {"evicted", y.of(Class::kEvicted), "gone from a folder that is too small for all"},
      {"revived", y.of(Class::kRevived), "written off and there again (legal)"},
      {"lost", y.of(Class::kLost), "durable and gone: must be 0"},
      {"corrupt", y.of(Class::kCorrupt), "delivered as good but wrong: must be 0"},
      {"phantom", y.of(Class::kPhantom), "delivered but never committed: must be 0"},
      {"unpurged", y.of(Class::kUnpurged), "there, though its purge was answered: must be 0"},
  };
}

std::vector<Row> count_rows(const LedgerTotals& t) {
  return {
      {"cached_lost", t.tally.cached_lost, "acknowledged as cached and gone (legal)"},
      {"partial_gone", t.tally.partial_gone, "durable, but a sibling rank never was (legal)"},
      {"unanswered_found", t.tally.unanswered, "there, though its answer was cut off (legal)"},
      {"kept_within_budget", t.tally.within_kept,
       "durable and there, though targets were hurt: within what the scheme can do without"},
      {"kept_beyond_budget", t.tally.beyond_kept, "there, though more were hurt"},
      {"gone_beyond_budget", t.tally.beyond_gone, "durable and gone, more were hurt (legal)"},
      {"loops_beyond_budget", t.harms_beyond, "that began with more targets hurt"},
      {"purged", t.tally.purged, "acknowledged, and ended by a purge that was answered"},
      {"clouded_gone", t.tally.clouded_gone,
       "gone, and met by a purge under way or without an answer (legal)"},
      {"clouded_kept", t.tally.clouded_kept, "met by one, and there (legal)"},
      {"healed", t.healed, "times that all was whole again, audited before and after"},
      {"unhealed", t.unhealed, "a catalog that is rotten until the next start, mostly"},
      {"no_room_to_repair", t.roomless, "times that repair waited for evictions"},
      {"drains", t.drains, "targets that were to be emptied"},
      {"drained", t.drained, "of them, said to be removable"},
      {"loops", t.loops, ""},
      {"lives", t.lives, "starts of varved"},
      {"kills", t.kills, ""},
      {"graceful_stops", t.stops, ""},
      {"undrained_stops", t.undrained_stops, "of them, ended by --drain-ms (legal)"},
      {"shard_counts_changed", t.shards_changed, "between two lives of a folder"},
      {"audits", t.audits, ""},
      {"blocks_audited", t.audit.blocks_asked, ""},
      {"broken_hits", t.audit.broken_hits + t.load.broken_hits, "must be 0"},
      {"broken_misses", t.audit.broken_misses, "must be 0"},
      {"pushes", t.load.pushes, ""},
      {"blocks_granted", t.load.blocks_granted, ""},
      {"blocks_existing", t.load.blocks_existing, ""},
      {"durable_acks", t.load.acks_durable, ""},
      {"cached_acks", t.load.acks_cached, ""},
      {"pulls", t.load.pulls, "during load"},
      {"blocks_pulled", t.load.blocks_pulled, "during load, every byte checked"},
      {"follows", t.load.follows, "of pushes under way"},
      {"layers_followed", t.load.layers_followed, "every byte checked"},
      {"blocks_followed", t.load.blocks_followed, "to a good end"},
      {"blocks_denied", t.load.blocks_denied, "a follower was told that their push failed"},
      {"broken_follows", t.load.broken_follows, "must be 0"},
      {"purges", t.load.purges, ""},
      {"purges_done", t.load.purges_done, "answered"},
      {"purged_lineages", t.load.purged_lineages, "of them"},
      {"cancels", t.load.cancels, ""},
      {"hung_ops", t.load.hung, "must be 0"},
      {"recovered_blocks", t.recovered_blocks, "as varved counts them, over audited lives"},
      {"evicted_by_varved", t.evicted_blocks, "as far as its file of metrics, a second old, says"},
      {"dropped_fragments", t.dropped_fragments, "torn and other, as varved counts them"},
  };
}

std::string line_of(const Row& row) {
  std::string line = std::string("  ") + row.name;
  line.resize(std::max<size_t>(line.size() + 1, 26), ' ');
  const std::string number = std::to_string(row.value);
  line += std::string(number.size() < 10 ? 10 - number.size() : 0, ' ') + number;
  return line + (row.meaning[0] != '\0' ? std::string("  ") + row.meaning : "") + "\n";
}

std::vector<Row> harm_rows(const LedgerTotals& t) {
  std::vector<Row> rows;
  for (uint32_t h = 1; h < kHarmCount; ++h)
    rows.push_back({harm_name(static_cast<Harm>(h)), t.harms[h], ""});
  rows[static_cast<uint32_t>(Harm::kSwap) - 1].meaning = "two at a time, each start refused";
  return rows;
}

const char* planted(Mutant mutant) {
  switch (mutant) {
    case Mutant::kNone:
      break;
    case Mutant::kFlush:
      return "ack before flush";
    case Mutant::kRepair:
      return "repair that is off";
    case Mutant::kPurge:
      return "purge before flush";
  }
  return "none";
}

}  // namespace

bool passed(const LedgerOptions& options, const LedgerTotals& totals) {
  const Tally& tally = totals.tally;
  if (options.plan.mutant == Mutant::kNone)
    return totals.problems.empty() && tally.violations() == 0;
  // The mutant must be seen as what it is: durable blocks gone, or purged ones there.
  const Class sign = options.plan.mutant == Mutant::kPurge ? Class::kUnpurged : Class::kLost;
  return tally.of(sign) > 0 && tally.of(sign) == tally.violations();
}

std::string report_text(const LedgerOptions& options, const LedgerTotals& totals) {
  std::string out = "the crash ledger: " + std::to_string(totals.loops) + " loops, seed " +
                    std::to_string(options.plan.seed) + ", scheme";
  for (const auto& [scheme, loops] : totals.schemes)
    out += " " + scheme + " (" + std::to_string(loops) + ")";
  out += "\n";
  for (const Row& row : class_rows(totals))
    out += line_of(row);
  out += "counts\n";
  for (const Row& row : count_rows(totals))
    out += line_of(row);
  out += "targets\n";
  for (const Row& row : harm_rows(totals))
    out += line_of(row);
  for (const std::string& problem : totals.problems)
    out += "problem: " + problem + "\n";
  const bool good = passed(options, totals);
  if (options.plan.mutant != Mutant::kNone) {
    out += good ? std::string("ledger: the planted ") + planted(options.plan.mutant) +
                      " was caught after " + std::to_string(totals.loops) + " loops\n"
                : "ledger: THE PLANTED FAULT WENT UNSEEN\n";
  } else {
    out += good ? "ledger: ok\n" : "ledger: FAILED\n";
  }
  return out;
}

std::string report_json(const LedgerOptions& options, const LedgerTotals& totals) {
  nlohmann::json out;
  out["seed"] = options.plan.seed;
  out["mutant"] = planted(options.plan.mutant);
  out["schemes"] = totals.schemes;  // loops of each
  out["passed"] = passed(options, totals);
  for (const Row& row : class_rows(totals))
    out["classes"][row.name] = row.value;
  for (const Row& row : count_rows(totals))
    out["counts"][row.name] = row.value;
  for (const Row& row : harm_rows(totals))
    out["targets"][row.name] = row.value;
  out["problems"] = totals.problems;
  return out.dump(2) + "\n";
}

}  // namespace varve::ledger
