// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Stops by a signal, a debugger or a freezer: which of a thread's sleeps were one, and what of a
// window.
#include "thread_model.h"

namespace whylate {
namespace {

class Stop : public Thread {
 protected:
  wl_stopped stopped(wl_u64 from, wl_u64 to) const {
    wl_stopped out{};
    wl_thread_stopped(&t_, from, to, &out);
    return out;
  }
  void stop(wl_u64 from, wl_u64 to, wl_u8 kind = WL_STOP_SIGNAL) {
    out(from, false, 0, kind);
    waking(to, kind);
    wakeup(to);
    in(to);
  }
  void sleep(wl_u64 from, wl_u64 to) { stop(from, to, WL_STOP_NONE); }
};

TEST_F(Stop, OverlapWithAWindow) {
  in(100);
  sleep(200, 1'000);
  stop(2'000, 5'000);
  EXPECT_EQ(stopped(0, 10'000).ns, 3'000u);
  EXPECT_EQ(stopped(3'000, 10'000).ns, 2'000u);
  EXPECT_EQ(stopped(0, 2'500).ns, 500u);
  EXPECT_EQ(stopped(3'000, 4'000).ns, 1'000u);
  EXPECT_EQ(stopped(3'000, 4'000).kind, WL_STOP_SIGNAL);
  EXPECT_EQ(stopped(0, 2'000).ns, 0u);
  EXPECT_EQ(stopped(5'000, 9'000).ns, 0u);
  EXPECT_EQ(stopped(5'000, 9'000).kind, WL_STOP_NONE);
  EXPECT_EQ(t_.stop_end_ns, 5'000u);
}

TEST_F(Stop, IsASleepLikeAnyOther) {
  in(100);
  const wl_thread_time before = at(100);
  stop(2'000, 5'000);
  EXPECT_EQ(at(5'000).blocked_ns - before.blocked_ns, 3'000u);
}

TEST_F(Stop, ThePresentOneCounts) {
  in(100);
  out(2'000, false, 0, WL_STOP_TRACER);
  EXPECT_EQ(stopped(1'000, 3'000).ns, 1'000u);
  EXPECT_EQ(stopped(1'000, 3'000).kind, WL_STOP_TRACER);
  EXPECT_EQ(stopped(1'000, 2'000).ns, 0u);
  waking(4'000, WL_STOP_TRACER);
  EXPECT_EQ(stopped(1'000, 9'000).ns, 2'000u);
}

TEST_F(Stop, KindIsThatOfTheLongest) {
  in(100);
  stop(1'000'000, 1'200'000, WL_STOP_TRACER);
  stop(2'000'000, 3'000'000, WL_STOP_FREEZER);
  stop(4'000'000, 4'100'000, WL_STOP_TRACER);
  EXPECT_EQ(stopped(0, 9'000'000).ns, 1'300'000u);
  EXPECT_EQ(stopped(0, 9'000'000).kind, WL_STOP_FREEZER);
}

TEST_F(Stop, FrozenInASleepThatHadBegunBefore) {
  in(100);
  out(2'000, false);
  waking(9'000, WL_STOP_FREEZER);
  // Whoever waits for it since 5'000 waited for the freezer: nothing else kept it from waking.
  EXPECT_EQ(stopped(5'000, 10'000).ns, 4'000u);
  EXPECT_EQ(stopped(5'000, 10'000).kind, WL_STOP_FROZEN_ASLEEP);
}

TEST_F(Stop, StoppedSinceBeforeItWasKnown) {
  waking(9'000, WL_STOP_SIGNAL);
  EXPECT_EQ(stopped(5'000, 10'000).ns, 4'000u);
  EXPECT_EQ(stopped(5'000, 10'000).kind, WL_STOP_SIGNAL);
}

TEST_F(Stop, ALostWakeEndsIt) {
  in(100);
  out(2'000, false, 0, WL_STOP_SIGNAL);
  in(6'000);
  EXPECT_EQ(stopped(0, 9'000).ns, 4'000u);
  sleep(10'000, 20'000);
  EXPECT_EQ(stopped(0, 30'000).ns, 4'000u);
}

TEST_F(Stop, WokenWhileStillOnItsWayOffTheCpu) {
  in(100);
  waking(150, WL_STOP_NONE);
  out(200, false, 0, WL_STOP_SIGNAL);
  in(300);
  EXPECT_EQ(stopped(0, 1'000).ns, 0u);
  out(400, true);
  in(500);
  sleep(600, 700);
  EXPECT_EQ(stopped(0, 1'000).ns, 0u);
}

// Under strace there are several for every system call.
TEST_F(Stop, ShortStopsInARowShareAnEntry) {
  in(100);
  const wl_u64 first = 1'000'000;
  for (wl_u64 i = 0; i < 100; ++i) stop(first + i * 50'000, first + i * 50'000 + 30'000);
  const wl_u64 end = first + 100 * 50'000;
  EXPECT_EQ(stopped(0, end).ns, 100u * 30'000);
  EXPECT_EQ(t_.nr_stops, 1u);
  // Where in the entry they were is not known: at least what cannot be outside the window.
  const wl_u64 half = stopped(0, first + (end - first) / 2).ns;
  EXPECT_LE(half, 50u * 30'000);
  EXPECT_GT(half, 0u);
}

TEST_F(Stop, AWindowOlderThanTheLastStopsGetsAtLeastThose) {
  in(100);
  for (wl_u64 i = 1; i <= 20; ++i) stop(i * 100'000'000, i * 100'000'000 + 1'000'000);
  EXPECT_EQ(stopped(0, 10'000'000'000).ns, WL_STOPS * 1'000'000u);
  EXPECT_EQ(stopped(2'000'000'000, 10'000'000'000).ns, 1'000'000u);
}

// Whatever the order of events: never more than the window, and never more than it slept.
TEST_F(Stop, NeverMoreThanTheWindowNorTheSleeps) {
  unsigned seed = 1;
  const auto random = [&seed](unsigned below) {
    seed = seed * 1'103'515'245 + 12'345;
    return (seed >> 8) % below;
  };
  wl_u64 now = 1'000;
  for (int i = 0; i < 20'000; ++i) {
    now += random(3'000'000);
    const wl_u8 kind = static_cast<wl_u8>(random(5));
    switch (random(4)) {
      case 0:
        out(now, random(3) == 0, 0, kind);
        break;
      case 1:
        waking(now, kind);
        break;
      case 2:
        wakeup(now);
        break;
      default:
        in(now);
    }
    const wl_u64 from = now > 5'000'000 ? now - random(5'000'000) : 0;
    const wl_u64 to = from + random(5'000'000);
    ASSERT_LE(stopped(from, to).ns, to - from);
  }
}

}  // namespace
}  // namespace whylate
