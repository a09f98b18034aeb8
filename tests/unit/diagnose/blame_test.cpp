// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/blame.h"

#include <gtest/gtest.h>

#include "unit/request/builder.h"

namespace whylate {
namespace {

using test::add_occupant;
using test::make_request;

TEST(OccupantsOf, TileTheStageExactly) {
  Request request = make_request({{WL_STAGE_RUN_QUEUE, 1'000}, {WL_STAGE_APP_RUN_QUEUE, 50}});
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 300, 1, "a");
  add_occupant(request, WL_STAGE_APP_RUN_QUEUE, WL_OCC_TASK, 50, 1, "a");
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 200, 1, "a").cpu = 0;
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_IRQ, 400);
  const std::vector<wl_occupant> occupants = occupants_of(request, WL_STAGE_RUN_QUEUE);
  ASSERT_EQ(occupants.size(), 3u);
  EXPECT_EQ(occupants[0].pid, 1u);
  EXPECT_EQ(occupants[0].ns, 500u);
  EXPECT_EQ(occupants[0].cpu, WL_NO_CPU);  // two CPUs are not one
  EXPECT_EQ(occupants[1].kind, WL_OCC_IRQ);
  EXPECT_EQ(occupants[2].kind, WL_OCC_UNKNOWN);
  EXPECT_EQ(occupants[2].ns, 100u);
}

TEST(OccupantsOf, NobodyNamedMeansNobody) {
  EXPECT_TRUE(occupants_of(make_request({{WL_STAGE_RUN_QUEUE, 9}}), WL_STAGE_RUN_QUEUE).empty());
}

TEST(Percent, NeverRoundsAwayTheTruth) {
  EXPECT_EQ(percent(0, 100), "0 %");
  EXPECT_EQ(percent(1, 1'000'000), "<1 %");
  EXPECT_EQ(percent(960, 1'000), "96 %");
  EXPECT_EQ(percent(999'999, 1'000'000), ">99 %");
  EXPECT_EQ(percent(5, 5), "100 %");
  EXPECT_EQ(percent(1, 0), "");
  const std::uint64_t huge = ~std::uint64_t{0};
  EXPECT_EQ(percent(huge, huge), "100 %");
}

}  // namespace
}  // namespace whylate
