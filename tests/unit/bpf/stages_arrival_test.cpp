// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>

#include "stages_model.h"

namespace whylate {
namespace {

class ArrivalStages : public testing::Test {
 protected:
  static wl_arrival arrival(wl_origin origin, wl_u64 origin_ns, wl_u64 raise_ns, wl_u64 entry_ns,
                            wl_u64 rx_ns) {
    wl_arrival a{};
    a.origin = static_cast<wl_u8>(origin);
    a.origin_ns = origin_ns;
    a.raise_ns = raise_ns;
    a.entry_ns = entry_ns;
    a.rx_ns = rx_ns;
    a.flags = WL_ARR_KNOWN;
    return a;
  }
  /// Returns the start; queued_ns_, stages_ and clamped_ hold the rest.
  wl_u64 split(const wl_arrival& a, wl_u64 queued_ns, wl_u64 recv_ns, wl_u64 probe_ns = 0) {
    stages_ = {};
    clamped_ = 0;
    queued_ns_ = queued_ns;
    const wl_u64 start =
        wl_stages_arrival(&a, probe_ns, &queued_ns_, recv_ns, stages_.data(), &clamped_);
    EXPECT_EQ(stages_.sum(), queued_ns_ - start);
    return start;
  }

  test::Stages stages_;
  wl_u64 queued_ns_ = 0;
  wl_u64 clamped_ = 0;
};

TEST_F(ArrivalStages, DeviceInterrupt) {
  EXPECT_EQ(split(arrival(WL_ORIGIN_IRQ, 100, 110, 130, 160), 200, 900), 100u);
  EXPECT_EQ(stages_[WL_STAGE_HARD_IRQ], 10u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_WAIT], 20u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_POLL], 30u);
  EXPECT_EQ(stages_[WL_STAGE_BACKLOG], 0u);
  EXPECT_EQ(stages_[WL_STAGE_STACK], 40u);
  EXPECT_EQ(clamped_, 0u);
}

TEST_F(ArrivalStages, LoopbackHasNoHardInterrupt) {
  EXPECT_EQ(split(arrival(WL_ORIGIN_NETIF_RX, 110, 110, 130, 160), 200, 900), 110u);
  EXPECT_EQ(stages_[WL_STAGE_HARD_IRQ], 0u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_WAIT], 20u);
}

TEST_F(ArrivalStages, ALaterPollStartsAtTheEndOfTheOneBefore) {
  // The raise and the entry belong to the first round; the origin lies after both.
  EXPECT_EQ(split(arrival(WL_ORIGIN_NAPI, 150, 110, 130, 160), 200, 900), 150u);
  EXPECT_EQ(stages_[WL_STAGE_HARD_IRQ], 0u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_WAIT], 0u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_POLL], 10u);
  EXPECT_EQ(stages_[WL_STAGE_STACK], 40u);
  EXPECT_EQ(clamped_, 0u);
}

// The end of the poll before is a bound for when it came: outside the total.
TEST_F(ArrivalStages, ABusyPolledPacketStartsWhereItIsFound) {
  EXPECT_EQ(split(arrival(WL_ORIGIN_BUSY_POLL, 0, 100, 0, 160), 200, 900), 160u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_WAIT], 0u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_POLL], 0u);
  EXPECT_EQ(stages_[WL_STAGE_STACK], 40u);
  EXPECT_EQ(clamped_, 0u);
}

TEST_F(ArrivalStages, WhatASqueezedSoftirqLeftWaitsFromItsOwnRaise) {
  EXPECT_EQ(split(arrival(WL_ORIGIN_NAPI, 110, 110, 130, 160), 200, 900), 110u);
  EXPECT_EQ(stages_[WL_STAGE_HARD_IRQ], 0u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_WAIT], 20u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_POLL], 30u);
  EXPECT_EQ(clamped_, 0u);
}

TEST_F(ArrivalStages, BacklogIsOnlyWhatWaitedForATask) {
  wl_arrival a = arrival(WL_ORIGIN_IRQ, 100, 110, 130, 160);
  EXPECT_EQ(split(a, 200, 900, 190), 100u);
  EXPECT_EQ(stages_[WL_STAGE_BACKLOG], 0u) << "handled in the softirq";
  EXPECT_EQ(stages_[WL_STAGE_STACK], 40u);
  a.flags |= WL_ARR_BACKLOG;
  EXPECT_EQ(split(a, 200, 900, 190), 100u);
  EXPECT_EQ(stages_[WL_STAGE_BACKLOG], 30u);
  EXPECT_EQ(stages_[WL_STAGE_STACK], 10u);
  EXPECT_EQ(split(a, 200, 900, 0), 100u);
  EXPECT_EQ(stages_[WL_STAGE_BACKLOG], 0u) << "UDP";
  EXPECT_EQ(stages_[WL_STAGE_STACK], 40u);
}

TEST_F(ArrivalStages, AnUnknownArrivalStartsAtTheSocket) {
  wl_arrival a = arrival(WL_ORIGIN_IRQ, 100, 110, 130, 160);
  a.flags = WL_ARR_BACKLOG;
  EXPECT_EQ(split(a, 200, 900, 190), 200u);
  EXPECT_EQ(stages_.sum(), 0u);
  EXPECT_EQ(clamped_, 0u);
}

TEST_F(ArrivalStages, WhatIsMarkedUnknownIsUnknown) {
  wl_arrival a = arrival(WL_ORIGIN_IRQ, 100, 110, 130, 160);
  wl_arrival_unknown(&a);
  EXPECT_EQ(split(a, 200, 900, 190), 200u);
  EXPECT_EQ(stages_.sum(), 0u);
  EXPECT_EQ(a.irq, WL_NO_IRQ);
  EXPECT_EQ(a.irq_cpu, WL_NO_CPU);
  EXPECT_EQ(a.origin, WL_ORIGIN_NONE);
  EXPECT_EQ(a.irq_idle_state, -1);
}

TEST_F(ArrivalStages, AMissingMarkEqualsTheNextOne) {
  EXPECT_EQ(split(arrival(WL_ORIGIN_NETIF_RX, 0, 0, 0, 160), 200, 900), 160u);
  EXPECT_EQ(stages_.sum(), stages_[WL_STAGE_STACK]);
  EXPECT_EQ(split(arrival(WL_ORIGIN_IRQ, 0, 0, 130, 160), 200, 900), 130u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_POLL], 30u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_WAIT], 0u);
  EXPECT_EQ(split(arrival(WL_ORIGIN_IRQ, 0, 110, 130, 160), 200, 900), 110u);
  EXPECT_EQ(stages_[WL_STAGE_HARD_IRQ], 0u);
  EXPECT_EQ(split(arrival(WL_ORIGIN_IRQ, 100, 110, 0, 160), 200, 900), 100u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_WAIT], 50u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_POLL], 0u);
  EXPECT_EQ(clamped_, 0u);
}

TEST_F(ArrivalStages, AReaderAheadOfTheSignalIsNoFault) {
  EXPECT_EQ(split(arrival(WL_ORIGIN_IRQ, 100, 110, 130, 160), 950, 900), 100u);
  EXPECT_EQ(queued_ns_, 900u);
  EXPECT_EQ(stages_[WL_STAGE_STACK], 740u);
  EXPECT_EQ(clamped_, 0u);
}

TEST_F(ArrivalStages, MarksOutOfOrderAreClampedAndCounted) {
  EXPECT_EQ(split(arrival(WL_ORIGIN_IRQ, 100, 110, 130, 250), 200, 900), 100u);
  EXPECT_EQ(stages_[WL_STAGE_STACK], 0u);
  EXPECT_EQ(clamped_, 50u);
  split(arrival(WL_ORIGIN_IRQ, 100, 140, 130, 160), 200, 900);
  EXPECT_EQ(clamped_, 10u);
  EXPECT_EQ(stages_[WL_STAGE_SOFTIRQ_WAIT], 0u);
  split(arrival(WL_ORIGIN_IRQ, 115, 110, 130, 160), 200, 900);
  EXPECT_EQ(clamped_, 5u);
  EXPECT_EQ(stages_[WL_STAGE_HARD_IRQ], 0u);
  wl_arrival a = arrival(WL_ORIGIN_IRQ, 100, 110, 130, 160);
  a.flags |= WL_ARR_BACKLOG;
  split(a, 200, 900, 155);
  EXPECT_EQ(clamped_, 5u);
  EXPECT_EQ(stages_[WL_STAGE_BACKLOG], 0u);
  split(a, 200, 900, 203);
  EXPECT_EQ(clamped_, 3u);
  EXPECT_EQ(stages_[WL_STAGE_BACKLOG], 40u);
  EXPECT_EQ(stages_[WL_STAGE_STACK], 0u);
}

TEST_F(ArrivalStages, ClampsAddToWhatWasCountedBefore) {
  const wl_arrival a = arrival(WL_ORIGIN_IRQ, 100, 110, 130, 250);
  clamped_ = 7;
  queued_ns_ = 200;
  wl_stages_arrival(&a, 0, &queued_ns_, 900, stages_.data(), &clamped_);
  EXPECT_EQ(clamped_, 57u);
}

TEST(Clamp, MovesIntoTheRangeAndSaysHowFar) {
  wl_u64 mark = 5;
  EXPECT_EQ(wl_clamp(&mark, 10, 20), 5u);
  EXPECT_EQ(mark, 10u);
  mark = 25;
  EXPECT_EQ(wl_clamp(&mark, 10, 20), 5u);
  EXPECT_EQ(mark, 20u);
  mark = 15;
  EXPECT_EQ(wl_clamp(&mark, 10, 20), 0u);
  EXPECT_EQ(mark, 15u);
}

}  // namespace
}  // namespace whylate
