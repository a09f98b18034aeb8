// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

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

TEST(Verdict, NoneForAnIncompleteRequest) {
  for (const wl_u32 flag : {WL_Q_NO_ARRIVAL, WL_Q_DEBT_UNPAID, WL_Q_NO_THREAD}) {
    Request request = waiting();
    request.record.quality = flag;
    EXPECT_FALSE(diagnose(request, context(), std::nullopt));
  }
}

TEST(Verdict, IdleStateByNameIndexOrNotAtAll) {
  Request request = make_request({{WL_STAGE_IDLE_EXIT, 60'000}, {WL_STAGE_APP, 1'000}});
  EXPECT_THAT(judge(request).text, HasSubstr("idle state is not known"));
  request.record.idle_state = 1;
  EXPECT_EQ(judge(request).culprit, "idle state 1");
  RunContext with = context();
  with.idle_states[{1, 1}] = {"C1", 2'000};
  EXPECT_EQ(judge(request, with).culprit, "idle C1 (state 1)");
  EXPECT_THAT(judge(request, with).text, HasSubstr("on CPU 1"));
  request.record.idle_state = -1;
  with.fixed_idle_state = 1;
  EXPECT_EQ(judge(request, with).culprit, "idle C1 (state 1)");
}

TEST(Verdict, BlockedOnALockNamesTheWaker) {
  Request request = make_request({{WL_STAGE_APP, 1'000}, {WL_STAGE_APP_BLOCKED, 5'000'000}});
  request.record.blocked_syscall = 202;  // futex
  request.record.blocked_waker_tid = 4244;
  copy_name(request.record.blocked_waker_comm, "holder");
  const Verdict verdict = judge(request);
  EXPECT_EQ(verdict.culprit, "holder[4244]");
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("blocked in futex"), HasSubstr("held the lock")));
  RunContext arm = context();
  arm.machine = "aarch64";
  request.record.blocked_syscall = 98;
  EXPECT_THAT(judge(request, arm).text, HasSubstr("futex"));
  request.record.blocked_waker_tid = 0;
  EXPECT_THAT(judge(request, arm).text, HasSubstr("timeout or interrupt"));
}

TEST(Verdict, SleepingOnItsOwnBlamesNobodyElse) {
  Request request = make_request({{WL_STAGE_APP_BLOCKED, 5'000'000}});
  request.record.blocked_syscall = 230;    // clock_nanosleep
  request.record.blocked_waker_tid = 555;  // whoever the timer interrupt hit
  copy_name(request.record.blocked_waker_comm, "bystander");
  const Verdict verdict = judge(request);
  EXPECT_EQ(verdict.culprit, "clock_nanosleep");
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("sleeps on its own"), Not(HasSubstr("bystander"))));
}

TEST(Verdict, OtherSleepsNameTheCall) {
  Request request = make_request({{WL_STAGE_APP_BLOCKED, 5'000'000}});
  const auto text = [&request](int number) {
    request.record.blocked_syscall = number;
    return judge(request).text;
  };
  EXPECT_THAT(text(232), HasSubstr("other input in epoll_wait"));
  EXPECT_THAT(text(7), HasSubstr("other input in poll"));
  EXPECT_THAT(text(0), HasSubstr("other input in read"));
  EXPECT_THAT(text(46), HasSubstr("waited in sendmsg for room"));
  EXPECT_THAT(text(75), HasSubstr("waited for storage in fdatasync"));
  EXPECT_THAT(text(61), HasSubstr("waited for a process in wait4"));
  EXPECT_THAT(text(9999), HasSubstr("system call 9999"));
  EXPECT_THAT(text(-1), HasSubstr("page fault"));
}

TEST(Verdict, SoftirqWaitSaysWhoRanIt) {
  Request request = make_request({{WL_STAGE_SOFTIRQ_WAIT, 50'000}});
  EXPECT_EQ(judge(request).culprit, "softirq");
  request.record.softirq_mode = WL_SOFTIRQ_KSOFTIRQD;
  EXPECT_EQ(judge(request).culprit, "ksoftirqd on CPU 1");
  request.record.softirq_mode = WL_SOFTIRQ_THREADED_NAPI;
  EXPECT_EQ(judge(request).culprit, "NAPI thread on CPU 1");
  add_occupant(request, WL_STAGE_SOFTIRQ_WAIT, WL_OCC_TASK, 50'000, 12, "reader");
  EXPECT_EQ(judge(request).culprit, "reader[12]");
}

TEST(Verdict, HardInterruptAndTransmitQueueUseTheHostsNames) {
  Request request = make_request({{WL_STAGE_HARD_IRQ, 50'000}});
  request.record.irq = 35;
  request.record.irq_cpu = 3;
  RunContext with = context();
  with.irq_names[35] = "eth0-rx-0";
  EXPECT_EQ(judge(request, with).culprit, "interrupt 35 (eth0-rx-0)");
  EXPECT_THAT(judge(request, with).text, HasSubstr("on CPU 3"));

  request = make_request({{WL_STAGE_TX_QUEUE, 50'000}});
  request.record.ifindex = 2;
  EXPECT_EQ(judge(request, with).culprit, "transmit queue");
  with.devices[2] = {"eth0", "tbf"};
  EXPECT_EQ(judge(request, with).culprit, "qdisc tbf on eth0");
}

TEST(Verdict, TheQueueThatWasSeenIsNamedWithItsBacklog) {
  Request request = make_request({{WL_STAGE_TX_QUEUE, 50'000}});
  request.record.ifindex = 2;
  copy_name(request.record.tx_qdisc, "fq_codel");
  RunContext with = context();
  EXPECT_EQ(judge(request, with).culprit, "qdisc fq_codel");
  with.devices[2] = {"eth0", "mq"};
  request.record.tx_backlog = 0;
  EXPECT_EQ(judge(request, with).culprit, "qdisc fq_codel on eth0");
  EXPECT_THAT(judge(request, with).text, Not(HasSubstr("behind")));
  request.record.tx_backlog = 17;
  EXPECT_THAT(judge(request, with).text, HasSubstr("in fq_codel of eth0 behind 17 packets."));
}

TEST(Verdict, WhatTcpHeldIsNotTheQueues) {
  Request request = make_request({{WL_STAGE_TX_QUEUE, 50'000}});
  request.record.ifindex = 2;
  request.record.tx_held_ns = 50'000;
  RunContext with = context();
  with.devices[2] = {"eth0", "tbf"};
  const std::pair<wl_tx_hold, const char*> expected[] = {{WL_HOLD_NONE, "below TCP"},
                                                         {WL_HOLD_TCP, "TCP"},
                                                         {WL_HOLD_NAGLE, "Nagle"},
                                                         {WL_HOLD_CORK, "cork"},
                                                         {WL_HOLD_CWND, "congestion window"},
                                                         {WL_HOLD_RWND, "receive window"},
                                                         {WL_HOLD_ZERO_WINDOW, "zero window"},
                                                         {WL_HOLD_TSQ, "TCP small queues"},
                                                         {WL_HOLD_PACING, "TCP pacing"}};
  for (const auto& [hold, culprit] : expected) {
    request.record.tx_hold = hold;
    EXPECT_EQ(judge(request, with).culprit, culprit);
    EXPECT_THAT(judge(request, with).text, Not(HasSubstr("That is")));
  }
  request.record.tx_held_ns = 40'000;
  EXPECT_THAT(judge(request, with).text, HasSubstr("That is 80 % of it."));
  request.record.tx_held_ns = 10'000;
  EXPECT_EQ(judge(request, with).culprit, "qdisc tbf on eth0");
}

TEST(Verdict, TheApplicationsCpuIsItsOwnWhoeverSent) {
  Request request = make_request({{WL_STAGE_APP, 50'000}});
  request.record.tx_cpu = 0;
  EXPECT_EQ(cpu_of_stage(request.record, WL_STAGE_APP), 1);
  request.record.app_cpu = 0;
  EXPECT_EQ(cpu_of_stage(request.record, WL_STAGE_APP), WL_NO_CPU) << "it moved";
}

TEST(Verdict, TheRemainingStagesHaveAnAnswer) {
  const std::pair<wl_stage, const char*> expected[] = {{WL_STAGE_SOFTIRQ_POLL, "packets ahead"},
                                                       {WL_STAGE_BACKLOG, "socket owner"},
                                                       {WL_STAGE_STACK, "network stack"},
                                                       {WL_STAGE_SOCKET_QUEUE, "application"},
                                                       {WL_STAGE_WAKEUP, "wakeup"},
                                                       {WL_STAGE_RECV, "read"},
                                                       {WL_STAGE_APP, "application"},
                                                       {WL_STAGE_APP_IRQ, "interrupts"},
                                                       {WL_STAGE_SEND, "send"},
                                                       {WL_STAGE_UNATTRIBUTED, "unknown"}};
  for (const auto& [stage, culprit] : expected) {
    const Verdict verdict = judge(make_request({{stage, 10'000}}));
    EXPECT_EQ(verdict.stage, stage);
    EXPECT_EQ(verdict.culprit, culprit) << stage_name(stage);
  }
  EXPECT_THAT(judge(make_request({{WL_STAGE_SOCKET_QUEUE, 10'000}})).text,
              HasSubstr("busy with earlier requests"));
  EXPECT_THAT(judge(make_request({{WL_STAGE_APP, 10'000}})).text, HasSubstr("was computing"));
}

TEST(Verdict, AStoppedProcessIsNotBusy) {
  Request request = make_request({{WL_STAGE_STACK, 1'000}, {WL_STAGE_SOCKET_QUEUE, 1'900'000'000}});
  request.record.stopped_ns[WL_STOP_QUEUE] = 1'900'000'000;
  const std::pair<wl_stop_kind, std::pair<const char*, const char*>> kinds[] = {
      {WL_STOP_SIGNAL, {"stop signal", "the process was stopped by a signal (SIGSTOP"}},
      {WL_STOP_TRACER, {"debugger or tracer", "the process was held by a debugger or tracer"}},
      {WL_STOP_FREEZER, {"freezer", "the process was frozen (cgroup freezer"}},
      {WL_STOP_FROZEN_ASLEEP, {"freezer", "the process was frozen (cgroup freezer"}}};
  for (const auto& [kind, expected] : kinds) {
    request.record.stop_kind[WL_STOP_QUEUE] = kind;
    const Verdict verdict = judge(request);
    EXPECT_EQ(verdict.stage, WL_STAGE_SOCKET_QUEUE);
    EXPECT_EQ(verdict.culprit, expected.first);
    EXPECT_THAT(verdict.text, HasSubstr(expected.second));
    EXPECT_THAT(verdict.text, Not(HasSubstr("busy")));
    EXPECT_THAT(verdict.text, Not(HasSubstr("not known")));
  }
  // Half of it is enough,
  request.record.stop_kind[WL_STOP_QUEUE] = WL_STOP_SIGNAL;
  request.record.stopped_ns[WL_STOP_QUEUE] = 950'000'000;
  EXPECT_EQ(judge(request).culprit, "stop signal");
  EXPECT_THAT(judge(request).text, HasSubstr("for 950"));
  // less is named beside the cause.
  request.record.stopped_ns[WL_STOP_QUEUE] = 949'000'000;
  EXPECT_EQ(judge(request).culprit, "application");
  EXPECT_THAT(judge(request).text, HasSubstr("busy with earlier requests; for 949"));
}

TEST(Verdict, AStopWhileAtWork) {
  Request request = make_request({{WL_STAGE_APP_BLOCKED, 5'000'000}});
  request.record.blocked_syscall = 62;
  request.record.stopped_ns[WL_STOP_APP] = 5'000'000;
  request.record.stop_kind[WL_STOP_APP] = WL_STOP_TRACER;
  EXPECT_EQ(judge(request).culprit, "debugger or tracer");
  EXPECT_THAT(judge(request).text, HasSubstr("TracerPid in /proc/4242/status"));
  request.record.stop_kind[WL_STOP_APP] = WL_STOP_FROZEN_ASLEEP;
  EXPECT_EQ(judge(request).culprit, "freezer");
  EXPECT_THAT(judge(request).text, HasSubstr("since when in it is not known"));
  request.record.stopped_ns[WL_STOP_APP] = 1'000'000;
  EXPECT_THAT(judge(request).text, HasSubstr("was blocked in"));
}

TEST(Verdict, NothingStandsOutInAnOrdinaryRequest) {
  const Request spread =
      make_request({{WL_STAGE_STACK, 1'000}, {WL_STAGE_RUN_QUEUE, 1'200}, {WL_STAGE_APP, 1'100}});
  std::optional<Verdict> verdict = diagnose(spread, context(), 3'000);
  ASSERT_TRUE(verdict);
  EXPECT_TRUE(verdict->ordinary);
  EXPECT_EQ(verdict->stage, WL_STAGE_RUN_QUEUE);
  EXPECT_THAT(verdict->text, HasSubstr("nothing stands out"));
  // The same request is not ordinary where the median is far lower,
  verdict = diagnose(spread, context(), 1'000);
  EXPECT_FALSE(verdict->ordinary);
  // nor is one that one stage makes up, however usual it is in this run.
  verdict = diagnose(make_request({{WL_STAGE_THROTTLED, 3'000}}), context(), 3'000);
  EXPECT_FALSE(verdict->ordinary);
}

TEST(Verdict, NamesFromOutsideAreEscaped) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000'000, 5, "\x1b[31m\n");
  EXPECT_EQ(judge(request).culprit, "\\x1b[31m\\x0a[5]");
}

// Whatever the record says: the blamed stage is the largest, and blame goes to the largest task.
TEST(Verdict, PropertyOfRandomRequests) {
  std::mt19937_64 random(99);  // NOLINT(cert-msc51-cpp)
  for (int round = 0; round < 5'000; ++round) {
    Request request = make_request({});
    for (wl_u64& ns : request.record.stage_ns) {
      ns = random() % 10'000;
      request.record.end_ns += ns;
    }
    std::uint64_t left = request.record.stage_ns[WL_STAGE_RUN_QUEUE];
    for (std::uint32_t pid = 1; pid <= 5 && left > 0; ++pid) {
      const std::uint64_t ns = pid == 5 ? left : random() % (left + 1);
      add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, ns, pid, "t");
      left -= ns;
    }
    request.record.blocked_syscall = static_cast<int>(random() % 500) - 1;
    request.record.softirq_mode = static_cast<wl_u8>(random() % 8);
    const std::optional<Verdict> verdict = diagnose(request, context(), random() % 100'000);
    ASSERT_TRUE(verdict);
    for (const wl_u64 ns : request.record.stage_ns) {
      ASSERT_LE(ns, request.record.stage_ns[verdict->stage]);
    }
    ASSERT_FALSE(verdict->culprit.empty());
    ASSERT_EQ(verdict->text.find('\n'), std::string::npos);
  }
}

TEST(Verdict, AHandOverIsSaid) {
  Request request = waiting();
  add_occupant(request, WL_STAGE_RUN_QUEUE, WL_OCC_TASK, 1'000'000, 991, "hog");
  request.record.waker_tid = 77;
  std::snprintf(request.record.waker_comm, sizeof request.record.waker_comm, "main");
  EXPECT_THAT(judge(request).text, Not(HasSubstr("main[77]")));
  request.record.quality |= WL_Q_VIA_THREAD;
  EXPECT_EQ(judge(request).culprit, "hog[991]");
  EXPECT_THAT(judge(request).text, HasSubstr("main[77] handed the packet to "));
}

TEST(Verdict, AWorkerOfIoUringThatHasGivenTheResultBackIsNotBlamedForAFault) {
  Request request = make_request({{WL_STAGE_APP_BLOCKED, 1'000'000}});
  request.record.blocked_syscall = WL_NO_SYSCALL;
  EXPECT_EQ(judge(request).culprit, "outside a system call");
  std::snprintf(request.record.comm, sizeof request.record.comm, "iou-wrk-123");
  EXPECT_EQ(judge(request).culprit, "the server's own thread");
}

TEST(Verdict, ASoftirqThatHadUsedUpItsBudget) {
  Request request = make_request({{WL_STAGE_SOFTIRQ_WAIT, 50'000}});
  EXPECT_EQ(judge(request).culprit, "softirq");
  request.record.quality |= WL_Q_SQUEEZED;
  EXPECT_EQ(judge(request).culprit, "softirq budget");
  request.record.softirq_mode = WL_SOFTIRQ_KSOFTIRQD;
  add_occupant(request, WL_STAGE_SOFTIRQ_WAIT, WL_OCC_TASK, 50'000, 991, "hog");
  EXPECT_EQ(judge(request).culprit, "hog[991]");
  EXPECT_THAT(judge(request).text, AllOf(HasSubstr("left to ksoftirqd"), HasSubstr("budget")));
}

}  // namespace
}  // namespace whylate
