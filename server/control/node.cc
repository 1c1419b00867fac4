// Calls about the node as a whole: status, stop, policies.
#include "server/control/check.h"
#include "server/control/rpc.h"

namespace varve::control {

namespace {

void fill(const Policy& from, v1::Policy* to) {
  to->set_name(from.name);
  to->set_value(from.value);
  to->set_setting(from.setting);
  to->set_range(from.range);
  to->set_what(from.what);
}

void fill_counts(const NodeStatus& from, v1::GetStatusResponse* out) {
  v1::Counts* counts = out->mutable_counts();
  counts->set_match_ids(from.match_ids);
  counts->set_hits_dram(from.hits_dram);
  counts->set_hits_flash(from.hits_flash);
  counts->set_misses(from.misses);
  counts->set_refused(from.refused);
  counts->set_errors(from.errors);
  counts->set_timeouts(from.timeouts);
  counts->set_cancelled(from.cancelled);
  counts->set_pushed_bytes(from.pushed_bytes);
  counts->set_pulled_bytes(from.pulled_bytes);
  counts->set_committed_blocks(from.committed_blocks);
  counts->set_evicted_blocks(from.evicted_blocks);
  counts->set_lost_blocks(from.lost_blocks);
  counts->set_purged_blocks(from.purged_blocks);
  v1::Repair* repair = out->mutable_repair();
  repair->set_blocks_left(from.repair_blocks_left);
  repair->set_eta_ns(from.repair_eta_ns);
  repair->set_done_blocks(from.repair_done_blocks);
  repair->set_rate_bytes_per_s(from.repair_rate_bytes_per_s);
}

}  // namespace

grpc::Status get_status(const Ask& ask, const v1::GetStatusRequest&, v1::GetStatusResponse* out) {
  const NodeStatus status = ask.ingress.status();
  out->set_version(status.version);
  out->set_node_uuid(text_of(status.node_uuid));
  out->set_boot_id(status.boot_id);
  out->set_boot_generation(status.boot_generation);
  out->set_uptime_ns(status.uptime_ns);
  out->set_state(static_cast<v1::NodeState>(status.state));
  out->set_ready(status.why_not_ready.empty());
  out->set_ready_why_not(status.why_not_ready);
  for (const NodeStatus::Degradation& degradation : status.degraded) {
    v1::Degradation* row = out->add_degraded();
    row->set_reason(degradation.reason);
    row->set_remedy(degradation.remedy);
  }
  out->set_data_dir(status.data_dir);
  out->set_listen(status.listen);
  out->set_control(status.control);
  out->set_k(status.scheme.k);
  out->set_m(status.scheme.m);
  out->set_slices(status.slices);
  out->set_sessions(status.sessions);
  out->set_sessions_max(status.sessions_max);
  out->set_numbers_age_ns(status.numbers_age_ns);
  for (size_t s = 0; s < status.shards.size(); ++s) {
    v1::Shard* row = out->add_shards();
    row->set_index(static_cast<uint32_t>(s));
    row->set_io(status.shards[s].io);
    row->set_io_refusal(status.shards[s].io_refusal);
    row->set_answers(status.shards[s].answers);
  }
  fill_counts(status, out);
  return grpc::Status::OK;
}

grpc::Status drain_node(const Ask& ask, const v1::DrainRequest&, v1::DrainResponse* out) {
  VARVE_ASK(const Nanos bound_ns, ask.ingress.drain());
  out->set_bound_ns(bound_ns);
  return grpc::Status::OK;
}

grpc::Status list_policies(const Ask& ask, const v1::ListPoliciesRequest&,
                           v1::ListPoliciesResponse* out) {
  for (const Policy& policy : ask.ingress.policies())
    fill(policy, out->add_policies());
  return grpc::Status::OK;
}

grpc::Status set_policy(const Ask& ask, const v1::SetPolicyRequest& in,
                        v1::SetPolicyResponse* out) {
  std::string problem = bad_text("name", in.name(), kNameBytesMax);
  if (problem.empty()) problem = bad_text("value", in.value(), kNameBytesMax);
  if (problem.empty() && in.name().empty()) problem = "name is empty; ListPolicies has them";
  if (!problem.empty()) return invalid(problem);
  VARVE_ASK(const PolicyChange change, ask.ingress.policy_set(in.name(), in.value(), ask.limit_ns));
  fill(change.policy, out->mutable_policy());
  out->set_before(change.before);
  return grpc::Status::OK;
}

}  // namespace varve::control
