// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "unit/diagnose/run_builder.h"
#include "unit/request/builder.h"

namespace whylate {
namespace {

using test::add_occupant;
using test::count_request;
using test::make_request;
using ::testing::HasSubstr;

/// A run of its own for each test; the totals are too large for the stack of some machines.
struct SummaryTest : ::testing::Test {
  std::unique_ptr<capture::Totals> totals = std::make_unique<capture::Totals>();
  Collector collector{10};
  RunContext context;
  std::uint64_t seq = 0;

  SummaryTest() {
    context.duration_ns = 10'000'000'000;
    context.own_pid = 77;
  }

  void add(std::initializer_list<std::pair<wl_stage, std::uint64_t>> stages, wl_u32 quality = 0) {
    Request request = make_request(stages, seq, 1'000'000 + seq * 1'000'000);
    ++seq;
    request.record.quality = quality;
    count_request(*totals, collector, request);
  }

  Summary summary() const { return build_summary(*totals, collector, context); }

  static bool has_finding(const Summary& summary, const std::string& id) {
    for (const FindingRow& row : summary.findings) {
      if (row.id == id) return true;
    }
    return false;
  }
};

TEST_F(SummaryTest, NoRequestsNoFiguresAndNoDivision) {
  totals->counters.runs = 10;
  totals->counters.sampled_runs = 1;
  totals->counters.sampled_ns = 100;
  totals->call_ns = 30;
  const Summary result = summary();
  EXPECT_EQ(result.observed, 0u);
  EXPECT_FALSE(result.latency.p50_ns);
  EXPECT_FALSE(result.slowest_but_first_two_ns);
  EXPECT_FALSE(result.stalled_ns);
  EXPECT_FALSE(result.cost_ns_per_request);
  EXPECT_TRUE(result.is_whole);
  EXPECT_TRUE(has_finding(result, "no_requests"));
  for (const StageSummary& row : result.stages) EXPECT_FALSE(row.share);
}

TEST_F(SummaryTest, CountsEachKindOnce) {
  add({{WL_STAGE_APP, 100}}, WL_Q_COLD);
  add({{WL_STAGE_APP, 100}});
  add({{WL_STAGE_APP, 100}}, WL_Q_NO_ARRIVAL);
  add({{WL_STAGE_APP, 100}}, WL_Q_NO_REPLY);
  const Summary result = summary();
  EXPECT_EQ(result.observed, 4u);
  EXPECT_EQ(result.complete, 2u);
  EXPECT_EQ(result.incomplete, 1u);
  EXPECT_EQ(result.no_reply, 1u);
  EXPECT_EQ(result.slowest.size(), 1u);
  EXPECT_TRUE(has_finding(result, "no_reply"));
  EXPECT_TRUE(result.is_whole);
}

TEST_F(SummaryTest, SharesOfTheStagesSumToOne) {
  add({{WL_STAGE_STACK, 100}, {WL_STAGE_APP, 300}});
  add({{WL_STAGE_STACK, 100}, {WL_STAGE_RUN_QUEUE, 500}});
  double sum = 0;
  const Summary result = summary();
  for (const StageSummary& row : result.stages) sum += row.share.value_or(0);
  EXPECT_DOUBLE_EQ(sum, 1.0);
  EXPECT_DOUBLE_EQ(*result.stages[WL_STAGE_STACK].share, 0.2);
  EXPECT_EQ(*result.stages[WL_STAGE_RUN_QUEUE].spread.p50_ns, 0u);
  EXPECT_EQ(*result.stages[WL_STAGE_RUN_QUEUE].spread.max_ns, 500u);
}

TEST_F(SummaryTest, EveryLossMakesItIncomplete) {
  add({{WL_STAGE_APP, 100}});
  for (int i = 0; i < WL_NR_LOST; ++i) {
    totals->counters.lost[i] = 1;
    EXPECT_FALSE(summary().is_whole) << i;
    EXPECT_EQ(summary().lost_total, 1u);
    totals->counters.lost[i] = 0;
  }
  totals->recursion_misses = 1;
  EXPECT_FALSE(summary().is_whole);
  totals->recursion_misses = 0;
  collector.self_test().note("x");
  EXPECT_FALSE(summary().is_whole);
  EXPECT_TRUE(has_finding(summary(), "self_test"));
}

TEST_F(SummaryTest, TotalsThatDoNotAddUpAreAViolation) {
  add({{WL_STAGE_APP, 100}});
  totals->aggregate.stage_ns[WL_STAGE_APP] += 1;
  EXPECT_THAT(summary().self_test.first, HasSubstr("all stages sum to 101"));
  totals->aggregate.stage_ns[WL_STAGE_APP] -= 1;
  totals->counters.complete = 5;
  EXPECT_THAT(summary().self_test.first, HasSubstr("holds 1 requests, 5 were counted"));
}

TEST_F(SummaryTest, BlameSharesAreOfTheirStageLargestFirst) {
  Request request = make_request({{WL_STAGE_RUN_QUEUE, 1'000}, {WL_STAGE_APP, 9'000}});
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_SOFTIRQ, 40);
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 960, 991, "hog");
  count_request(*totals, collector, request);
  count_request(*totals, collector, request);
  const Summary result = summary();
  ASSERT_EQ(result.blame.size(), 2u);
  EXPECT_EQ(result.blame[0].key.pid, 991u);
  EXPECT_DOUBLE_EQ(*result.blame[0].share, 0.96);
  EXPECT_EQ(result.blame[0].value.requests, 2u);
  totals->blame[0].value.ns = 100'000;
  EXPECT_THAT(summary().self_test.first, HasSubstr("exceeds"));
}

TEST_F(SummaryTest, NotMeasuredCarriesItsReason) {
  context.stages[WL_STAGE_TX_QUEUE] = {false, "no queue"};
  context.devices[1] = {"lo", "noqueue"};
  Request request = make_request({{WL_STAGE_APP, 100}});
  request.record.rx_ifindex = 1;
  count_request(*totals, collector, request);
  const Summary result = summary();
  EXPECT_FALSE(result.stages[WL_STAGE_TX_QUEUE].measured);
  EXPECT_EQ(result.stages[WL_STAGE_TX_QUEUE].why_not, "no queue");
  EXPECT_FALSE(result.stages[WL_STAGE_TX_QUEUE].spread.p50_ns);
  EXPECT_EQ(result.stages[WL_STAGE_HARD_IRQ].why_not,
            "packets arrive through lo: there is no hard interrupt");
  EXPECT_THAT(result.stages[WL_STAGE_SEND].why_not, HasSubstr("--syscalls"));
  EXPECT_THAT(result.stages[WL_STAGE_BACKLOG].why_not, HasSubstr("TCP"));
  EXPECT_TRUE(result.stages[WL_STAGE_THROTTLED].measured);
}

TEST_F(SummaryTest, AStageWithTimeInItIsMeasuredWhateverThePlanSaid) {
  context.stages[WL_STAGE_HARD_IRQ] = {false, "no interrupt expected"};
  add({{WL_STAGE_HARD_IRQ, 50}, {WL_STAGE_APP, 100}});
  EXPECT_TRUE(summary().stages[WL_STAGE_HARD_IRQ].measured);
}

TEST_F(SummaryTest, LateIsTenMediansOrTheThreshold) {
  for (int i = 0; i < 100; ++i) add({{WL_STAGE_APP, 50}});
  add({{WL_STAGE_RUN_QUEUE, 900'000}});
  Summary result = summary();
  EXPECT_EQ(*result.late_above_ns, 500u);
  EXPECT_EQ(*result.stalled_ns, 900'000u);
  EXPECT_EQ(result.late_requests, 1u);
  context.slower_than_ns = 2'000'000;
  result = summary();
  EXPECT_EQ(*result.late_above_ns, 2'000'000u);
  EXPECT_EQ(*result.stalled_ns, 0u);
  totals->counters.lost[WL_LOST_RING_FULL] = 1;
  EXPECT_TRUE(summary().stalled_is_lower_bound);
}

TEST_F(SummaryTest, OwnCostOfARequestIsTheTargetsShareAndOfTheHostAllOfIt) {
  add({{WL_STAGE_APP, 100}});
  add({{WL_STAGE_APP, 100}});
  EXPECT_FALSE(summary().cost_ns_per_request);  // nothing was timed
  wl_counters& counters = totals->counters;
  counters.runs = 20;
  counters.sampled_runs = 2;
  counters.sampled_ns = 100;
  counters.target_runs = 10;
  counters.target_sampled_runs = 1;
  counters.target_sampled_ns = 70;
  counters.target_packets = 2;
  totals->call_ns = 30;
  context.own_cpu_ns = 400;
  context.duration_ns = 10'000;
  Summary result = summary();
  // Ten runs for the target, and three softirq hooks for each of its two packets.
  EXPECT_DOUBLE_EQ(*result.cost_ns_per_request, (10 * (30 + 70) + 2 * 3 * (30 + 30)) / 2.0);
  EXPECT_DOUBLE_EQ(*result.cpu_share, (400 + 20 * (30 + 50)) / 10'000.0);
  // Counters read while they change may not agree; a difference never wraps around.
  counters.target_sampled_ns = 200;
  EXPECT_LT(*summary().cost_ns_per_request, 10'000.0);
  context.own_cpu_ns.reset();
  EXPECT_FALSE(summary().cpu_share);
}

TEST_F(SummaryTest, FindingsSayWhatTheHostDoes) {
  add({{WL_STAGE_APP, 100}});
  EXPECT_TRUE(summary().findings.empty());
  totals->counters.unmatched[WL_UNM_DROPPED] = 3;
  context.quota_us = 20'000;
  context.period_us = 100'000;
  context.virtualised = true;
  context.steal_ns = 1'000'000'000;
  const Summary result = summary();
  EXPECT_TRUE(has_finding(result, "packets_dropped"));
  EXPECT_TRUE(has_finding(result, "cpu_quota"));
  EXPECT_TRUE(has_finding(result, "steal"));
  context.virtualised = false;
  EXPECT_FALSE(has_finding(summary(), "steal"));
}

TEST_F(SummaryTest, SaysWhyRequestsAreIncompleteAndHowLongTheyTook) {
  add({{WL_STAGE_APP, 100}});
  EXPECT_FALSE(has_finding(summary(), "incomplete"));
  add({{WL_STAGE_APP, 5'000'000}}, WL_Q_LOST_SWITCH);
  add({{WL_STAGE_APP, 9'000'000}}, WL_Q_NO_ARRIVAL);  // its arrival is unknown, and so its time
  add({{WL_STAGE_APP, 1'000'000}}, WL_Q_LOST_SWITCH);
  const Summary result = summary();
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_EQ(result.findings[0].id, "incomplete");
  EXPECT_THAT(result.findings[0].text,
              ::testing::AllOf(HasSubstr("3 requests"), HasSubstr("1 x no_arrival"),
                               HasSubstr("2 x lost_switch"), HasSubstr("took 5.00ms")));
  EXPECT_THAT(result.findings[0].remedy, HasSubstr("lost_switch"));
}

TEST_F(SummaryTest, SaysWhenTheTracerItselfWasInTheWay) {
  Request request = make_request({{WL_STAGE_RUN_QUEUE, 1'000}});
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000, 78, "whylate").tgid = 77;
  count_request(*totals, collector, request);
  EXPECT_TRUE(has_finding(summary(), "own_interference"));
}

}  // namespace
}  // namespace whylate
