// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "logic/tcp_queue.h"

#include <gtest/gtest.h>

#include <memory>

namespace whylate {
namespace {

class TcpQueue : public testing::Test {
 protected:
  /// A segment of `len` bytes at `seq`; its id is kept in the arrival.
  bool push(wl_u64 id, wl_u32 seq, wl_u32 len) {
    int overflow = 0;
    wl_segment* segment = wl_tcp_queue_push(queue_.get(), &overflow);
    segment->seq = seq;
    segment->end_seq = seq + len;
    segment->probe_ns = 1'000 + id;
    segment->queued_ns = 0;
    segment->arrival.id = id;
    return overflow != 0;
  }
  void read(wl_u32 end, wl_u32 len) { wl_tcp_queue_read(queue_.get(), end, len, &read_); }
  wl_u64 id_of(wl_s32 slot) const {
    return slot < 0 ? 0 : queue_->entries[slot & (WL_TCP_QUEUE_LEN - 1)].arrival.id;
  }
  wl_u64 first() const { return id_of(read_.first); }
  wl_u64 last() const { return id_of(read_.last); }
  wl_u32 waiting() const { return queue_->head - queue_->tail; }

  std::unique_ptr<wl_tcp_queue> queue_ = std::make_unique<wl_tcp_queue>();
  wl_tcp_read read_{};
};

TEST_F(TcpQueue, EmptyKnowsNothing) {
  read(100, 100);
  EXPECT_EQ(read_.first, -1);
  EXPECT_EQ(read_.last, -1);
  EXPECT_EQ(wl_tcp_queue_ready(nullptr, 1, 1), 0);
}

TEST_F(TcpQueue, OneSegmentPerRead) {
  for (wl_u64 id = 1; id <= 500; ++id) {
    const wl_u32 seq = static_cast<wl_u32>(id) * 64;
    EXPECT_FALSE(push(id, seq, 64));
    read(seq + 64, 64);
    EXPECT_EQ(first(), id);
    EXPECT_EQ(last(), id);
    EXPECT_EQ(waiting(), 0u);
  }
}

TEST_F(TcpQueue, SeveralSegmentsInOneRead) {
  push(1, 1000, 100);
  push(2, 1100, 50);
  push(3, 1150, 200);
  push(4, 1350, 10);
  read(1350, 350);
  EXPECT_EQ(first(), 1u);
  EXPECT_EQ(last(), 3u);
  EXPECT_EQ(waiting(), 1u);
  read(1360, 10);
  EXPECT_EQ(first(), 4u);
  EXPECT_EQ(last(), 4u);
}

TEST_F(TcpQueue, PartialReadsKeepTheSegment) {
  push(1, 1000, 60);
  push(2, 1060, 60);
  for (wl_u32 end = 1010; end <= 1050; end += 10) {
    read(end, 10);
    EXPECT_EQ(first(), 1u);
    EXPECT_EQ(last(), 1u);
    EXPECT_EQ(waiting(), 2u);
  }
  read(1090, 40);  // the rest of the first, half of the second
  EXPECT_EQ(first(), 1u);
  EXPECT_EQ(last(), 2u);
  EXPECT_EQ(waiting(), 1u);
  read(1120, 30);
  EXPECT_EQ(first(), 2u);
  EXPECT_EQ(last(), 2u);
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(TcpQueue, SequenceNumbersWrap) {
  push(1, 0xffffffc0, 0x40);  // ends exactly at 0
  push(2, 0x00000000, 0x40);
  push(3, 0x00000040, 0x40);
  read(0x00000000, 0x40);
  EXPECT_EQ(first(), 1u);
  EXPECT_EQ(last(), 1u);
  read(0x60, 0x60);
  EXPECT_EQ(first(), 2u);
  EXPECT_EQ(last(), 3u);
  push(4, 0xffffffff, 2);
  read(0x80, 0x20);
  EXPECT_EQ(last(), 3u);
}

TEST_F(TcpQueue, ASegmentAcrossTheWrap) {
  push(1, 0xfffffff0, 0x20);
  read(0xfffffff8, 8);
  EXPECT_EQ(first(), 1u);
  EXPECT_EQ(last(), 1u);
  read(0x10, 0x18);
  EXPECT_EQ(first(), 1u);
  EXPECT_EQ(last(), 1u);
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(TcpQueue, BytesBeforeTheAttachAreUnknown) {
  push(1, 2000, 100);
  read(1900, 500);  // read of what was queued earlier
  EXPECT_EQ(first(), 0u);
  EXPECT_EQ(last(), 0u);
  EXPECT_EQ(waiting(), 1u);
  read(2100, 200);  // begins before the first known segment
  EXPECT_EQ(first(), 0u);
  EXPECT_EQ(last(), 1u);
}

TEST_F(TcpQueue, OverwritingLosesOnlyTheFirstByte) {
  for (wl_u64 id = 1; id <= WL_TCP_QUEUE_LEN; ++id) {
    EXPECT_FALSE(push(id, static_cast<wl_u32>(id) * 10, 10));
  }
  EXPECT_TRUE(push(65, 650, 10));
  EXPECT_TRUE(push(66, 660, 10));
  EXPECT_EQ(waiting(), static_cast<wl_u32>(WL_TCP_QUEUE_LEN));
  read(670, 660);
  EXPECT_EQ(first(), 0u) << "overwritten: unknown, not the next one";
  EXPECT_EQ(last(), 66u);
  EXPECT_EQ(waiting(), 0u);
  EXPECT_FALSE(push(67, 670, 10));
  read(680, 10);
  EXPECT_EQ(first(), 67u);
  EXPECT_EQ(last(), 67u);
}

TEST_F(TcpQueue, SegmentsOutOfOrderAreReadInStreamOrder) {
  push(2, 1100, 100);
  push(3, 1200, 100);
  push(1, 1000, 100);  // fills the hole
  read(1300, 300);
  EXPECT_EQ(first(), 1u);
  EXPECT_EQ(last(), 1u) << "nothing could be read before the hole was filled";
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(TcpQueue, ReadsInPiecesBehindAHole) {
  push(2, 1100, 100);
  push(1, 1000, 100);
  push(3, 1200, 100);
  read(1100, 100);
  EXPECT_EQ(first(), 1u);
  EXPECT_EQ(last(), 1u);
  read(1200, 100);
  EXPECT_EQ(last(), 2u);
  read(1300, 100);
  EXPECT_EQ(first(), 3u);
  EXPECT_EQ(last(), 3u);
  EXPECT_EQ(waiting(), 0u);
}

// Data that had arrived when it was sent again: the first copy is what was read.
TEST_F(TcpQueue, ARetransmissionDoesNotMoveTheArrival) {
  push(2, 1100, 100);
  push(1, 1000, 100);
  push(9, 1100, 100);
  read(1200, 200);
  EXPECT_EQ(first(), 1u);
  EXPECT_EQ(last(), 1u);
  EXPECT_EQ(waiting(), 0u);
  push(3, 1200, 100);
  read(1300, 100);
  EXPECT_EQ(first(), 3u);
  EXPECT_EQ(last(), 3u);
}

// A lost segment, sent again after what followed it: it alone made the request whole.
TEST_F(TcpQueue, TheRetransmissionThatFillsAHoleIsWhatTheReadWaitedFor) {
  push(1, 1000, 100);
  push(3, 1200, 100);
  push(4, 1300, 100);
  push(2, 1100, 250);  // and more, as the sender may merge
  push(5, 1400, 100);
  read(1400, 400);
  EXPECT_EQ(first(), 1u);
  EXPECT_EQ(last(), 2u);
  read(1500, 100);
  EXPECT_EQ(last(), 5u);
}

TEST_F(TcpQueue, ASecondCopyThatBringsMoreCompletesTheRead) {
  push(1, 1000, 100);
  push(2, 1000, 150);
  read(1150, 150);
  EXPECT_EQ(last(), 2u);
}

TEST_F(TcpQueue, AnOverlappingRetransmissionBringsOnlyItsNewBytes) {
  push(1, 1000, 100);
  push(2, 1000, 150);
  read(1100, 100);
  EXPECT_EQ(first(), 1u);
  EXPECT_EQ(last(), 1u);
  read(1150, 50);
  EXPECT_EQ(first(), 2u);
  EXPECT_EQ(last(), 2u);
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(TcpQueue, ReadyStampsOnlyWhatIsNew) {
  push(1, 1000, 100);
  wl_tcp_queue_ready(queue_.get(), 1100, 50);
  push(2, 1100, 100);
  push(3, 1200, 100);
  wl_tcp_queue_ready(queue_.get(), 1300, 60);
  wl_tcp_queue_ready(queue_.get(), 1300, 70);
  EXPECT_EQ(queue_->entries[0].queued_ns, 50u);
  EXPECT_EQ(queue_->entries[1].queued_ns, 60u);
  EXPECT_EQ(queue_->entries[2].queued_ns, 60u);
}

TEST_F(TcpQueue, ReadyLeavesReadSegmentsAlone) {
  push(1, 1000, 100);
  read(1100, 100);
  wl_tcp_queue_ready(queue_.get(), 1100, 60);
  EXPECT_EQ(queue_->entries[0].queued_ns, 0u);
}

TEST_F(TcpQueue, ASegmentBehindAHoleIsNotReady) {
  push(1, 1100, 100);
  push(2, 1300, 100);
  push(3, 1000, 100);
  wl_tcp_queue_ready(queue_.get(), 1200, 50);
  EXPECT_EQ(queue_->entries[0].queued_ns, 50u);
  EXPECT_EQ(queue_->entries[1].queued_ns, 0u) << "1200 is missing";
  EXPECT_EQ(queue_->entries[2].queued_ns, 50u);
  push(4, 1200, 100);
  wl_tcp_queue_ready(queue_.get(), 1400, 60);
  EXPECT_EQ(queue_->entries[0].queued_ns, 50u);
  EXPECT_EQ(queue_->entries[1].queued_ns, 60u) << "behind one that is ready already";
  EXPECT_EQ(queue_->entries[3].queued_ns, 60u);
}

TEST_F(TcpQueue, ReadyGoesByTheSequenceNumberAlsoWhereItWraps) {
  push(1, 0xffffffc0u, 0x80);
  wl_tcp_queue_ready(queue_.get(), 0xfffffff0u, 50);
  EXPECT_EQ(queue_->entries[0].queued_ns, 0u);
  wl_tcp_queue_ready(queue_.get(), 0x40, 60);
  EXPECT_EQ(queue_->entries[0].queued_ns, 60u);
}

}  // namespace
}  // namespace whylate
