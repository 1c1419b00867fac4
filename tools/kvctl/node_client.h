// NodeClient: the calls of the control plane, each one request and one answer.
//
// The only file of this tool that knows gRPC is node_client.cc.
#pragma once

#include <varve/v1/control.pb.h>

#include <memory>
#include <string>

#include "common/time/time.h"
#include "tools/kvctl/outcome.h"

namespace varve::kvctl {

inline constexpr Nanos kCallNanos = 30 * kSecond;  // of an answer, where --timeout is not given

struct NodeAddress {
  std::string control;     // HOST:PORT
  std::string token_file;  // empty = none
  Nanos timeout_ns = 0;    // of each call; 0 = 30 s, and 90 s where blocks are purged
};

// Every call that there is; a test compares it with the proto.
#define VARVE_KVCTL_RPCS(X) \
  X(GetStatus)              \
  X(Drain)                  \
  X(ListPolicies)           \
  X(SetPolicy)              \
  X(ListTiers)              \
  X(ListTargets)            \
  X(DrainTarget)            \
  X(UndrainTarget)          \
  X(FailTarget)             \
  X(ReplaceTarget)          \
  X(StartScrub)             \
  X(ListDomains)            \
  X(CreateDomain)           \
  X(RotateDomainToken)      \
  X(DropDomain)             \
  X(RegisterFormat)         \
  X(ListFormats)            \
  X(GetFormat)              \
  X(DiffFormats)            \
  X(FindBlock)              \
  X(MatchPrefix)            \
  X(Purge)                  \
  X(ListHolds)              \
  X(ListSessions)           \
  X(CloseSession)

class NodeClient {
 public:
  // Reads the token file and connects with the first call.
  explicit NodeClient(NodeAddress address);
  ~NodeClient();
  NodeClient(const NodeClient&) = delete;
  NodeClient& operator=(const NodeClient&) = delete;

  const NodeAddress& address() const { return address_; }
  // Whether there was a connection when the last call was made, if only one that was ended at once:
  // somebody is there, whatever he said.
  bool reached() const;

#define X(Name) Outcome ask(const v1::Name##Request& request, v1::Name##Response* response);
  VARVE_KVCTL_RPCS(X)
#undef X

  // All rows of a list, in one answer whose next_cursor is 0.
  template <class Request, class Response>
  Outcome ask_all(Request request, Response* rows) {
    for (uint32_t pages = 0; pages < kPagesMax; ++pages) {
      Response page;
      if (Outcome outcome = ask(request, &page); !outcome.ok()) return outcome;
      rows->MergeFrom(page);
      rows->set_next_cursor(0);
      if (page.next_cursor() == 0) return Outcome::done();
      request.set_cursor(page.next_cursor());
    }
    return {Exit::kFailed, "RESOURCE_EXHAUSTED",
            "the list has more than " + std::to_string(kPagesMax) +
                " pages, which no varved has; is that another service?"};
  }

 private:
  static constexpr uint32_t kPagesMax = 1024;
  struct Channel;
  Outcome load_token_once();

  const NodeAddress address_;
  const std::unique_ptr<Channel> channel_;
  std::string token_;
};

}  // namespace varve::kvctl
