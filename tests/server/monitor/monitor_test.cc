// Goal: the three paths say what the source says, with codes that probes understand; everything
// else is refused in words. Method: real loopback sockets on a port that the system chooses.
#include "server/monitor/monitor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <new>

#include "common/base/allocation.h"

namespace varve {
namespace {

class Source final : public MonitorSource {
 public:
  std::string metrics_text() const override {
    EXPECT_TRUE(AllocationsThrow::now()) << "the daemon's handler would end it";
    if (throws_) throw std::bad_alloc();
    return "# HELP varve_x x\nvarve_x 1\n";
  }
  Health health() const override {
    EXPECT_TRUE(AllocationsThrow::now());
    if (throws_) throw std::bad_alloc();
    return health_;
  }
  Health health_;
  bool throws_ = false;
};

class MonitorHttp : public testing::Test {
 protected:
  void SetUp() override { open(500); }
  void open(uint32_t request_ms_max) {
    monitor_.reset();
    auto opened =
        Monitor::open({.address = "127.0.0.1:0", .request_ms_max = request_ms_max}, source_);
    ASSERT_TRUE(opened.has_value()) << opened.error().what();
    monitor_ = *std::move(opened);
    port_ = static_cast<uint16_t>(std::stoi(monitor_->address().substr(10)));
    ASSERT_NE(port_, 0);
  }
  int connected() const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(port_);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return fd;
  }
  std::string send(const std::string& request) const {
    const int fd = connected();
    EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
    std::string reply;
    char bytes[4096];
    for (ssize_t n = 0; (n = read(fd, bytes, sizeof(bytes))) > 0;)
      reply.append(bytes, static_cast<size_t>(n));
    close(fd);
    return reply;
  }
  std::string get(const std::string& path, const std::string& method = "GET") const {
    return send(method + " " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }

  Source source_;
  std::unique_ptr<Monitor> monitor_;
  uint16_t port_ = 0;
};

TEST_F(MonitorHttp, MetricsAreTextOfTheExpositionFormat) {
  const std::string reply = get("/metrics");
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200 ")) << reply;
  EXPECT_NE(reply.find("Content-Type: text/plain; version=0.0.4"), std::string::npos) << reply;
  EXPECT_TRUE(reply.ends_with("\r\n\r\n# HELP varve_x x\nvarve_x 1\n")) << reply;
}

TEST_F(MonitorHttp, ProbesSayWhyANodeIsNotWell) {
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(get("/readyz").ends_with("\r\n\r\nok\n"));
  source_.health_.not_ready = "it drains";
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 ")) << "it moves";
  const std::string reply = get("/readyz");
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 503 ")) << reply;
  EXPECT_TRUE(reply.ends_with("\r\n\r\nit drains\n")) << reply;
  source_.health_ = {.not_alive = "shard 1 hangs", .not_ready = ""};
  EXPECT_TRUE(get("/healthz").ends_with("shard 1 hangs\n"));
  EXPECT_TRUE(get("/readyz").starts_with("HTTP/1.1 503 ")) << "what hangs is not ready";
}

TEST_F(MonitorHttp, HeadHasNoBody) {
  const std::string reply = get("/metrics", "HEAD");
  EXPECT_NE(reply.find("Content-Length: 27\r\n"), std::string::npos) << reply;
  EXPECT_TRUE(reply.ends_with("\r\n\r\n")) << reply;
}

TEST_F(MonitorHttp, EverythingElseIsRefusedInWords) {
  for (const char* path : {"/", "/metricsx", "/etc/passwd", "/../../etc/passwd", "/metrics/x"}) {
    const std::string reply = get(path);
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 40")) << path << ": " << reply;
    EXPECT_EQ(reply.find("root:"), std::string::npos) << path;
  }
  EXPECT_TRUE(get("/metrics", "POST").starts_with("HTTP/1.1 405 ")) << get("/metrics", "POST");
  EXPECT_TRUE(get("/healthz", "DELETE").starts_with("HTTP/1.1 405 "));
  const std::string huge = get("/metrics?" + std::string(20000, 'x'));
  EXPECT_FALSE(huge.starts_with("HTTP/1.1 200 ")) << huge;
  EXPECT_FALSE(send("garbage\r\n\r\n").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(get("/metrics").starts_with("HTTP/1.1 200 ")) << "and goes on";
}

TEST_F(MonitorHttp, AnAddressThatCannotBeIsSaid) {
  for (const char* address : {"", "127.0.0.1", ":1", "127.0.0.1:x", "127.0.0.1:70000", "::1:0"}) {
    const auto opened = Monitor::open({.address = address}, source_);
    ASSERT_FALSE(opened.has_value()) << address;
    EXPECT_EQ(opened.error().code(), Code::kInvalid) << address;
  }
  const auto taken = Monitor::open({.address = monitor_->address()}, source_);
  ASSERT_FALSE(taken.has_value());
  EXPECT_EQ(taken.error().code(), Code::kUnavailable);
}

TEST_F(MonitorHttp, EndsBesideAPeerThatSaysNothing) {
  const int fd = connected();
  EXPECT_TRUE(get("/metrics").starts_with("HTTP/1.1 200 ")) << "another thread answers";
  monitor_.reset();
  close(fd);
}

// Expect: a probe is not kept waiting by some that say nothing, and none for long: as many as there
// are threads hold them a second at most.
TEST_F(MonitorHttp, ProbesAreAnsweredBesidePeersThatSayNothing) {
  EXPECT_LE(MonitorOptions{}.request_ms_max, 1000u);
  open(20000);
  std::vector<int> silent;
  for (uint32_t i = 0; i < 4; ++i)
    silent.push_back(connected());
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
  char byte = 0;
  for (const int fd : silent)
    EXPECT_EQ(recv(fd, &byte, 1, MSG_DONTWAIT), -1) << "it was not cut off for that";
  open(500);
  for (uint32_t i = 0; i < MonitorOptions{}.threads; ++i)
    silent.push_back(connected());
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
  for (const int fd : silent)
    close(fd);
}

// O4
TEST_F(MonitorHttp, WhatCannotBeAnsweredIsSaidAndEndsNothing) {
  source_.throws_ = true;
  for (const char* path : {"/metrics", "/healthz", "/readyz"})
    EXPECT_TRUE(get(path).starts_with("HTTP/1.1 503 ")) << path;
  source_.throws_ = false;
  EXPECT_TRUE(get("/metrics").starts_with("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace varve
