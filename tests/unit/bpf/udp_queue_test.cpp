// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "logic/udp_queue.h"

#include <gtest/gtest.h>

#include <memory>

namespace whylate {
namespace {

/// What differs by a tick differs by more than the clocks of two CPUs may.
constexpr wl_u64 kTickNs = 2 * WL_CLOCK_SKEW_NS;

/// Times are in ticks, unless a name says ns.
class UdpQueue : public testing::Test {
 protected:
  static wl_datagram datagram(wl_u64 id, wl_u64 rx, wl_u64 queued, wl_u16 pusher = 0) {
    return datagram_ns(id, rx * kTickNs, queued * kTickNs, pusher);
  }
  static wl_datagram datagram_ns(wl_u64 id, wl_u64 rx_ns, wl_u64 queued_ns, wl_u16 pusher = 0) {
    wl_datagram d{};
    d.queued_ns = queued_ns;
    d.arrival.id = id;
    d.arrival.rx_ns = rx_ns;
    d.arrival.flags = WL_ARR_KNOWN;
    d.saddr[0] = 10;
    d.saddr[15] = 9;
    d.sport = 40000;
    d.pusher = pusher;
    return d;
  }
  wl_udp_push_result push(const wl_datagram& d, wl_u32 kernel_queue_len = 0) {
    return wl_udp_queue_push(queue_.get(), &d, kernel_queue_len);
  }
  /// Brings the queue in step at time `now`, leaving it empty.
  void sync(wl_u64 now) {
    push(datagram(999, now, now), 1);
    wl_u64 index = 0;
    wl_datagram out{};
    ASSERT_EQ(wl_udp_queue_pop(queue_.get(), (now + 1) * kTickNs, 0, &index, &out), WL_POP_OK);
    ASSERT_EQ(out.arrival.id, 999u);
  }
  wl_udp_pop_status pop(wl_u64 now, wl_u32 kernel_queue_len = 0) {
    return pop_ns(now * kTickNs, kernel_queue_len);
  }
  wl_udp_pop_status pop_ns(wl_u64 now_ns, wl_u32 kernel_queue_len = 0) {
    return wl_udp_queue_pop(queue_.get(), now_ns, kernel_queue_len, &index_, &out_);
  }
  /// The id of an entry that must be there.
  wl_u64 pop_id(wl_u64 now, wl_u32 kernel_queue_len = 0) {
    const wl_udp_pop_status status = pop(now, kernel_queue_len);
    EXPECT_EQ(status, WL_POP_OK);
    return status == WL_POP_OK ? out_.arrival.id : 0;
  }

  std::unique_ptr<wl_udp_queue> queue_ = std::make_unique<wl_udp_queue>();
  wl_u64 index_ = 0;
  wl_datagram out_{};
};

TEST_F(UdpQueue, StartsUnsynchronised) {
  EXPECT_EQ(pop(10), WL_POP_UNSYNCED);
  push(datagram(1, 20, 21), 5);
  push(datagram(2, 22, 23), 0);
  EXPECT_EQ(pop(30), WL_POP_UNSYNCED);
}

TEST_F(UdpQueue, SynchronisesWhenTheKernelHoldsExactlyThePushedDatagram) {
  push(datagram(1, 10, 11), 3);
  push(datagram(2, 12, 13), 2);
  push(datagram(3, 14, 15), 1);
  push(datagram(4, 16, 17), 7);
  EXPECT_EQ(pop_id(20, 1), 3u);
  EXPECT_EQ(pop_id(21), 4u);
  EXPECT_EQ(pop(22), WL_POP_DEBT);
}

// A reader that is between taking a datagram and the end of its read when the next one is queued.
TEST_F(UdpQueue, AReadOnItsWayOutDoesNotGetTheDatagramBehindIt) {
  push(datagram(2, 14, 15), 1);
  EXPECT_EQ(pop(20, 1), WL_POP_UNSYNCED);  // the read of datagram 1: number 2 is still there
  EXPECT_EQ(pop(30, 0), WL_POP_UNSYNCED);
  push(datagram(3, 40, 41), 1);
  EXPECT_EQ(pop_id(42, 0), 3u);
}

TEST_F(UdpQueue, StaysTentativeWhileDatagramsAreNotSignalledYet) {
  push(datagram(1, 10, 11), 1);
  EXPECT_EQ(pop(20, 1), WL_POP_UNSYNCED);  // number 2 is queued, its signal is to come
  push(datagram(2, 15, 21), 1);
  EXPECT_EQ(pop_id(22, 0), 2u);
}

TEST_F(UdpQueue, ATentativeReadBeforeTheSignalLeavesItsPlace) {
  push(datagram(1, 10, 11), 1);
  EXPECT_EQ(pop(20, 1), WL_POP_UNSYNCED);
  EXPECT_EQ(pop(22, 0), WL_POP_UNSYNCED);  // number 2, before its signal
  push(datagram(2, 15, 23), 0);
  push(datagram(3, 30, 31), 1);
  if (pop(40, 1) == WL_POP_OK) {  // number 4 is queued, its signal is to come
    EXPECT_EQ(out_.arrival.id, 3u);
  }
  push(datagram(4, 35, 41), 1);
  EXPECT_EQ(pop_id(42, 0), 4u);
}

TEST_F(UdpQueue, MoreEntriesThanDatagramsIsOutOfStep) {
  push(datagram(1, 10, 11), 1);
  push(datagram(2, 12, 13), 1);
  EXPECT_EQ(pop(20, 0), WL_POP_UNSYNCED);  // one of the two had been read before
  EXPECT_EQ(pop(21, 0), WL_POP_UNSYNCED);
  push(datagram(3, 30, 31), 1);
  EXPECT_EQ(pop_id(32, 0), 3u);
}

TEST_F(UdpQueue, ANewSocketStartsUnsynchronisedAndTakesNoOldEntry) {
  sync(1);
  for (wl_u64 id = 1; id <= 5; ++id) push(datagram(id, 10 + id, 11 + id));
  wl_udp_queue_reset(queue_.get());
  EXPECT_EQ(pop(30), WL_POP_UNSYNCED);
  push(datagram(6, 40, 41), 1);
  EXPECT_EQ(pop_id(42, 0), 6u);
  EXPECT_EQ(pop(50), WL_POP_DEBT);
}

TEST_F(UdpQueue, AnUnknownArrivalIsNothingToSynchroniseOn) {
  wl_datagram unknown = datagram(0, 0, 12);
  unknown.arrival.flags = 0;
  push(unknown, 1);
  EXPECT_EQ(pop(20), WL_POP_UNSYNCED);
}

TEST_F(UdpQueue, KeepsTheOrderAndTheWholeEntry) {
  sync(1);
  for (wl_u64 id = 1; id <= 100; ++id) push(datagram(id, 10 + id, 11 + id));
  for (wl_u64 id = 1; id <= 100; ++id) {
    EXPECT_EQ(pop_id(1000), id);
    EXPECT_EQ(out_.queued_ns, (11 + id) * kTickNs);
    EXPECT_EQ(out_.arrival.rx_ns, (10 + id) * kTickNs);
    EXPECT_EQ(out_.sport, 40000);
    EXPECT_EQ(out_.saddr[0], 10);
    EXPECT_EQ(out_.saddr[15], 9);
    EXPECT_EQ(out_.order_unsure, 0u);
  }
}

TEST_F(UdpQueue, AFullQueueIsStillRight) {
  sync(1);
  for (wl_u64 id = 1; id <= WL_UDP_QUEUE_LEN; ++id) {
    EXPECT_FALSE(push(datagram(id, id, id)).overflow);
  }
  for (wl_u64 id = 1; id <= WL_UDP_QUEUE_LEN; ++id) EXPECT_EQ(pop_id(5000), id);
}

TEST_F(UdpQueue, OverflowUnsynchronisesUntilTheKernelHasOneDatagramAgain) {
  sync(1);
  for (wl_u64 id = 1; id <= WL_UDP_QUEUE_LEN; ++id) push(datagram(id, id, id));
  EXPECT_TRUE(push(datagram(600, 600, 600)).overflow);
  EXPECT_FALSE(push(datagram(601, 601, 601), 514).overflow) << "counted once";
  EXPECT_EQ(pop(700), WL_POP_UNSYNCED);
  push(datagram(602, 702, 702), 1);
  EXPECT_EQ(pop_id(703), 602u);
}

TEST_F(UdpQueue, ADebtIsPaidInItsPlace) {
  sync(1);
  push(datagram(1, 10, 11));
  EXPECT_EQ(pop_id(12), 1u);
  ASSERT_EQ(pop(22), WL_POP_DEBT);  // datagram 2 was seen before its sk_data_ready
  const wl_u64 debt = index_;
  EXPECT_EQ(wl_udp_queue_take(queue_.get(), debt, &out_), WL_POP_DEBT);
  const wl_udp_push_result late = push(datagram(2, 21, 24));
  EXPECT_EQ(late.index, debt);
  EXPECT_EQ(late.cancelled, 0);
  push(datagram(3, 31, 32));
  EXPECT_EQ(wl_udp_queue_take(queue_.get(), debt, &out_), WL_POP_OK);
  EXPECT_EQ(out_.arrival.id, 2u);
  EXPECT_EQ(pop_id(40), 3u);
}

TEST_F(UdpQueue, SeveralDebtsArePaidInOrder) {
  sync(1);
  wl_u64 debts[3];
  for (wl_u64& debt : debts) {
    ASSERT_EQ(pop(22), WL_POP_DEBT);
    debt = index_;
  }
  for (wl_u64 id = 1; id <= 3; ++id) push(datagram(id, 10 + id, 30 + id));
  for (wl_u64 id = 1; id <= 3; ++id) {
    ASSERT_EQ(wl_udp_queue_take(queue_.get(), debts[id - 1], &out_), WL_POP_OK);
    EXPECT_EQ(out_.arrival.id, id);
  }
  push(datagram(4, 40, 41));
  EXPECT_EQ(pop_id(42), 4u);
}

TEST_F(UdpQueue, ADatagramThatCameAfterTheReadCancelsTheDebt) {
  sync(1);
  ASSERT_EQ(pop(20), WL_POP_DEBT);
  const wl_u64 debt = index_;
  const wl_udp_push_result result = push(datagram(5, 25, 26));
  EXPECT_EQ(result.cancelled, 1);
  EXPECT_EQ(result.index, debt + 1);
  EXPECT_EQ(wl_udp_queue_take(queue_.get(), debt, &out_), WL_POP_DEBT);
  EXPECT_EQ(pop_id(30), 5u);
}

TEST_F(UdpQueue, TwoLostSignalsNeverPairAReadWithALaterDatagram) {
  sync(1);
  ASSERT_EQ(pop(20), WL_POP_DEBT);
  ASSERT_EQ(pop(21), WL_POP_DEBT);
  wl_u64 rx = 30;
  for (wl_u64 id = 5; id < 10; ++id, rx += 10) {
    push(datagram(id, rx, rx + 1));
    // Datagram by datagram; a debt is allowed (the read is given up), a wrong one is not.
    if (pop(rx + 2) == WL_POP_OK) {
      EXPECT_EQ(out_.arrival.id, id);
    }
  }
  push(datagram(10, rx, rx + 1), 1);
  EXPECT_EQ(pop_id(rx + 2), 10u) << "in step again";
}

TEST_F(UdpQueue, TwoLostSignalsDoNotShiftAQueueThatNeverDrains) {
  sync(1);
  ASSERT_EQ(pop(20), WL_POP_DEBT);
  ASSERT_EQ(pop(21), WL_POP_DEBT);
  push(datagram(5, 30, 31), 1);
  push(datagram(6, 32, 33), 2);
  for (wl_u64 id = 5; id < 15; ++id) {
    const wl_u64 rx = id * 10;
    push(datagram(id + 2, rx, rx + 1), 3);
    if (pop(rx + 2, 2) == WL_POP_OK) {
      EXPECT_EQ(out_.arrival.id, id);
    }
  }
}

// The debt of a time before an overflow: its signal comes when the queue is in step again.
TEST_F(UdpQueue, ADebtFromBeforeTheLossOfStepDoesNotShiftTheReadsAfterIt) {
  sync(1);
  ASSERT_EQ(pop(20), WL_POP_DEBT);  // datagram 1, arrived at 10
  queue_->unpaired_ns = 15 * kTickNs;
  push(datagram(2, 14, 21, 1), 1);  // may be one of those read before: out of step
  push(datagram(3, 25, 26, 1), 1);
  if (pop(27) == WL_POP_OK) {
    EXPECT_EQ(out_.arrival.id, 3u);
  }
  push(datagram(1, 10, 28, 0), 1);
  for (wl_u64 id = 4; id < 9; ++id) {
    push(datagram(id, id * 10, id * 10 + 1, 0), 1);
    if (pop(id * 10 + 2) == WL_POP_OK) {
      EXPECT_EQ(out_.arrival.id, id);
    }
  }
}

TEST_F(UdpQueue, AnUnknownArrivalKeepsItsPlace) {
  sync(1);
  wl_datagram unknown = datagram(0, 0, 12);
  unknown.arrival.flags = 0;
  push(datagram(1, 10, 11));
  push(unknown);
  push(datagram(3, 13, 14));
  EXPECT_EQ(pop_id(20), 1u);
  ASSERT_EQ(pop(21), WL_POP_OK);
  EXPECT_FALSE(out_.arrival.flags & WL_ARR_KNOWN);
  EXPECT_EQ(pop_id(22), 3u);
}

TEST_F(UdpQueue, AnEntryBeingWrittenIsADebtNotAHalfEntry) {
  sync(1);
  const wl_udp_push_result pushed = push(datagram(1, 10, 11));
  wl_datagram& entry = queue_->entries[pushed.index & (WL_UDP_QUEUE_LEN - 1)];
  const wl_u64 whole = entry.generation;
  entry.generation = 0;  // the other CPU has the index and has not finished
  EXPECT_EQ(pop(12), WL_POP_DEBT);
  entry.generation = whole;
  EXPECT_EQ(wl_udp_queue_take(queue_.get(), index_, &out_), WL_POP_OK);
  EXPECT_EQ(out_.arrival.id, 1u);
}

TEST_F(UdpQueue, AnEntryOverwrittenByALaterRoundIsNotTaken) {
  sync(1);
  push(datagram(1, 10, 11));
  ASSERT_EQ(pop_id(12), 1u);
  const wl_u64 old = index_;
  for (wl_u64 id = 2; id <= WL_UDP_QUEUE_LEN + 1; ++id) push(datagram(id, 20, 21));
  EXPECT_EQ(wl_udp_queue_take(queue_.get(), old, &out_), WL_POP_DEBT);
}

TEST_F(UdpQueue, TwoProducersMayTakeTheirPlacesBeforeEitherIsDone) {
  sync(1);
  // CPU 1 has taken its index, CPU 0 overtakes it and finishes first.
  const wl_u64 slow = __sync_fetch_and_add(&queue_->head, 1);
  push(datagram(2, 10, 11, 0));
  ASSERT_EQ(pop(12), WL_POP_DEBT);
  EXPECT_EQ(index_, slow);
  ASSERT_EQ(pop(13), WL_POP_OK);
  EXPECT_EQ(out_.arrival.id, 2u);
  EXPECT_EQ(out_.order_unsure, 1u) << "its neighbour was only being written";
}

TEST_F(UdpQueue, NeighboursOfTwoCpusWithinTheWindowAreMarked) {
  sync(1);
  push(datagram_ns(1, 100'000, 100'100, 0));
  push(datagram_ns(2, 100'050, 100'100 + WL_ORDER_WINDOW_NS - 1, 1));
  push(datagram_ns(3, 200'000, 300'000, 0));
  EXPECT_EQ(pop_id(40), 1u);
  EXPECT_EQ(out_.order_unsure, 1u);
  EXPECT_EQ(pop_id(41), 2u);
  EXPECT_EQ(out_.order_unsure, 1u);
  EXPECT_EQ(pop_id(42), 3u);
  EXPECT_EQ(out_.order_unsure, 0u) << "far enough apart";
}

// On 6.18 a CPU can signal for another one: it finds its own packet first, for the other's
// datagram, and then none.
TEST_F(UdpQueue, ADatagramBeforeAnUnknownArrivalIsMarked) {
  sync(1);
  push(datagram_ns(1, 100'000, 100'100, 0));
  wl_datagram unknown = datagram_ns(0, 0, 100'200, 0);
  unknown.arrival.flags = 0;
  push(unknown);
  EXPECT_EQ(pop_id(20), 1u);
  EXPECT_EQ(out_.order_unsure, 1u);
}

TEST_F(UdpQueue, NeighboursOfOneCpuAreNeverUnsure) {
  sync(1);
  push(datagram_ns(1, 100'000, 100'001, 0));
  push(datagram_ns(2, 100'002, 100'003, 0));
  EXPECT_EQ(pop_id(20), 1u);
  EXPECT_EQ(out_.order_unsure, 0u);
  EXPECT_EQ(pop_id(21), 2u);
  EXPECT_EQ(out_.order_unsure, 0u);
}

// The later index can carry the earlier clock reading: each CPU reads its clock before it takes an
// index.
TEST_F(UdpQueue, NeighboursWhoseClockReadingsCrossAreMarked) {
  sync(1);
  push(datagram_ns(1, 100'000, 100'100, 0));
  push(datagram_ns(2, 100'000, 100'090, 1));
  EXPECT_EQ(pop_id(20), 1u);
  EXPECT_EQ(out_.order_unsure, 1u);
  EXPECT_EQ(pop_id(21), 2u);
  EXPECT_EQ(out_.order_unsure, 1u);
}

// A signal that is later than the whole passage of a datagram on another CPU.
TEST_F(UdpQueue, TheSignalOfAGivenUpDebtDoesNotShiftTheReadsAfterIt) {
  sync(1);
  ASSERT_EQ(pop(20), WL_POP_DEBT);  // datagram 1, arrived at 10 on CPU 0
  push(datagram(2, 25, 26, 1));     // CPU 1: the debt is given up
  push(datagram(1, 10, 27, 0));     // CPU 0 signals at last
  if (pop(28) == WL_POP_OK) {
    EXPECT_EQ(out_.arrival.id, 2u);
  }
  for (wl_u64 id = 3; id < 8; ++id) {
    push(datagram(id, id * 10, id * 10 + 1, 0), 1);
    if (pop(id * 10 + 2) == WL_POP_OK) {
      EXPECT_EQ(out_.arrival.id, id);
    }
  }
}

// Queue at attach: datagram 1 signalled only after it was read, with datagram 2 queued behind it.
TEST_F(UdpQueue, ALateSignalDoesNotSynchroniseOnTheWrongDatagram) {
  ASSERT_EQ(pop(20), WL_POP_UNSYNCED);  // the read of datagram 1, arrived at 10
  push(datagram(1, 10, 21, 0), 1);      // the one datagram queued is number 2
  push(datagram(2, 15, 22, 1), 1);
  if (pop(30) == WL_POP_OK) {
    EXPECT_EQ(out_.arrival.id, 2u);
  }
  for (wl_u64 id = 3; id < 8; ++id) {
    push(datagram(id, id * 20, id * 20 + 1, 0), 1);
    if (pop(id * 20 + 2) == WL_POP_OK) {
      EXPECT_EQ(out_.arrival.id, id);
    }
  }
}

}  // namespace
}  // namespace whylate
