// LiveSession: one client on this node: its lanes, the dispatch of its frames, its end.
//
// It lives from the HELLO of its urgent lane until every lane is closed, every part is back and
// every home has dropped what it held in its name (N3). Pooled; a Task that looks, once a turn,
// whether it must end or has ended.
#pragma once

#include <string>

#include "server/session/context.h"
#include "server/session/credit.h"
#include "server/session/data_out.h"
#include "server/session/formats.h"
#include "server/session/grants.h"
#include "server/session/lane.h"
#include "server/session/leases.h"
#include "server/session/purge.h"
#include "server/session/requests.h"

namespace varve {

class LiveSession final : public Task, public LaneUser {
 public:
  explicit LiveSession(SessionContext& context);
  struct Open {
    uint64_t id = 0;
    uint64_t secret = 0;
    uint32_t domain = kDomainDefault;
    uint64_t credit_bytes = 0;
    uint64_t features = 0;  // that both ends know
    std::string client;     // printable
  };
  void open(const Open& open, Lane& urgent, DomainPool<LiveSession>& pool);
  void attach(uint32_t lane_index, Lane& lane);
  bool has_bulk(uint32_t lane_index) const { return bulk_[lane_index] != nullptr; }
  // Notes the end; the next run() does it.
  void fail(Status cause) { scope_.fail(cause); }
  void goodbye();

  bool in_use() const { return in_use_; }
  bool over() const { return scope_.over(); }
  uint64_t id() const { return scope_.id; }
  uint64_t secret() const { return secret_; }
  uint32_t domain() const { return scope_.domain; }
  uint64_t features() const { return scope_.features; }
  uint64_t number() const { return number_; }
  SessionRow row() const;

  void run() override;
  const char* name() const override { return "session"; }

  // LaneUser
  Status on_place(Lane& lane, ConstByteSpan head, uint32_t payload_bytes,
                  Placement& where) override;
  void on_frame(Lane& lane, ConstByteSpan head, uint32_t payload_bytes) override;
  void on_lane_closed(Lane& lane, Status cause) override;

 private:
  void dispatch(const wire::Frame& frame);
  void register_format(uint64_t op, ConstByteSpan canonical);
  void introduce(SessionFormat& format);
  void list_holds(uint64_t op, uint64_t cursor);
  void look_idle();
  void end(Status cause);
  bool at_rest() const;
  void leave();
  static void on_gone(Part& part);

  SessionScope scope_;
  Credit credit_;
  DataOut data_out_;
  SessionFormats formats_;
  Grants grants_;
  Leases leases_;
  Requests requests_;
  Purges purges_;

  bool in_use_ = false;
  bool leaving_ = false;  // GoneParts are out
  uint32_t gone_out_ = 0;
  uint64_t secret_ = 0;
  uint64_t pings_ = 0;
  uint64_t number_ = 0;
  Nanos opened_ns_ = 0;
  Nanos heard_ns_ = 0;  // the last frame, on any lane
  Timer idle_;
  Lane* urgent_ = nullptr;
  Lane* bulk_[wire::kBulkLanesMax] = {};
  uint32_t lanes_open_ = 0;
  DomainPool<LiveSession>* pool_ = nullptr;
  std::unique_ptr<GonePart[]> gone_;
};

}  // namespace varve
