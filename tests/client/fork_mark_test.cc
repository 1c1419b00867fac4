// Goal: a child knows that it is one, by the page and by the number of the process, and its parent
// that it is none. Method: forks, also of a fork, that answer by their exit status.
#include "client/fork_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace varve {
namespace {

int exit_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class ForkMarkTest : public testing::TestWithParam<ForkMark::By> {};

TEST_P(ForkMarkTest, AChildAndItsChildAreForkedAndTheParentIsNot) {
  const ForkMark mark(GetParam());
  EXPECT_FALSE(mark.is_forked());
  const pid_t child = fork();
  if (child == 0) {
    if (!mark.is_forked()) _exit(1);
    const ForkMark own(GetParam());  // the child's own: its child does not have it
    if (own.is_forked()) _exit(2);
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(mark.is_forked() && own.is_forked() ? 0 : 3);
    _exit(exit_of(grandchild));
  }
  EXPECT_EQ(exit_of(child), 0);
  EXPECT_FALSE(mark.is_forked());
}

INSTANTIATE_TEST_SUITE_P(By, ForkMarkTest,
                         testing::Values(ForkMark::By::kPage, ForkMark::By::kNumber));

TEST(ForkMarkTest, AMarkByNumberIsOne) {
  EXPECT_EQ(ForkMark(ForkMark::By::kNumber).by(), ForkMark::By::kNumber);
}

}  // namespace
}  // namespace varve
