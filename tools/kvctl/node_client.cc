// One channel, blocking calls, and a sentence for each way in which they fail.
#include "tools/kvctl/node_client.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/socket.h>
#include <varve/v1/control.grpc.pb.h>

#include <cerrno>
#include <chrono>
#include <type_traits>

#include "common/fabric/tcp_socket.h"
#include "tools/kvctl/call.h"

namespace varve::kvctl {

namespace {

constexpr Nanos kPurgeNanos = 90 * kSecond;
constexpr int kDoorMs = 1000;                          // until a connection is made, or ended
constexpr std::chrono::milliseconds kEndingSeen(200);  // an end of the connection is known by then

const char* code_text(grpc::StatusCode code) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS",
                                           "UNAUTHENTICATED"};
  return code >= 0 && static_cast<size_t>(code) < std::size(kNames) ? kNames[code] : "UNKNOWN";
}

// gRPC's own lines would stand between ours; what they say comes with the status.
void log_nothing(gpr_log_func_args*) {}

std::shared_ptr<grpc::Channel> connect(const std::string& control) {
  gpr_set_log_function(log_nothing);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // an operator's proxy knows no node
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);     // one call, one answer
  return grpc::CreateCustomChannel(control, grpc::InsecureChannelCredentials(), arguments);
}

// How far a call came. To a closed door: somebody listens, and ends each connection at once.
enum class Came { kNowhere, kToAClosedDoor, kToTheEndOfTheConnection, kToAnAnswer };

// gRPC does not tell a connection that was ended at once from one that was refused, so this makes
// one of its own: a server of gRPC speaks first.
bool is_closed_door(const std::string& control) {
  const Result<SocketAddress> address = resolve(control);
  if (!address) return false;
  const Result<Socket> socket = open_socket(*address);
  if (!socket) return false;
  const auto waits = [fd = socket->fd()](short for_what) {
    pollfd poll = {fd, for_what, 0};
    return ::poll(&poll, 1, kDoorMs) == 1;
  };
  if (::connect(socket->fd(), address->get(), address->bytes) != 0 && errno != EINPROGRESS) {
    return false;
  }
  int error = 0;
  socklen_t bytes = sizeof(error);
  const bool connected = waits(POLLOUT) &&
                         ::getsockopt(socket->fd(), SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 &&
                         error == 0;
  if (!connected || !waits(POLLIN)) return false;
  char first = 0;
  const ssize_t got = ::recv(socket->fd(), &first, 1, 0);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

// Whether it only looks. What is no deed cannot be done in part.
template <class Request>
bool looks() {
  const std::string& name = Request::descriptor()->name();
  for (const char* verb : {"Get", "List", "Diff", "Find", "Match"}) {
    if (name.starts_with(verb)) return true;
  }
  return false;
}

struct Asked {
  const NodeAddress& address;
  Nanos timeout_ns = 0;
  bool looks = false;
};

Outcome outcome_of(const grpc::Status& status, const Asked& asked, Came came) {
  const NodeAddress& address = asked.address;
  const Nanos timeout_ns = asked.timeout_ns;
  if (status.ok()) return Outcome::done();
  const std::string said = printable(status.error_message());
  const grpc::StatusCode code = status.error_code();
  Outcome outcome{Exit::kFailed, code_text(code), said};
  const bool late = code == grpc::DEADLINE_EXCEEDED;
  if (came == Came::kToAClosedDoor) {
    outcome.exit = Exit::kUnreached;
    outcome.text =
        "a node, or something else, is at " + address.control +
        " and ends each connection at once: a node does so while as many are open as may be "
        "(varve_control_connections_refused_total, and its log); those without a call end in 30 s, "
        "so try again then, or see there who is connected";
  } else if (came == Came::kNowhere && (late || code == grpc::UNAVAILABLE)) {
    outcome.exit = Exit::kUnreached;
    outcome.text =
        "cannot reach a node at " + address.control + " (" +
        (late ? "no answer in " + age_text(timeout_ns) : said) +
        "); start varved there, or see its log where it runs, or give the address of its "
        "--control by --control HOST:PORT";
  } else if (came == Came::kToTheEndOfTheConnection) {
    outcome.exit = Exit::kTimedOut;
    outcome.text = "the connection to " + address.control + " ended before the answer (" + said +
                   "): what was begun may be done in part; look again, and see the node's log";
  } else if (code == grpc::UNAVAILABLE && asked.looks) {
    outcome.exit = Exit::kUnreached;
  } else if (code == grpc::UNAVAILABLE) {
    outcome.exit = Exit::kTimedOut;
    outcome.text += "; what was begun may be done in part: look again";
  } else if (code == grpc::UNAUTHENTICATED) {
    outcome.exit = Exit::kDenied;
    outcome.text += "; kvctl sends the token of --token-file FILE or VARVE_CONTROL_TOKEN_FILE";
  } else if (late) {
    outcome.exit = Exit::kTimedOut;
    outcome.text = "no answer from " + address.control + " in " + age_text(timeout_ns) + " (" +
                   said + "): what was begun may go on; look again, or give a longer --timeout";
  }
  if (outcome.text.empty()) outcome.text = "the node said no and not why; see its log";
  return outcome;
}

template <class Request>
constexpr bool kPurges =
    std::is_same_v<Request, v1::PurgeRequest> || std::is_same_v<Request, v1::DropDomainRequest>;

}  // namespace

struct NodeClient::Channel {
  explicit Channel(const std::string& control)
      : channel(connect(control)), stub(v1::Control::NewStub(channel)) {}

  template <class Request, class Response>
  Outcome call(const NodeAddress& address, const std::string& token,
               grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*, const Request&,
                                                         Response*),
               const Request& request, Response* response) {
    const Nanos standard_ns = kPurges<Request> ? kPurgeNanos : kCallNanos;
    const Nanos timeout_ns = address.timeout_ns == 0 ? standard_ns : address.timeout_ns;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(timeout_ns));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    // Asked before the call: where there was no connection, nothing can have begun.
    reached = connects(context.deadline());
    const grpc::Status status = ((*stub).*method)(&context, request, response);
    Came came = reached ? Came::kToAnAnswer : Came::kNowhere;
    if (!reached && status.error_code() == grpc::UNAVAILABLE && is_closed_door(address.control)) {
      came = Came::kToAClosedDoor;
      reached = true;  // somebody is there
    }
    if (came == Came::kToAnAnswer && status.error_code() == grpc::UNAVAILABLE &&
        channel->WaitForStateChange(GRPC_CHANNEL_READY,
                                    std::chrono::system_clock::now() + kEndingSeen)) {
      came = Came::kToTheEndOfTheConnection;
    }
    return outcome_of(status, {address, timeout_ns, looks<Request>()}, came);
  }

  // One attempt, of which the call then says why it failed.
  bool connects(std::chrono::system_clock::time_point deadline) {
    grpc_connectivity_state state = channel->GetState(true);
    while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE &&
           channel->WaitForStateChange(state, deadline)) {
      state = channel->GetState(true);
    }
    return state == GRPC_CHANNEL_READY;
  }

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Control::Stub> stub;
  bool reached = false;
};

NodeClient::NodeClient(NodeAddress address)
    : address_(std::move(address)), channel_(std::make_unique<Channel>(address_.control)) {}

NodeClient::~NodeClient() = default;

bool NodeClient::reached() const {
  return channel_->reached;
}

Outcome NodeClient::load_token_once() {
  if (!token_.empty()) return Outcome::done();
  return load_token_file("--token-file", address_.token_file, &token_);
}

#define X(Name)                                                                             \
  Outcome NodeClient::ask(const v1::Name##Request& request, v1::Name##Response* response) { \
    if (Outcome outcome = load_token_once(); !outcome.ok()) return outcome;                 \
    return channel_->call(address_, token_, &v1::Control::Stub::Name, request, response);   \
  }
VARVE_KVCTL_RPCS(X)
#undef X

}  // namespace varve::kvctl
