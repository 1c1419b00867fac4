// kvctl block locate: where the blocks of a base id lie; kvctl match: how long a prefix is a hit.
#include "tools/kvctl/call.h"
#include "tools/kvctl/table.h"

namespace varve::kvctl {

namespace {

constexpr size_t kFingerprintBytesMin = 4, kFingerprintBytesMax = 32;

std::string state_text(const v1::Block& block) {
  switch (block.state()) {
    case v1::BLOCK_STATE_AWAY:
      return "AWAY: too few fragments can be read; bring their targets back";
    case v1::BLOCK_STATE_MEMORY:
      return "in memory, its fragments are being written";
    case v1::BLOCK_STATE_FLASH:
      return block.in_dram() ? "on flash and in DRAM" : "on flash";
    default:
      return "in a state that this kvctl does not know";
  }
}

std::string block_line(const v1::Block& block) {
  std::string text = "rank " + std::to_string(block.rank()) + ": " + state_text(block) + ", " +
                     size_text(block.stored_bytes()) + " stored";
  if (block.bytes() > 0) text += ", " + size_text(block.bytes()) + " of data";
  if (block.lacking() > 0) text += ", LACKS " + plural(block.lacking(), "fragment");
  if (block.has_attempt()) {
    text += ", attempt " + std::to_string(block.attempt().boot_generation()) + "." +
            std::to_string(block.attempt().target()) + "." +
            std::to_string(block.attempt().counter());
  }
  return text + "\n";
}

std::string found_text(const v1::FindBlockResponse& found, uint32_t data_fragments,
                       const Paint& paint) {
  std::string text;
  if (!found.found()) {
    text = found.recovering() ? "it is not there yet: its slice still recovers, ask again\n"
                              : "it is not there\n";
  } else {
    text = "home: shard " + std::to_string(found.shard()) + ", slice " +
           std::to_string(found.slice()) + "; " + plural(found.leases(), "lease") + "\n";
  }
  for (const v1::Block& block : found.blocks())
    text += block_line(block);
  Table table({">RANK", ">POSITION", "", ">TARGET", ">SLICE", ">SEGMENT", ">PAGE", ">SIZE", ""});
  for (const v1::Block& block : found.blocks()) {
    for (const v1::Fragment& fragment : block.fragments()) {
      table.row({std::to_string(block.rank()), std::to_string(fragment.position()),
                 fragment.position() < data_fragments ? "data" : "parity",
                 std::to_string(fragment.target()), std::to_string(fragment.slice()),
                 std::to_string(fragment.segment()), std::to_string(fragment.page()),
                 size_text(uint64_t{fragment.pages()} * 4096),
                 fragment.readable() ? Cell("") : Cell("UNREADABLE", Tone::kBad)});
    }
  }
  return table.empty() ? text : text + table.text(paint);
}

Outcome locate(Call& call) {
  v1::FindBlockRequest request;
  request.set_domain(call.arguments.domain);
  Outcome outcome = read_hex("the base id", call.arguments.key, 32, 32, request.mutable_base_id());
  v1::FindBlockResponse found;
  if (outcome.ok()) outcome = call.node.ask(request, &found);
  if (!outcome.ok() || call.arguments.json) {
    return outcome.ok() ? call.show(found, "") : outcome;
  }
  v1::GetStatusResponse status;  // which positions are parity is the scheme's
  outcome = call.node.ask(v1::GetStatusRequest(), &status);
  return outcome.ok() ? call.show(found, found_text(found, status.k(), call.paint)) : outcome;
}

const char* tier_text(int tier) {
  switch (tier) {
    case v1::TIER_KIND_NONE:
      return "miss";
    case v1::TIER_KIND_DRAM:
      return "in DRAM";
    case v1::TIER_KIND_FLASH:
      return "on flash";
    default:
      return "in a tier that this kvctl does not know";
  }
}

// Neighbours in one tier are one line: a prefix has hundreds.
std::string matched_text(const v1::MatchPrefixResponse& matched) {
  std::string text = "hit: the first " + count_text(matched.length()) + " of " +
                     plural(static_cast<uint64_t>(matched.tiers_size()), "id") + "\n";
  for (int first = 0; first < matched.tiers_size();) {
    int end = first + 1;
    while (end < matched.tiers_size() && matched.tiers(end) == matched.tiers(first))
      ++end;
    const std::string run = end == first + 1
                                ? std::to_string(first)
                                : std::to_string(first) + " to " + std::to_string(end - 1);
    text += "  " + run + ": " + tier_text(matched.tiers(first)) + "\n";
    first = end;
  }
  if (matched.recovering()) text += "the node still recovers: a miss may be found later\n";
  return text;
}

Outcome match(Call& call) {
  v1::MatchPrefixRequest request;
  request.set_domain(call.arguments.domain);
  std::vector<std::string> ids;
  Outcome outcome = read_ids(call, &ids);
  if (!outcome.ok()) return outcome;
  for (std::string& id : ids)
    request.add_base_ids(std::move(id));
  const Arguments& a = call.arguments;
  if (!a.format.empty() && a.ranks != 0) {
    return Outcome::usage("--format says how many ranks there are; leave --ranks out");
  }
  if (!a.format.empty()) {
    outcome = read_hex("--format", a.format, kFingerprintBytesMin, kFingerprintBytesMax,
                       request.mutable_fingerprint());
  } else {
    request.set_rank_count(a.ranks == 0 ? 1 : a.ranks);
  }
  v1::MatchPrefixResponse matched;
  if (outcome.ok()) outcome = call.node.ask(request, &matched);
  return outcome.ok() ? call.show(matched, matched_text(matched)) : outcome;
}

Option domain_option() {
  return {"--domain", "NAME", &Arguments::domain, "whose blocks [default]"};
}

}  // namespace

Noun block_noun() {
  return {"block",
          "blocks",
          "Where a block lies: locate",
          {{"locate",
            "Ranks, state and fragments of a base id, as the index has them; no drive is asked",
            {{"ID", "HEX", &Arguments::key, "a base id, 64 hex digits", Need::kRequired},
             domain_option()},
            {"block locate 9c1185a5c5e9fc54612808977ee8f548b2258d31ad6f8a7a7d5f1b2c3d4e5f60"},
            locate}}};
}

Noun match_noun() {
  return {"match",
          "",
          "How long a prefix would be a hit; counts as nobody's hit",
          {{"",
            "How long a prefix would be a hit; counts as nobody's hit",
            {{"ID", "HEX", &Arguments::ids,
              "base ids in prefix order, 64 hex digits each, 2048 "
              "at most"},
             {"--ids-file", "FILE", &Arguments::ids_file,
              "more of them, one a line; -: standard input"},
             {"--format", "HEX", &Arguments::format, "whose ranks make a run whole (fingerprint)"},
             {"--ranks", "N", &Arguments::ranks, "or how many there are [1]"},
             domain_option()},
            {"match --ids-file prefix.txt --format 8b1f0c2d"},
            match}}};
}

}  // namespace varve::kvctl
