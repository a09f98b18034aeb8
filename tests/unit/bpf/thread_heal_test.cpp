// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Switches and wake-ups that were not reported.
#include <gtest/gtest.h>

#include "thread_model.h"

namespace whylate {
namespace {

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

}  // namespace
}  // namespace whylate
