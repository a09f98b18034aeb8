// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/schedule.h"

#include <gtest/gtest.h>

namespace whylate::echo {
namespace {

TEST(Schedule, OnePerMillisecond) {
  const Schedule schedule(1'000, 1'000'000, 1);
  EXPECT_EQ(schedule.intended_ns(0), 1'000);
  EXPECT_EQ(schedule.intended_ns(1), 1'001'000);
  EXPECT_EQ(schedule.intended_ns(10'000), 10'000'001'000);
  EXPECT_EQ(schedule.period_ns(), 1'000'000);
}

TEST(Schedule, DoesNotDriftWhereThePeriodIsNoInteger) {
  const Schedule schedule(0, 3'000, 1);  // three a second
  EXPECT_EQ(schedule.intended_ns(1), 333'333'333);
  EXPECT_EQ(schedule.intended_ns(2), 666'666'666);
  EXPECT_EQ(schedule.intended_ns(3), 1'000'000'000);
  EXPECT_EQ(schedule.intended_ns(3'000'000), 1'000'000'000'000'000);
}

TEST(Schedule, BurstSharesItsPoint) {
  const Schedule schedule(0, 100'000, 8);
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(schedule.intended_ns(i), 0);
  EXPECT_EQ(schedule.intended_ns(8), 10'000'000);
  EXPECT_EQ(schedule.intended_ns(15), 10'000'000);
}

TEST(Schedule, LargeIndexDoesNotOverflow) {
  const Schedule schedule(5, 1'000, 1);  // one a second
  EXPECT_EQ(schedule.intended_ns(100'000'000), 100'000'000'000'000'005);
}

TEST(Schedule, NonsenseIsRaisedToOne) {
  const Schedule schedule(0, 0, 0);
  EXPECT_EQ(schedule.intended_ns(1), 1'000'000'000'000);
}

}  // namespace
}  // namespace whylate::echo
