// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Who held the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/stage_names.h"
#include "unit/diagnose/verdict_rig.h"

namespace whylate {
namespace {

using test::add_occupant;
using test::context;
using test::copy_name;
using test::judge;
using test::make_request;
using test::waiting;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CpuVerdict, OrdinaryTaskIsNamedWithPolicyAndNice) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000'000, 991, "stress-ng-cpu");
  const Verdict verdict = judge(request);
  EXPECT_EQ(verdict.stage, WL_STAGE_RUN_QUEUE);
  EXPECT_EQ(verdict.culprit, "stress-ng-cpu[991]");
  EXPECT_EQ(verdict.text,
            "run_queue 1.00ms on CPU 1: stress-ng-cpu[991] (SCHED_OTHER, nice 0) held it. Move the "
            "responder to an isolated CPU.");
}

TEST(CpuVerdict, LargestOccupantIsBlamedNotTheLast) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 300'000, 1, "hog-a");
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 350'000, 2, "hog-b");
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 340'000, 1, "hog-a");
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 10'000, 3, "last");
  const Verdict verdict = judge(request);
  EXPECT_EQ(verdict.culprit, "hog-a[1]");
  EXPECT_THAT(verdict.text, HasSubstr("64 % of the wait"));
}

TEST(CpuVerdict, RealTimeTaskCannotBePreempted) {
  Request request = waiting();
  wl_occupant& fifo = add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000'000, 5, "rt");
  fifo.policy = 1;
  fifo.prio = 49;
  EXPECT_THAT(judge(request).text,
              AllOf(HasSubstr("SCHED_FIFO, priority 50"), HasSubstr("may not preempt it")));
  request.occupants[0].policy = 2;
  EXPECT_THAT(judge(request).text, HasSubstr("SCHED_RR, priority 50"));
  request.occupants[0].policy = 6;
  EXPECT_THAT(judge(request).text,
              AllOf(HasSubstr("SCHED_DEADLINE"), HasSubstr("may not preempt")));
}

TEST(CpuVerdict, ANiceTaskIsStillBlamed) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000'000, 5, "batch").nice = 19;
  const Verdict verdict = judge(request);
  EXPECT_EQ(verdict.culprit, "batch[5]");
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("nice 19"), HasSubstr("autogroups")));
}

TEST(CpuVerdict, WhylateAndTheResponderItselfAreCalledThat) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000'000, 78, "whylate").tgid = 77;
  EXPECT_EQ(judge(request).culprit, "whylate itself");

  request.occupants[0].tgid = 4242;
  EXPECT_THAT(judge(request).text, HasSubstr("a thread of the responder itself"));
}

TEST(CpuVerdict, KernelThreadsGetTheirOwnRemedy) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000'000, 9, "ksoftirqd/1");
  EXPECT_THAT(judge(request).text, HasSubstr("smp_affinity"));
  copy_name(request.occupants[0].comm, "kworker/1:1");
  EXPECT_THAT(judge(request).text, HasSubstr("workqueue"));
}

TEST(CpuVerdict, TheLargestSinglePartyIsBlamedNotInterruptsTogether) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 400'000, 1, "hog");
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_IRQ, 250'000);
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_SOFTIRQ, 350'000);
  EXPECT_EQ(judge(request).culprit, "hog[1]");
  EXPECT_THAT(judge(request).text, HasSubstr("for 40 % of the wait"));

  request.occupants[0].ns = 320'000;
  request.occupants[2].ns = 430'000;
  const Verdict verdict = judge(request);
  EXPECT_EQ(verdict.culprit, "softirqs");
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("device interrupts 25 %"), HasSubstr("softirqs 43 %")));
}

TEST(CpuVerdict, UnnamedAndIdleOccupants) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_UNKNOWN, 1'000'000);
  request.record.not_named_switches = 300;
  EXPECT_THAT(judge(request).text, HasSubstr("300 switches, more than can be named"));
  request.record.not_named_switches = 0;  // a slice whose owner is not known
  EXPECT_THAT(judge(request).text, HasSubstr("did not report a context switch"));
  request.occupants[0].kind = WL_OCC_IDLE;
  EXPECT_EQ(judge(request).culprit, "idle CPU");
  request.occupants.clear();
  EXPECT_EQ(judge(request).culprit, "not named");
}

TEST(CpuVerdict, AppRunQueueLooksAtItsOwnOccupants) {
  Request request = make_request({{WL_STAGE_RUN_QUEUE, 1'000}, {WL_STAGE_APP_RUN_QUEUE, 5'000}});
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000, 1, "before");
  add_occupant(request, WL_STAGE_APP_RUN_QUEUE, WL_OCC_TASK, 5'000, 2, "within");
  const Verdict verdict = judge(request);
  EXPECT_EQ(verdict.stage, WL_STAGE_APP_RUN_QUEUE);
  EXPECT_EQ(verdict.culprit, "within[2]");
}

TEST(CpuVerdict, QuotaIsNotContention) {
  Request request = make_request({{WL_STAGE_RUN_QUEUE, 1'000}, {WL_STAGE_THROTTLED, 80'000'000}});
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000, 1, "hog");
  EXPECT_EQ(judge(request).culprit, "CPU quota");
  RunContext with = context();
  with.cgroup = "/web";
  with.quota_us = 20'000;
  with.period_us = 100'000;
  const Verdict verdict = judge(request, with);
  EXPECT_EQ(verdict.culprit, "CPU quota of /web");
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("20.00ms per 100.00ms"), HasSubstr("cpu.max"),
                                  HasSubstr("cfs_quota_us"), Not(HasSubstr("hog"))));
}

TEST(CpuVerdict, InterruptsAreNamedByTheKindThatMakesMostOfThem) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TIMER, 800'000);
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_IPI, 50'000);
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 150'000, 991, "victim");
  EXPECT_EQ(judge(request).culprit, "the local timer");
  EXPECT_THAT(judge(request).text,
              AllOf(HasSubstr("the local timer 80 %, inter-processor interrupts 5 %"),
                    Not(HasSubstr("victim"))));

  request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_IRQ, 1'000'000);
  request.record.long_irq = 28;
  request.record.long_irq_ns = 900'000;
  RunContext with = context();
  with.irq_names[28] = "eth0-rx";
  EXPECT_EQ(judge(request, with).culprit, "device interrupts");
  EXPECT_THAT(judge(request, with).text,
              HasSubstr("A long one was interrupt 28 (eth0-rx), 900.00us."));
}

TEST(CpuVerdict, WhatTookTheCpuFromTheApplicationIsToldApart) {
  Request request = make_request({{WL_STAGE_APP, 10'000}, {WL_STAGE_APP_IRQ, 100'000}});
  request.record.theft_ns[WL_THEFT_IPI] = 90'000;
  request.record.theft_ns[WL_THEFT_SOFTIRQ] = 10'000;
  EXPECT_EQ(judge(request).culprit, "inter-processor interrupts");
  EXPECT_THAT(judge(request).text, HasSubstr("softirqs 10 %"));
  request.record.theft_ns[WL_THEFT_IPI] = 50'000;
  request.record.theft_ns[WL_THEFT_SOFTIRQ] = 50'000;
  EXPECT_EQ(judge(request).culprit, "interrupts and softirqs");
}

TEST(CpuVerdict, TheGroupOfTheOccupantIsSaid) {
  Request request = waiting();
  wl_occupant& hog = add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000'000, 991, "hog");
  hog.cgroup = 77;
  RunContext with = context();
  EXPECT_THAT(judge(request, with).text, HasSubstr("(SCHED_OTHER, nice 0) held")) << "not known";
  with.cgroups[77] = "/";
  EXPECT_THAT(judge(request, with).text, HasSubstr("(SCHED_OTHER, nice 0) held"));
  with.cgroups[77] = "/box/a";
  EXPECT_THAT(judge(request, with).text, HasSubstr("nice 0, cgroup /box/a) held"));
  hog.cgroup = WL_AUTOGROUP | 12;
  EXPECT_THAT(judge(request, with).text, HasSubstr("nice 0, autogroup 12) held"));
}

TEST(CpuVerdict, WhatElseIsKnownOfAWait) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000'000, 991, "hog");
  request.record.idle_elsewhere_ns = 50'000;
  EXPECT_THAT(judge(request).text, Not(HasSubstr("idle"))) << "a twentieth is no matter";
  request.record.idle_elsewhere_ns = 400'000;
  request.record.idle_elsewhere_cpu = 5;
  request.record.migrations = 2;
  EXPECT_THAT(judge(request).text,
              AllOf(HasSubstr("moved to another CPU 2 times meanwhile"),
                    HasSubstr("CPU 5, which it may use too, was idle for 400.00us of that")));
}

TEST(CpuVerdict, AUsedUpRealTimeBudgetIsTheCulpritWhereItHeldForMostOfTheWait) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000'000, 991, "hog");
  request.record.quality |= WL_Q_RT_THROTTLED;
  request.record.budget_share[0] = 499;
  request.record.budget_share[1] = 1'000;
  EXPECT_EQ(judge(request).culprit, "hog[991]") << "the budget mattered elsewhere";
  request.record.budget_share[0] = 500;
  EXPECT_EQ(judge(request).culprit, "real-time budget");
  EXPECT_THAT(judge(request).text, HasSubstr("used up; hog[991] ran meanwhile"));
}

TEST(CpuVerdict, WithAUsedUpRealTimeBudgetTheCpuMayBeIdle) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_IDLE, 1'000'000);
  request.record.quality |= WL_Q_RT_THROTTLED;
  request.record.budget_share[0] = 1'000;
  EXPECT_EQ(judge(request).culprit, "real-time budget");
  EXPECT_THAT(judge(request).text, HasSubstr("used up; the CPU was idle meanwhile"));
}

TEST(CpuVerdict, AnInterruptThatIsNotKnownIsNotAccused) {
  Request request = make_request({{WL_STAGE_HARD_IRQ, 50'000}});
  request.record.origin = WL_ORIGIN_IRQ;
  EXPECT_EQ(judge(request).culprit, "device interrupts");
  EXPECT_THAT(judge(request).text,
              AllOf(HasSubstr("is not known"), Not(HasSubstr("the handler of"))));
}

}  // namespace
}  // namespace whylate
