// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>

#include <random>

#include "cpu_model.h"
#include "logic/blame.h"

namespace whylate {
namespace {

using test::blame;
using test::share;
using test::shares_of;
using test::sum_of;

constexpr wl_u32 kNamedRoom = WL_MAX_OCCUPANTS - WL_RESERVED_OCCUPANTS;

class Occupants : public testing::Test {
 protected:
  void add(wl_u8 kind, wl_u64 ns, wl_u32 pid = 0, wl_u8 stage = WL_STAGE_RUN_QUEUE) {
    wl_window window{};
    window.stage = stage;
    wl_slice slice{};
    slice.pid = pid;
    slice.tgid = pid;
    slice.policy = 1;
    slice.nice = -5;
    slice.prio = 50;
    slice.comm[0] = 'x';
    slice.comm[1] = 'y';
    wl_occupant what{};
    wl_occupant_init(&what, &window, kind, ns, &slice);
    wl_occupant_add(&table_, &what);
  }
  void add_task(wl_u32 pid, wl_u64 ns, wl_u8 stage = WL_STAGE_RUN_QUEUE) {
    add(WL_OCC_TASK, ns, pid, stage);
  }
  const wl_occupant* find(wl_u8 kind, wl_u32 pid, wl_u8 stage) const {
    for (wl_u32 i = 0; i < table_.count; ++i) {
      const wl_occupant& entry = table_.entries[i];
      if (entry.kind == kind && entry.pid == pid && entry.stage == stage) return &entry;
    }
    return nullptr;
  }

  wl_occupants table_{};
};

TEST_F(Occupants, NothingIsNotAnEntry) {
  add_task(1, 0);
  EXPECT_EQ(table_.count, 0u);
  EXPECT_EQ(wl_occupant_add(nullptr, nullptr), 0);
}

TEST_F(Occupants, TheSameOccupantOfTheSameStageIsOneEntry) {
  add_task(1, 10);
  add_task(1, 20);
  add_task(1, 5, WL_STAGE_APP_RUN_QUEUE);
  add(WL_OCC_IRQ, 3);
  add(WL_OCC_IRQ, 4);
  EXPECT_EQ(table_.count, 3u);
  ASSERT_NE(find(WL_OCC_TASK, 1, WL_STAGE_RUN_QUEUE), nullptr);
  EXPECT_EQ(find(WL_OCC_TASK, 1, WL_STAGE_RUN_QUEUE)->ns, 30u);
  EXPECT_EQ(find(WL_OCC_TASK, 1, WL_STAGE_RUN_QUEUE)->switches, 2u);
  EXPECT_EQ(find(WL_OCC_TASK, 1, WL_STAGE_APP_RUN_QUEUE)->ns, 5u);
  EXPECT_EQ(find(WL_OCC_IRQ, 0, WL_STAGE_RUN_QUEUE)->ns, 7u);
}

TEST_F(Occupants, OnlyATaskHasTheFieldsOfATask) {
  add_task(8, 10);
  add(WL_OCC_SOFTIRQ, 10, 8);
  const wl_occupant* task = find(WL_OCC_TASK, 8, WL_STAGE_RUN_QUEUE);
  ASSERT_NE(task, nullptr);
  EXPECT_EQ(task->tgid, 8u);
  EXPECT_EQ(task->policy, 1);
  EXPECT_EQ(task->nice, -5);
  EXPECT_EQ(task->prio, 50);
  EXPECT_STREQ(task->comm, "xy");
  const wl_occupant* softirq = find(WL_OCC_SOFTIRQ, 0, WL_STAGE_RUN_QUEUE);
  ASSERT_NE(softirq, nullptr);
  EXPECT_EQ(softirq->tgid, 0u);
  EXPECT_EQ(softirq->policy, 0);
  EXPECT_EQ(softirq->prio, 0);
  EXPECT_STREQ(softirq->comm, "");
}

TEST_F(Occupants, WhenFullTheSumStaysAndTheLargestAreNamed) {
  wl_u64 sum = 0;
  for (wl_u32 pid = 1; pid <= 100; ++pid) {
    // Small and large ones alternate.
    const wl_u64 ns = pid % 2 ? pid : 1'000 + pid;
    add_task(pid, ns);
    sum += ns;
  }
  EXPECT_LE(table_.count, static_cast<wl_u32>(WL_MAX_OCCUPANTS));
  EXPECT_EQ(sum_of(table_), sum);
  for (wl_u32 pid = 100; pid > 100 - 2 * kNamedRoom; pid -= 2) {
    const wl_occupant* entry = find(WL_OCC_TASK, pid, WL_STAGE_RUN_QUEUE);
    ASSERT_NE(entry, nullptr) << pid;
    EXPECT_EQ(entry->ns, 1'000u + pid);
  }
  EXPECT_EQ(find(WL_OCC_TASK, 1, WL_STAGE_RUN_QUEUE), nullptr);
}

TEST_F(Occupants, WhatIsNotNamedStaysWithItsStage) {
  for (wl_u32 pid = 1; pid <= kNamedRoom; ++pid) add_task(pid, 100 + pid);
  add_task(500, 7);                              // smaller than all: goes itself
  add_task(501, 1'000, WL_STAGE_APP_RUN_QUEUE);  // the smallest makes room
  const wl_occupant* rest = find(WL_OCC_UNKNOWN, 0, WL_STAGE_RUN_QUEUE);
  ASSERT_NE(rest, nullptr);
  EXPECT_EQ(rest->ns, 7u + 101u);
  EXPECT_STREQ(rest->comm, "");
  EXPECT_NE(find(WL_OCC_TASK, 501, WL_STAGE_APP_RUN_QUEUE), nullptr);
  add_task(502, 9, WL_STAGE_APP_RUN_QUEUE);
  ASSERT_NE(find(WL_OCC_UNKNOWN, 0, WL_STAGE_APP_RUN_QUEUE), nullptr);
  EXPECT_EQ(find(WL_OCC_UNKNOWN, 0, WL_STAGE_APP_RUN_QUEUE)->ns, 9u);
}

TEST_F(Occupants, QuotaAndNotNamedAlwaysFindRoom) {
  for (wl_u32 pid = 1; pid <= 200; ++pid) {
    add_task(pid, 1'000 + pid, pid % 3 ? WL_STAGE_RUN_QUEUE : WL_STAGE_APP_RUN_QUEUE);
  }
  const wl_u64 before = sum_of(table_);
  add(WL_OCC_UNKNOWN, 11, 0, WL_STAGE_RUN_QUEUE);
  add(WL_OCC_UNKNOWN, 12, 0, WL_STAGE_APP_RUN_QUEUE);
  add(WL_OCC_QUOTA, 1, 0, WL_STAGE_THROTTLED);
  EXPECT_EQ(sum_of(table_), before + 24);
  ASSERT_NE(find(WL_OCC_QUOTA, 0, WL_STAGE_THROTTLED), nullptr);
  EXPECT_EQ(find(WL_OCC_QUOTA, 0, WL_STAGE_THROTTLED)->ns, 1u);
  EXPECT_NE(find(WL_OCC_UNKNOWN, 0, WL_STAGE_RUN_QUEUE), nullptr);
  EXPECT_NE(find(WL_OCC_UNKNOWN, 0, WL_STAGE_APP_RUN_QUEUE), nullptr);
}

TEST_F(Occupants, ANotNamedEntryIsNobodysTask) {
  for (wl_u32 pid = 1; pid <= kNamedRoom + 5; ++pid) add_task(pid, 100);
  const wl_occupant* rest = find(WL_OCC_UNKNOWN, 0, WL_STAGE_RUN_QUEUE);
  ASSERT_NE(rest, nullptr);
  EXPECT_EQ(rest->tgid, 0u);
  EXPECT_EQ(rest->policy, 0);
  EXPECT_EQ(rest->nice, 0);
  EXPECT_EQ(rest->prio, 0);
  for (const char c : rest->comm) EXPECT_EQ(c, 0);
}

TEST_F(Occupants, RandomAdditionsKeepEveryStagesSum) {
  std::mt19937_64 random(5);  // NOLINT(cert-msc51-cpp)
  for (int round = 0; round < 300; ++round) {
    table_ = {};
    wl_u64 sums[WL_NR_STAGES] = {};
    const wl_u32 pids = 1 + static_cast<wl_u32>(random() % 80);
    for (int n = 0; n < 400; ++n) {
      const wl_u8 stage = random() % 2 ? WL_STAGE_RUN_QUEUE : WL_STAGE_APP_RUN_QUEUE;
      const wl_u64 ns = random() % 10'000;
      const auto kind = random() % 20;
      sums[stage] += ns;
      if (kind < 16) {
        add_task(1 + static_cast<wl_u32>(random() % pids), ns, stage);
      } else {
        add(static_cast<wl_u8>(kind == 16   ? WL_OCC_IRQ
                               : kind == 17 ? WL_OCC_SOFTIRQ
                               : kind == 18 ? WL_OCC_IDLE
                                            : WL_OCC_UNKNOWN),
            ns, 0, stage);
      }
    }
    ASSERT_LE(table_.count, static_cast<wl_u32>(WL_MAX_OCCUPANTS));
    for (const wl_u8 stage : {WL_STAGE_RUN_QUEUE, WL_STAGE_APP_RUN_QUEUE}) {
      wl_u64 sum = 0;
      for (wl_u32 i = 0; i < table_.count; ++i) {
        if (table_.entries[i].stage == stage) sum += table_.entries[i].ns;
      }
      ASSERT_EQ(sum, sums[stage]);
    }
  }
}

// One wait with more tasks than entries: the hog among many small ones is named with all its time.
TEST_F(Occupants, AHogAmongManySmallTasksIsNamed) {
  test::CpuModel cpu;
  cpu.switch_to(1);
  wl_window window = cpu.open_window();
  for (wl_u32 n = 0; n < 100; ++n) {
    cpu.switch_to(1'000 + n);
    cpu.pass(1'000);
    cpu.switch_to(7);
    cpu.pass(10'000);
  }
  cpu.switch_to(99);
  window.to = cpu.now();
  EXPECT_EQ(blame(cpu.timeline(), window, cpu.now(), table_), 0u);
  EXPECT_EQ(sum_of(table_), window.to - window.from);
  EXPECT_EQ(share(shares_of(table_), WL_OCC_TASK, 7), 1'000'000u);
}

}  // namespace
}  // namespace whylate
