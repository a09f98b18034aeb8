// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "logic/cpu.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "cpu_model.h"

namespace whylate {
namespace {

using test::CpuModel;
using test::irq_share;
using test::share;

class Timeline : public testing::Test {
 protected:
  wl_u64 irq(wl_u64 now) const { return wl_irq_total(t_.get(), now); }
  wl_u64 softirq(wl_u64 now) const { return wl_softirq_total(t_.get(), now); }
  std::unique_ptr<wl_timeline> t_ = std::make_unique<wl_timeline>();
};

TEST_F(Timeline, AnInterruptCountsOnceItBegan) {
  wl_irq_begin(t_.get(), 100, WL_THEFT_DEVICE);
  EXPECT_EQ(irq(100), 0u);
  EXPECT_EQ(irq(130), 30u);
  wl_irq_end(t_.get(), 150);
  EXPECT_EQ(irq(150), 50u);
  EXPECT_EQ(irq(900), 50u);
}

TEST_F(Timeline, NestedInterruptsCountOnce) {
  wl_irq_begin(t_.get(), 100, WL_THEFT_DEVICE);
  wl_irq_begin(t_.get(), 110, WL_THEFT_DEVICE);
  wl_irq_end(t_.get(), 120);
  EXPECT_EQ(irq(125), 25u);
  wl_irq_end(t_.get(), 130);
  EXPECT_EQ(irq(200), 30u);
}

TEST_F(Timeline, AnExitWithoutEntryIsIgnored) {
  wl_irq_end(t_.get(), 50);
  wl_softirq_end(t_.get(), 60);
  EXPECT_EQ(irq(100), 0u);
  EXPECT_EQ(softirq(100), 0u);
  wl_irq_begin(t_.get(), 100, WL_THEFT_DEVICE);
  wl_irq_end(t_.get(), 110);
  EXPECT_EQ(irq(200), 10u);
}

TEST_F(Timeline, AMissedInterruptExitEndsAtTheNextSoftirq) {
  wl_irq_begin(t_.get(), 100, WL_THEFT_DEVICE);
  wl_softirq_begin(t_.get(), 150);
  wl_softirq_end(t_.get(), 180);
  EXPECT_EQ(softirq(500), 30u);
  EXPECT_EQ(irq(500), 0u);
  wl_irq_begin(t_.get(), 600, WL_THEFT_DEVICE);
  wl_irq_end(t_.get(), 610);
  EXPECT_EQ(irq(700), 10u);
}

TEST_F(Timeline, AMissedInterruptExitEndsAtTheNextSwitch) {
  wl_irq_begin(t_.get(), 100, WL_THEFT_DEVICE);
  const wl_slice* slice = wl_slice_begin(t_.get(), 150);
  EXPECT_EQ(irq(1'000), slice->theft_ns[WL_THEFT_DEVICE]);
  wl_irq_begin(t_.get(), 200, WL_THEFT_DEVICE);
  wl_irq_end(t_.get(), 210);
  EXPECT_EQ(irq(1'000), slice->theft_ns[WL_THEFT_DEVICE] + 10);
}

TEST_F(Timeline, AMissedSoftirqExitEndsAtTheNextSwitch) {
  wl_softirq_begin(t_.get(), 100);
  const wl_slice* slice = wl_slice_begin(t_.get(), 150);
  EXPECT_EQ(slice->theft_ns[WL_THEFT_SOFTIRQ], 50u);
  EXPECT_EQ(softirq(900), 50u);
}

TEST_F(Timeline, ASoftirqIsWithoutTheInterruptsInside) {
  wl_softirq_begin(t_.get(), 100);
  wl_irq_begin(t_.get(), 120, WL_THEFT_DEVICE);
  EXPECT_EQ(softirq(125), 20u) << "stands still while the interrupt runs";
  EXPECT_EQ(irq(125), 5u);
  wl_irq_end(t_.get(), 130);
  EXPECT_EQ(softirq(140), 30u);
  wl_softirq_end(t_.get(), 150);
  EXPECT_EQ(softirq(999), 40u);
  EXPECT_EQ(irq(999), 10u);
}

TEST_F(Timeline, AClockReadingOfAnotherCpuIsNeverNegative) {
  wl_irq_begin(t_.get(), 100, WL_THEFT_DEVICE);
  EXPECT_EQ(irq(90), 0u);
  wl_irq_end(t_.get(), 110);
  wl_softirq_begin(t_.get(), 200);
  EXPECT_EQ(softirq(190), 0u);
  EXPECT_EQ(softirq(200), 0u);
}

TEST_F(Timeline, SlicesCarryTheCountersOfTheirStart) {
  wl_slice* first = wl_slice_begin(t_.get(), 100);
  first->pid = 1;
  wl_irq_begin(t_.get(), 110, WL_THEFT_DEVICE);
  wl_irq_end(t_.get(), 117);
  wl_softirq_begin(t_.get(), 117);
  wl_softirq_end(t_.get(), 120);
  wl_slice* second = wl_slice_begin(t_.get(), 130);
  second->pid = 2;
  EXPECT_EQ(first->theft_ns[WL_THEFT_DEVICE], 0u);
  EXPECT_EQ(second->start_ns, 130u);
  EXPECT_EQ(second->theft_ns[WL_THEFT_DEVICE], 7u);
  EXPECT_EQ(second->theft_ns[WL_THEFT_SOFTIRQ], 3u);
  EXPECT_EQ(wl_slice_current(t_.get())->pid, 2u);
}

TEST_F(Timeline, TheRingKeepsTheNewestSlices) {
  for (wl_u32 i = 1; i <= 3 * WL_SLICES; ++i) wl_slice_begin(t_.get(), i * 10)->pid = i;
  EXPECT_EQ(wl_slice_current(t_.get())->pid, 3u * WL_SLICES);
  for (wl_u32 back = 0; back < WL_SLICES; ++back) {
    EXPECT_EQ(wl_slice_at(t_.get(), t_->slices_head - 1 - back)->pid, 3u * WL_SLICES - back);
  }
}

TEST_F(Timeline, ASliceIsUncertainWhenAnotherTaskLeaves) {
  wl_slice* slice = wl_slice_begin(t_.get(), 100);
  slice->pid = 1;
  wl_slice_check(t_.get(), 1, 150);
  EXPECT_EQ(slice->uncertain, 0u);
  EXPECT_EQ(t_->unreported_ns, 0u);
  wl_slice_check(t_.get(), 2, 180);
  EXPECT_EQ(slice->uncertain, 1u);
  EXPECT_EQ(t_->unreported_ns, 180u);
  wl_slice* next = wl_slice_begin(t_.get(), 200);
  next->pid = 3;
  EXPECT_EQ(slice->uncertain, 1u) << "stays";
  EXPECT_EQ(next->uncertain, 0u);
}

TEST_F(Timeline, BeforeTheFirstSwitchThereIsNothingUncertain) {
  wl_slice_check(t_.get(), 2, 90);
  EXPECT_EQ(t_->unreported_ns, 0u);
  EXPECT_EQ(wl_slice_begin(t_.get(), 100)->uncertain, 0u);
  for (const wl_slice& slice : t_->slices) EXPECT_EQ(slice.uncertain, 0u);
}

TEST_F(Timeline, AReusedSliceIsCertainAgain) {
  wl_slice_begin(t_.get(), 1)->pid = 1;
  for (wl_u32 n = 0; n < WL_SLICES; ++n) {
    wl_slice_check(t_.get(), 999, 10 + n);
    wl_slice_begin(t_.get(), 10 + n)->pid = 2;
  }
  EXPECT_EQ(wl_slice_current(t_.get())->uncertain, 0u);
  EXPECT_EQ(wl_slice_at(t_.get(), t_->slices_head - 2)->uncertain, 1u);
}

TEST(TimelineModel, CountersAgreeWithTheTruthAtEveryMoment) {
  for (wl_u64 seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    CpuModel cpu;
    const wl_u64 begin = cpu.now();
    for (int event = 0; event < 300; ++event) {
      cpu.random_event(random, 4, 1'000);
      cpu.pass(random() % 500);
      const test::Shares truth = cpu.truth(begin, cpu.now());
      ASSERT_EQ(wl_irq_total(&cpu.timeline(), cpu.now()), irq_share(truth));
      ASSERT_EQ(wl_softirq_total(&cpu.timeline(), cpu.now()), share(truth, WL_OCC_SOFTIRQ));
    }
  }
}

}  // namespace
}  // namespace whylate
