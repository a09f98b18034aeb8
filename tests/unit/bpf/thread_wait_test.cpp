// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a wait is made of: quota, the end of idle, a used up budget.
#include <gtest/gtest.h>

#include "thread_model.h"

namespace whylate {
namespace {

TEST_F(Thread, TheQuotaPartIsLimitedToTheWait) {
  in(100);
  out(200, true);
  in(300, 0, 30);
  EXPECT_EQ(at(300).throttled_ns, 30u);
  EXPECT_EQ(at(300).run_queue_ns, 70u);
  EXPECT_EQ(last_wait().throttled_ns, 30u);
  out(400, true);
  in(500, 0, 5'000);
  EXPECT_EQ(at(500).throttled_ns, 130u);
  EXPECT_EQ(at(500).run_queue_ns, 70u);
  EXPECT_EQ(last_wait().throttled_ns, 100u);
}

TEST_F(Thread, ASleepHasNoQuotaPart) {
  in(100);
  out(200, false);
  in(300, 0, 50);  // the wake was missed
  EXPECT_EQ(at(300).throttled_ns, 0u);
  EXPECT_EQ(at(300).blocked_ns, 100u);
}

TEST_F(Thread, TheEndOfIdleIsWhenTheIdleTaskLeft) {
  in(100);
  out(200, false);
  waking(300);
  wakeup(320, 0, true, 2);
  cpus_[0].idle_left_ns = 340;
  in(340);
  EXPECT_EQ(last_wait().idle_end_ns, 340u);
  EXPECT_EQ(last_wait().idle_state, 2);
  EXPECT_EQ(at(340).run_queue_ns, 40u) << "still part of not running";
}

TEST_F(Thread, AnotherTaskMayRunBetweenIdleAndTheThread) {
  in(100);
  out(200, false);
  waking(300);
  wakeup(320, 0, true, 1);
  cpus_[0].idle_left_ns = 330;
  in(400);
  EXPECT_EQ(last_wait().idle_end_ns, 330u);
}

TEST_F(Thread, AnIdleEndOutsideTheWaitIsNone) {
  for (const wl_u64 left : {250u, 300u, 500u}) {
    t_ = {};
    in(100);
    out(200, false);
    waking(300);
    wakeup(320, 0, true, 1);
    cpus_[0].idle_left_ns = left;
    in(400);
    EXPECT_EQ(last_wait().idle_end_ns, 0u) << left;
  }
}

TEST_F(Thread, OnABusyCpuThereIsNoIdleEnd) {
  in(100);
  out(200, false);
  waking(300);
  wakeup(320, 0, false, 2);
  cpus_[0].idle_left_ns = 340;
  in(400);
  EXPECT_EQ(last_wait().idle_end_ns, 0u);
  EXPECT_EQ(last_wait().idle_state, -1);
}

TEST_F(Thread, WithAUsedUpBudgetAnIdleCpuIsNotWhatItWaitsFor) {
  in(100);
  out(200, false);
  waking(300);
  wakeup(320, 0, true, 1, true);
  cpus_[0].idle_left_ns = 900;
  in(905);
  EXPECT_EQ(last_wait().idle_end_ns, 0u);
  EXPECT_EQ(last_wait().idle_state, -1);
  EXPECT_EQ(last_wait().budget_out_ns, 300u);
  EXPECT_EQ(at(905).run_queue_ns, 605u);
  out(1'000, false);
  waking(1'100);
  EXPECT_EQ(last_wait().budget_out_ns, 0u) << "of that wait only";
}

TEST_F(Thread, ABudgetCanBeUsedUpWhenItIsPreemptedOrInTheMiddleOfItsWait) {
  in(100);
  out(200, true);
  wl_thread_budget_out(&t_, 200);
  wl_thread_budget_out(&t_, 250);
  EXPECT_EQ(last_wait().budget_out_ns, 200u) << "the first time counts";
  in(300);
  wl_thread_budget_out(&t_, 310);
  EXPECT_EQ(last_wait().budget_out_ns, 200u) << "it runs";
  out(400, false);
  waking(500);
  wl_thread_budget_out(&t_, 450);
  EXPECT_EQ(last_wait().budget_out_ns, 0u) << "before the wait";
  wakeup(520, 0, true, 1);
  wl_thread_budget_out(&t_, 600);
  cpus_[0].idle_left_ns = 900;  // not the time when it was left for the task that used it up
  in(910);
  EXPECT_EQ(last_wait().budget_out_ns, 600u);
  EXPECT_EQ(last_wait().idle_end_ns, 0u);
}

TEST_F(Thread, ASleeperWokenOnItsWayOffTheCpuMayHaveUsedUpTheBudget) {
  in(100);
  waking(195);
  out(200, false);
  wl_thread_budget_out(&t_, 200);
  EXPECT_EQ(last_wait().budget_out_ns, 200u);
  out(300, false);
  wl_thread_budget_out(&t_, 300);
  EXPECT_EQ(last_wait().budget_out_ns, 200u) << "asleep, it waits for no CPU";
}

TEST(Wait, TheShareOfAUsedUpBudget) {
  wl_wait wait{};
  EXPECT_EQ(wl_wait_budget_share(&wait, 100, 200, 100), 0);
  wait.budget_out_ns = 150;
  EXPECT_EQ(wl_wait_budget_share(&wait, 100, 200, 100), 500);
  EXPECT_EQ(wl_wait_budget_share(&wait, 160, 200, 400), 100);
  EXPECT_EQ(wl_wait_budget_share(&wait, 100, 150, 100), 0);
  EXPECT_EQ(wl_wait_budget_share(&wait, 150, 250, 100), 1000);
  EXPECT_EQ(wl_wait_budget_share(&wait, 150, 900, 100), 1000) << "never more than all";
  EXPECT_EQ(wl_wait_budget_share(&wait, 150, 900, 0), 0);
}

}  // namespace
}  // namespace whylate
