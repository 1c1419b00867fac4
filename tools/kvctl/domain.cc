// kvctl domain: who may share. Tokens are shown once, where they are made.
#include "server/config/config.h"
#include "tools/kvctl/call.h"
#include "tools/kvctl/table.h"

namespace varve::kvctl {

namespace {

std::string domains_text(const v1::ListDomainsResponse& list, const Paint& paint) {
  Table table(
      {"NAME", ">ID", "TOKEN", ">SESSIONS", ">BLOCKS", ">DRAM", ">FLASH", ">QUOTA", ">PURGED"});
  for (const v1::Domain& domain : list.domains()) {
    table.row({printable(domain.name()), std::to_string(domain.id()),
               domain.has_token() ? "yes" : "none", count_text(domain.sessions()),
               count_text(domain.blocks()), size_text(domain.dram_bytes()),
               size_text(domain.used_bytes()),
               domain.quota_bytes() == 0 ? "none" : size_text(domain.quota_bytes()),
               std::to_string(domain.generation()) + " times"});
  }
  return table.text(paint);
}

// The token alone is what a script wants, so it stands on a line of its own.
std::string token_text(const std::string& done, const std::string& token) {
  return done + "; its token, which is not shown again:\n" + printable(token) + "\n";
}

Outcome list_domains(Call& call) {
  v1::ListDomainsResponse list;
  Outcome outcome = call.node.ask_all(v1::ListDomainsRequest(), &list);
  return outcome.ok() ? call.show(list, domains_text(list, call.paint)) : outcome;
}

Outcome create_domain(Call& call) {
  v1::CreateDomainRequest request;
  request.set_name(call.arguments.name);
  if (const std::string& quota = call.arguments.quota; !quota.empty()) {
    const Result<uint64_t> bytes = parse_bytes(quota);
    if (!bytes) {
      return Outcome::usage("--quota is \"" + printable(quota) + "\"; " + bytes.error().what());
    }
    request.set_quota_bytes(*bytes);
  }
  v1::CreateDomainResponse made;
  Outcome outcome = call.node.ask(request, &made);
  if (!outcome.ok()) return outcome;
  return call.show(made, token_text("domain " + printable(made.domain().name()) + " (id " +
                                        std::to_string(made.domain().id()) + ") is made",
                                    made.token()));
}

Outcome rotate_domain(Call& call) {
  v1::RotateDomainTokenRequest request;
  request.set_name(call.arguments.name);
  Outcome outcome = call.confirm("end the present token of domain " + request.name());
  v1::RotateDomainTokenResponse rotated;
  if (outcome.ok()) outcome = call.node.ask(request, &rotated);
  if (!outcome.ok()) return outcome;
  return call.show(rotated, token_text("domain " + printable(rotated.domain().name()) +
                                           " has another token; the old one is refused",
                                       rotated.token()));
}

Outcome drop_domain(Call& call) {
  v1::DropDomainRequest request;
  request.set_name(call.arguments.name);
  Outcome outcome = call.confirm("drop domain " + request.name() + " with all that it holds");
  v1::DropDomainResponse dropped;
  if (outcome.ok()) outcome = call.node.ask(request, &dropped);
  if (!outcome.ok()) return outcome;
  return call.show(dropped, "domain " + printable(request.name()) + " is dropped; " +
                                purged_text(dropped.purged()));
}

Option name_word() {
  return {"NAME", "NAME", &Arguments::name, "of the domain", Need::kRequired};
}

}  // namespace

Noun domain_noun() {
  return {"domain",
          "domains",
          "Who may share: list, create, rotate, drop",
          {{"list",
            "Each domain: its id, sessions, and what it has in each tier",
            {},
            {"domain list"},
            list_domains},
           {"create",
            "Make a domain, and show its token, once",
            {name_word(),
             {"--quota", "SIZE", &Arguments::quota,
              "most that it may hold, as 10GiB; no varved keeps one yet [none]"}},
            {"domain create team-a",
             "--json domain create team-a | (umask 077; jq -r .token > team-a.token)"},
            create_domain},
           {"rotate",
            "Give a domain another token, and show it, once",
            {name_word()},
            {"--yes domain rotate team-a"},
            rotate_domain},
           {"drop",
            "End a domain with all that it holds",
            {name_word()},
            {"domain drop team-a"},
            drop_domain}}};
}

}  // namespace varve::kvctl
