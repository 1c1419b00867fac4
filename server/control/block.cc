// Calls about blocks: where they lie, how long a prefix is a hit, their end.
#include "server/control/check.h"
#include "server/control/rpc.h"

namespace varve::control {

namespace {

void fill(const Block& from, v1::Block* to) {
  to->set_rank(from.rank);
  to->set_state(static_cast<v1::BlockState>(from.state));
  to->set_in_dram(from.in_dram);
  if (!from.attempt.is_none()) {
    to->mutable_attempt()->set_boot_generation(from.attempt.boot_generation);
    to->mutable_attempt()->set_target(from.attempt.target);
    to->mutable_attempt()->set_counter(from.attempt.counter);
  }
  to->set_bytes(from.dram_bytes);
  uint64_t pages = 0;
  for (const Fragment& fragment : from.fragments) {
    v1::Fragment* row = to->add_fragments();
    row->set_position(fragment.position);
    row->set_target(fragment.target);
    row->set_slice(fragment.slice);
    row->set_segment(fragment.segment);
    row->set_page(fragment.page);
    row->set_pages(fragment.pages);
    row->set_lead_pages(fragment.lead_pages);
    row->set_readable(fragment.readable);
    pages += fragment.pages;
  }
  to->set_stored_bytes(bytes_of(pages));
  to->set_lacking(from.lacking);
}

Answer<std::vector<BaseId>> ids_of(const google::protobuf::RepeatedPtrField<std::string>& in) {
  if (in.empty() || in.size() > static_cast<int>(kIdsMax)) {
    return Refusal::of(Code::kInvalid,
                       "base_ids has " + std::to_string(in.size()) + " entries; give 1 to 2048");
  }
  std::vector<BaseId> ids;
  ids.reserve(static_cast<size_t>(in.size()));
  for (const std::string& bytes : in) {
    Answer<Digest> id = digest_of("a base id", bytes);
    if (!id) return id.refusal();
    ids.push_back(*id);
  }
  return ids;
}

Answer<std::string> domain_of(const std::string& name) {
  if (name.empty()) return std::string("default");
  if (const std::string problem = bad_text("domain", name, kNameBytesMax); !problem.empty()) {
    return Refusal::of(Code::kInvalid, problem + "; nothing was done");
  }
  return name;
}

Answer<uint32_t> rank_count_of(const Ask& ask, const v1::MatchPrefixRequest& in) {
  if (in.has_fingerprint()) {
    Answer<std::string> begin = fingerprint_begin_of("fingerprint", in.fingerprint());
    if (!begin) return begin.refusal();
    Answer<FormatRow> format = ask.ingress.format(bytes_of_text(*begin));
    if (!format) return format.refusal();
    return format->format.rank_count();
  }
  if (!in.has_rank_count() || in.rank_count() == 0 || in.rank_count() > kRanksMax) {
    return Refusal::of(Code::kInvalid,
                       "how many ranks make a run is not said; give a fingerprint, or a "
                       "rank_count of 1 to 32");
  }
  return in.rank_count();
}

// What a purge may name depends on its kind: what it would leave out is refused, never ignored.
std::string bad_purge(const v1::PurgeRequest& in) {
  if (in.kind() == v1::PURGE_KIND_UNSPECIFIED) return "kind is not given";
  const bool blocks = in.kind() == v1::PURGE_KIND_BLOCKS;
  const bool lineage = in.kind() == v1::PURGE_KIND_LINEAGE;
  if (!blocks && in.base_ids_size() > 0) return "base_ids belong to a purge of blocks only";
  const bool names_lineage = in.has_lineage() || in.has_fingerprint();
  if (!lineage && names_lineage) {
    return "lineage and fingerprint belong to a purge of a lineage only";
  }
  if (lineage && !names_lineage) return "which lineage is not said; give its text or a fingerprint";
  if (in.has_lineage() && in.lineage().empty()) return "lineage is empty";
  if (in.has_lineage()) return bad_text("lineage", in.lineage(), kFormatTextMax);
  return {};
}

}  // namespace

grpc::Status find_block(const Ask& ask, const v1::FindBlockRequest& in,
                        v1::FindBlockResponse* out) {
  FindAsk wanted;
  VARVE_ASK(wanted.id, digest_of("base_id", in.base_id()));
  VARVE_ASK(wanted.domain, domain_of(in.domain()));
  VARVE_ASK(const Found found, ask.ingress.find(wanted, ask.limit_ns));
  out->set_found(!found.blocks.empty());
  out->set_shard(found.shard);
  out->set_slice(found.slice);
  out->set_recovering(found.recovering);
  out->set_leases(found.leases);
  for (const Block& block : found.blocks)
    fill(block, out->add_blocks());
  return grpc::Status::OK;
}

grpc::Status match_prefix(const Ask& ask, const v1::MatchPrefixRequest& in,
                          v1::MatchPrefixResponse* out) {
  MatchAsk wanted;
  VARVE_ASK(wanted.ids, ids_of(in.base_ids()));
  VARVE_ASK(wanted.domain, domain_of(in.domain()));
  VARVE_ASK(wanted.rank_count, rank_count_of(ask, in));
  VARVE_ASK(const Matched matched, ask.ingress.match(wanted, ask.limit_ns));
  out->set_length(matched.length);
  out->set_recovering(matched.recovering);
  for (const TierKind tier : matched.tiers)
    out->add_tiers(static_cast<v1::TierKind>(tier));
  return grpc::Status::OK;
}

grpc::Status purge(const Ask& ask, const v1::PurgeRequest& in, v1::PurgeResponse* out) {
  const std::string problem = bad_purge(in);
  if (!problem.empty()) return invalid(problem + "; nothing was purged");
  PurgeAsk wanted;
  wanted.kind = static_cast<PurgeKind>(in.kind());
  VARVE_ASK(wanted.domain, domain_of(in.domain()));
  if (wanted.kind == PurgeKind::kBlocks) {
    VARVE_ASK(wanted.ids, ids_of(in.base_ids()));
  }
  wanted.lineage = in.lineage();
  if (in.has_fingerprint()) {
    VARVE_ASK(const std::string begin, fingerprint_begin_of("fingerprint", in.fingerprint()));
    VARVE_ASK(const FormatRow format, ask.ingress.format(bytes_of_text(begin)));
    wanted.lineage = format.format.lineage;
  }
  VARVE_ASK(const Purged purged, ask.ingress.purge(wanted, ask.limit_ns));
  out->set_generation(purged.generation);
  out->set_blocks(purged.blocks);
  out->set_bytes(purged.bytes);
  out->set_erased_ns(purged.erased_ns);
  out->set_erased_unknown(purged.erased_unknown);
  return grpc::Status::OK;
}

}  // namespace varve::control
