// Calls about tiers and targets: lists, drain, failure, replacement, scrub.
#include "server/control/check.h"
#include "server/control/rpc.h"

namespace varve::control {

namespace {

constexpr uint32_t kTargetsMax = 32;

void fill(const Target& from, v1::Target* to) {
  to->set_index(from.index);
  to->set_path(from.path);
  to->set_uuid(text_of(from.uuid));
  to->set_state(static_cast<v1::TargetState>(from.state));
  to->set_why(from.why);
  to->set_capacity_bytes(from.capacity_bytes);
  to->set_live_bytes(from.live_bytes);
  to->set_reserved_bytes(from.reserved_bytes);
  to->set_free_segments(from.free_segments);
  to->set_fragments(from.fragments);
  to->set_shards_ok(from.shards_ok);
  to->set_shards(from.shards);
  to->set_shards_suspect(from.shards_suspect);
  to->set_limbo(from.limbo);
  to->set_missed_purges(from.missed_purges);
  to->set_drained_by_setting(from.drained_by_setting);
  to->set_read_bytes(from.read_bytes);
  to->set_written_bytes(from.written_bytes);
  v1::Scrub* scrub = to->mutable_scrub();
  scrub->set_running(from.scrub_running);
  scrub->set_pass_bytes(from.scrub_pass_bytes);
  scrub->set_pass_done_bytes(from.scrub_pass_done_bytes);
  scrub->set_passes(from.scrub_passes);
  scrub->set_scrubbed_bytes(from.scrubbed_bytes);
  scrub->set_rot(from.scrub_rot);
}

}  // namespace

grpc::Status list_tiers(const Ask& ask, const v1::ListTiersRequest&, v1::ListTiersResponse* out) {
  for (const Tier& tier : ask.ingress.tiers()) {
    v1::Tier* row = out->add_tiers();
    row->set_name(tier.name);
    row->set_capacity_bytes(tier.capacity_bytes);
    row->set_used_bytes(tier.used_bytes);
    row->set_reserved_bytes(tier.reserved_bytes);
    row->set_blocks(tier.blocks);
    row->set_hits(tier.hits);
    row->set_pulled_bytes(tier.pulled_bytes);
    row->set_admission(tier.admission);
    row->set_eviction(tier.eviction);
  }
  return grpc::Status::OK;
}

grpc::Status list_targets(const Ask& ask, const v1::ListTargetsRequest&,
                          v1::ListTargetsResponse* out) {
  for (const Target& target : ask.ingress.targets())
    fill(target, out->add_targets());
  return grpc::Status::OK;
}

grpc::Status drain_target(const Ask& ask, const v1::DrainTargetRequest& in,
                          v1::DrainTargetResponse* out) {
  VARVE_ASK(const TargetName name, target_of(in.index(), in.uuid()));
  VARVE_ASK(const Target target, ask.ingress.target_drain(name, ask.limit_ns));
  fill(target, out->mutable_target());
  return grpc::Status::OK;
}

grpc::Status undrain_target(const Ask& ask, const v1::UndrainTargetRequest& in,
                            v1::UndrainTargetResponse* out) {
  VARVE_ASK(const TargetName name, target_of(in.index(), in.uuid()));
  VARVE_ASK(const Target target, ask.ingress.target_undrain(name, ask.limit_ns));
  fill(target, out->mutable_target());
  return grpc::Status::OK;
}

grpc::Status fail_target(const Ask& ask, const v1::FailTargetRequest& in,
                         v1::FailTargetResponse* out) {
  VARVE_ASK(const TargetName name, target_of(in.index(), in.uuid()));
  const Force force = in.force() ? Force::kYes : Force::kNo;
  VARVE_ASK(const Target target, ask.ingress.target_fail(name, force, ask.limit_ns));
  fill(target, out->mutable_target());
  return grpc::Status::OK;
}

grpc::Status replace_target(const Ask& ask, const v1::ReplaceTargetRequest& in,
                            v1::ReplaceTargetResponse* out) {
  VARVE_ASK(const TargetName name, target_of(in.index(), in.uuid()));
  if (const std::string problem = bad_text("path", in.path(), kPathBytesMax); !problem.empty()) {
    return invalid(problem);
  }
  VARVE_ASK(const Target target, ask.ingress.target_replace(name, in.path(), ask.limit_ns));
  fill(target, out->mutable_target());
  return grpc::Status::OK;
}

grpc::Status start_scrub(const Ask& ask, const v1::StartScrubRequest& in,
                         v1::StartScrubResponse* out) {
  if (in.targets_size() > static_cast<int>(kTargetsMax)) {
    return invalid("targets has " + std::to_string(in.targets_size()) + " entries; at most 32");
  }
  const std::vector<uint32_t> targets(in.targets().begin(), in.targets().end());
  VARVE_ASK(const ScrubBegun begun, ask.ingress.scrub(targets, ask.limit_ns));
  out->set_begun(begun.begun);
  out->set_running(begun.running);
  return grpc::Status::OK;
}

}  // namespace varve::control
