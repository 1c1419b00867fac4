// The HTTP side, by civetweb: it owns sockets, threads and the parsing of requests.
#include "server/monitor/monitor.h"

#include <civetweb.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/base/allocation.h"

namespace varve {

namespace {

constexpr const char* kPlain = "text/plain; charset=utf-8";
constexpr const char* kExposition = "text/plain; version=0.0.4; charset=utf-8";
constexpr const char* kRequestBytesMax = "8192";  // of a request line and its headers

// civetweb takes [::1]:7442 as it is, and every address of a name by its number only.
Result<std::string> listening_text(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return Status::invalid("HOST:PORT is wanted");
  }
  const std::string host = address.substr(0, colon), port = address.substr(colon + 1);
  if (port.find_first_not_of("0123456789") != std::string::npos || port.size() > 5 ||
      std::atoi(port.c_str()) > 65535) {
    return Status::invalid("the port is no number from 0 to 65535");
  }
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!bracketed && host.find_first_of(":,[] ") != std::string::npos) {
    return Status::invalid("an IPv6 address wants brackets: [::1]:7442");
  }
  return (host == "localhost" ? "127.0.0.1" : host) + ":" + port;
}

void answer(mg_connection* connection, int code, const char* type, const std::string& body) {
  const mg_request_info* request = mg_get_request_info(connection);
  const bool head = std::strcmp(request->request_method, "HEAD") == 0;
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            code, mg_get_response_code_text(connection, code), type, body.size());
  if (!head) mg_write(connection, body.data(), body.size());
}

// Answers what is no GET and no HEAD by itself.
bool is_refused(mg_connection* connection) {
  const char* method = mg_get_request_info(connection)->request_method;
  if (std::strcmp(method, "GET") == 0 || std::strcmp(method, "HEAD") == 0) return false;
  answer(connection, 405, kPlain, "only GET and HEAD are answered here\n");
  return true;
}

using Say = int (*)(mg_connection*, void*);

// O4. Nothing is sent before all of an answer is there, so this one comes instead of it.
template <Say say>
int at_the_border(mg_connection* connection, void* context) noexcept {
  try {
    const AllocationsThrow throws;
    return say(connection, context);
  } catch (...) {
    mg_printf(connection,
              "HTTP/1.1 503 Service Unavailable\r\nContent-Type: %s\r\nContent-Length: 0\r\n"
              "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
              kPlain);
    return 503;
  }
}

int say_metrics(mg_connection* connection, void* context) {
  if (is_refused(connection)) return 405;
  const auto& source = *static_cast<const MonitorSource*>(context);
  answer(connection, 200, kExposition, source.metrics_text());
  return 200;
}

int say_state(mg_connection* connection, const std::string& why_not) {
  if (is_refused(connection)) return 405;
  const int code = why_not.empty() ? 200 : 503;
  answer(connection, code, kPlain, (why_not.empty() ? "ok" : why_not) + "\n");
  return code;
}

int say_alive(mg_connection* connection, void* context) {
  return say_state(connection, static_cast<const MonitorSource*>(context)->health().not_alive);
}

int say_ready(mg_connection* connection, void* context) {
  const Health health = static_cast<const MonitorSource*>(context)->health();
  return say_state(connection, health.not_alive.empty() ? health.not_ready : health.not_alive);
}

int say_what_there_is(mg_connection* connection, void*) {
  if (is_refused(connection)) return 405;
  answer(connection, 404, kPlain, "there is /metrics, /healthz and /readyz\n");
  return 404;
}

class HttpMonitor final : public Monitor {
 public:
  explicit HttpMonitor(mg_context* context, std::string host)
      : context_(context), host_(std::move(host)) {}
  ~HttpMonitor() override { mg_stop(context_); }
  std::string address() const override {
    mg_server_port port = {};
    const int count = mg_get_server_ports(context_, 1, &port);
    return host_ + ":" + std::to_string(count > 0 ? port.port : 0);
  }

 private:
  mg_context* const context_;
  const std::string host_;
};

}  // namespace

Result<std::unique_ptr<Monitor>> Monitor::open(const MonitorOptions& options,
                                               const MonitorSource& source) {
  VARVE_ASSERT(options.threads > 0 && options.waiting > 0 && options.request_ms_max > 0);
  VARVE_TRY(const std::string listening, listening_text(options.address));
  const std::string threads = std::to_string(options.threads);
  const std::string waiting = std::to_string(options.waiting);
  const std::string wait_ms = std::to_string(options.request_ms_max);
  const char* settings[] = {"listening_ports",
                            listening.c_str(),
                            "num_threads",
                            threads.c_str(),
                            "request_timeout_ms",
                            wait_ms.c_str(),
                            "max_request_size",
                            kRequestBytesMax,
                            "listen_backlog",
                            waiting.c_str(),
                            "connection_queue",
                            waiting.c_str(),
                            "enable_keep_alive",
                            "no",
                            "tcp_nodelay",
                            "1",
                            nullptr};
  // Its own complaints go nowhere: a failure to start is ours to say, and a peer must not fill
  // logs.
  mg_callbacks callbacks = {};
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };
  errno = 0;
  mg_context* context = mg_start(&callbacks, nullptr, settings);
  if (context == nullptr) {
    return Status(Code::kUnavailable, "cannot listen there", errno == 0 ? EADDRINUSE : errno);
  }
  void* of_source = const_cast<MonitorSource*>(&source);
  mg_set_request_handler(context, "/metrics$", at_the_border<say_metrics>, of_source);
  mg_set_request_handler(context, "/healthz$", at_the_border<say_alive>, of_source);
  mg_set_request_handler(context, "/readyz$", at_the_border<say_ready>, of_source);
  mg_set_request_handler(context, "/", at_the_border<say_what_there_is>, nullptr);
  return std::unique_ptr<Monitor>(
      std::make_unique<HttpMonitor>(context, listening.substr(0, listening.rfind(':'))));
}

}  // namespace varve
