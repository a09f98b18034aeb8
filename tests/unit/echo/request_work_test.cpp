// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/request_work.h"

#include <gtest/gtest.h>

#include "echo/clock.h"

namespace whylate::echo {
namespace {

// The thread must really have run for at least the time asked for, however often it was preempted.
TEST(RequestWork, ComputesForAtLeastTheTimeAskedFor) {
  for (int round = 0; round < 5; ++round) {
    const std::int64_t before_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    compute(3'000'000);
    EXPECT_GE(clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns, 2'900'000);
  }
}

TEST(RequestWork, NothingAskedForIsNothingDone) {
  const std::int64_t before_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  compute(0);
  EXPECT_LT(clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns, 1'000'000);
}

}  // namespace
}  // namespace whylate::echo
