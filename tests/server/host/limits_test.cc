// Goal: limits are raised as far as they can be, the arena is whole, and a lack of memory has a
// sentence. Method: this process's own limits; a child for the end.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <new>
#include <system_error>

#include "common/base/allocation.h"
#include "server/host/host.h"

namespace varve {
namespace {

TEST(HostLimits, DescriptorsAreRaisedToWhatIsWantedOrToTheHardLimit) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const DescriptorLimit some = raise_descriptors(65);
  EXPECT_EQ(some.before, 64u);
  EXPECT_EQ(some.now, 65u);
  const DescriptorLimit all = raise_descriptors(uint64_t{1} << 40);
  EXPECT_EQ(all.now, all.hard);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(HostLimits, TheArenaIsZeroedAndWritable) {
  const Result<ByteSpan> arena = map_arena(kMiB);
  ASSERT_TRUE(arena.has_value());
  EXPECT_EQ(arena->size(), kMiB);
  EXPECT_EQ((*arena)[kMiB - 1], std::byte{0});
  (*arena)[0] = std::byte{1};
}

TEST(HostLimits, AnArenaBeyondAllMemoryIsAStatus) {
  const Result<ByteSpan> arena = map_arena(uint64_t{1} << 52);
  ASSERT_FALSE(arena.has_value());
  EXPECT_EQ(arena.error().code(), Code::kNoSpace);
  EXPECT_GT(arena.error().errno_value(), 0);
}

TEST(HostLimitsDeathTest, OutOfMemoryIsOneSentenceAndItsExitCode) {
  EXPECT_EXIT(
      {
        name_out_of_memory();
        std::get_new_handler()();
      },
      testing::ExitedWithCode(kExitEnvironment), "no memory is left.*lower --dram-bytes");
}

// Expect: a border that says so gets its exception, and nobody behind it any more.
TEST(HostLimitsDeathTest, OutOfMemoryIsThrownWhereThatIsCaught) {
  EXPECT_EXIT(
      {
        name_out_of_memory();
        try {
          const AllocationsThrow throws;
          std::get_new_handler()();
        } catch (const std::bad_alloc&) {
          std::get_new_handler()();
        }
      },
      testing::ExitedWithCode(kExitEnvironment), "^varved: no memory is left");
  EXPECT_EXIT(
      {
        name_out_of_memory();
        try {
          const AllocationsThrow outer;
          { const AllocationsThrow inner; }
          std::get_new_handler()();
        } catch (const std::bad_alloc&) {
          ::_exit(7);
        }
      },
      testing::ExitedWithCode(7), "");
}

// What std::thread throws where there is none: by pids.max of a container, for one.
TEST(HostLimitsDeathTest, NoThreadIsOneSentenceAndItsExitCodeAndNothingElseIs) {
  const auto end_with = [](const std::exception_ptr& thrown) noexcept {
    name_out_of_memory();
    std::rethrow_exception(thrown);
  };
  const auto none = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_EXIT(end_with(std::make_exception_ptr(std::system_error(none))),
              testing::ExitedWithCode(kExitEnvironment), "no thread is to be had.*TasksMax");
  EXPECT_EXIT(end_with(std::make_exception_ptr(1)), testing::KilledBySignal(SIGABRT), "");
}

TEST(HostLimits, AThreadThatLeavesTheStopSignalsBlocksThem) {
  sigset_t before, now;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  leave_stop_signals();
  pthread_sigmask(SIG_SETMASK, &before, &now);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2})
    EXPECT_EQ(sigismember(&now, signal), 1);
  EXPECT_EQ(sigismember(&now, SIGALRM), 0);
}

}  // namespace
}  // namespace varve
