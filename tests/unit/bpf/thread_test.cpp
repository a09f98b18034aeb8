// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "logic/thread.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "cpu_model.h"

namespace whylate {
namespace {

class Thread : public testing::Test {
 protected:
  Thread() : cpus_(std::make_unique<wl_timeline[]>(2)) {}

  void in(wl_u64 now, wl_u32 cpu = 0, wl_u64 throttled_ns = 0) {
    wl_thread_in(&t_, &cpus_[cpu], cpu, now, throttled_ns);
  }
  void out(wl_u64 now, bool runnable, wl_u32 cpu = 0) {
    wl_thread_out(&t_, &cpus_[cpu], cpu, now, runnable);
  }
  int heal(wl_u64 now, wl_u32 cpu = 0) { return wl_thread_heal(&t_, &cpus_[cpu], cpu, now); }
  int waking(wl_u64 now) { return wl_thread_waking(&t_, now); }
  void wakeup(wl_u64 now, wl_u32 cpu = 0, bool idle = false, wl_s8 state = -1,
              bool budget_out = false) {
    wl_thread_wakeup(&t_, &cpus_[cpu], cpu, now, idle, state, budget_out);
  }
  wl_thread_time at(wl_u64 now, wl_u32 cpu = 0) const {
    wl_thread_time time{};
    wl_thread_time_at(&t_, &cpus_[cpu], now, &time);
    return time;
  }
  void irq(wl_u64 begin, wl_u64 end, wl_u32 cpu = 0) {
    wl_irq_begin(&cpus_[cpu], begin, WL_THEFT_DEVICE);
    wl_irq_end(&cpus_[cpu], end);
  }
  const wl_wait& last_wait() { return *wl_wait_last(&t_); }

  std::unique_ptr<wl_timeline[]> cpus_;
  wl_thread t_{};
};

TEST_F(Thread, SleepsIsWokenWaitsAndRuns) {
  in(100);
  out(200, false);
  EXPECT_EQ(t_.state, WL_T_SLEEPING);
  EXPECT_EQ(t_.since_ns, 200u);
  EXPECT_EQ(at(250).blocked_ns, 50u);
  EXPECT_EQ(waking(300), 1);
  EXPECT_EQ(t_.state, WL_T_WAKING);
  EXPECT_EQ(t_.since_ns, 300u);
  EXPECT_EQ(at(310).blocked_ns, 100u);
  EXPECT_EQ(at(310).run_queue_ns, 10u);
  wakeup(320);
  EXPECT_EQ(t_.state, WL_T_RUNNABLE);
  EXPECT_EQ(at(340).run_queue_ns, 40u);
  in(350);
  EXPECT_EQ(t_.state, WL_T_RUNNING);
  EXPECT_EQ(at(400).run_queue_ns, 50u);
  EXPECT_EQ(at(400).blocked_ns, 100u);
  EXPECT_EQ(t_.nr_waits, 1u);
  EXPECT_EQ(last_wait().kind, WL_WAIT_WAKE);
  EXPECT_EQ(last_wait().start_ns, 300u);
  EXPECT_EQ(last_wait().wakeup_ns, 320u);
  EXPECT_EQ(last_wait().in_ns, 350u);
  EXPECT_EQ(last_wait().idle_end_ns, 0u);
  EXPECT_EQ(last_wait().nr_parts, 1u);
  EXPECT_EQ(last_wait().parts[0].from, 320u);
}

TEST_F(Thread, IsPreempted) {
  in(100);
  irq(120, 130);
  out(200, true, 0);
  EXPECT_EQ(t_.state, WL_T_RUNNABLE);
  EXPECT_EQ(waking(205), 0) << "does not sleep";
  EXPECT_EQ(at(210).run_queue_ns, 10u);
  in(260);
  EXPECT_EQ(at(300).run_queue_ns, 60u);
  EXPECT_EQ(at(300).blocked_ns, 0u);
  EXPECT_EQ(last_wait().kind, WL_WAIT_PREEMPTED);
  EXPECT_EQ(last_wait().start_ns, 200u);
  EXPECT_EQ(last_wait().wakeup_ns, 200u);
  EXPECT_EQ(last_wait().parts[0].theft_ns[WL_THEFT_DEVICE], 10u);
}

TEST_F(Thread, AMigrationWhileRunnableCutsTheWait) {
  irq(10, 15, 1);
  in(100);
  out(200, true);
  wl_thread_migrate(&t_, &cpus_[1], 1, 230);
  EXPECT_EQ(t_.cpu, 1u);
  in(300, 1);
  EXPECT_EQ(last_wait().nr_parts, 2u);
  EXPECT_EQ(last_wait().parts[0].cpu, 0u);
  EXPECT_EQ(last_wait().parts[0].from, 200u);
  EXPECT_EQ(last_wait().parts[1].cpu, 1u);
  EXPECT_EQ(last_wait().parts[1].from, 230u);
  EXPECT_EQ(last_wait().parts[1].theft_ns[WL_THEFT_DEVICE], 5u);
  EXPECT_EQ(at(300, 1).run_queue_ns, 100u);
}

TEST_F(Thread, MoreMigrationsThanAreFollowedAreCounted) {
  in(100);
  out(200, true);
  for (wl_u32 n = 1; n <= 9; ++n) wl_thread_migrate(&t_, &cpus_[n % 2], n % 2, 200 + n);
  in(300, 1);
  EXPECT_EQ(last_wait().nr_parts, 10u);
  EXPECT_EQ(last_wait().parts[WL_WAIT_CPUS - 1].from, 202u);
  EXPECT_EQ(at(300, 1).run_queue_ns, 100u);
}

TEST_F(Thread, AMigrationOfASleeperOrBetweenWakingAndWakeupIsNoPart) {
  in(100);
  out(200, false);
  wl_thread_migrate(&t_, &cpus_[1], 1, 210);
  EXPECT_EQ(t_.cpu, 0u);
  waking(220);
  wl_thread_migrate(&t_, &cpus_[1], 1, 225);
  EXPECT_EQ(last_wait().nr_parts, 0u);
  wakeup(230, 1);
  EXPECT_EQ(last_wait().nr_parts, 1u);
  EXPECT_EQ(last_wait().parts[0].cpu, 1u);
}

TEST_F(Thread, AMissedWakeCountsAsSleep) {
  in(100);
  out(200, false);
  in(300);
  EXPECT_EQ(at(300).blocked_ns, 100u);
  EXPECT_EQ(at(300).run_queue_ns, 0u);
  EXPECT_EQ(t_.nr_waits, 0u);
}

TEST_F(Thread, AMissedWakeupIsStillAWait) {
  in(100);
  out(200, false);
  waking(250);
  in(300);
  EXPECT_EQ(at(300).run_queue_ns, 50u);
  EXPECT_EQ(at(300).blocked_ns, 50u);
  EXPECT_EQ(last_wait().nr_parts, 0u);
  EXPECT_EQ(last_wait().in_ns, 300u);
}

TEST_F(Thread, AWakeupWithoutWakingAndARepeatedOneAreIgnored) {
  in(100);
  wakeup(150);
  EXPECT_EQ(t_.state, WL_T_RUNNING);
  out(200, false);
  waking(210);
  wakeup(220);
  wakeup(230, 1);
  EXPECT_EQ(last_wait().wakeup_ns, 220u);
  EXPECT_EQ(last_wait().nr_parts, 1u);
  EXPECT_EQ(waking(240), 0);
  EXPECT_EQ(t_.nr_waits, 1u);
}

// sched_waking can come between the last check for work and the switch, on another CPU.
TEST_F(Thread, WokenOnItsWayOffTheCpu) {
  in(100);
  EXPECT_EQ(waking(195), 0);
  out(200, false);
  EXPECT_EQ(t_.state, WL_T_WAKING);
  wakeup(210);
  in(260);
  EXPECT_EQ(at(260).run_queue_ns, 60u);
  EXPECT_EQ(at(260).blocked_ns, 0u);
  EXPECT_EQ(last_wait().kind, WL_WAIT_WAKE);
  EXPECT_EQ(last_wait().start_ns, 200u);
  EXPECT_EQ(last_wait().wakeup_ns, 210u);
  out(300, false);
  EXPECT_EQ(t_.state, WL_T_SLEEPING) << "only once";
}

TEST_F(Thread, WokenBeforeItGaveUpTheCpuDoesNotShortenTheNextSleep) {
  in(100);
  EXPECT_EQ(waking(150), 0);
  wakeup(151);
  out(200, false);
  EXPECT_EQ(t_.state, WL_T_SLEEPING);
  EXPECT_EQ(at(250).blocked_ns, 50u);
}

TEST_F(Thread, ANewThreadsFirstWaitIsKnownFromItsWake) {
  EXPECT_EQ(t_.state, WL_T_UNKNOWN);
  EXPECT_EQ(waking(100), 1);
  wakeup(110);
  in(150);
  const wl_thread_time time = at(200);
  EXPECT_EQ(time.run_queue_ns, 50u);
  EXPECT_EQ(time.blocked_ns, 0u) << "nothing is known of the time before";
}

TEST_F(Thread, OfAnUnknownStateNothingIsClaimed) {
  const wl_thread_time time = at(1'000'000);
  EXPECT_EQ(time.run_queue_ns + time.throttled_ns + time.blocked_ns + test::theft_of(time), 0u);
  in(1'000'000);
  const wl_thread_time later = at(2'000'000);
  EXPECT_EQ(later.run_queue_ns + later.throttled_ns + later.blocked_ns + test::theft_of(later), 0u);
}

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

TEST_F(Thread, InterruptsAreTakenFromItOnlyWhileItRuns) {
  irq(50, 60);
  in(100);
  irq(110, 115);
  EXPECT_EQ(test::theft_of(at(120)), 5u);
  wl_softirq_begin(cpus_.get(), 120);
  EXPECT_EQ(test::theft_of(at(127)), 12u) << "the one that runs counts";
  wl_softirq_end(cpus_.get(), 130);
  out(200, false);
  irq(210, 250);
  EXPECT_EQ(test::theft_of(at(260)), 15u);
  waking(260);
  wakeup(265);
  irq(270, 280);
  EXPECT_EQ(test::theft_of(at(290)), 15u);
  in(300, 1);
  irq(310, 312, 1);
  irq(310, 390, 0);
  EXPECT_EQ(test::theft_of(at(400, 1)), 17u) << "of its own CPU only";
  out(400, true, 1);
  EXPECT_EQ(test::theft_of(at(500, 1)), 17u);
}

TEST_F(Thread, ClocksOfTwoCpusMayDisagree) {
  in(100);
  out(200, false);
  EXPECT_EQ(at(190).blocked_ns, 0u);
  waking(195);
  EXPECT_EQ(at(195).blocked_ns, 0u);
  in(190);
  EXPECT_EQ(at(190).run_queue_ns, 0u);
  EXPECT_EQ(at(190).throttled_ns, 0u);
}

TEST_F(Thread, KeepsItsLastWaits) {
  in(1);
  for (wl_u64 n = 1; n <= 20; ++n) {
    out(n * 100, true);
    in(n * 100 + 10 + n);
  }
  EXPECT_EQ(t_.nr_waits, 20u);
  for (wl_u32 back = 1; back <= WL_WAITS; ++back) {
    const wl_wait& wait = t_.waits[(t_.nr_waits - back) & (WL_WAITS - 1)];
    EXPECT_EQ(wait.start_ns, (21u - back) * 100);
    EXPECT_EQ(wait.in_ns, (21u - back) * 100 + 10 + 21 - back);
  }
}

TEST_F(Thread, ThatRunsThoughPreemptedIsHealed) {
  in(100);
  out(200, true);
  irq(210, 220);
  EXPECT_EQ(heal(300, 1), 1);
  EXPECT_EQ(t_.state, WL_T_RUNNING);
  EXPECT_EQ(t_.healed_ns, 300u);
  EXPECT_EQ(t_.cpu, 1u);
  EXPECT_EQ(last_wait().in_ns, 300u) << "the wait is closed";
  EXPECT_EQ(at(400, 1).run_queue_ns, 100u);
  EXPECT_EQ(test::theft_of(at(400, 1)), 0u);
  EXPECT_EQ(heal(500, 1), 0) << "no news";
  EXPECT_EQ(t_.healed_ns, 300u);
}

TEST_F(Thread, ThatRunsThoughWakingIsHealed) {
  in(100);
  out(200, false);
  waking(250);
  EXPECT_EQ(heal(300), 1);
  EXPECT_EQ(t_.state, WL_T_RUNNING);
  EXPECT_EQ(t_.healed_ns, 300u);
  EXPECT_EQ(t_.nr_waits, 1u);
  EXPECT_EQ(last_wait().in_ns, 300u);
  EXPECT_EQ(at(400).blocked_ns, 50u);
  EXPECT_EQ(at(400).run_queue_ns, 50u);
}

TEST_F(Thread, ThatRunsThoughAsleepIsHealed) {
  in(100);
  out(200, false);
  EXPECT_EQ(heal(300), 1);
  EXPECT_EQ(t_.state, WL_T_RUNNING);
  EXPECT_EQ(t_.healed_ns, 300u);
  EXPECT_EQ(t_.nr_waits, 0u) << "there was none";
  EXPECT_EQ(at(400).blocked_ns, 100u);
  EXPECT_EQ(at(400).run_queue_ns, 0u);
}

TEST_F(Thread, ThatIsSeenForTheFirstTimeHasLostNothing) {
  EXPECT_EQ(heal(300), 0);
  EXPECT_EQ(t_.state, WL_T_RUNNING);
  EXPECT_EQ(t_.healed_ns, 0u);
  const wl_thread_time time = at(400);
  EXPECT_EQ(time.run_queue_ns + time.throttled_ns + time.blocked_ns + test::theft_of(time), 0u);
}

TEST_F(Thread, GoesOffTheCpuWithoutHavingComeOn) {
  in(100);
  out(200, true);
  irq(210, 220);  // before anybody knew that it ran
  out(300, false);
  EXPECT_EQ(t_.healed_ns, 300u);
  EXPECT_EQ(t_.state, WL_T_SLEEPING);
  EXPECT_EQ(t_.nr_waits, 1u);
  EXPECT_EQ(last_wait().in_ns, 300u);
  EXPECT_EQ(at(350).run_queue_ns, 100u);
  EXPECT_EQ(at(350).blocked_ns, 50u);
  EXPECT_EQ(test::theft_of(at(350)), 0u);
  out(400, true);
  EXPECT_EQ(t_.healed_ns, 400u);
  EXPECT_EQ(t_.state, WL_T_RUNNABLE);
  EXPECT_EQ(t_.nr_waits, 2u);
  EXPECT_EQ(last_wait().start_ns, 400u);
  EXPECT_EQ(last_wait().in_ns, 0u);
  EXPECT_EQ(at(450).blocked_ns, 100u);
  EXPECT_EQ(at(450).run_queue_ns, 150u);
}

TEST_F(Thread, ComesOnTheCpuWithoutHavingGoneOff) {
  in(100);
  EXPECT_EQ(t_.healed_ns, 0u);
  in(300, 1);
  EXPECT_EQ(t_.healed_ns, 300u);
  EXPECT_EQ(t_.state, WL_T_RUNNING);
  EXPECT_EQ(t_.cpu, 1u);
  EXPECT_EQ(t_.since_ns, 300u);
  EXPECT_EQ(at(400, 1).run_queue_ns + at(400, 1).blocked_ns, 0u) << "nobody said since when";
}

// A softirq on top of a task whose events are not reported queues and wakes unseen: the thread
// comes on without having been woken.
TEST_F(Thread, ReadsWhatCameUnreportedUntilSomethingLaterIsRead) {
  in(100);
  EXPECT_FALSE(wl_thread_unreported(&t_, 0));
  out(200, false);
  in(300);  // nobody woke it
  EXPECT_TRUE(wl_thread_unreported(&t_, 0));
  EXPECT_FALSE(wl_thread_unreported(&t_, 250)) << "known, and queued among them";
  EXPECT_TRUE(wl_thread_unreported(&t_, 0)) << "still read from the same queue";
  EXPECT_FALSE(wl_thread_unreported(&t_, 310)) << "came after all that was not reported";
  EXPECT_FALSE(wl_thread_unreported(&t_, 0));
}

TEST_F(Thread, ReadsWhatCameUnreportedAfterAHealing) {
  in(100);
  out(200, true);
  EXPECT_EQ(heal(300), 1);
  EXPECT_TRUE(wl_thread_unreported(&t_, 0));
  EXPECT_FALSE(wl_thread_unreported(&t_, 301));
  in(400);  // it was off the CPU, and nobody said so
  EXPECT_TRUE(wl_thread_unreported(&t_, 0));
}

TEST_F(Thread, ReadsWhatCameUnreportedWhileItWaited) {
  wl_slice_begin(&cpus_[0], 90)->pid = 7;
  in(100);
  out(200, false);
  waking(250);
  wakeup(260);
  wl_slice_check(&cpus_[0], 7, 240);  // as it should be
  in(300);
  EXPECT_FALSE(wl_thread_unreported(&t_, 0));
  out(400, false);
  waking(450);
  wakeup(460);
  wl_slice_check(&cpus_[0], 8, 480);  // number 7 has left without a report
  in(500);
  EXPECT_EQ(t_.healed_ns, 0u) << "its own time is known";
  EXPECT_TRUE(wl_thread_unreported(&t_, 0));
  EXPECT_FALSE(wl_thread_unreported(&t_, 520));
  out(600, false);
  waking(650);
  in(700);
  EXPECT_FALSE(wl_thread_unreported(&t_, 0)) << "that was before this wait";
}

TEST_F(Thread, WhoseSwitchesAreAllReportedIsNeverHealed) {
  in(100);
  out(200, true);
  in(300);
  out(400, false);
  waking(500);
  wakeup(510);
  EXPECT_EQ(t_.healed_ns, 0u);
  in(600);
  EXPECT_EQ(heal(650), 0);
  out(700, false);
  EXPECT_EQ(t_.healed_ns, 0u);
}

// Random lives: the counters tile the time, at every moment, and never run backwards.
TEST_F(Thread, TheCountersTileTheTime) {
  for (wl_u64 seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    t_ = {};
    wl_u64 now = 1'000;
    in(now);
    const wl_u64 begin = now;
    wl_u64 running = 0;
    wl_u64 off_cpu_before = 0;
    for (int step = 0; step < 300; ++step) {
      const wl_u64 passed = random() % 1'000;
      now += passed;
      if (t_.state == WL_T_RUNNING) running += passed;
      switch (t_.state) {
        case WL_T_RUNNING:
          out(now, random() % 2, t_.cpu);
          break;
        case WL_T_SLEEPING:
          if (random() % 10 == 0) {
            in(now, random() % 2, random() % 500);
          } else {
            waking(now);
          }
          break;
        case WL_T_WAKING:
          if (random() % 10 == 0) {
            in(now, random() % 2, random() % 500);
          } else {
            wakeup(now, random() % 2, random() % 2, 1);
          }
          break;
        default: {
          const wl_u32 cpu = random() % 2;
          if (random() % 3 == 0) {
            wl_thread_migrate(&t_, &cpus_[cpu], cpu, now);
          } else {
            cpus_[cpu].idle_left_ns = now - random() % 100;
            in(now, cpu, random() % 3 ? 0 : random() % 2'000);
          }
        }
      }
      const wl_u64 ahead = random() % 300;
      const wl_thread_time time = at(now + ahead, t_.cpu);
      const wl_u64 off_cpu = time.run_queue_ns + time.throttled_ns + time.blocked_ns;
      const wl_u64 on_cpu = running + (t_.state == WL_T_RUNNING ? ahead : 0);
      ASSERT_EQ(off_cpu + on_cpu, now + ahead - begin) << "seed " << seed << " step " << step;
      const wl_thread_time present = at(now, t_.cpu);
      const wl_u64 sum = present.run_queue_ns + present.throttled_ns + present.blocked_ns;
      ASSERT_GE(sum, off_cpu_before);
      off_cpu_before = sum;
    }
  }
}

}  // namespace
}  // namespace whylate
