// Goal: a handle is safe in the hands of many threads and dead in a forked child. Method: threads
// that submit, wait, poll, peek and cancel on one client; a child that calls everything; then the
// handle's own rules for layouts.
#include "client/c_handle.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "tests/client/c_rig.h"
#include "tests/client/resolver_script.h"

namespace varve {
namespace {

class CHandleTest : public CRig {};

TEST_F(CHandleTest, ManyThreadsShareOneClient) {
  open_ready();
  put(kSlots);
  constexpr uint32_t kThreads = 4, kRounds = 40;
  std::atomic<uint32_t> good{0}, peeked{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      varve_id id;
      std::memcpy(id.bytes, varve::id_of(t).bytes.data(), sizeof id.bytes);
      for (uint32_t i = 0; i < kRounds; ++i) {
        varve_match_request match;
        VARVE_INIT(&match);
        match.format = format_;
        match.ids = &id;
        match.count = 1;
        match.flags = VARVE_MATCH_PEEK_ONLY;
        match.tag = 1 + (i + t) % 3;  // the same ones as other threads
        EXPECT_EQ(varve_match_submit(client_, &match, nullptr), VARVE_OK);
        varve_pull_request pull;
        VARVE_INIT(&pull);
        pull.blocks = {&id, 1, layout_, &t, nullptr, 0, 0};
        varve_op op = 0;
        ASSERT_EQ(varve_pull_submit(client_, &pull, &op), VARVE_OK);
        if (i % 4 == 3) varve_cancel(client_, op);
        uint8_t here = 0;
        uint32_t layers = 0;
        varve_wait_layer(client_, op, kLayers - 1, kLong, &here, 1);
        EXPECT_EQ(varve_layers_done(client_, op, &layers), VARVE_OK);
        Completion done;
        ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
        EXPECT_EQ(done.layers_done, layers);
        good += done.status == VARVE_OK && done.ok_count == 1 && here == 1 ? 1 : 0;
        EXPECT_EQ(varve_layers_done(client_, op, &layers), VARVE_UNKNOWN);
        varve_match_answer answer;
        VARVE_INIT(&answer);
        peeked += varve_match_peek(client_, match.tag, &answer) == VARVE_OK ? 1 : 0;
        if (i % 8 == 7) varve_match_forget(client_, match.tag);
      }
    });
  }
  for (auto& thread : threads)
    thread.join();
  EXPECT_GE(good.load(), kThreads * kRounds * 3 / 4);
  EXPECT_GT(peeked.load(), 0u);
  for (uint32_t t = 0; t < kThreads; ++t)
    EXPECT_TRUE(slot_holds(t, t));
}

TEST_F(CHandleTest, SeveralThreadsPollEachCompletionOnce) {
  open_ready();
  put(2);
  constexpr uint32_t kOps = 200;
  std::mutex mutex;
  std::multiset<uint64_t> tags;
  std::atomic<uint32_t> taken{0};
  std::vector<std::thread> pollers;
  for (uint32_t t = 0; t < 3; ++t) {
    pollers.emplace_back([&] {
      varve_completion done[4];
      while (taken.load() < kOps) {
        VARVE_INIT(&done[0]);
        size_t count = 0;
        ASSERT_EQ(varve_poll(client_, done, 4, &count), VARVE_OK);
        for (size_t i = 0; i < count; ++i) {
          std::lock_guard lock(mutex);
          tags.insert(done[i].tag);
          varve_completion_clear(&done[i]);
          ++taken;
        }
        std::this_thread::yield();
      }
    });
  }
  const auto request = match_of(0, 2);
  for (uint32_t i = 1; i <= kOps; ++i) {
    varve_match_request one = request;
    one.tag = 1000 + i;
    varve_status status = VARVE_OVERLOADED;
    while (status == VARVE_OVERLOADED)
      status = varve_match_submit(client_, &one, nullptr);
    ASSERT_EQ(status, VARVE_OK);
  }
  for (auto& poller : pollers)
    poller.join();
  EXPECT_EQ(tags.size(), kOps);
  EXPECT_EQ(std::set<uint64_t>(tags.begin(), tags.end()).size(), kOps);
}

// A sanitizer's own locks may be held by a thread that the child does not have, so that nothing can
// be allocated and no thread begun there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

// 0: every call said VARVE_FORKED; else the line of one that did not.
int call_everything(varve_client* client, varve_op op, const varve_match_request& match) {
  varve_op out = 0;
  uint32_t number = 0;
  uint64_t wide = 0;
  size_t count = 0;
  varve_completion done;
  VARVE_INIT(&done);
  varve_match_answer answer;
  VARVE_INIT(&answer);
  varve_stats stats;
  VARVE_INIT(&stats);
#define VARVE_EXPECT_FORKED(call) \
  if ((call) != VARVE_FORKED) return __LINE__
  VARVE_EXPECT_FORKED(varve_match_submit(client, &match, &out));
  VARVE_EXPECT_FORKED(varve_match_peek(client, 1, &answer));
  VARVE_EXPECT_FORKED(varve_wait_ready(client, kLong));
  VARVE_EXPECT_FORKED(varve_stats_read(client, &stats));
  VARVE_EXPECT_FORKED(varve_state(client, &number, nullptr, 0));
  VARVE_EXPECT_FORKED(varve_poll(client, &done, 1, &count));
  VARVE_EXPECT_FORKED(varve_wait(client, op, kLong, &done));
  VARVE_EXPECT_FORKED(varve_wait_layer(client, op, 0, kLong, nullptr, 0));
  VARVE_EXPECT_FORKED(varve_layers_done(client, op, &number));
  VARVE_EXPECT_FORKED(varve_cancel(client, op));
  VARVE_EXPECT_FORKED(varve_quiesce(client, op, kLong));
  VARVE_EXPECT_FORKED(varve_push_layer(client, op, 0));
  VARVE_EXPECT_FORKED(varve_lease_release(client, 1));
  VARVE_EXPECT_FORKED(varve_lease_left(client, 1, &wide));
  VARVE_EXPECT_FORKED(varve_region_unregister(client, 1));
  VARVE_EXPECT_FORKED(varve_holds_submit(client, 0, 0, &out));
  VARVE_EXPECT_FORKED(varve_close(client));
#undef VARVE_EXPECT_FORKED
  if (varve_event_fd(client) != -1) return __LINE__;
  varve_free(client);
  varve_free(client);
  return 0;
}

// While another thread waits inside, so that locks and condition variables of the child are in no
// state to be used.
// Goal: a name that has no address is no error of the open but a state with its reason, and a close
// waits for no resolver. Method: the door's calls on a handle with a resolver by script.
TEST_F(CHandleTest, ANameWithoutAnAddressIsAStateWithItsReason) {
  DaemonThread daemon;
  ResolverScript script;
  ClientOptions options;
  options.address = "varve.test:7440";
  options.reconnect_ns_max = 60 * kMillisecond;
  options.lookup_ns_min = 20 * kMillisecond;
  options.populate_scratch = false;
  std::unique_ptr<Handle> handle;
  ASSERT_TRUE(Handle::open(options, handle, script.resolver()).ok());
  client_ = handle.release();
  script.wait_asked(2);  // the first answer is known
  EXPECT_EQ(varve_wait_ready(client_, kMillisecond), VARVE_UNAVAILABLE);
  EXPECT_NE(std::string(varve_last_error()).find("cannot be resolved"), std::string::npos);
  uint32_t state = 99;
  char why[400] = "";
  EXPECT_EQ(varve_state(client_, &state, why, sizeof why), VARVE_OK);
  EXPECT_NE(std::string(why).find("varve.test:7440: the name cannot be resolved"),
            std::string::npos)
      << why;
  script.say(ResolverScript::Numbers{daemon.address()});
  EXPECT_EQ(varve_wait_ready(client_, kLong), VARVE_OK);
  EXPECT_EQ(varve_close(client_), VARVE_OK);  // before its daemon goes
}

TEST_F(CHandleTest, ACloseWaitsForNoResolver) {
  ResolverScript script;
  script.hold();
  ClientOptions options;
  options.address = "varve.test:7440";
  std::unique_ptr<Handle> handle;
  ASSERT_TRUE(Handle::open(options, handle, script.resolver()).ok());
  client_ = handle.release();
  script.wait_asked(1);
  EXPECT_EQ(varve_close(client_), VARVE_OK);
  EXPECT_EQ(script.asked(), 1u);
  script.let_go();
  script.wait_freed();
}

TEST_F(CHandleTest, AForkedChildIsToldAndTheParentGoesOn) {
  open_ready();
  put(2);
  silence(Type::kPull);
  const varve_op op = pull(pull_of(0, 2));
  wait_asked(Type::kPull, 1);
  std::atomic<bool> entered{false};
  std::thread waiting([&] {
    entered = true;
    EXPECT_EQ(varve_wait_layer(client_, op, 0, kLong, nullptr, 0), VARVE_CANCELLED);
  });
  while (!entered.load())
    std::this_thread::yield();
  const auto request = match_of(0, 2);
  DaemonThread other;  // a scripted one speaks to its newest session only
  ASSERT_EQ(varve_options_set(&options_, "address", other.address().c_str()), VARVE_OK);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // a child that hangs ends, and is seen
    const int line = call_everything(client_, op, request);
    varve_client* own = nullptr;  // and one of its own works
    const bool works = line == 0 && (kSanitized || (varve_open(&options_, &own) == VARVE_OK &&
                                                    varve_wait_ready(own, kLong) == VARVE_OK &&
                                                    varve_close(own) == VARVE_OK));
    varve_free(own);
    _exit(works ? 0 : 1 + line % 100);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  unsilence();
  EXPECT_EQ(varve_quiesce(client_, op, kLong), VARVE_OK);
  waiting.join();
  Completion done;
  ASSERT_EQ(varve_wait(client_, pull(pull_of(0, 2)), kLong, &done), VARVE_OK);
  EXPECT_EQ(done.status, VARVE_OK);
  EXPECT_EQ(stats().connects, 1u);  // the session is the one of before
}

// H3
TEST_F(CHandleTest, ALayoutStaysWhileAnOpUsesIt) {
  open_ready();
  silence(Type::kPull);
  const varve_op op = pull(pull_of(0, 1));
  EXPECT_EQ(varve_layout_undefine(client_, layout_), VARVE_OVERLOADED);
  EXPECT_EQ(varve_quiesce(client_, op, kLong), VARVE_OK);
  EXPECT_EQ(varve_layout_undefine(client_, layout_), VARVE_OK);
  EXPECT_EQ(varve_layout_undefine(client_, layout_), VARVE_INVALID);
  const auto request = pull_of(0, 1);
  EXPECT_EQ(varve_pull_submit(client_, &request, nullptr), VARVE_INVALID);
}

}  // namespace
}  // namespace varve
