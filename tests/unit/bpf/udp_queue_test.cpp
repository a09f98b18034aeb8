// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "logic/udp_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

namespace whylate {
namespace {

constexpr wl_u64 kTickNs = 1'000;

/// The kernel's queue is a list of ids; an id's address is skb_of(id). Times are in ticks.
class UdpQueue : public testing::Test {
 protected:
  static wl_u64 skb_of(wl_u64 id) { return 0xffff888000000000 + id * 256; }
  static wl_datagram datagram(wl_u64 id, wl_u64 rx, wl_u16 pusher = 0) {
    wl_datagram d{};
    d.queued_ns = (rx + 1) * kTickNs;
    d.arrival.id = id;
    d.arrival.rx_ns = rx * kTickNs;
    d.arrival.rx_cpu = pusher;
    d.arrival.flags = WL_ARR_KNOWN;
    d.saddr[0] = 10;
    d.saddr[15] = 9;
    d.sport = 40000;
    d.pusher = pusher;
    return d;
  }
  /// Queued and signalled.
  wl_udp_push_result push(wl_u64 id, wl_u64 rx, wl_u16 pusher = 0) {
    kernel_.push_back(id);
    return signal(id, rx, pusher);
  }
  /// The signal alone; the kernel's queue holds the datagram, or it has been read.
  wl_udp_push_result signal(wl_u64 id, wl_u64 rx, wl_u16 pusher = 0) {
    wl_datagram d = datagram(id, rx, pusher);
    for (const wl_u64 queued : kernel_) {
      if (queued == id) d.skb = skb_of(id);
    }
    return push_datagram(d, skb_of(id));
  }
  wl_udp_push_result push_datagram(const wl_datagram& d, wl_u64 skb = 0) {
    wl_udp_push_result result{};
    result.debts_before = queue_->debt_head;
    wl_udp_queue_push(queue_.get(), &d, skb, &result);
    return result;
  }
  /// Takes the first datagram from the kernel's queue and ends the read of it at `now`.
  wl_udp_pop_status read(wl_u64 now, wl_u16 cpu = 1) {
    kernel_.pop_front();
    return end_read(now, cpu);
  }
  wl_udp_pop_status end_read(wl_u64 now, wl_u16 cpu = 1) {
    read_ = {};
    read_.now = now * kTickNs;
    read_.head = queue_->head;
    read_.front = kernel_.empty() ? 0 : skb_of(kernel_[0]);
    read_.second = kernel_.size() < 2 ? 0 : skb_of(kernel_[1]);
    read_.cpu = cpu;
    read_.shared = shared_;
    return wl_udp_queue_pop(queue_.get(), &read_, &index_, &out_);
  }
  /// The id that is paired with the next read.
  wl_u64 read_id(wl_u64 now) {
    const wl_udp_pop_status status = read(now);
    EXPECT_EQ(status, WL_POP_OK);
    return status == WL_POP_OK ? out_.arrival.id : 0;
  }
  wl_u64 debt_id(wl_u64 index) {
    wl_datagram out{};
    return wl_udp_queue_take(queue_.get(), index, &out) == WL_POP_OK ? out.arrival.id : 0;
  }
  void sync() {
    push(999, 1);
    ASSERT_EQ(read_id(3), 999u);
  }

  std::unique_ptr<wl_udp_queue> queue_ = std::make_unique<wl_udp_queue>();
  std::deque<wl_u64> kernel_;
  wl_udp_read read_{};
  wl_u64 index_ = 0;
  wl_datagram out_{};
  wl_u8 shared_ = 0;
};

TEST_F(UdpQueue, AReadOfWhatWasQueuedBeforeTheAttachIsUnknown) {
  for (wl_u64 old = 1; old <= 5; ++old) kernel_.push_back(old);
  push(6, 20);
  push(7, 22);
  for (int n = 0; n < 5; ++n) EXPECT_EQ(read(30), WL_POP_UNSYNCED);
  EXPECT_EQ(read_id(31), 6u);
  EXPECT_EQ(read_id(32), 7u);
}

TEST_F(UdpQueue, TheFirstDatagramAfterTheAttachIsPaired) {
  push(1, 10);
  EXPECT_EQ(read_id(12), 1u);
  EXPECT_TRUE(read_.proven);
}

// A reader that is between taking a datagram and the end of its read when the next one is queued.
TEST_F(UdpQueue, AReadOnItsWayOutDoesNotGetTheDatagramBehindIt) {
  push(2, 14);
  EXPECT_EQ(end_read(20), WL_POP_UNSYNCED);  // the read of datagram 1: number 2 is still there
  EXPECT_EQ(read_id(30), 2u);
}

TEST_F(UdpQueue, ANewSocketTakesNoOldEntry) {
  sync();
  for (wl_u64 id = 1; id <= 5; ++id) push(id, 10 + id);
  kernel_.clear();
  wl_udp_queue_reset(queue_.get());
  kernel_.push_back(50);
  EXPECT_EQ(read(30), WL_POP_UNSYNCED);
  push(6, 40);
  EXPECT_EQ(read_id(42), 6u);
}

TEST_F(UdpQueue, KeepsTheOrderAndTheWholeEntry) {
  for (wl_u64 id = 1; id <= 100; ++id) push(id, 10 + id);
  for (wl_u64 id = 1; id <= 100; ++id) {
    EXPECT_EQ(read_id(1000), id);
    EXPECT_EQ(out_.queued_ns, (11 + id) * kTickNs);
    EXPECT_EQ(out_.arrival.rx_ns, (10 + id) * kTickNs);
    EXPECT_EQ(out_.sport, 40000);
    EXPECT_EQ(out_.saddr[0], 10);
    EXPECT_EQ(out_.saddr[15], 9);
    EXPECT_EQ(out_.order_unsure, 0u);
  }
}

TEST_F(UdpQueue, AFullQueueIsStillRightAndOneMoreStartsAnew) {
  for (wl_u64 id = 1; id <= WL_UDP_QUEUE_LEN; ++id) EXPECT_FALSE(push(id, id).overflow);
  for (wl_u64 id = 1; id <= WL_UDP_QUEUE_LEN; ++id) ASSERT_EQ(read_id(5000), id);
  for (wl_u64 id = 1; id <= WL_UDP_QUEUE_LEN; ++id) push(id, id);
  EXPECT_TRUE(push(600, 600).overflow);
  EXPECT_FALSE(push(601, 601).overflow) << "counted once";
  for (wl_u64 id = 1; id <= WL_UDP_QUEUE_LEN; ++id) ASSERT_EQ(read(700), WL_POP_UNSYNCED);
  EXPECT_EQ(read_id(701), 600u);
  EXPECT_EQ(read_id(702), 601u);
}

TEST_F(UdpQueue, ADebtIsPaidByTheLateSignal) {
  sync();
  kernel_.push_back(2);
  ASSERT_EQ(read(22), WL_POP_DEBT);  // before its sk_data_ready
  const wl_u64 debt = index_;
  EXPECT_EQ(debt_id(debt), 0u);
  const wl_udp_push_result late = signal(2, 21);
  EXPECT_EQ(late.index, debt);
  EXPECT_TRUE(late.paid);
  EXPECT_EQ(debt_id(debt), 2u);
  push(3, 31);
  EXPECT_EQ(read_id(40), 3u);
}

TEST_F(UdpQueue, SeveralDebtsArePaidInOrder) {
  sync();
  wl_u64 debts[3];
  for (wl_u64 id = 1; id <= 3; ++id) {
    kernel_.push_back(id);
    ASSERT_EQ(read(22), WL_POP_DEBT);
    debts[id - 1] = index_;
  }
  for (wl_u64 id = 1; id <= 3; ++id) signal(id, 10 + id);
  for (wl_u64 id = 1; id <= 3; ++id) EXPECT_EQ(debt_id(debts[id - 1]), id);
  push(4, 40);
  EXPECT_EQ(read_id(42), 4u);
}

TEST_F(UdpQueue, ADatagramInTheKernelsQueueNeverPaysADebt) {
  sync();
  kernel_.push_back(1);
  ASSERT_EQ(read(20), WL_POP_DEBT);
  const wl_u64 debt = index_;
  push(2, 15, 1);  // queued since, by another CPU, and still there
  EXPECT_EQ(debt_id(debt), 0u);
  signal(1, 10, 0);
  EXPECT_EQ(debt_id(debt), 1u);
  EXPECT_EQ(read_id(30), 2u);
}

TEST_F(UdpQueue, ADatagramThatCameAfterTheReadDoesNotPayIt) {
  sync();
  kernel_.push_back(1);
  ASSERT_EQ(read(20), WL_POP_DEBT);
  const wl_u64 debt = index_;
  kernel_.push_back(5);
  kernel_.pop_front();  // taken by the reader, which has not come back yet
  signal(5, 40, 1);
  EXPECT_EQ(debt_id(debt), 0u);
  ASSERT_EQ(end_read(50), WL_POP_OK);
  EXPECT_EQ(out_.arrival.id, 5u);
  signal(1, 10, 0);
  EXPECT_EQ(debt_id(debt), 1u);
}

// The clocks of two CPUs may differ, those of one may not.
TEST_F(UdpQueue, TheSlackOfTheClocksIsForTwoCpusOnly) {
  for (const wl_u16 rx_cpu : {0, 1}) {
    *queue_ = {};
    sync();
    kernel_.push_back(1);
    ASSERT_EQ(read(20, 1), WL_POP_DEBT);
    const wl_u64 debt = index_;
    signal(1, 24, rx_cpu);
    EXPECT_EQ(debt_id(debt), rx_cpu == 0 ? 1u : 0u);
  }
}

// By the clocks it came after the read that lacks a datagram, but only just: whose it was is open.
TEST_F(UdpQueue, ADatagramThatTheClocksRefuseIsMarked) {
  for (const wl_u64 late : {6, 90, 110}) {
    for (const wl_u16 reader_cpu : {0, 1}) {
      *queue_ = {};
      sync();
      kernel_.push_back(1);
      ASSERT_EQ(read(20, reader_cpu), WL_POP_DEBT);
      const wl_u64 debt = index_;
      signal(1, 20 + late);
      EXPECT_EQ(debt_id(debt), 0u);
      kernel_.push_back(2);
      ASSERT_EQ(read(150, reader_cpu), WL_POP_OK);  // before the signal of what it returned
      EXPECT_EQ(out_.arrival.id, 1u);
      EXPECT_EQ(out_.order_unsure, late < 100 && reader_cpu == 1) << late << ", " << reader_cpu;
    }
  }
}

// A read that ends between the look at the kernel's queue and the push.
TEST_F(UdpQueue, AReadThatEndsDuringThePushIsPaired) {
  for (const bool seen_queued : {true, false}) {
    *queue_ = {};
    sync();
    wl_udp_push_result result{};
    result.debts_before = queue_->debt_head;
    wl_datagram d = datagram(1, 10);
    d.skb = seen_queued ? skb_of(1) : 0;
    kernel_ = {1};
    ASSERT_EQ(read(20), WL_POP_DEBT);
    const wl_u64 debt = index_;
    wl_udp_queue_push(queue_.get(), &d, skb_of(1), &result);
    EXPECT_EQ(debt_id(debt), 1u);
    push(2, 30);
    push(3, 31);
    EXPECT_EQ(read_id(40), 2u);
    EXPECT_EQ(read_id(41), 3u);
  }
}

TEST_F(UdpQueue, AnEntryThatComesWhileTheDebtIsMadeIsTaken) {
  for (const bool seen_queued : {true, false}) {
    *queue_ = {};
    sync();
    kernel_ = {1};
    ASSERT_EQ(read(20), WL_POP_DEBT);
    const wl_u64 debt = index_;
    wl_udp_debt& owed = queue_->debts[debt & (WL_UDP_DEBTS - 1)];
    owed.state = WL_DEBT_NONE;  // not there yet when the push looks
    wl_datagram d = datagram(1, 10);
    d.skb = seen_queued ? skb_of(1) : 0;
    push_datagram(d, skb_of(1));
    owed.state = WL_DEBT_OPEN;
    ASSERT_EQ(wl_udp_queue_retry(queue_.get(), &read_, &index_, &out_), WL_POP_OK);
    EXPECT_EQ(out_.arrival.id, 1u);
    push(2, 30);
    EXPECT_EQ(read_id(40), 2u);
  }
}

TEST_F(UdpQueue, ADatagramQueuedSinceTheReadIsNotTakenForIt) {
  sync();
  kernel_ = {1};
  ASSERT_EQ(read(20), WL_POP_DEBT);
  push(2, 21, 1);
  read_.front = skb_of(2);
  EXPECT_EQ(wl_udp_queue_retry(queue_.get(), &read_, &index_, &out_), WL_POP_DEBT);
  EXPECT_EQ(read_id(30), 2u);
}

TEST_F(UdpQueue, ASignalThatNeverComesShiftsNothing) {
  sync();
  kernel_.push_back(1);
  ASSERT_EQ(read(20), WL_POP_DEBT);
  const wl_u64 debt = index_;
  for (wl_u64 id = 2; id < 300; ++id) {
    push(id, id * 1'000);
    EXPECT_EQ(read_id(id * 1'000 + 5), id);
  }
  EXPECT_TRUE(wl_udp_debt_is_over(queue_.get(), debt)) << "given up in the end";
  EXPECT_EQ(debt_id(debt), 0u) << "so its request ends unpaired: that is the one place it has";
}

TEST_F(UdpQueue, ADatagramThatTheKernelDropsFromItsQueueShiftsNothing) {
  for (wl_u64 id = 1; id <= 6; ++id) push(id, 10 + id);
  EXPECT_EQ(read_id(20), 1u);
  kernel_.erase(kernel_.begin());  // number 2: a bad checksum, seen by poll()
  EXPECT_EQ(read_id(21), 3u);
  kernel_.erase(kernel_.begin());  // number 4
  EXPECT_EQ(read_id(22), 5u);
  EXPECT_EQ(read_id(23), 6u);
  push(7, 30);
  EXPECT_EQ(read_id(31), 7u);
}

TEST_F(UdpQueue, AnUnknownArrivalKeepsItsPlace) {
  push(1, 10);
  kernel_.push_back(2);
  wl_datagram unknown = datagram(0, 0);
  unknown.arrival.flags = 0;
  unknown.skb = skb_of(2);
  push_datagram(unknown);
  push(3, 13);
  EXPECT_EQ(read_id(20), 1u);
  ASSERT_EQ(read(21), WL_POP_OK);
  EXPECT_FALSE(out_.arrival.flags & WL_ARR_KNOWN);
  EXPECT_EQ(read_id(22), 3u);
}

// Two that no program has seen come, and one behind them: the signal pushes all three.
TEST_F(UdpQueue, DatagramsThatCameUnseenKeepTheirPlaces) {
  sync();
  kernel_ = {1, 2, 3};
  for (const wl_u64 id : {1, 2}) {
    EXPECT_EQ(wl_udp_seen(queue_->last_skb == skb_of(id), 0, 0, 0), WL_SEEN_STRANGE);
    wl_datagram unseen = datagram(0, 0);
    unseen.arrival.flags = 0;
    unseen.skb = skb_of(id);
    unseen.queued_ns = 13 * kTickNs;
    push_datagram(unseen);
  }
  signal(3, 12);
  for (int n = 0; n < 2; ++n) {
    ASSERT_EQ(read(20), WL_POP_OK);
    EXPECT_FALSE(out_.arrival.flags & WL_ARR_KNOWN);
    EXPECT_TRUE(read_.proven);
  }
  EXPECT_EQ(read_id(21), 3u);
  EXPECT_TRUE(read_.proven);
}

TEST_F(UdpQueue, TheNewestPushedDatagramCountsOnlyUntilItIsRead) {
  sync();
  push(1, 10);
  EXPECT_EQ(queue_->last_skb, skb_of(1));
  EXPECT_EQ(wl_udp_seen(1, 0, 0, 0), WL_SEEN_PUSHED);
  push(2, 11);
  ASSERT_EQ(read_id(20), 1u);
  EXPECT_EQ(queue_->last_skb, skb_of(2)) << "still there";
  ASSERT_EQ(read_id(21), 2u);
  EXPECT_EQ(queue_->last_skb, 0u) << "the next one may have its address";
}

TEST_F(UdpQueue, APacketIsNewUntilItsSocketsHaveIt) {
  EXPECT_EQ(wl_udp_seen(0, 1, 0, 0), WL_SEEN_NEW);
  EXPECT_EQ(wl_udp_seen(1, 1, 1, 0), WL_SEEN_PUSHED);
  EXPECT_EQ(wl_udp_seen(0, 1, 1, 0), WL_SEEN_PUSHED);
  EXPECT_EQ(wl_udp_seen(1, 1, 0, 0), WL_SEEN_NEW)
      << "a later packet at the address of an older one";
  EXPECT_EQ(wl_udp_seen(0, 1, 0, 1), WL_SEEN_NEW);
  EXPECT_EQ(wl_udp_seen(1, 1, 0, 1), WL_SEEN_PUSHED) << "multicast: others still want it";
}

TEST_F(UdpQueue, AnEntryBeingWrittenIsLookedAtAgain) {
  sync();
  const wl_udp_push_result pushed = push(1, 10);
  wl_datagram& entry = queue_->entries[pushed.index & (WL_UDP_QUEUE_LEN - 1)];
  const wl_u64 whole = entry.generation;
  entry.generation = 0;  // the other CPU has the index and has not finished
  EXPECT_EQ(read(12), WL_POP_DEBT);
  entry.generation = whole;
  EXPECT_EQ(debt_id(index_), 1u);
}

TEST_F(UdpQueue, AnEntryOverwrittenByALaterRoundIsNotTaken) {
  sync();
  push(1, 10);
  ASSERT_EQ(read_id(12), 1u);
  const wl_u64 old = index_;
  for (wl_u64 id = 2; id <= WL_UDP_QUEUE_LEN + 1; ++id) push(id, 20);
  EXPECT_EQ(debt_id(old), 0u);
}

// Number 1 was queued and read first, its CPU signals after the other one's.
TEST_F(UdpQueue, AnOvertakingSignalIsSeenThrough) {
  sync();
  kernel_ = {1, 2};
  kernel_.pop_front();  // the reader has taken number 1
  signal(2, 20, 1);
  signal(1, 10, 0);
  ASSERT_EQ(end_read(30), WL_POP_OK);  // number 2 is still there
  EXPECT_EQ(out_.arrival.id, 1u);
  EXPECT_EQ(read_id(31), 2u);
  EXPECT_TRUE(read_.proven);
}

TEST_F(UdpQueue, TwoPushesInTheWrongOrderAreSwapped) {
  sync();
  kernel_ = {1, 2, 3};
  signal(2, 20, 1);
  signal(1, 10, 0);
  signal(3, 30, 0);
  EXPECT_EQ(read_id(40), 1u);
  EXPECT_EQ(read_id(41), 2u);
  EXPECT_EQ(read_id(42), 3u);
}

// Only the next datagram tells; when nobody has signalled it yet there is no evidence.
TEST_F(UdpQueue, WithoutEvidenceNeighboursOfTwoCpusAreMarked) {
  for (const wl_u16 other : {0, 1}) {
    *queue_ = {};
    kernel_.clear();
    sync();
    push(1, 100, 0);
    push(2, 101, other);
    kernel_.push_back(3);  // not signalled
    EXPECT_EQ(read_id(110), 1u);
    EXPECT_EQ(out_.order_unsure, 0u) << "number 2 is next";
    EXPECT_EQ(read_id(111), 2u);
    EXPECT_FALSE(read_.proven);
    EXPECT_EQ(out_.order_unsure, other);
  }
}

TEST_F(UdpQueue, ADebtWhereTwoCpusSignalIsMarked) {
  sync();
  push(1, 10, 1);
  EXPECT_EQ(read_id(12), 1u);
  kernel_.push_back(2);
  ASSERT_EQ(read(22), WL_POP_DEBT);
  signal(2, 21, 0);
  wl_datagram out{};
  ASSERT_EQ(wl_udp_queue_take(queue_.get(), index_, &out), WL_POP_OK);
  EXPECT_EQ(out.order_unsure, 1u);
}

TEST_F(UdpQueue, SeveralReadersAreSureWhenTheNextDatagramTells) {
  shared_ = 1;
  for (wl_u64 id = 1; id <= 4; ++id) push(id, 10 + id);
  EXPECT_EQ(read_id(20), 1u);
  EXPECT_FALSE(read_.unsure);
  // Two have taken 2 and 3; whoever ends first may be either.
  kernel_.pop_front();
  EXPECT_EQ(read(21), WL_POP_OK);
  EXPECT_TRUE(read_.unsure);
  EXPECT_EQ(end_read(22), WL_POP_OK);
  EXPECT_TRUE(read_.unsure);
  EXPECT_EQ(read_id(500), 4u);
}

TEST_F(UdpQueue, SeveralReadersGetBackInStep) {
  shared_ = 1;
  push(1, 10);
  push(2, 11);
  kernel_.erase(kernel_.begin());  // gone without a read
  EXPECT_EQ(read(20), WL_POP_OK);
  for (wl_u64 id = 10; id < 100; ++id) {
    push(id, id * 1'000);
    EXPECT_EQ(read(id * 1'000 + 5), WL_POP_OK);
    if (!read_.unsure) {
      EXPECT_EQ(out_.arrival.id, id);
    }
  }
  EXPECT_EQ(queue_->head, queue_->tail);
}

}  // namespace
}  // namespace whylate
