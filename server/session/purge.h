// Purges of one session: PURGE split over the homes, PURGED when all of it is on the drives.
//
// A purge that was taken is carried to its end, whatever becomes of its client (I10): CANCEL does
// not reach it, and a session that goes waits for it. Few are under way at a time on a node; of
// lineages and domains one, because the order of generations is that of their purges. The others
// wait their turn, and nobody keeps another domain from ending what is its own: the clients of a
// domain have a share, with one lineage or domain in it, and a place is kept for the operator.
#pragma once

#include <memory>
#include <vector>

#include "server/session/context.h"
#include "server/session/formats.h"

namespace varve {

class Purges;

struct PendingPurge {
  explicit PendingPurge(uint32_t shards) : begins(shards + 1), parts(new PurgePart[shards]) {}
  Purges* purges = nullptr;
  uint64_t op = 0;
  wire::PurgeKind what = wire::PurgeKind::kBlocks;
  uint32_t domain = kDomainDefault;
  uint64_t lineage = 0;
  NodePurge* asked = nullptr;  // whoever asked, where that is no session
  uint32_t asker = 0;          // the domain of the client, or kOperatorAsks: whose share it is of
  bool under_way = false;      // or it waits its turn
  bool answered = false;       // its client was told that it lasts too long
  uint32_t parts_out = 0;
  Nanos began_ns = 0;
  wire::Purged answer;
  RequestIds ids;
  std::vector<uint32_t> begins;  // shard s has positions [begins[s], begins[s + 1])
  std::unique_ptr<PurgePart[]> parts;
  Timer timer;
};

class Purges {
 public:
  Purges(SessionScope& scope, SessionFormats& formats);
  void purge(uint64_t op, const wire::PurgeView& view);
  void purge(NodePurge& asked);
  uint32_t count() const { return count_; }

 private:
  Status check(const wire::PurgeView& view, uint64_t* lineage) const;
  void refuse(uint64_t op, Code code);
  PendingPurge* begin(wire::PurgeKind what, uint64_t lineage, uint32_t asker);
  bool has_share(wire::PurgeKind what, uint32_t asker) const;
  void wait_turn(PendingPurge& purge);
  static void start_some(SessionContext& context);
  static bool may_start(const SessionContext& context, const PendingPurge& purge);
  void submit(PendingPurge& purge);
  void submit_blocks(PendingPurge& purge);
  void submit_raise(PendingPurge& purge);
  void submit_walks(PendingPurge& purge, const flash::Generations& rows);
  PurgePart& fill_part(PendingPurge& purge, uint32_t shard, Part::Back on_back);
  static void on_raised(Part& part);
  static void on_part(Part& part);
  static void on_late(Timer& timer);
  void end(PendingPurge& purge);
  void answer(PendingPurge& purge);

  SessionScope& scope_;
  SessionFormats& formats_;
  uint32_t count_ = 0;
};

}  // namespace varve
