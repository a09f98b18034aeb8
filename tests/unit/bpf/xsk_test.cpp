// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "bpf/logic/xsk.h"

#include <gtest/gtest.h>

namespace {

bool has(const wl_xsk_cut& cut, wl_xsk_stage stage) { return (cut.known >> stage & 1) != 0; }

TEST(XskPath, APacketIsCutAtInterruptRaiseEntryAndRedirect) {
  wl_xsk_cpu cpu{};
  wl_xsk_cut cut{};
  cpu.irq_ns = 100;
  wl_xsk_raise(&cpu, 130);
  cpu.irq_ns = 0;
  wl_xsk_entry(&cpu, 150);
  ASSERT_EQ(WL_XSK_WAITS, wl_xsk_redirect(&cpu, 0, 190, &cut));
  EXPECT_EQ(cut.ns[WL_XSK_HARD_IRQ], 30u);
  EXPECT_EQ(cut.ns[WL_XSK_SOFTIRQ_WAIT], 20u);
  EXPECT_EQ(cut.ns[WL_XSK_REDIRECT], 40u);
  EXPECT_EQ(cut.ns[WL_XSK_HARD_IRQ] + cut.ns[WL_XSK_SOFTIRQ_WAIT] + cut.ns[WL_XSK_REDIRECT],
            190u - 100u);
  EXPECT_FALSE(has(cut, WL_XSK_WAKE));
}

TEST(XskPath, WithoutAnInterruptThatStageIsUnknownAndNotZero) {
  wl_xsk_cpu cpu{};
  wl_xsk_cut cut{};
  wl_xsk_raise(&cpu, 130);
  wl_xsk_entry(&cpu, 150);
  ASSERT_EQ(WL_XSK_WAITS, wl_xsk_redirect(&cpu, 0, 190, &cut));
  EXPECT_FALSE(has(cut, WL_XSK_HARD_IRQ));
  EXPECT_TRUE(has(cut, WL_XSK_SOFTIRQ_WAIT));
}

TEST(XskPath, TheFirstRaiseCounts) {
  wl_xsk_cpu cpu{};
  wl_xsk_cut cut{};
  wl_xsk_raise(&cpu, 130);
  cpu.irq_ns = 135;  // an interrupt that finds it pending has not brought it
  wl_xsk_raise(&cpu, 140);
  cpu.irq_ns = 0;
  wl_xsk_entry(&cpu, 150);
  ASSERT_EQ(WL_XSK_WAITS, wl_xsk_redirect(&cpu, 0, 190, &cut));
  EXPECT_EQ(cut.ns[WL_XSK_SOFTIRQ_WAIT], 20u);
  EXPECT_FALSE(has(cut, WL_XSK_HARD_IRQ));
}

TEST(XskPath, ASoftirqThatNobodyRaisedHasNoWait) {
  wl_xsk_cpu cpu{};
  wl_xsk_cut cut{};
  wl_xsk_entry(&cpu, 150);
  ASSERT_EQ(WL_XSK_WAITS, wl_xsk_redirect(&cpu, 0, 190, &cut));
  EXPECT_FALSE(has(cut, WL_XSK_SOFTIRQ_WAIT));
  EXPECT_EQ(cut.ns[WL_XSK_REDIRECT], 40u);
}

TEST(XskPath, ARaiseWhileItRunsIsOfTheNextRound) {
  wl_xsk_cpu cpu{};
  wl_xsk_cut cut{};
  wl_xsk_raise(&cpu, 100);
  wl_xsk_entry(&cpu, 110);
  wl_xsk_raise(&cpu, 120);
  ASSERT_EQ(WL_XSK_WAITS, wl_xsk_redirect(&cpu, 0, 130, &cut));
  EXPECT_EQ(cut.ns[WL_XSK_SOFTIRQ_WAIT], 10u);
  wl_xsk_exit(&cpu);
  wl_xsk_entry(&cpu, 140);
  ASSERT_EQ(WL_XSK_WAITS, wl_xsk_redirect(&cpu, 0, 145, &cut));
  EXPECT_EQ(cut.ns[WL_XSK_SOFTIRQ_WAIT], 20u);
}

TEST(XskPath, OutsideASoftirqAThreadPolls) {
  wl_xsk_cpu cpu{};
  wl_xsk_cut cut{};
  wl_xsk_entry(&cpu, 150);
  wl_xsk_exit(&cpu);
  EXPECT_EQ(WL_XSK_NO_SOFTIRQ, wl_xsk_redirect(&cpu, 0, 190, &cut));
  EXPECT_EQ(cut.known, 0u);
  EXPECT_EQ(cpu.waiting, 0u) << "nobody has to be woken for it";
}

TEST(XskWake, ServesAllPacketsOfTheRound) {
  wl_xsk_cpu cpu{};
  wl_xsk_thread thread{};
  wl_xsk_cut cut{};
  wl_xsk_entry(&cpu, 100);
  for (const wl_u64 at : {110, 120, 130}) wl_xsk_redirect(&cpu, 0, at, &cut);
  EXPECT_EQ(wl_xsk_wake(&cpu, &thread, 140, &cut), 3u);
  EXPECT_EQ(cut.ns[WL_XSK_WAKE], 30u) << "of the one that waited longest";
  EXPECT_EQ(wl_xsk_exit(&cpu), 0u);
  wl_xsk_switch_in(&thread, 170, &cut);
  EXPECT_EQ(cut.ns[WL_XSK_RUN_QUEUE], 30u);
  wl_xsk_send_begin(&thread, 180);
  wl_xsk_send_end(&thread, 200, &cut);
  EXPECT_EQ(cut.ns[WL_XSK_USER], 10u);
  EXPECT_EQ(cut.ns[WL_XSK_TRANSMIT], 20u);
}

TEST(XskWake, ForSomethingElseIsNone) {
  wl_xsk_cpu cpu{};
  wl_xsk_thread thread{};
  wl_xsk_cut cut{};
  wl_xsk_entry(&cpu, 100);
  EXPECT_EQ(wl_xsk_wake(&cpu, &thread, 140, &cut), 0u) << "nothing was redirected";
  wl_xsk_redirect(&cpu, 0, 150, &cut);
  cpu.irq_ns = 155;
  EXPECT_EQ(wl_xsk_wake(&cpu, &thread, 160, &cut), 0u) << "an interrupt in between";
  cpu.irq_ns = 0;
  EXPECT_EQ(wl_xsk_wake(&cpu, &thread, 170, &cut), 1u);
  EXPECT_EQ(wl_xsk_wake(&cpu, &thread, 180, &cut), 0u) << "its packets have had theirs";
}

TEST(XskWake, WhoeverWasAwakeIsCounted) {
  wl_xsk_cpu cpu{};
  wl_xsk_cut cut{};
  wl_xsk_entry(&cpu, 100);
  wl_xsk_redirect(&cpu, 0, 110, &cut);
  wl_xsk_redirect(&cpu, 0, 120, &cut);
  EXPECT_EQ(wl_xsk_exit(&cpu), 2u);
  EXPECT_EQ(wl_xsk_exit(&cpu), 0u);
}

TEST(XskSend, OfAThreadThatWasNotWokenHasNoUserStage) {
  wl_xsk_thread thread{};
  wl_xsk_cut cut{};
  wl_xsk_send_begin(&thread, 180);
  wl_xsk_send_end(&thread, 200, &cut);
  EXPECT_EQ(cut.known, 1u << WL_XSK_TRANSMIT);
  wl_xsk_send_end(&thread, 300, &cut);
  EXPECT_EQ(cut.known, 0u) << "its begin was not seen";
}

TEST(XskSend, OnlyTheFirstCallAfterAWakeUpEndsTheUserStage) {
  wl_xsk_cpu cpu{};
  wl_xsk_thread thread{};
  wl_xsk_cut cut{};
  wl_xsk_entry(&cpu, 100);
  wl_xsk_redirect(&cpu, 0, 110, &cut);
  wl_xsk_wake(&cpu, &thread, 120, &cut);
  wl_xsk_switch_in(&thread, 130, &cut);
  wl_xsk_switch_in(&thread, 135, &cut);
  EXPECT_EQ(cut.known, 0u) << "preempted meanwhile: no second wait in the run queue";
  wl_xsk_send_begin(&thread, 140);
  wl_xsk_send_end(&thread, 150, &cut);
  EXPECT_TRUE(has(cut, WL_XSK_USER));
  wl_xsk_send_begin(&thread, 160);
  wl_xsk_send_end(&thread, 170, &cut);
  EXPECT_FALSE(has(cut, WL_XSK_USER));
}

TEST(XskGeneric, APacketWakesBeforeItsRedirectIsReported) {
  wl_xsk_cpu cpu{};
  wl_xsk_thread thread{};
  wl_xsk_cut cut{};
  EXPECT_FALSE(wl_xsk_early_wake(&cpu, &thread, 90)) << "no softirq: for something else";
  wl_xsk_entry(&cpu, 100);
  EXPECT_TRUE(wl_xsk_early_wake(&cpu, &thread, 110));
  EXPECT_EQ(WL_XSK_WOKE, wl_xsk_redirect(&cpu, 1, 120, &cut));
  EXPECT_EQ(cut.ns[WL_XSK_REDIRECT], 20u);
  EXPECT_FALSE(has(cut, WL_XSK_WAKE)) << "it lies within the redirect";
  EXPECT_EQ(WL_XSK_AWAKE, wl_xsk_redirect(&cpu, 1, 130, &cut)) << "the next one finds it awake";
  EXPECT_EQ(wl_xsk_exit(&cpu), 0u) << "each was told at once";
  wl_xsk_switch_in(&thread, 140, &cut);
  EXPECT_EQ(cut.ns[WL_XSK_RUN_QUEUE], 30u);
}

}  // namespace
