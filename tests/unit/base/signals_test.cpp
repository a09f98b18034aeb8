// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace whylate {
namespace {

/// Runs `body` in a child and returns how it ended, as waitpid tells it.
template <typename Body>
int status_of_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

TEST(Signals, FirstOneAsksForTheEndAlsoWhenIgnoredOrBlockedAtStart) {
  const int status = status_of_child([] {
    std::signal(SIGINT, SIG_IGN);
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, nullptr);
    handle_signals();
    if (stop_requested()) ::_exit(1);
    std::raise(SIGINT);
    ::_exit(stop_requested() ? 42 : 2);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

TEST(Signals, SecondOneKills) {
  const int status = status_of_child([] {
    handle_signals();
    std::raise(SIGTERM);
    std::raise(SIGINT);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
}

TEST(Signals, ClosedPipeIsAnErrorNotADeath) {
  const int status = status_of_child([] {
    handle_signals();
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(1);
    ::close(ends[0]);
    ::_exit(::write(ends[1], "x", 1) == -1 && errno == EPIPE ? 42 : 2);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

TEST(Signals, ChildGetsTheDefaultsBack) {
  const int status = status_of_child([] {
    handle_signals();
    reset_signals_for_child();
    std::raise(SIGTERM);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

}  // namespace
}  // namespace whylate
