// Blocks: one part to each home that has some. A lineage or the domain: first the home that writes
// superblocks, then every home, each of which takes out what the old generation had.
#include "server/session/purge.h"

#include <algorithm>
#include <array>
#include <cinttypes>

#include "server/session/split.h"

namespace varve {

namespace {

constexpr uint32_t kRaiseShard = 0;  // of every such purge in a boot (flash::Raise)

constexpr uint32_t kOperatorAsks = 0;  // no domain has this id

bool raises(const PendingPurge& purge) {
  return purge.what != wire::PurgeKind::kBlocks;
}

const char* kind_text(wire::PurgeKind what) {
  switch (what) {
    case wire::PurgeKind::kBlocks:
      return "blocks";
    case wire::PurgeKind::kLineage:
      return "a lineage";
    case wire::PurgeKind::kDomain:
      return "all";
  }
  return "?";
}

flash::DomainIds domain_ids(const Domains& domains) {
  flash::DomainIds out{.ids = {}, .last = domains.id_last()};
  for (const Domain& domain : domains.all()) {
    out.ids.push_back(domain.id);
    out.starts.push_back(domain.boot_generation);
  }
  return out;
}

}  // namespace

Purges::Purges(SessionScope& scope, SessionFormats& formats) : scope_(scope), formats_(formats) {}

Status Purges::check(const wire::PurgeView& view, uint64_t* lineage) const {
  if (view.body.kind != wire::PurgeKind::kLineage) return {};
  const SessionFormat* format = formats_.find(view.body.format);
  if (format == nullptr || format->lineage == 0) return Status::invalid("no such format");
  *lineage = format->lineage;
  return {};
}

void Purges::purge(uint64_t op, const wire::PurgeView& view) {
  SessionContext& context = scope_.context;
  context.metrics.purges.add();
  uint64_t lineage = 0;
  if (Status status = check(view, &lineage); !status.ok()) return refuse(op, status.code());
  PendingPurge* purge = begin(view.body.kind, lineage, scope_.domain);
  if (purge == nullptr) return refuse(op, Code::kOverloaded);
  purge->op = op;
  purge->ids.count = view.ids.size();
  for (uint32_t i = 0; i < view.ids.size(); ++i)
    purge->ids.ids[i] = view.ids[i];
  wait_turn(*purge);
}

void Purges::purge(NodePurge& asked) {
  SessionContext& context = scope_.context;
  VARVE_ASSERT(asked.on_done != nullptr && asked.ids.size() <= wire::kIdsMax, asked.ids.size());
  context.metrics.purges.add();
  PendingPurge* purge = begin(asked.what, asked.lineage, kOperatorAsks);
  if (purge == nullptr) {
    context.metrics.requests_refused[static_cast<uint8_t>(Code::kOverloaded)].add();
    asked.answer = {.code = static_cast<uint8_t>(Code::kOverloaded)};
    return asked.on_done(asked);
  }
  purge->asked = &asked;
  purge->domain = asked.domain;
  purge->ids.count = static_cast<uint32_t>(asked.ids.size());
  std::copy(asked.ids.begin(), asked.ids.end(), purge->ids.ids);
  wait_turn(*purge);
}

// Whoever asks has one of a lineage or the domain at a time: one after the other costs a write of
// every superblock and a walk each, and nobody's may come between for ever.
bool Purges::has_share(wire::PurgeKind what, uint32_t asker) const {
  const SessionContext& context = scope_.context;
  const auto domains = static_cast<uint32_t>(context.domains.all().size());
  const uint32_t sum_max = context.options.purges_sum_max;
  uint32_t left = asker == kOperatorAsks ? sum_max : std::max(1u, sum_max / domains);
  for (const auto& live : context.purges->all()) {
    if (live->purges == nullptr || live->asker != asker) continue;
    if (--left == 0 || (raises(*live) && what != wire::PurgeKind::kBlocks)) return false;
  }
  return true;
}

// Null: whoever asks has as many as he may.
PendingPurge* Purges::begin(wire::PurgeKind what, uint64_t lineage, uint32_t asker) {
  SessionContext& context = scope_.context;
  PendingPurge* taken = has_share(what, asker) ? context.purges->take() : nullptr;
  if (taken == nullptr) return nullptr;
  PendingPurge& purge = *taken;
  VARVE_ASSERT(purge.parts_out == 0 && !purge.timer.armed());
  ++count_;
  purge.purges = this;
  purge.asked = nullptr;
  purge.asker = asker;
  purge.under_way = false;
  purge.op = 0;
  purge.what = what;
  purge.domain = scope_.domain;
  purge.lineage = lineage;
  purge.ids.count = 0;
  purge.answered = false;
  purge.began_ns = context.reactor.now_ns();
  purge.answer = {};
  purge.timer.owner = &purge;
  purge.timer.on_fire = on_late;
  context.reactor.arm(purge.timer, context.options.purge_ms_max * kMillisecond);
  return taken;
}

void Purges::wait_turn(PendingPurge& purge) {
  scope_.context.purges_waiting.push_back(&purge);
  start_some(scope_.context);
}

// In the order in which they came, but for those that wait for one of their kind.
void Purges::start_some(SessionContext& context) {
  std::vector<PendingPurge*>& waiting = context.purges_waiting;
  for (size_t i = 0; i < waiting.size();) {
    PendingPurge& purge = *waiting[i];
    if (!may_start(context, purge)) {
      ++i;
      continue;
    }
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
    purge.under_way = true;
    purge.purges->submit(purge);
  }
}

bool Purges::may_start(const SessionContext& context, const PendingPurge& purge) {
  if (raises(purge) && context.raising) return false;
  uint32_t under_way = 0, of_clients = 0;
  for (const auto& live : context.purges->all()) {
    if (live->purges == nullptr || !live->under_way) continue;
    ++under_way;
    if (live->asker != kOperatorAsks) ++of_clients;
  }
  const uint32_t sum_max = context.options.purges_sum_max;
  if (under_way >= sum_max) return false;
  return purge.asker == kOperatorAsks || of_clients + 1 < sum_max;
}

void Purges::submit(PendingPurge& purge) {
  if (purge.what == wire::PurgeKind::kBlocks) return submit_blocks(purge);
  submit_raise(purge);
}

void Purges::refuse(uint64_t op, Code code) {
  scope_.context.metrics.requests_refused[static_cast<uint8_t>(code)].add();
  wire::Purged body;
  body.code = static_cast<uint8_t>(code);
  scope_.reply(scope_.context.encoder().purged(op, body));
}

PurgePart& Purges::fill_part(PendingPurge& purge, uint32_t shard, Part::Back on_back) {
  PurgePart& part = purge.parts[shard];
  part.session_reactor = &scope_.context.reactor;
  part.shard = shard;
  part.status = Status();
  part.on_back = on_back;
  part.owner = &purge;
  part.session = scope_.id;
  part.domain = purge.domain;
  part.domains = domain_ids(scope_.context.domains);
  part.what = purge.what;
  part.lineage = purge.lineage;
  part.request = &purge.ids;
  part.begin = part.end = 0;
  part.raise = false;
  part.generation = 0;
  part.blocks = part.bytes = part.erased_ns = 0;
  ++purge.parts_out;
  return part;
}

void Purges::submit_blocks(PendingPurge& purge) {
  SessionContext& context = scope_.context;
  VARVE_ASSERT(purge.ids.count > 0 && purge.ids.count <= wire::kIdsMax, purge.ids.count);
  std::array<uint8_t, wire::kIdsMax> homes;
  for (uint32_t i = 0; i < purge.ids.count; ++i)
    homes[i] = static_cast<uint8_t>(context.home_of(purge.ids.ids[i]));
  split_by_home(purge.ids, homes, purge.begins);
  for (uint32_t s = 0; s < context.shards.size(); ++s) {
    if (purge.begins[s] == purge.begins[s + 1]) continue;
    PurgePart& part = fill_part(purge, s, on_part);
    part.begin = purge.begins[s];
    part.end = purge.begins[s + 1];
    context.shards[s]->submit(part);
  }
}

void Purges::submit_raise(PendingPurge& purge) {
  VARVE_ASSERT(!scope_.context.raising);
  scope_.context.raising = true;
  PurgePart& part = fill_part(purge, kRaiseShard, on_raised);
  part.raise = true;
  scope_.context.shards[kRaiseShard]->submit(part);
}

void Purges::on_raised(Part& back) {
  auto& part = static_cast<PurgePart&>(back);
  auto& purge = *static_cast<PendingPurge*>(part.owner);
  VARVE_ASSERT(purge.parts_out == 1, purge.parts_out);
  --purge.parts_out;
  purge.answer.generation = part.generation;
  if (!part.status.ok()) {
    purge.answer.code = static_cast<uint8_t>(part.status.code());
    return purge.purges->end(purge);
  }
  purge.purges->submit_walks(purge, part.rows);
}

void Purges::submit_walks(PendingPurge& purge, const flash::Generations& rows) {
  const flash::Generations copy = rows;  // those are a part's that is filled again here
  for (uint32_t s = 0; s < scope_.context.shards.size(); ++s) {
    PurgePart& part = fill_part(purge, s, on_part);
    part.rows = copy;
    scope_.context.shards[s]->submit(part);
  }
}

void Purges::on_part(Part& back) {
  auto& part = static_cast<PurgePart&>(back);
  auto& purge = *static_cast<PendingPurge*>(part.owner);
  VARVE_ASSERT(purge.parts_out > 0);
  wire::Purged& answer = purge.answer;
  answer.blocks += part.blocks;
  answer.bytes += part.bytes;
  answer.erased_ns = std::max<uint64_t>(answer.erased_ns, part.erased_ns);
  if (answer.code == 0) answer.code = static_cast<uint8_t>(part.status.code());
  if (--purge.parts_out == 0) purge.purges->end(purge);
}

void Purges::end(PendingPurge& purge) {
  SessionContext& context = scope_.context;
  context.reactor.cancel(purge.timer);
  if (raises(purge)) context.raising = false;
  context.metrics.purge_ns.record(context.reactor.now_ns() - purge.began_ns);
  // Rare, and what somebody will ask about: each has its line.
  logf(LogLevel::kInfo, "session",
       "session %016" PRIx64 " of \"%s\" purged %s of domain %u (%s): %" PRIu64 " blocks, %" PRIu64
       " bytes, generation %u",
       scope_.id, scope_.client.c_str(), kind_text(purge.what), purge.domain,
       code_name(static_cast<Code>(purge.answer.code)), purge.answer.blocks, purge.answer.bytes,
       purge.answer.generation);
  if (!purge.answered) answer(purge);
  VARVE_ASSERT(count_ > 0);
  --count_;
  purge.purges = nullptr;
  context.purges->give(&purge);
  scope_.something_ended();
  start_some(context);
}

void Purges::answer(PendingPurge& purge) {
  SessionContext& context = scope_.context;
  purge.answered = true;
  if (purge.answer.code != 0) context.metrics.requests_refused[purge.answer.code].add();
  context.metrics.purged_blocks.add(purge.answer.blocks);
  if (DomainCounts* counts = context.domain_metrics.find(purge.domain); counts != nullptr) {
    counts->purged_blocks.add(purge.answer.blocks);
  }
  if (purge.asked != nullptr) {
    NodePurge& asked = *std::exchange(purge.asked, nullptr);
    asked.answer = purge.answer;
    return asked.on_done(asked);
  }
  scope_.reply(context.encoder().purged(purge.op, purge.answer));
}

// It goes on; how it ended then stands on the log only.
void Purges::on_late(Timer& timer) {
  auto& purge = *static_cast<PendingPurge*>(timer.owner);
  VARVE_ASSERT(!purge.answered && (!purge.under_way || purge.parts_out > 0));
  purge.answer.code = static_cast<uint8_t>(Code::kTimedOut);
  purge.purges->answer(purge);
}

}  // namespace varve
