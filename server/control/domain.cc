// Calls about domains: who may share.
#include "server/control/check.h"
#include "server/control/rpc.h"

namespace varve::control {

namespace {

void fill(const Domain& from, v1::Domain* to) {
  to->set_name(from.name);
  to->set_id(from.id);
  to->set_generation(from.generation);
  to->set_has_token(from.has_token);
  to->set_sessions(from.sessions);
  to->set_quota_bytes(from.quota_bytes);
  to->set_used_bytes(from.used_bytes);
  to->set_dram_bytes(from.dram_bytes);
  to->set_blocks(from.blocks);
}

// Empty, or what is wrong with it.
std::string bad_name(const std::string& name) {
  if (name.empty()) return "name is empty";
  if (name.size() > kNameBytesMax) {
    return "name has " + std::to_string(name.size()) + " bytes; at most 64";
  }
  for (const char c : name) {
    const bool good =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!good) return "name may have a-z, 0-9, '-', '_' and '.' only";
  }
  return {};
}

}  // namespace

grpc::Status list_domains(const Ask& ask, const v1::ListDomainsRequest& in,
                          v1::ListDomainsResponse* out) {
  VARVE_ASK(const PageAsk page, page_of(in.cursor(), in.page_size(), kDomainsPageMax));
  VARVE_ASK(const Page<Domain> domains, ask.ingress.domains(page, ask.limit_ns));
  for (const Domain& domain : domains.rows)
    fill(domain, out->add_domains());
  out->set_next_cursor(domains.next_cursor);
  return grpc::Status::OK;
}

grpc::Status create_domain(const Ask& ask, const v1::CreateDomainRequest& in,
                           v1::CreateDomainResponse* out) {
  if (const std::string problem = bad_name(in.name()); !problem.empty()) return invalid(problem);
  VARVE_ASK(const DomainToken made,
            ask.ingress.domain_create(in.name(), in.quota_bytes(), ask.limit_ns));
  fill(made.domain, out->mutable_domain());
  out->set_token(made.token);
  return grpc::Status::OK;
}

grpc::Status rotate_domain_token(const Ask& ask, const v1::RotateDomainTokenRequest& in,
                                 v1::RotateDomainTokenResponse* out) {
  if (const std::string problem = bad_name(in.name()); !problem.empty()) return invalid(problem);
  VARVE_ASK(const DomainToken made, ask.ingress.domain_rotate(in.name(), ask.limit_ns));
  fill(made.domain, out->mutable_domain());
  out->set_token(made.token);
  return grpc::Status::OK;
}

grpc::Status drop_domain(const Ask& ask, const v1::DropDomainRequest& in,
                         v1::DropDomainResponse* out) {
  if (const std::string problem = bad_name(in.name()); !problem.empty()) return invalid(problem);
  VARVE_ASK(const Purged purged, ask.ingress.domain_drop(in.name(), ask.limit_ns));
  out->mutable_purged()->set_generation(purged.generation);
  out->mutable_purged()->set_blocks(purged.blocks);
  out->mutable_purged()->set_bytes(purged.bytes);
  out->mutable_purged()->set_erased_ns(purged.erased_ns);
  out->mutable_purged()->set_erased_unknown(purged.erased_unknown);
  return grpc::Status::OK;
}

}  // namespace varve::control
