// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnose/xsk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whylate {
namespace {

using testing::Contains;
using testing::HasSubstr;

XskReading reading() {
  XskReading reading;
  reading.totals = std::make_unique<wl_xsk_totals>();
  return reading;
}

void enter(wl_xsk_totals& totals, wl_xsk_stage stage, std::uint64_t ns) {
  ++totals.count[stage];
  totals.total_ns[stage] += ns;
  totals.max_ns[stage] = std::max<std::uint64_t>(totals.max_ns[stage], ns);
  ++totals.hist[stage][wl_hist_index(ns)];
}

const XskStage& stage(const XskSummary& summary, wl_xsk_stage which) {
  return summary.stages[static_cast<std::size_t>(which)];
}

TEST(XskSummary, PercentilesAndSumsOfAStage) {
  XskReading run = reading();
  run.totals->redirected = 3;
  for (const std::uint64_t ns : {10, 20, 30}) enter(*run.totals, WL_XSK_SOFTIRQ_WAIT, ns);
  const XskSummary summary = summarise_xsk(run, {});
  const XskStage& wait = stage(summary, WL_XSK_SOFTIRQ_WAIT);
  EXPECT_EQ(wait.count, 3u);
  EXPECT_EQ(wait.total_ns, 60u);
  EXPECT_EQ(wait.p50_ns, 20u);
  EXPECT_EQ(wait.max_ns, 30u);
  EXPECT_EQ(wait.why_not, "");
  EXPECT_TRUE(summary.complete());
}

TEST(XskSummary, AStageOfZeroWasMeasured) {
  XskReading run = reading();
  run.totals->redirected = 1;
  enter(*run.totals, WL_XSK_REDIRECT, 0);
  const XskSummary summary = summarise_xsk(run, {});
  EXPECT_EQ(stage(summary, WL_XSK_REDIRECT).p50_ns, 0u);
  EXPECT_EQ(stage(summary, WL_XSK_REDIRECT).why_not, "");
}

TEST(XskSummary, ASpinningTargetIsNotWoken) {
  XskReading run = reading();
  run.totals->redirected = run.totals->awake = 5;
  run.totals->send_calls = 5;
  enter(*run.totals, WL_XSK_TRANSMIT, 7);
  const XskSummary summary = summarise_xsk(run, {});
  EXPECT_THAT(stage(summary, WL_XSK_WAKE).why_not, HasSubstr("awake"));
  EXPECT_FALSE(stage(summary, WL_XSK_WAKE).p50_ns);
  EXPECT_THAT(stage(summary, WL_XSK_USER).why_not, HasSubstr("no thread was woken"));
  EXPECT_EQ(stage(summary, WL_XSK_TRANSMIT).count, 1u);
  EXPECT_THAT(summary.notes, Contains(HasSubstr("5 of 5 packets found a thread awake")));
  EXPECT_THAT(summary.notes, Contains(HasSubstr("user space")));
}

TEST(XskSummary, GenericModeWakesWithinTheRedirect) {
  XskReading run = reading();
  run.generic = true;
  run.totals->redirected = run.totals->woke = run.totals->wakes = 5;
  const XskSummary summary = summarise_xsk(run, {});
  EXPECT_THAT(stage(summary, WL_XSK_WAKE).why_not, HasSubstr("within its redirect"));
}

TEST(XskSummary, APollingThreadHasNoSoftirq) {
  XskReading run = reading();
  run.totals->redirected = run.totals->polled = 5;
  const XskSummary summary = summarise_xsk(run, {});
  EXPECT_THAT(stage(summary, WL_XSK_HARD_IRQ).why_not, HasSubstr("polled"));
  EXPECT_THAT(stage(summary, WL_XSK_REDIRECT).why_not, HasSubstr("polled"));
}

TEST(XskSummary, WithoutTrafficThatIsTheReason) {
  const XskSummary summary = summarise_xsk(reading(), {});
  EXPECT_THAT(stage(summary, WL_XSK_REDIRECT).why_not, HasSubstr("no packet"));
  EXPECT_THAT(stage(summary, WL_XSK_TRANSMIT).why_not, HasSubstr("no transmit call"));
  EXPECT_FALSE(summary.rx_frames);
}

TEST(XskSummary, RingsCountModulo32BitsAndOncePerSocket) {
  XskReading run = reading();
  wl_xsk_line line{};
  line.inode = 9;
  line.rx_frames = 0xfffffffe;
  line.tx_frames = 10;
  run.before = {line};
  line.rx_frames = 3;
  line.tx_frames = 15;
  line.rx_ring_full = 2;
  run.after = {line, line};  // two descriptors
  wl_xsk_line fresh{};
  fresh.inode = 10;
  run.after.push_back(fresh);
  const XskSummary summary = summarise_xsk(run, {});
  EXPECT_EQ(summary.rx_frames, 5u);
  EXPECT_EQ(summary.tx_frames, 5u);
  EXPECT_EQ(summary.ring_full, 2u);
}

TEST(XskSummary, LossMakesItIncomplete) {
  XskReading run = reading();
  run.totals->lost = 1;
  EXPECT_FALSE(summarise_xsk(run, {}).complete());
  XskReading missed = reading();
  missed.recursion_misses = 1;
  EXPECT_FALSE(summarise_xsk(missed, {}).complete());
}

}  // namespace
}  // namespace whylate
