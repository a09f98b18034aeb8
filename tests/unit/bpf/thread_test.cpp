// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>

#include <random>

#include "thread_model.h"

namespace whylate {
namespace {

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
