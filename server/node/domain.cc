// Domains as the operator asks for them: the file first, then the session shard, then the answer.
#include <algorithm>
#include <cinttypes>

#include "server/node/ingress.h"

namespace varve {

namespace {

using control::Refusal;

constexpr Nanos kMarkWait = kSecond;  // for a change that writes the list meanwhile

// As of one moment, for all of them.
struct GenerationsNow {
  Shard* shard;
  flash::Generations rows = {};
  void on_core() { rows = shard->flash().generations(); }
};

struct SetDomains {
  SessionTable* sessions;
  Domains domains;
  void on_core() { sessions->domains_set(std::move(domains)); }
};

// Which ids were given, as far as a core's drives and generations tell.
struct DomainSeen {
  Shard* shard;
  bool recovering = false;
  uint32_t id_last = 0;
  void on_core() {
    recovering = shard->recovering();
    id_last = static_cast<uint32_t>(shard->metrics().number("varve_domain_id_last"));
  }
};

// So that a start knows an older list of domains, or none, from the last one.
Failure mark(Node& node, Nanos limit_ns) {
  const Domains domains = node.domains.now();
  auto lock = lock_list(node, limit_ns);  // N5
  if (!lock) return environment(lock.refusal().text);
  TargetList list;
  Failure failure = reload_records(node.config.data_dir, &list);
  list.domain_id_last = std::max(list.domain_id_last, domains.id_last());
  list.domain_changes = std::max(list.domain_changes, domains.changes());
  if (list.domain_id_seen <= list.domain_id_last) list.domain_id_seen = 0;
  if (failure.ok()) failure = save_records(node.config.data_dir, list);
  if (failure.ok()) node.domains.marked(domains.changes());
  return failure;
}

// Of a change that stays: the next look at the lists writes the mark.
void mark_or_say(Node& node, Nanos limit_ns) {
  const Failure failure = mark(node, limit_ns);
  if (failure.ok()) return;
  logf(LogLevel::kWarn, "control",
       "%s; the change is in domains.list, and not marked: put back no older copy of that file "
       "before the log says that it is",
       failure.text.c_str());
}

// What a change could not mark itself.
bool see_unmarked(Node& node) {
  if (node.domains.is_marked()) return true;
  const Failure failure = mark(node, kMarkWait);
  if (failure.ok()) {
    logf(LogLevel::kInfo, "main", "all changes of domains.list are marked in targets.list");
    return true;
  }
  uint64_t swallowed = 0;
  if (!node.domains_log.admit(node.clock.now_ns(), &swallowed)) return false;
  logf(LogLevel::kError, "main",
       "%s; a change of domains.list cannot be marked: an older copy of it would be taken for the "
       "last one (%" PRIu64 " more times since the last line)",
       failure.text.c_str(), swallowed);
  return false;
}

// A loopback without a token makes every client of this machine an operator, who may take any other
// domain's token: a domain would keep nothing from anybody.
std::optional<Refusal> refuse_open(const Node& node) {
  if (!node.control_token.empty()) return std::nullopt;
  return Refusal::state(
      "whoever is on this machine may call the control plane, and could take any domain's token: "
      "start with --control-token-file");
}

// No checkpoint lists what recovery did not take in, so the next start may not hear of it.
bool see_ids(Node& node, const Seen& seen) {
  VARVE_ASSERT(seen.shards_counted <= node.config.shards, seen.shards_counted);
  if (seen.shards_counted < node.config.shards) return true;
  if (seen.sum.number("varve_recovering", "") > 0) return true;
  const auto id = static_cast<uint32_t>(seen.sum.number("varve_domain_id_last", ""));
  if (!node.domains.is_above(id)) return true;
  const std::lock_guard<std::timed_mutex> lock(node.list_mutex);  // N5
  TargetList list;
  Failure failure = reload_records(node.config.data_dir, &list);
  list.domain_id_seen = std::max(list.domain_id_seen, id);
  if (failure.ok()) failure = save_records(node.config.data_dir, list);
  if (failure.ok()) {
    logf(LogLevel::kWarn, "main",
         "drives know of a domain of id %u, which no list has: no id up to it is given", id);
    node.domains.seen(id);
    return true;
  }
  uint64_t swallowed = 0;
  if (!node.domains_log.admit(node.clock.now_ns(), &swallowed)) return false;
  logf(LogLevel::kError, "main",
       "drives know of a domain of id %u, which no list has, and that cannot be kept: %s; the next "
       "start may give that id again (%" PRIu64 " more times since the last line)",
       id, failure.text.c_str(), swallowed);
  return false;
}

}  // namespace

bool see_domains(Node& node, const Seen& seen) {
  const bool marked = see_unmarked(node);
  return see_ids(node, seen) && marked;
}

control::Answer<uint32_t> NodeIngress::domain_id(const std::string& name) const {
  const Domains domains = node_.domains.now();
  const Domain* domain = domains.find(name);
  if (domain != nullptr) return domain->id;
  return Refusal::not_found("there is no domain \"" + name + "\"; list the domains");
}

// Where both lists were lost the drives still know of old domains, whose blocks no new one may
// have.
control::Answer<uint32_t> NodeIngress::domain_id_seen(const Until& until) {
  uint32_t id_last = 0;
  for (uint32_t s = 0; s < node_.threads.size(); ++s) {
    auto seen = ask(s, DomainSeen{node_.threads[s]->shard.get()}, until);
    if (!seen) return seen.refusal();
    if (seen->recovering) {
      return Refusal::of(Code::kUnavailable,
                         "the node still finds what its drives hold, and which ids of domains "
                         "were given; ask again when it is ready");
    }
    id_last = std::max(id_last, seen->id_last);
  }
  return id_last;
}

// A lost list would let its id be given again: nobody was told of it yet, so it goes again.
control::Refusal NodeIngress::unmarked(const std::string& name, const Failure& failure) {
  auto back = node_.domains.drop(node_.config.data_dir, name);
  if (back) node_.domains.ended(back->id);
  return Refusal::of(Code::kIo, failure.text + (back ? "; nothing was changed"
                                                     : "; the domain is there: drop it"));
}

// What the core takes late it takes all the same: the file says it, and the question stays with it.
control::Answer<bool> NodeIngress::tell_domains(const Until& until) {
  auto told = ask(kSessionShard, SetDomains{node_.sessions.get(), node_.domains.now()}, until);
  if (!told) return told.refusal();
  return true;
}

control::Answer<control::Page<control::Domain>> NodeIngress::domains(const control::PageAsk& page,
                                                                     Nanos limit_ns) {
  auto now = ask(0, GenerationsNow{node_.threads[0]->shard.get()}, until(limit_ns));
  if (!now) return now.refusal();
  const Domains domains = node_.domains.now();
  control::Page<control::Domain> out;
  const std::lock_guard<std::mutex> lock(node_.mutex);
  const MetricSnapshot& sum = node_.view.sum;
  for (const Domain& domain : domains.all()) {
    if (domain.id < page.cursor) continue;
    if (out.rows.size() == page.rows_max) {
      out.next_cursor = domain.id;
      break;
    }
    control::Domain row;
    row.name = domain.name;
    row.id = domain.id;
    row.generation = flash::domain_generation(now->rows, domain.id);
    row.has_token = domain.has_token;
    const auto number = [&sum, label = "domain=\"" + domain.name + "\""](const char* name,
                                                                         const char* more = "") {
      return static_cast<uint64_t>(sum.number(name, label + more));
    };
    row.sessions = number("varve_domain_sessions");
    row.used_bytes = number("varve_domain_used_bytes", ",tier=\"flash\"");
    row.dram_bytes = number("varve_domain_used_bytes", ",tier=\"dram\"");
    row.blocks = number("varve_domain_blocks");
    out.rows.push_back(std::move(row));
  }
  return out;
}

control::Answer<control::DomainToken> NodeIngress::domain_create(const std::string& name,
                                                                 uint64_t quota_bytes,
                                                                 Nanos limit_ns) {
  if (quota_bytes > 0) {
    return Refusal::of(Code::kUnsupported,
                       "a quota is not kept by this version, so none is taken; leave quota_bytes "
                       "out, and watch varve_domain_used_bytes");
  }
  if (auto refusal = refuse_open(node_)) return *std::move(refusal);
  const Until until = this->until(limit_ns);
  auto change = begin_change(until);
  if (!change) return change.refusal();
  auto seen = domain_id_seen(until);
  if (!seen) return seen.refusal();
  const uint32_t start = node_.targets.front().info.super.boot_generation;
  auto made = node_.domains.add(node_.config.data_dir, name, node_.entropy, start, *seen);
  if (!made) return made.refusal();
  if (const Failure failure = mark(node_, until.left_ns()); !failure.ok()) {
    return unmarked(name, failure);
  }
  logf(LogLevel::kWarn, "control", "domain %s is made, id %u", name.c_str(), made->domain.id);
  if (auto told = tell_domains(until); !told) return told.refusal();
  return *std::move(made);
}

control::Answer<control::DomainToken> NodeIngress::domain_rotate(const std::string& name,
                                                                 Nanos limit_ns) {
  if (auto refusal = refuse_open(node_)) return *std::move(refusal);
  const Until until = this->until(limit_ns);
  auto change = begin_change(until);
  if (!change) return change.refusal();
  auto made = node_.domains.rotate(node_.config.data_dir, name, node_.entropy);
  if (!made) return made.refusal();
  mark_or_say(node_, until.left_ns());
  logf(LogLevel::kWarn, "control", "domain %s, id %u, has a new token; the old one is refused",
       name.c_str(), made->domain.id);
  if (auto told = tell_domains(until); !told) return told.refusal();
  return *std::move(made);
}

// Not in the file any more, it is in no later start. What it holds now is purged behind its last
// session: parts of sessions come to the homes before those of the purge.
control::Answer<control::Purged> NodeIngress::domain_drop(const std::string& name, Nanos limit_ns) {
  const Until until = this->until(limit_ns);
  auto change = begin_change(until);
  if (!change) return change.refusal();
  auto dropped = node_.domains.drop(node_.config.data_dir, name);
  if (!dropped) return dropped.refusal();
  mark_or_say(node_, until.left_ns());
  if (auto told = tell_domains(until); !told) return told.refusal();
  change->unlock();  // a purge may last; until it is answered the name is nobody else's
  control::PurgeAsk all;
  all.kind = control::PurgeKind::kDomain;
  auto purged = purge_domain(dropped->id, all, until.left_ns());
  if (!purged) {
    logf(LogLevel::kWarn, "control", "domain %s, id %u, is dropped and not purged yet: %s",
         name.c_str(), dropped->id, purged.refusal().text.c_str());
    return purged.refusal();
  }
  node_.domains.ended(dropped->id);
  logf(LogLevel::kWarn, "control", "domain %s, id %u, is dropped: %" PRIu64 " blocks", name.c_str(),
       dropped->id, purged->blocks);
  return purged;
}

}  // namespace varve
