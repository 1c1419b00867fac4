// Goal: completions are told by one descriptor, taken once, and given back without a trace. Method:
// the scripted daemon; callers whose struct is larger than the library's.
#include <gtest/gtest.h>
#include <poll.h>

#include "tests/client/c_rig.h"

namespace varve {
namespace {

class CCompletionTest : public CRig {
 protected:
  bool readable(int timeout_ms) {
    pollfd fd{varve_event_fd(client_), POLLIN, 0};
    EXPECT_GE(fd.fd, 0);
    return ::poll(&fd, 1, timeout_ms) == 1;
  }
};

TEST_F(CCompletionTest, TheDescriptorIsReadableWhileThereIsSomething) {
  open_ready();
  put(1);
  EXPECT_FALSE(readable(0));
  const varve_op first = match(match_of(0, 1)), second = match(match_of(0, 1));
  EXPECT_TRUE(readable(20000));
  std::vector<varve_op> taken;
  while (taken.size() < 2) {
    ASSERT_TRUE(readable(20000));
    varve_completion done[3];
    VARVE_INIT(&done[0]);
    size_t count = 0;
    ASSERT_EQ(varve_poll(client_, done, 3, &count), VARVE_OK);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(done[i].struct_size, sizeof done[i]);
      taken.push_back(done[i].op);
      varve_completion_clear(&done[i]);
    }
  }
  EXPECT_EQ(taken, (std::vector<varve_op>{first, second}));
  EXPECT_FALSE(readable(0));
  Completion none;
  EXPECT_EQ(varve_wait(client_, first, kLong, &none), VARVE_UNKNOWN);
}

TEST_F(CCompletionTest, LayersDoNotWakeWhoDidNotAsk) {
  open_ready();
  put(2);
  const varve_op op = pull(pull_of(0, 2));
  ASSERT_EQ(varve_wait_layer(client_, op, kLayers - 1, kLong, nullptr, 0), VARVE_OK);
  ASSERT_EQ(varve_quiesce(client_, op, kLong), VARVE_OK);
  Completion done;
  size_t count = 0;
  ASSERT_EQ(varve_poll(client_, &done, 1, &count), VARVE_OK);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(done.kind, uint32_t{VARVE_DONE_PULL});
}

TEST_F(CCompletionTest, TheFirstStructsSizeIsTheStride) {
  open_ready();
  put(1);
  struct Later {
    varve_completion now;
    uint64_t field[3];
  };
  for (int i = 0; i < 2; ++i)
    match(match_of(0, 1, 20 + i));
  EXPECT_EQ(varve_quiesce(client_, 0, 0), VARVE_OK);
  size_t taken = 0;
  while (taken < 2) {
    Later done[2];
    std::memset(done, 0x77, sizeof done);
    done[0].now.struct_size = sizeof(Later);
    size_t count = 0;
    ASSERT_EQ(varve_poll(client_, &done[0].now, 2, &count), VARVE_OK);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(done[i].now.struct_size, sizeof(Later));
      EXPECT_EQ(done[i].now.tag, 20 + taken);
      EXPECT_EQ(done[i].now.hit_count, 1u);
      EXPECT_EQ(done[i].field[2], 0u);
      ++taken;
      varve_completion_clear(&done[i].now);
      EXPECT_EQ(done[i].now.struct_size, sizeof(Later));
      EXPECT_EQ(done[i].now.memory, nullptr);
    }
  }
}

TEST_F(CCompletionTest, CallsThatAreWrongAreRefused) {
  open_ready();
  size_t count = 5;
  varve_completion done;
  VARVE_INIT(&done);
  EXPECT_EQ(varve_poll(client_, &done, 1, nullptr), VARVE_INVALID);
  EXPECT_EQ(varve_poll(client_, nullptr, 1, &count), VARVE_INVALID);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(varve_poll(client_, nullptr, 0, &count), VARVE_OK);
  EXPECT_EQ(varve_wait(client_, 4711, kLong, &done), VARVE_UNKNOWN);
  EXPECT_EQ(varve_wait(client_, 4711, kLong, nullptr), VARVE_INVALID);
  done.struct_size = 24;
  EXPECT_EQ(varve_poll(client_, &done, 1, &count), VARVE_INVALID);
  EXPECT_EQ(varve_wait(client_, 4711, kLong, &done), VARVE_INVALID);
  std::memset(&done, 0, sizeof done);
  varve_completion_clear(&done);
  varve_completion_clear(&done);
}

}  // namespace
}  // namespace varve
