// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include "unit/request/builder.h"

namespace whylate {
namespace {

using test::make_request;
using ::testing::ElementsAre;

std::vector<std::uint64_t> seqs(const SlowestKeeper& keeper) {
  std::vector<std::uint64_t> result;
  for (const Request& request : keeper.sorted()) result.push_back(request.record.seq);
  return result;
}

TEST(SlowestKeeper, KeepsTheSlowestInOrder) {
  SlowestKeeper keeper(3);
  const std::uint64_t totals[] = {50, 900, 10, 700, 800, 900, 1};
  for (std::uint64_t i = 0; i < std::size(totals); ++i) {
    keeper.add(make_request({{WL_STAGE_APP, totals[i]}}, i));
  }
  // Equal totals: the earlier one comes first.
  EXPECT_THAT(seqs(keeper), ElementsAre(1, 5, 4));
}

TEST(SlowestKeeper, LeavesOutColdIncompleteAndUnanswered) {
  SlowestKeeper keeper(10);
  std::uint64_t seq = 0;
  for (const wl_u32 flag : {WL_Q_COLD, WL_Q_NO_ARRIVAL, WL_Q_DEBT_UNPAID, WL_Q_NO_THREAD,
                            WL_Q_NO_REPLY, WL_Q_CLAMPED}) {
    Request request = make_request({{WL_STAGE_APP, 100}}, seq++);
    request.record.quality = flag;
    keeper.add(request);
  }
  EXPECT_THAT(seqs(keeper), ElementsAre(5));
}

TEST(SlowestKeeper, NoneWanted) {
  SlowestKeeper keeper(0);
  keeper.add(make_request({{WL_STAGE_APP, 100}}));
  EXPECT_TRUE(keeper.sorted().empty());
}

TEST(SlowestKeeper, AgreesWithSortingEverything) {
  std::mt19937_64 random(3);  // NOLINT(cert-msc51-cpp)
  SlowestKeeper keeper(10);
  std::vector<std::uint64_t> totals;
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    totals.push_back(1 + random() % 300);
    keeper.add(make_request({{WL_STAGE_APP, totals.back()}}, i));
  }
  std::sort(totals.rbegin(), totals.rend());
  const std::vector<Request> kept = keeper.sorted();
  ASSERT_EQ(kept.size(), 10u);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(total_ns(kept[i]), totals[i]);
}

TEST(StalledTime, IsTheUnionOfLateIntervals) {
  StalledTime stalled;
  // 1000..1500, 1200..1800 overlap; 3000..3400 stands alone; 1300..1310 is not late.
  stalled.add(make_request({{WL_STAGE_APP, 500}}, 0, 1'000));
  stalled.add(make_request({{WL_STAGE_APP, 600}}, 1, 1'200));
  stalled.add(make_request({{WL_STAGE_APP, 400}}, 2, 3'000));
  stalled.add(make_request({{WL_STAGE_APP, 10}}, 3, 1'300));
  StalledTime::Answer answer = stalled.above(100);
  EXPECT_EQ(answer.ns, 800u + 400u);
  EXPECT_EQ(answer.late_requests, 3u);
  EXPECT_FALSE(answer.is_lower_bound);
  EXPECT_EQ(stalled.above(400).ns, 800u);  // "above", not "from"
  EXPECT_EQ(stalled.above(10'000).ns, 0u);
}

TEST(StalledTime, AnIntervalInsideAnotherAddsNothing) {
  StalledTime stalled;
  stalled.add(make_request({{WL_STAGE_APP, 1'000}}, 0, 1'000));
  stalled.add(make_request({{WL_STAGE_APP, 200}}, 1, 1'300));
  stalled.add(make_request({{WL_STAGE_APP, 300}}, 2, 1'900));
  EXPECT_EQ(stalled.above(100).ns, 1'200u);
}

TEST(StalledTime, SaysWhenItsMemoryWasTooSmall) {
  StalledTime stalled(2);
  stalled.add(make_request({{WL_STAGE_APP, 100}}, 0, 1'000));
  stalled.add(make_request({{WL_STAGE_APP, 300}}, 1, 5'000));
  stalled.add(make_request({{WL_STAGE_APP, 200}}, 2, 9'000));
  EXPECT_TRUE(stalled.above(50).is_lower_bound);
  EXPECT_EQ(stalled.above(50).ns, 500u);
  // The dropped one was 100 long: not late by this measure.
  EXPECT_FALSE(stalled.above(100).is_lower_bound);
}

TEST(RunningMedian, NothingBeforeThereAreEnough) {
  RunningMedian median;
  Request incomplete = make_request({{WL_STAGE_APP, 1}}, 10);
  incomplete.record.quality = WL_Q_NO_ARRIVAL;
  for (std::uint64_t i = 1; i < RunningMedian::kEnough; ++i) {
    median.add(make_request({{WL_STAGE_APP, 1'000}}, 10 + i));
    median.add(incomplete);
  }
  EXPECT_FALSE(median.ns());
  median.add(make_request({{WL_STAGE_APP, 1'000}}, 1'000));
  ASSERT_TRUE(median.ns());
  EXPECT_EQ(*median.ns(), 1'000u);
}

TEST(RunningMedian, FollowsTheRequests) {
  RunningMedian median;
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    median.add(make_request({{WL_STAGE_APP, 10'000 + i * 10}}, 10 + i));
  }
  ASSERT_TRUE(median.ns());
  EXPECT_NEAR(static_cast<double>(*median.ns()), 15'000, 1'000);
}

}  // namespace
}  // namespace whylate
