// kvctl purge: ends blocks for good: ids, a lineage of weights, or all of a domain.
#include "tools/kvctl/call.h"

namespace varve::kvctl {

namespace {

constexpr size_t kFingerprintBytesMin = 4, kFingerprintBytesMax = 32;

// What is to be purged, and in words; exactly one of the ways must be named.
Outcome read_purge(Call& call, v1::PurgeRequest* request, std::string* deed) {
  const Arguments& a = call.arguments;
  const bool names_ids = !a.ids.empty() || !a.ids_file.empty();
  const int ways = (names_ids ? 1 : 0) + (a.lineage.empty() ? 0 : 1) + (a.format.empty() ? 0 : 1) +
                   (a.all ? 1 : 0);
  if (ways != 1) {
    return Outcome::usage(
        "give exactly one of base ids (words or --ids-file), --lineage, --format and --all; see "
        "kvctl purge --help");
  }
  request->set_domain(a.domain);
  const std::string where =
      " of domain " + (a.domain.empty() ? std::string("default") : printable(a.domain));
  if (names_ids) {
    std::vector<std::string> ids;
    Outcome outcome = read_ids(call, &ids);
    if (!outcome.ok()) return outcome;
    request->set_kind(v1::PURGE_KIND_BLOCKS);
    for (std::string& id : ids)
      request->add_base_ids(std::move(id));
    *deed = "purge " + plural(ids.size(), "base id") + where;
    return Outcome::done();
  }
  request->set_kind(a.all ? v1::PURGE_KIND_DOMAIN : v1::PURGE_KIND_LINEAGE);
  if (a.all) {
    *deed = "purge everything" + where;
  } else if (!a.lineage.empty()) {
    request->set_lineage(a.lineage);
    *deed = "purge lineage \"" + printable(a.lineage) + "\"" + where;
  } else {
    *deed = "purge the lineage of format " + printable(a.format) + where;
    return read_hex("--format", a.format, kFingerprintBytesMin, kFingerprintBytesMax,
                    request->mutable_fingerprint());
  }
  return Outcome::done();
}

Outcome purge(Call& call) {
  v1::PurgeRequest request;
  std::string deed;
  Outcome outcome = read_purge(call, &request, &deed);
  if (outcome.ok()) outcome = call.confirm(deed);
  v1::PurgeResponse purged;
  if (outcome.ok()) outcome = call.node.ask(request, &purged);
  if (!outcome.ok()) return outcome;
  std::string text = purged_text(purged);
  // Each lineage that was ever purged has one of few rows, and a misspelt one takes it as well.
  if (request.kind() == v1::PURGE_KIND_LINEAGE && purged.blocks() == 0) {
    text +=
        "nothing of that lineage was here; if it is misspelt, it has one of the 32 places for "
        "purged lineages all the same, until the whole domain is purged\n";
  }
  if (request.kind() == v1::PURGE_KIND_BLOCKS && purged.blocks() == 0) {
    text +=
        "none of these ids was here; the key of kvctl put is no base id: kvctl --json put prints "
        "those\n";
  }
  return call.show(purged, text);
}

}  // namespace

std::string purged_text(const v1::PurgeResponse& purged) {
  std::string text =
      plural(purged.blocks(), "block") + " (" + size_text(purged.bytes()) + ") purged, for good";
  if (purged.generation() > 0) text += ", generation " + std::to_string(purged.generation());
  if (purged.blocks() == 0) return text + "\n";
  text += "; the bytes themselves are overwritten ";
  text += purged.erased_unknown() ? "as segments turn over, and nobody can say when"
                                  : "in about " + age_text(purged.erased_ns());
  return text + "\n";
}

Noun purge_noun() {
  return {"purge",
          "",
          "End blocks for good: base ids, a lineage, or all of a domain",
          {{"",
            "End blocks for good: base ids, a lineage, or all of a domain",
            {{"ID", "HEX", &Arguments::ids, "base ids, 64 hex digits each, 2048 at most"},
             {"--ids-file", "FILE", &Arguments::ids_file,
              "more of them, one a line; -: standard input"},
             {"--lineage", "TEXT", &Arguments::lineage, "all that was committed of this lineage"},
             {"--format", "HEX", &Arguments::format, "or of the lineage that this format has"},
             {"--all", "", &Arguments::all, "everything of the domain"},
             {"--domain", "NAME", &Arguments::domain, "whose blocks [default]"}},
            {"purge --lineage llama-3.1-8b@2024-07-23", "--yes purge --ids-file bad-ids.txt",
             "purge --all --domain team-a"},
            purge}}};
}

}  // namespace varve::kvctl
