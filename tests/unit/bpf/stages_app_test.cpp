// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "stages_model.h"

namespace whylate {
namespace {

class AppStages : public testing::Test {
 protected:
  static constexpr wl_u64 kRecv = 10'000;
  static constexpr wl_u64 kEnd = 20'000;

  /// Returns the quota part.
  wl_u64 split(wl_u64 recv_exit_ns = 0, wl_u64 send_begin_ns = 0, wl_u64 devq_ns = 0) {
    stages_ = {};
    const wl_u64 quota = wl_stages_app(kRecv, recv_exit_ns, send_begin_ns, devq_ns, kEnd, &before_,
                                       &after_, stages_.data(), theft_.data());
    EXPECT_EQ(stages_.sum(), kEnd - kRecv);
    EXPECT_EQ(std::accumulate(theft_.begin(), theft_.end(), wl_u64{0}), stages_[WL_STAGE_APP_IRQ]);
    return quota;
  }

  test::Stages stages_;
  std::array<wl_u64, WL_NR_THEFT> theft_{};
  wl_thread_time before_{100, 200, 300, {400, 500, 600, 700, 800}};
  wl_thread_time after_ = before_;
};

TEST_F(AppStages, OnTheCpuAllTheTime) {
  EXPECT_EQ(split(), 0u);
  EXPECT_EQ(stages_[WL_STAGE_APP], 10'000u);
}

TEST_F(AppStages, EveryMarkHasItsStage) {
  split(10'200, 19'000, 19'500);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 200u);
  EXPECT_EQ(stages_[WL_STAGE_APP], 8'800u);
  EXPECT_EQ(stages_[WL_STAGE_SEND], 500u);
  EXPECT_EQ(stages_[WL_STAGE_TX_QUEUE], 500u);
}

TEST_F(AppStages, AMissingMarkLeavesItsTimeInTheNeighbour) {
  split(10'200, 0, 19'500);
  EXPECT_EQ(stages_[WL_STAGE_APP], 9'300u);
  EXPECT_EQ(stages_[WL_STAGE_SEND], 0u);
  split(10'200, 19'000, 0);
  EXPECT_EQ(stages_[WL_STAGE_SEND], 1'000u);
  EXPECT_EQ(stages_[WL_STAGE_TX_QUEUE], 0u);
  split(0, 19'000, 19'500);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 0u);
  EXPECT_EQ(stages_[WL_STAGE_APP], 9'000u);
}

TEST_F(AppStages, MarksOutsideTheIntervalAreNotUsed) {
  split(9'000, 9'500, 9'900);
  EXPECT_EQ(stages_[WL_STAGE_APP], 10'000u);
  split(21'000, 22'000, 23'000);
  EXPECT_EQ(stages_[WL_STAGE_APP], 10'000u);
  split(19'300, 19'600, 19'500);  // send after the device queue, exit still fits
  EXPECT_EQ(stages_[WL_STAGE_TX_QUEUE], 500u);
  EXPECT_EQ(stages_[WL_STAGE_SEND], 0u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 9'300u);
}

TEST_F(AppStages, TheThreadsCountersDivideTheRest) {
  after_.run_queue_ns += 1'000;
  after_.throttled_ns += 2'000;
  after_.blocked_ns += 3'000;
  after_.theft_ns[WL_THEFT_TIMER] += 500;
  EXPECT_EQ(split(), 2'000u);
  EXPECT_EQ(stages_[WL_STAGE_THROTTLED], 2'000u);
  EXPECT_EQ(stages_[WL_STAGE_APP_RUN_QUEUE], 1'000u);
  EXPECT_EQ(stages_[WL_STAGE_APP_BLOCKED], 3'000u);
  EXPECT_EQ(stages_[WL_STAGE_APP_IRQ], 500u);
  EXPECT_EQ(stages_[WL_STAGE_APP], 3'500u);
}

TEST_F(AppStages, WhatIsTakenFirstWhenThereIsNotEnough) {
  after_.throttled_ns += 6'000;
  after_.run_queue_ns += 3'000;
  after_.blocked_ns += 3'000;
  after_.theft_ns[WL_THEFT_TIMER] += 3'000;
  EXPECT_EQ(split(), 6'000u);
  EXPECT_EQ(stages_[WL_STAGE_THROTTLED], 6'000u);
  EXPECT_EQ(stages_[WL_STAGE_APP_RUN_QUEUE], 3'000u);
  EXPECT_EQ(stages_[WL_STAGE_APP_BLOCKED], 1'000u);
  EXPECT_EQ(stages_[WL_STAGE_APP_IRQ], 0u);
  EXPECT_EQ(stages_[WL_STAGE_APP], 0u);
  after_.throttled_ns += 60'000;
  EXPECT_EQ(split(), 10'000u);
}

TEST_F(AppStages, QuotaAddsToWhatTheReadHad) {
  stages_ = {};
  stages_.ns[WL_STAGE_THROTTLED] = 70;
  stages_.ns[WL_STAGE_RECV] = 30;
  after_.throttled_ns += 10;
  wl_stages_app(kRecv, kRecv + 5, 0, 0, kEnd, &before_, &after_, stages_.data(), theft_.data());
  EXPECT_EQ(stages_[WL_STAGE_THROTTLED], 80u);
  EXPECT_EQ(stages_[WL_STAGE_RECV], 35u);
}

TEST_F(AppStages, AnEndAtTheReadHasNoStage) {
  after_.run_queue_ns += 50;
  wl_stages_app(kRecv, 0, 0, 0, kRecv, &before_, &after_, stages_.data(), theft_.data());
  EXPECT_EQ(stages_.sum(), 0u);
}

// The exit of an interrupt was missed between the marks: what had been counted of it is given up.
TEST_F(AppStages, ACounterThatFellTookNothing) {
  after_.theft_ns[WL_THEFT_TIMER] -= 1;
  split();
  EXPECT_EQ(stages_[WL_STAGE_APP_IRQ], 0u);
  EXPECT_EQ(stages_[WL_STAGE_APP], 10'000u);
}

TEST_F(AppStages, AMissedInterruptExitIsNotBookedAsInterruptTime) {
  wl_timeline cpu{};
  wl_thread thread{};
  wl_thread_in(&thread, &cpu, 0, 1'000, 0);
  wl_irq_begin(&cpu, 9'000, WL_THEFT_DEVICE);  // its exit is missed
  wl_thread_time_at(&thread, &cpu, kRecv, &before_);
  wl_softirq_begin(&cpu, 15'000);
  wl_softirq_end(&cpu, 15'100);
  wl_thread_time_at(&thread, &cpu, kEnd, &after_);
  split();
  EXPECT_LE(stages_[WL_STAGE_APP_IRQ], 100u);
}

TEST(StagesClose, BooksWhatIsNotExplained) {
  test::Stages stages;
  stages.ns[WL_STAGE_APP] = 30;
  EXPECT_EQ(wl_stages_close(100, 150, stages.data()), 1);
  EXPECT_EQ(stages[WL_STAGE_UNATTRIBUTED], 20u);
  EXPECT_EQ(stages.sum(), 50u);
  EXPECT_EQ(wl_stages_close(100, 150, stages.data()), 1);
  EXPECT_EQ(stages.sum(), 50u);
}

TEST(StagesClose, MoreThanTheTotalIsAFault) {
  test::Stages stages;
  stages.ns[WL_STAGE_APP] = 51;
  EXPECT_EQ(wl_stages_close(100, 150, stages.data()), 0);
  EXPECT_EQ(stages[WL_STAGE_UNATTRIBUTED], 0u);
  EXPECT_EQ(wl_stages_close(150, 100, stages.data()), 0);
  test::Stages empty;
  EXPECT_EQ(wl_stages_close(150, 100, empty.data()), 1);
  EXPECT_EQ(empty.sum(), 0u);
}

TEST_F(AppStages, TheftIsToldApartByWhatItWas) {
  after_.theft_ns[WL_THEFT_DEVICE] += 100;
  after_.theft_ns[WL_THEFT_TIMER] += 2'000;
  after_.theft_ns[WL_THEFT_IPI] += 30;
  after_.theft_ns[WL_THEFT_IRQ_WORK] += 4;
  after_.theft_ns[WL_THEFT_SOFTIRQ] += 500;
  split();
  EXPECT_EQ(stages_[WL_STAGE_APP_IRQ], 2'634u);
  const std::array<wl_u64, WL_NR_THEFT> expected{100, 2'000, 30, 4, 500};
  EXPECT_EQ(theft_, expected);
  // More than there is room for: the parts still sum to the stage.
  after_.run_queue_ns += 9'000;
  split();
  EXPECT_EQ(stages_[WL_STAGE_APP_IRQ], 1'000u);
}

}  // namespace
}  // namespace whylate
