// Looks at blocks, holds, sessions and formats, and purges: each one question to one core, or one
// to every core that is concerned. Domains: domain.cc.
#include "server/node/ingress.h"

#include <algorithm>
#include <cinttypes>

namespace varve {

namespace {

using control::Refusal;

struct LookBase {
  Shard* shard;
  uint32_t domain;
  BaseId id;
  BaseLook look = {};
  void on_core() { look = shard->look(domain, id); }
};

struct LookTiers {
  Shard* shard;
  uint32_t domain;
  std::vector<BaseId> ids;
  uint32_t rank_count;
  std::vector<wire::TierKind> tiers = {};
  bool recovering = false;
  void on_core() {
    tiers.assign(ids.size(), wire::TierKind::kNone);
    shard->look_tiers(domain, ids, rank_count, tiers);
    recovering = shard->recovering();
  }
};

struct ListHolds {
  SessionTable* sessions;
  control::PageAsk page;
  std::vector<SessionHold> rows = {};
  uint64_t next = 0;
  void on_core() { next = sessions->list_holds(page.cursor, page.rows_max, &rows); }
};

struct ListSessions {
  SessionTable* sessions;
  control::PageAsk page;
  std::vector<SessionRow> rows = {};
  uint64_t next = 0;
  void on_core() { next = sessions->list_sessions(page.cursor, page.rows_max, &rows); }
};

struct CloseSession {
  SessionTable* sessions;
  uint64_t id;
  bool found = false;
  void on_core() {
    found = sessions->close_session(id, Status::cancelled("the operator closed the session"));
  }
};

// What a client that comes with it would be told.
struct CheckFormat {
  SessionTable* sessions;
  Format format;
  std::string problem = {};
  void on_core() { problem = sessions->format_problem(format); }
};

struct KnowFormat {
  SessionTable* sessions;
  Digest fingerprint;
  void on_core() { sessions->format_known(fingerprint); }
};

class PurgeQuestion final : public Question {
 public:
  PurgeQuestion(SessionTable& sessions, uint32_t domain, const control::PurgeAsk& ask)
      : sessions_(sessions) {
    purge.what = static_cast<wire::PurgeKind>(ask.kind);
    purge.domain = domain;
    purge.ids = ask.ids;
    const std::string& lineage = ask.lineage;
    if (ask.kind == control::PurgeKind::kLineage) {
      purge.lineage = xxh3(0, std::as_bytes(std::span(lineage.data(), lineage.size())));
    }
    purge.owner = this;
    purge.on_done = [](NodePurge& done) { static_cast<PurgeQuestion*>(done.owner)->answered(); };
  }
  NodePurge purge;

 private:
  // It may be answered inside, and gone then.
  Step ask() override {
    sessions_.purge(purge);
    return Step::kLater;
  }
  SessionTable& sessions_;
};
static_assert(static_cast<uint8_t>(control::PurgeKind::kBlocks) ==
              static_cast<uint8_t>(wire::PurgeKind::kBlocks));
static_assert(static_cast<uint8_t>(control::PurgeKind::kLineage) ==
              static_cast<uint8_t>(wire::PurgeKind::kLineage));
static_assert(static_cast<uint8_t>(control::PurgeKind::kDomain) ==
              static_cast<uint8_t>(wire::PurgeKind::kDomain));

control::TierKind tier_kind(wire::TierKind tier) {
  switch (tier) {
    case wire::TierKind::kDram:
      return control::TierKind::kDram;
    case wire::TierKind::kFlash:
      return control::TierKind::kFlash;
    default:
      return control::TierKind::kNone;
  }
}

control::HoldKind hold_kind(wire::HoldKind kind) {
  switch (kind) {
    case wire::HoldKind::kLease:
      return control::HoldKind::kLease;
    case wire::HoldKind::kReservation:
      return control::HoldKind::kReservation;
    case wire::HoldKind::kPull:
      return control::HoldKind::kPull;
    case wire::HoldKind::kFollow:
      return control::HoldKind::kFollow;
  }
  return control::HoldKind::kLease;
}

control::Block block_of(const BlockLook& look) {
  control::Block block;
  block.rank = look.rank;
  block.state = static_cast<control::BlockState>(look.state);
  block.in_dram = look.in_dram;
  block.attempt = look.attempt;
  block.dram_bytes = look.dram_bytes;
  block.lacking = look.lacking;
  for (const BlockLook::Piece& piece : look.pieces) {
    const flash::Place& place = piece.place;
    block.fragments.push_back({piece.position, place.target, place.slice, place.segment, place.page,
                               place.pages, place.lead_pages, piece.readable});
  }
  return block;
}
static_assert(static_cast<uint8_t>(control::BlockState::kAway) ==
              static_cast<uint8_t>(BlockState::kAway));
static_assert(static_cast<uint8_t>(control::BlockState::kFlash) ==
              static_cast<uint8_t>(BlockState::kFlash));

// One that was dropped has sessions for a moment yet.
std::string name_of(const Domains& domains, uint32_t id) {
  const Domain* domain = domains.find(id);
  return domain != nullptr ? domain->name : "(dropped, id " + std::to_string(id) + ")";
}

// Where to go from there: each kind needs less room than the one before it.
const char* no_room_text(control::PurgeKind kind) {
  switch (kind) {
    case control::PurgeKind::kBlocks:
      return "no room is left for records of purges (OPERATIONS, Purge); purge the lineage, or the "
             "domain, which need none";
    case control::PurgeKind::kLineage:
      return "no room is left for generations of lineages, all of them or the share of this "
             "domain; "
             "purge the domain, which frees those of its own (OPERATIONS, Purge)";
    case control::PurgeKind::kDomain:
      break;
  }
  return "the table of generations is full, of lineages that an older version gave a row, or of "
         "domains that are not in the list of this node: purge the domain that purged most "
         "lineages, or restore domains.list (OPERATIONS, Purge)";
}

}  // namespace

Refusal purge_refusal(Code code, control::PurgeKind kind) {
  switch (code) {
    case Code::kOverloaded:
      return Refusal::of(code,
                         "other purges are under way, of a lineage or a domain one at most; try "
                         "again later");
    case Code::kTimedOut:
      return Refusal::of(code,
                         "the purge lasts; it goes on, and the log says how it ended; ask again to "
                         "be sure, it is harmless");
    case Code::kNoSpace:
      return Refusal::of(code, no_room_text(kind));
    case Code::kUnavailable:
      return Refusal::of(code,
                         "no target took it, or the node stops; some of it may be done; ask again "
                         "when targets work");
    default:
      return Refusal::of(
          code, std::string("the purge ended ") + code_name(code) + "; see the log, and ask again");
  }
}

NodeIngress::NodeIngress(Node& node) : node_(node) {
  const ServerConfig& config = node.config;
  values_ = {config.repair_mb_per_s, config.scrub_interval_s, config.sibling_ms_max,
             config.log_level};
}

Failure open_control(Node& node) {
  VARVE_ASSERT(node.go && node.control == nullptr);
  const ServerConfig& config = node.config;
  if (config.control == kNoListener) return {};
  node.ingress = std::make_unique<NodeIngress>(node);
  control::Options options;
  options.address = config.control;
  options.token = node.control_token;
  options.connections_max = kControlConnectionsMax;
  auto server = control::Server::open(options, *node.ingress, node.clock);
  if (!server) return environment(server.refusal().text);
  node.control = std::move(*server);
  const std::lock_guard<std::mutex> lock(node.mutex);
  node.control_address = node.control->address();
  node.control->readiness_set(readiness(node));
  return {};
}

NodeIngress::Until NodeIngress::until(Nanos limit_ns) const {
  return {node_.clock, node_.clock.now_ns() + limit_ns};
}

Refusal NodeIngress::unanswered(uint32_t shard, Status why) {
  if (why.code() != Code::kTimedOut) {
    return Refusal::of(why.code(), std::string(why.what()) + "; try again later");
  }
  return Refusal::of(Code::kTimedOut,
                     "shard " + std::to_string(shard) +
                         " did not answer in time, and does what it was asked when it comes to it; "
                         "look at the load of the machine and varve_shards_stalled");
}

std::optional<Refusal> NodeIngress::refuse_stopping() {
  const std::lock_guard<std::mutex> lock(node_.mutex);
  if (!node_.draining) return std::nullopt;
  return Refusal::of(Code::kUnavailable, "the node is stopping; nothing is changed any more");
}

control::Answer<std::unique_lock<std::timed_mutex>> NodeIngress::begin_change(const Until& until) {
  if (auto refusal = refuse_stopping()) return *refusal;
  std::unique_lock<std::timed_mutex> lock(change_, std::defer_lock);
  if (!lock.try_lock_for(std::chrono::nanoseconds(until.left_ns()))) {
    return Refusal::of(Code::kTimedOut,
                       "another change is under way; try again later, and if that lasts look at "
                       "the disk of " +
                           node_.config.data_dir + ", where a change waits for its file");
  }
  return lock;
}

// ---- formats

control::Answer<control::Registered> NodeIngress::format_register(const Format& format,
                                                                  Nanos limit_ns) {
  if (auto refusal = refuse_stopping()) return *refusal;
  const Until until = this->until(limit_ns);
  auto checked = ask(kSessionShard, CheckFormat{node_.sessions.get(), format}, until);
  if (!checked) return checked.refusal();
  if (!checked->problem.empty()) return Refusal::state(checked->problem);
  const std::vector<std::byte> canonical = format.encode();
  const FormatBook::Added added = node_.book.add(canonical);
  if (added == FormatBook::Added::kFull) {
    return Refusal::of(Code::kOverloaded,
                       "as many formats are kept as may be; clients can use this one all the same. "
                       "To make room, stop the node and remove files of " +
                           node_.config.data_dir + "/formats");
  }
  // Half of what is left: the core is to be told, also where a file stands still.
  node_.book.keep(node_.config.data_dir, node_.clock.now_ns(), until.left_ns() / 2);
  const Digest fingerprint = format.fingerprint();
  auto known = ask(kSessionShard, KnowFormat{node_.sessions.get(), fingerprint}, until);
  if (!known) return known.refusal();
  const std::vector<FormatBook::Row> rows = node_.book.find(fingerprint.bytes);
  VARVE_ASSERT(rows.size() == 1, rows.size());
  return control::Registered{fingerprint, added == FormatBook::Added::kKnown, rows.front().kept};
}

control::FormatRow NodeIngress::row(const FormatBook::Row& from) {
  control::FormatRow out;
  out.fingerprint = from.fingerprint;
  out.format = from.format;
  out.kept = from.kept;
  const std::string label = "format=\"" + to_hex(from.fingerprint.bytes).substr(0, 16) + "\"";
  const std::lock_guard<std::mutex> lock(node_.mutex);
  const auto number = [&](const char* name) {
    return static_cast<uint64_t>(node_.view.sum.number(name, label));
  };
  out.matched_ids = number("varve_format_matched_ids_total");
  out.hit_ids = number("varve_format_hit_ids_total");
  out.pushed_blocks = number("varve_format_pushed_blocks_total");
  return out;
}

control::Page<control::FormatRow> NodeIngress::formats(const control::PageAsk& page) {
  control::Page<control::FormatRow> out;
  for (const FormatBook::Row& kept : node_.book.rows(page.cursor, page.rows_max, &out.next_cursor))
    out.rows.push_back(row(kept));
  return out;
}

control::Answer<control::FormatRow> NodeIngress::format(ConstByteSpan begin) {
  const std::vector<FormatBook::Row> found = node_.book.find(begin);
  const std::string name = to_hex(begin);
  if (found.empty()) {
    return Refusal::not_found("no format that this node knows begins with " + name +
                              "; list the formats");
  }
  if (found.size() > 1) {
    return Refusal::state("several formats begin with " + name + "; give more of the fingerprint");
  }
  return row(found.front());
}

// ---- blocks

control::Answer<control::Found> NodeIngress::find(const control::FindAsk& wanted, Nanos limit_ns) {
  auto domain = domain_id(wanted.domain);
  if (!domain) return domain.refusal();
  const BaseId& id = wanted.id;
  const uint32_t slices = node_.targets.front().info.super.slices;
  const uint32_t home = Shard::home(id, slices, node_.config.shards);
  auto looked = ask(home, LookBase{node_.threads[home]->shard.get(), *domain, id}, until(limit_ns));
  if (!looked) return looked.refusal();
  control::Found found;
  found.shard = home;
  found.slice = slice_of(id, slices);
  found.leases = looked->look.leases;
  found.recovering = looked->look.recovering;
  for (const BlockLook& block : looked->look.blocks)
    found.blocks.push_back(block_of(block));
  return found;
}

control::Answer<control::Matched> NodeIngress::match(const control::MatchAsk& wanted,
                                                     Nanos limit_ns) {
  const Until until = this->until(limit_ns);
  auto domain = domain_id(wanted.domain);
  if (!domain) return domain.refusal();
  const std::vector<BaseId>& ids = wanted.ids;
  const uint32_t slices = node_.targets.front().info.super.slices;
  control::Matched out;
  out.tiers.assign(ids.size(), control::TierKind::kNone);
  for (uint32_t s = 0; s < node_.threads.size(); ++s) {
    const bool concerned = std::any_of(ids.begin(), ids.end(), [&](const BaseId& id) {
      return Shard::home(id, slices, node_.config.shards) == s;
    });
    if (!concerned) continue;
    auto looked =
        ask(s, LookTiers{node_.threads[s]->shard.get(), *domain, ids, wanted.rank_count}, until);
    if (!looked) return looked.refusal();
    out.recovering = out.recovering || looked->recovering;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (looked->tiers[i] != wire::TierKind::kNone) out.tiers[i] = tier_kind(looked->tiers[i]);
    }
  }
  while (out.length < ids.size() && out.tiers[out.length] != control::TierKind::kNone)
    ++out.length;
  return out;
}

control::Answer<control::Purged> NodeIngress::purge(const control::PurgeAsk& wanted,
                                                    Nanos limit_ns) {
  if (auto refusal = refuse_stopping()) return *refusal;
  auto domain = domain_id(wanted.domain);
  if (!domain) return domain.refusal();
  return purge_domain(*domain, wanted, limit_ns);
}

control::Answer<control::Purged> NodeIngress::purge_domain(uint32_t domain,
                                                           const control::PurgeAsk& wanted,
                                                           Nanos limit_ns) {
  Status why;
  std::unique_ptr<Question> answer = questions_.ask(
      *node_.threads[kSessionShard]->reactor,
      std::make_unique<PurgeQuestion>(*node_.sessions, domain, wanted), limit_ns, &why);
  if (answer == nullptr && why.code() == Code::kTimedOut) {
    return purge_refusal(Code::kTimedOut, wanted.kind);
  }
  if (answer == nullptr) return unanswered(kSessionShard, why);
  const wire::Purged& purged = static_cast<PurgeQuestion&>(*answer).purge.answer;
  if (purged.code != 0) return purge_refusal(static_cast<Code>(purged.code), wanted.kind);
  control::Purged out;
  out.generation = purged.generation;
  out.blocks = purged.blocks;
  out.bytes = purged.bytes;
  out.erased_unknown = purged.erased_ns == ~uint64_t{0};
  out.erased_ns = out.erased_unknown ? 0 : purged.erased_ns;
  return out;
}

// ---- holds and sessions

control::Answer<control::Page<control::Hold>> NodeIngress::holds(const control::PageAsk& page,
                                                                 Nanos limit_ns) {
  auto listed = ask(kSessionShard, ListHolds{node_.sessions.get(), page}, until(limit_ns));
  if (!listed) return listed.refusal();
  control::Page<control::Hold> out;
  out.next_cursor = listed->next;
  const Domains domains = node_.domains.now();
  for (const SessionHold& row : listed->rows) {
    const wire::Hold& hold = row.hold;
    const std::string_view name(hold.name, sizeof(hold.name));
    out.rows.push_back({hold.hold, hold_kind(hold.kind), hold.session,
                        std::string(name.substr(0, name.find('\0'))), hold.age_ns, hold.left_ns,
                        hold.bytes, hold.count, name_of(domains, row.domain)});
  }
  return out;
}

control::Answer<control::Page<control::Session>> NodeIngress::sessions(const control::PageAsk& page,
                                                                       Nanos limit_ns) {
  auto listed = ask(kSessionShard, ListSessions{node_.sessions.get(), page}, until(limit_ns));
  if (!listed) return listed.refusal();
  control::Page<control::Session> out;
  out.next_cursor = listed->next;
  const Domains domains = node_.domains.now();
  for (const SessionRow& row : listed->rows) {
    control::Session session;
    session.number = row.number;
    session.session = row.id;
    session.client = row.client;
    session.domain = name_of(domains, row.domain);
    session.peer = row.peer;
    session.age_ns = row.age_ns;
    session.quiet_ns = row.quiet_ns;
    session.lanes = row.lanes;
    session.formats = row.formats;
    session.requests = row.requests;
    session.leases = row.leases;
    session.reservations = row.grants;
    session.ending = row.ending;
    out.rows.push_back(std::move(session));
  }
  return out;
}

control::Answer<bool> NodeIngress::session_close(uint64_t session, Nanos limit_ns) {
  if (auto refusal = refuse_stopping()) return *refusal;
  auto closed = ask(kSessionShard, CloseSession{node_.sessions.get(), session}, until(limit_ns));
  if (!closed) return closed.refusal();
  char name[20];
  std::snprintf(name, sizeof(name), "%016" PRIx64, session);
  if (!closed->found) {
    return Refusal::not_found(std::string("there is no session ") + name + "; list the sessions");
  }
  logf(LogLevel::kWarn, "control", "session %s is closed by the operator", name);
  return true;
}

}  // namespace varve
