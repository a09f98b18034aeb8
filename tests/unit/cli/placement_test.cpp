// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whylate::cli {
namespace {

using ::testing::ElementsAre;

TEST(ChooseCpus, LeavesTheCpusOfPinnedThreads) {
  EXPECT_THAT(choose_cpus({0, 1, 2, 3}, {0, 1, 2, 3}, {{1}, {2}}), ElementsAre(0, 3));
}

TEST(ChooseCpus, AThreadThatMayRunAnywhereIsPinnedNowhere) {
  EXPECT_THAT(choose_cpus({0, 1}, {0, 1}, {{0, 1}}), ElementsAre(0, 1));
  EXPECT_THAT(choose_cpus({0, 1}, {0, 1}, {{0, 1}, {1}}), ElementsAre(0));
}

TEST(ChooseCpus, StaysWhereNothingElseIsLeft) {
  EXPECT_THAT(choose_cpus({1}, {0, 1}, {{1}}), ElementsAre(1));
  EXPECT_THAT(choose_cpus({0, 1}, {0, 1}, {{0}, {1}}), ElementsAre(0, 1));
}

}  // namespace
}  // namespace whylate::cli
