// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The clocks of two CPUs may differ: what a read up to WL_CLOCK_SKEW_NS before an arrival means.
#include <gtest/gtest.h>

#include <memory>

#include "logic/udp_queue.h"

namespace whylate {
namespace {

constexpr wl_u64 kReadNs = 1'000'000;

class UdpQueueSkew : public testing::Test {
 protected:
  wl_udp_push_result push(wl_u64 id, wl_u64 rx_ns, wl_u32 kernel_queue_len = 0) {
    wl_datagram d{};
    d.queued_ns = rx_ns + 500;
    d.arrival.id = id;
    d.arrival.rx_ns = rx_ns;
    d.arrival.flags = WL_ARR_KNOWN;
    return wl_udp_queue_push(queue_.get(), &d, kernel_queue_len);
  }
  wl_udp_pop_status pop(wl_u64 now_ns, wl_u32 kernel_queue_len = 0) {
    return wl_udp_queue_pop(queue_.get(), now_ns, kernel_queue_len, &index_, &out_);
  }
  /// The id of an entry that must be there.
  wl_u64 pop_id(wl_u64 now_ns) {
    const wl_udp_pop_status status = pop(now_ns);
    EXPECT_EQ(status, WL_POP_OK);
    return status == WL_POP_OK ? out_.arrival.id : 0;
  }
  /// A queue in step, whose last read at kReadNs found its slot empty. Returns the slot's index.
  wl_u64 owe() {
    *queue_ = {};
    push(999, 100'000, 1);
    EXPECT_EQ(pop_id(110'000), 999u);
    EXPECT_EQ(pop(kReadNs), WL_POP_DEBT);
    return index_;
  }
  /// Datagrams that come and are read one by one, far apart.
  void expect_in_step(wl_u64 from_ns) {
    for (wl_u64 id = 100; id < 110; ++id, from_ns += 50'000) {
      EXPECT_EQ(push(id, from_ns).cancelled, 0);
      EXPECT_EQ(pop_id(from_ns + 10'000), id);
    }
    EXPECT_EQ(queue_->head, queue_->tail);
  }

  std::unique_ptr<wl_udp_queue> queue_ = std::make_unique<wl_udp_queue>();
  wl_u64 index_ = 0;
  wl_datagram out_{};
};

TEST_F(UdpQueueSkew, AnArrivalWithinTheSlackPaysTheDebtInItsPlace) {
  for (const wl_u64 after_ns : {0, 1, 1'000, WL_CLOCK_SKEW_NS}) {
    SCOPED_TRACE(after_ns);
    const wl_u64 debt = owe();
    const wl_udp_push_result result = push(1, kReadNs + after_ns);
    EXPECT_EQ(result.cancelled, 0);
    EXPECT_EQ(result.index, debt);
    EXPECT_EQ(queue_->synced, static_cast<wl_u32>(WL_UDP_SYNCED));
    EXPECT_EQ(queue_->unpaired_ns, 0u);
    ASSERT_EQ(wl_udp_queue_take(queue_.get(), debt, &out_), WL_POP_OK);
    EXPECT_EQ(out_.arrival.id, 1u);
    expect_in_step(kReadNs + 50'000);
  }
}

TEST_F(UdpQueueSkew, AnArrivalBeyondTheSlackCancelsTheDebt) {
  for (const wl_u64 after_ns : {WL_CLOCK_SKEW_NS + 1, 6'000, 20'000, 1'000'000}) {
    SCOPED_TRACE(after_ns);
    const wl_u64 debt = owe();
    const wl_udp_push_result result = push(1, kReadNs + after_ns);
    EXPECT_EQ(result.cancelled, 1);
    EXPECT_EQ(result.index, debt + 1);
    EXPECT_EQ(wl_udp_queue_take(queue_.get(), debt, &out_), WL_POP_DEBT);
    EXPECT_EQ(pop_id(kReadNs + after_ns + 1'000), 1u);
    expect_in_step(kReadNs + after_ns + 50'000);
  }
}

TEST_F(UdpQueueSkew, AnArrivalWithinTheSlackOfAnUnpairedReadIsNothingToSynchroniseOn) {
  ASSERT_EQ(pop(kReadNs), WL_POP_UNSYNCED);
  push(1, kReadNs + 1'000, 1);
  EXPECT_EQ(queue_->synced, static_cast<wl_u32>(WL_UDP_UNSYNCED));
  ASSERT_EQ(pop(kReadNs + 2'000), WL_POP_UNSYNCED);
  push(2, kReadNs + 2'000 + 6'000, 1);
  EXPECT_EQ(pop_id(kReadNs + 10'000), 2u);
  expect_in_step(kReadNs + 50'000);
}

// A signal that never comes, and the next datagram within the slack: it cannot be told from the
// missing one. The error lasts until the queue is empty for longer than the slack.
TEST_F(UdpQueueSkew, AShiftByALostSignalEndsAtTheFirstPause) {
  owe();
  push(2, kReadNs + 1'000);
  push(3, kReadNs + 2'000);
  pop(kReadNs + 10'000);
  ASSERT_EQ(pop(kReadNs + 20'000), WL_POP_DEBT);
  const wl_udp_push_result result = push(4, kReadNs + 26'000);
  EXPECT_EQ(result.cancelled, 1);
  EXPECT_EQ(pop_id(kReadNs + 27'000), 4u);
  expect_in_step(kReadNs + 100'000);
}

}  // namespace
}  // namespace whylate
