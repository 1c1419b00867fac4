// Handle: what stands behind a varve_client: the client, and what its C callers want to be told.
//
// Owned by the C caller. It knows each op of the C door until its completion is taken: how far it
// is, which layout it uses, under which tag it is asked for. Thread rule: any thread; what is
// written here lies under one lock, which the client's thread takes for each event, so nobody waits
// for that thread while holding it. Invariants:
//   H1 in a process other than the one that opened it no member but mark_ is looked at.
//   H2 once close() returned no call is inside, and the client's thread is gone.
//   H3 a layout lives until the last op that uses it has ended.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "client/c_tags.h"
#include "client/fork_mark.h"
#include "client/varve.h"
#include "client/varve_c.h"

struct varve_client {};  // the C name of a Handle

namespace varve {

inline constexpr uint32_t kLayoutsMax = 4096;
inline constexpr uint32_t kLayeredOpsMax = 4096;  // pulls and follows whose completion is not taken

// A flag of our own beside VARVE_TELL_*: the op's end is told by its tag only.
inline constexpr uint32_t kTellNothing = 1u << 31;

// An op of the C door, as its caller began it and as its events left it.
struct HandleOp {
  uint32_t kind = 0;   // VARVE_DONE_*
  uint32_t flags = 0;  // VARVE_TELL_*, kTellNothing
  uint32_t count = 0;  // blocks
  uint32_t layer_first = 0, layer_count = 0;
  uint64_t tag = 0;
  varve_layout layout = 0;      // or
  std::unique_ptr<Layout> own;  // of buffers
  FormatId format = 0;          // of buffers; of a layout it is the layout's
  uint32_t rank = 0;

  uint32_t layers_done = 0;
  bool ended = false;
  Status status;
  std::vector<Code> codes;  // as of the last event
  bool has_layers() const { return kind == VARVE_DONE_PULL || kind == VARVE_DONE_FOLLOW; }
};

class Handle final : public varve_client, private EventWatch {
 public:
  // The way into every call: counted, so that close() can wait for those inside.
  class Call {
   public:
    explicit Call(varve_client* client);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    varve_status refused = VARVE_OK;
    const char* why() const;

   private:
    Handle* handle_ = nullptr;
  };
  static Status open(const ClientOptions& options, std::unique_ptr<Handle>& out,
                     std::unique_ptr<Resolver> resolver = nullptr);
  ~Handle() override;
  bool is_forked() const { return mark_.is_forked(); }
  Status close();

  Client& client() { return *client_; }
  const ClientOptions& options() const { return options_; }
  Status wait_ready(Nanos timeout_ns);
  uint64_t tags_forgotten() const;

  void know_format(FormatId id, const Format& format);
  struct FormatShape {
    Digest fingerprint;
    std::vector<uint32_t> layer_counts;  // per rank
  };
  Result<FormatShape> format_shape(FormatId id) const;
  Result<uint32_t> layers_of(FormatId id, uint32_t rank) const;
  Result<varve_layout> define(Layout layout, FormatId format, uint32_t rank);
  Status undefine(varve_layout layout);

  // Begins an op: `run(client, where)` submits it; where is its format and its memory.
  struct Where {
    FormatId format = 0;
    uint32_t rank = 0;
    const Layout* layout = nullptr;
  };
  template <class Submit>
  Result<OpId> submit(HandleOp op, Submit run);
  Result<OpId> match(MatchRequest request, uint32_t flags);
  void forget(uint64_t tag);
  varve_status peek(uint64_t tag, varve_match_answer& answer) const;

  varve_status layers_done(OpId op, uint32_t& layers) const;
  // VARVE_OK, VARVE_PARTIAL, how it ended, VARVE_TIMED_OUT, VARVE_UNKNOWN or VARVE_CLOSED.
  varve_status wait_layer(OpId op, uint32_t layer, Nanos timeout_ns, std::vector<Code>& codes);
  // What is known of the op of an event that was taken; forgotten if the event ends it.
  HandleOp take(const Event& event);
  bool knows(OpId op) const;

 private:
  struct Defined {
    Layout layout;
    FormatId format = 0;
    uint32_t rank = 0;
    uint32_t users = 0;  // ops that have not ended
  };
  explicit Handle(const ClientOptions& options);
  Queue on_event(const Event& event) override;
  Result<Where> where_of(HandleOp& op);
  void leave_layout(HandleOp& op);
  void show_layers(OpId id, uint32_t layers);
  bool is_closing() const { return (inside_.load() & kClosing) != 0; }

  static constexpr uint32_t kClosing = 1u << 31;
  const ForkMark mark_;
  const ClientOptions options_;
  SystemClock clock_;
  std::atomic<uint32_t> inside_{0};  // calls; kClosing
  std::mutex closing_mutex_;         // held while one thread closes
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<OpId, HandleOp> ops_;             // mutex_
  std::map<varve_layout, Defined> layouts_;  // mutex_
  std::map<FormatId, FormatShape> formats_;  // mutex_
  varve_layout last_layout_ = 0;             // mutex_
  Tags tags_;                                // mutex_, but peek()
  PeekTable layers_{kLayeredOpsMax};         // mutex_, but find(): layers done by op
  std::unique_ptr<Client> client_;           // closing_mutex_, and no call inside
};

// Under the lock, so that an event of the op cannot come before the op is known.
template <class Submit>
Result<OpId> Handle::submit(HandleOp op, Submit run) {
  std::lock_guard lock(mutex_);
  if (op.has_layers() && layers_.count() == kLayeredOpsMax) {
    return Status::overloaded("4096 pulls wait for varve_poll or varve_wait");
  }
  VARVE_TRY(const Where where, where_of(op));
  Result<OpId> id = run(*client_, where);
  if (!id.has_value()) {
    leave_layout(op);
    return id.error();
  }
  if (op.has_layers()) show_layers(*id, 0);
  const bool fresh = ops_.emplace(*id, std::move(op)).second;
  VARVE_ASSERT(fresh, *id);  // ids are never used again
  return *id;
}

}  // namespace varve
