// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "logic/blame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "cpu_model.h"

namespace whylate {
namespace {

using test::blame;
using test::CpuModel;
using test::irq_share;
using test::share;
using test::Shares;
using test::shares_of;
using test::sum_of;

TEST(Blame, AnEmptyWindowHasNobody) {
  CpuModel cpu;
  cpu.switch_to(7);
  cpu.pass(100);
  wl_window window = cpu.open_window();
  window.to = window.from;
  wl_occupants table{};
  EXPECT_EQ(blame(cpu.timeline(), window, cpu.now(), table), 0u);
  window.to = window.from - 50;
  EXPECT_EQ(blame(cpu.timeline(), window, cpu.now(), table), 0u);
  EXPECT_EQ(table.count, 0u);
}

TEST(Blame, TwoHogsAndAShortTaskAtTheEndGetTheirTrueShares) {
  CpuModel cpu;
  cpu.switch_to(11);
  cpu.pass(500);
  wl_window window = cpu.open_window();
  cpu.pass(3'000'000);
  cpu.switch_to(22);
  cpu.pass(4'000'000);
  cpu.switch_to(11);
  cpu.pass(2'000'000);
  cpu.switch_to(33);  // the last to run before the reader: not the culprit
  cpu.pass(1'500);
  cpu.switch_to(99);
  window.to = cpu.now();
  cpu.pass(10'000);
  wl_occupants table{};
  EXPECT_EQ(blame(cpu.timeline(), window, cpu.now(), table), 0u);
  const Shares shares = shares_of(table);
  EXPECT_EQ(share(shares, WL_OCC_TASK, 11), 5'000'000u);
  EXPECT_EQ(share(shares, WL_OCC_TASK, 22), 4'000'000u);
  EXPECT_EQ(share(shares, WL_OCC_TASK, 33), 1'500u);
  EXPECT_EQ(table.count, 3u) << "not the reader itself";
  for (wl_u32 i = 0; i < table.count; ++i) {
    const wl_occupant& entry = table.entries[i];
    EXPECT_EQ(std::string(entry.comm), "t" + std::to_string(entry.pid));
    EXPECT_EQ(entry.cpu, 3);
    EXPECT_EQ(entry.stage, WL_STAGE_RUN_QUEUE);
    EXPECT_EQ(entry.switches, entry.pid == 11 ? 2u : 1u);
  }
}

TEST(Blame, InterruptsAndSoftirqsAreToldApartFromTheTaskTheyHit) {
  CpuModel cpu;
  cpu.switch_to(11);
  wl_window window = cpu.open_window();
  cpu.pass(1'000);
  cpu.irq_begin();
  cpu.pass(30);
  cpu.irq_end();
  cpu.softirq_begin();
  cpu.pass(200);
  cpu.irq_begin();
  cpu.pass(20);
  cpu.irq_end();
  cpu.softirq_end();
  cpu.switch_to(0);
  cpu.pass(70);
  cpu.switch_to(99);
  window.to = cpu.now();
  wl_occupants table{};
  EXPECT_EQ(blame(cpu.timeline(), window, cpu.now(), table), 0u);
  const Shares shares = shares_of(table);
  EXPECT_EQ(share(shares, WL_OCC_TASK, 11), 1'000u);
  EXPECT_EQ(irq_share(shares), 50u);
  EXPECT_EQ(share(shares, WL_OCC_SOFTIRQ), 200u);
  EXPECT_EQ(share(shares, WL_OCC_IDLE), 70u);
}

// Windows with a snapshot that end at a switch (as a wait does): every entry is exact.
TEST(Blame, WaitsAreSplitExactly) {
  int windows = 0;
  for (wl_u64 seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    CpuModel cpu;
    cpu.switch_to(1);
    for (auto n = random() % 50; n > 0; --n) cpu.random_event(random, 6, 20'000);
    cpu.pass(random() % 3'000);
    wl_window window = cpu.open_window();
    for (auto n = random() % 150; n > 0; --n) cpu.random_event(random, 6, 20'000);
    cpu.leave_interrupts();
    cpu.switch_to(99);
    window.to = cpu.now();
    for (auto n = random() % 30; n > 0; --n) cpu.random_event(random, 6, 20'000);
    wl_occupants table{};
    ASSERT_EQ(blame(cpu.timeline(), window, cpu.now(), table), 0u);
    ASSERT_EQ(shares_of(table), cpu.truth(window.from, window.to)) << "seed " << seed;
    windows += window.to > window.from;
  }
  EXPECT_GT(windows, 350);
}

TEST(Blame, AWindowUpToNowIsSplitExactlyEvenInsideAnInterrupt) {
  for (wl_u64 seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    CpuModel cpu;
    cpu.switch_to(1);
    for (auto n = random() % 20; n > 0; --n) cpu.random_event(random, 6, 2'000);
    wl_window window = cpu.open_window();
    for (auto n = random() % 40; n > 0; --n) cpu.random_event(random, 6, 2'000);
    cpu.pass(random() % 2'000);
    window.to = cpu.now();
    wl_occupants table{};
    ASSERT_EQ(blame(cpu.timeline(), window, cpu.now(), table), 0u);
    ASSERT_EQ(shares_of(table), cpu.truth(window.from, window.to)) << "seed " << seed;
  }
}

// Any window: the sum is exact, and only the slices at its edges may be split by a share.
TEST(Blame, AnyWindowIsTiled) {
  for (wl_u64 seed = 1; seed <= 1'000; ++seed) {
    std::mt19937_64 random(seed);
    CpuModel cpu;
    cpu.switch_to(1);
    const wl_u64 begin = cpu.now();
    for (auto n = 1 + random() % 200; n > 0; --n) cpu.random_event(random, 6, 20'000);
    wl_window window{};
    const wl_u64 length = cpu.now() - begin + 1;
    const wl_u64 a = begin + random() % length;
    const wl_u64 b = begin + random() % length;
    window.from = std::min(a, b);
    window.to = std::max(a, b);
    wl_occupants table{};
    ASSERT_EQ(blame(cpu.timeline(), window, cpu.now(), table), 0u);
    ASSERT_EQ(sum_of(table), window.to - window.from) << "seed " << seed;
    const Shares truth = cpu.truth(window.from, window.to);
    for (const auto& [holder, ns] : shares_of(table)) {
      if (holder.first != WL_OCC_TASK && holder.first != WL_OCC_IDLE) continue;
      // A task cannot get more than it held plus the interrupts that hit it.
      ASSERT_LE(ns, share(truth, holder.first, holder.second) + irq_share(truth) +
                        share(truth, WL_OCC_SOFTIRQ));
    }
  }
}

TEST(Blame, PartOfASliceGetsItsShareOfTheInterrupts) {
  CpuModel cpu;
  cpu.switch_to(11);
  const wl_u64 begin = cpu.now();
  for (int n = 0; n < 1'000; ++n) {
    cpu.pass(9'000);
    cpu.irq_begin();
    cpu.pass(1'000);
    cpu.irq_end();
  }
  wl_window window{};
  window.from = begin + 2'000'000;
  window.to = begin + 6'000'000;
  wl_occupants table{};
  blame(cpu.timeline(), window, cpu.now(), table);
  const Shares shares = shares_of(table);
  EXPECT_EQ(sum_of(table), 4'000'000u);
  EXPECT_NEAR(static_cast<double>(irq_share(shares)), 400'000, 10'000);
}

TEST(Blame, BeforeTheRingTheRestIsNotNamedButSplitByKind) {
  for (wl_u64 seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    CpuModel cpu;
    cpu.switch_to(1);
    cpu.pass(1'000);
    wl_window window = cpu.open_window();
    for (int n = 0; n < 3'000; ++n) cpu.random_event(random, 5, 2'000);
    cpu.leave_interrupts();
    cpu.switch_to(99);
    window.to = cpu.now();
    wl_occupants table{};
    const wl_u64 left = blame(cpu.timeline(), window, cpu.now(), table);
    EXPECT_GT(left, 0u);
    ASSERT_EQ(sum_of(table), window.to - window.from);
    const Shares shares = shares_of(table);
    const Shares truth = cpu.truth(window.from, window.to);
    EXPECT_EQ(irq_share(shares), irq_share(truth));
    EXPECT_EQ(share(shares, WL_OCC_SOFTIRQ), share(truth, WL_OCC_SOFTIRQ));
    EXPECT_GT(share(shares, WL_OCC_UNKNOWN), 0u);
    EXPECT_LE(share(shares, WL_OCC_UNKNOWN), left);
    for (wl_u32 pid = 1; pid < 5; ++pid) {
      EXPECT_LE(share(shares, WL_OCC_TASK, pid), share(truth, WL_OCC_TASK, pid));
    }
  }
}

TEST(Blame, ASliceWithALostSwitchIsNobodys) {
  CpuModel cpu;
  cpu.switch_to(11);
  wl_window window = cpu.open_window();
  cpu.pass(1'000);
  cpu.irq_begin();
  cpu.pass(30);
  cpu.irq_end();
  cpu.switch_unreported(22);
  cpu.pass(500);
  cpu.switch_to(33);
  cpu.pass(200);
  cpu.switch_to(99);
  window.to = cpu.now();
  wl_occupants table{};
  EXPECT_EQ(blame(cpu.timeline(), window, cpu.now(), table), 0u);
  const Shares shares = shares_of(table);
  EXPECT_EQ(share(shares, WL_OCC_UNKNOWN), 1'500u);
  EXPECT_EQ(irq_share(shares), 30u);
  EXPECT_EQ(share(shares, WL_OCC_TASK, 33), 200u);
  EXPECT_EQ(share(shares, WL_OCC_TASK, 11), 0u);
  EXPECT_EQ(share(shares, WL_OCC_TASK, 22), 0u);
  EXPECT_EQ(sum_of(table), window.to - window.from);
}

// Some switches are not reported: nobody gets more than is true, and nothing is left out.
TEST(Blame, LostSwitchesLeaveTheSplitExact) {
  int uncertain = 0;
  for (wl_u64 seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    CpuModel cpu;
    cpu.switch_to(1);
    wl_window window = cpu.open_window();
    for (auto n = random() % 100; n > 0; --n) {
      cpu.random_event(random, 6, 20'000);
      if (cpu.in_interrupt() || random() % 10 != 0) continue;
      cpu.pass(1 + random() % 5'000);
      cpu.switch_unreported(50);
      cpu.pass(1 + random() % 5'000);
      cpu.switch_to(static_cast<wl_u32>(random() % 6));
    }
    cpu.leave_interrupts();
    cpu.switch_to(99);
    window.to = cpu.now();
    wl_occupants table{};
    ASSERT_EQ(blame(cpu.timeline(), window, cpu.now(), table), 0u);
    ASSERT_EQ(sum_of(table), window.to - window.from) << "seed " << seed;
    const Shares shares = shares_of(table);
    const Shares truth = cpu.truth(window.from, window.to);
    EXPECT_EQ(irq_share(shares), irq_share(truth)) << "seed " << seed;
    EXPECT_EQ(share(shares, WL_OCC_SOFTIRQ), share(truth, WL_OCC_SOFTIRQ)) << "seed " << seed;
    EXPECT_EQ(share(shares, WL_OCC_TASK, 50), 0u) << "was never reported";
    EXPECT_GE(share(shares, WL_OCC_UNKNOWN), share(truth, WL_OCC_TASK, 50));
    EXPECT_LE(share(shares, WL_OCC_IDLE), share(truth, WL_OCC_IDLE));
    for (wl_u32 pid = 1; pid < 6; ++pid) {
      EXPECT_LE(share(shares, WL_OCC_TASK, pid), share(truth, WL_OCC_TASK, pid)) << "seed " << seed;
    }
    uncertain += share(shares, WL_OCC_UNKNOWN) > 0;
  }
  EXPECT_GT(uncertain, 100);
}

TEST(Blame, WithoutASnapshotTheRestBeforeTheRingIsNotNamed) {
  CpuModel cpu;
  cpu.pass(1'000);
  wl_window window = cpu.open_window(false);
  cpu.pass(5'000);  // before the first switch that was seen
  cpu.irq_begin();
  cpu.pass(100);
  cpu.irq_end();
  cpu.switch_to(7);
  cpu.pass(2'000);
  cpu.switch_to(99);
  window.to = cpu.now();
  wl_occupants table{};
  EXPECT_EQ(blame(cpu.timeline(), window, cpu.now(), table), 5'100u);
  const Shares shares = shares_of(table);
  EXPECT_EQ(share(shares, WL_OCC_UNKNOWN), 5'100u);
  EXPECT_EQ(share(shares, WL_OCC_TASK, 7), 2'000u);
  EXPECT_EQ(sum_of(table), window.to - window.from);
}

TEST(Blame, NothingIsKnownOfACpuWithoutSlices) {
  CpuModel cpu;
  wl_window window = cpu.open_window();
  cpu.pass(700);
  cpu.irq_begin();
  cpu.pass(300);
  cpu.irq_end();
  window.to = cpu.now();
  wl_occupants table{};
  EXPECT_EQ(blame(cpu.timeline(), window, cpu.now(), table), 1'000u);
  EXPECT_EQ(sum_of(table), 1'000u);
  EXPECT_EQ(irq_share(shares_of(table)), 300u);
  EXPECT_EQ(share(shares_of(table), WL_OCC_UNKNOWN), 700u);
}

// The exit of an interrupt was missed, so a snapshot is ahead of the counters after it.
TEST(Blame, ASnapshotAheadOfTheCountersIsNoNegativeTime) {
  CpuModel cpu;
  cpu.switch_to(11);
  cpu.pass(100);
  wl_irq_begin(&cpu.timeline(), cpu.now(), WL_THEFT_DEVICE);
  cpu.pass(5'000);
  wl_window window = cpu.open_window();
  cpu.pass(1'000);
  cpu.switch_to(22);
  cpu.pass(1'000);
  cpu.switch_to(99);
  window.to = cpu.now();
  wl_occupants table{};
  blame(cpu.timeline(), window, cpu.now(), table);
  EXPECT_EQ(sum_of(table), 2'000u);
  EXPECT_EQ(share(shares_of(table), WL_OCC_TASK, 22), 1'000u);
  EXPECT_EQ(irq_share(shares_of(table)), 0u);
}

TEST(Blame, AShareIsExactForShortSlicesAndCloseForLongOnes) {
  std::mt19937_64 random(3);  // NOLINT(cert-msc51-cpp)
  for (int round = 0; round < 100'000; ++round) {
    const wl_u64 whole = 1 + (random() >> (11 + random() % 53));
    const wl_u64 part = random() % (whole + 1);
    const wl_u64 of = random() % (whole + 1);
    const wl_u64 got = wl_share(part, of, whole);
    ASSERT_LE(got, of);
    if (whole < wl_u64{1} << 32) {
      ASSERT_EQ(got, part * of / whole);
    } else {
      const double exact =
          static_cast<double>(part) / static_cast<double>(whole) * static_cast<double>(of);
      ASSERT_NEAR(static_cast<double>(got), exact, static_cast<double>(whole) / 1e9)
          << part << " " << of << " " << whole;
    }
  }
  EXPECT_EQ(wl_share(5, 5, 0), 0u);
  EXPECT_EQ(wl_share(9, 4, 8), 4u) << "a part above the whole";
}

// Each kind of interrupt is an occupant of its own, and none of it is the task that it hit.
TEST(Blame, InterruptsAreNamedAsWhatTheyAre) {
  CpuModel cpu;
  cpu.switch_to(11);
  wl_window window = cpu.open_window();
  cpu.pass(1'000);
  const std::pair<wl_u32, wl_u64> thefts[] = {
      {WL_THEFT_DEVICE, 40}, {WL_THEFT_TIMER, 700}, {WL_THEFT_IPI, 30}, {WL_THEFT_IRQ_WORK, 2}};
  for (const auto& [kind, ns] : thefts) {
    cpu.irq_begin(kind);
    cpu.pass(ns);
    cpu.irq_end();
    cpu.pass(10);
  }
  cpu.irq_begin(WL_THEFT_TIMER);
  cpu.pass(5);
  cpu.irq_begin(WL_THEFT_IPI);  // inside: counts as the timer
  cpu.pass(3);
  cpu.irq_end();
  cpu.irq_end();
  cpu.switch_to(99);
  window.to = cpu.now();
  wl_occupants table{};
  EXPECT_EQ(blame(cpu.timeline(), window, cpu.now(), table), 0u);
  const Shares shares = shares_of(table);
  EXPECT_EQ(share(shares, WL_OCC_TASK, 11), 1'040u);
  EXPECT_EQ(share(shares, WL_OCC_IRQ), 40u);
  EXPECT_EQ(share(shares, WL_OCC_TIMER), 708u);
  EXPECT_EQ(share(shares, WL_OCC_IPI), 30u);
  EXPECT_EQ(share(shares, WL_OCC_IRQ_WORK), 2u);
}

}  // namespace
}  // namespace whylate
