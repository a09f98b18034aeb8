// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The segment queue against a byte stream that remembers which segment brought every byte.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>

#include "logic/tcp_queue.h"

namespace whylate {
namespace {

constexpr wl_u32 kNone = 0;

class StreamModel {
 public:
  StreamModel(wl_u64 seed, wl_u32 start_seq, bool may_overflow)
      : random_(seed), rcv_nxt_(start_seq), copied_(start_seq), may_overflow_(may_overflow) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      if (may_overflow_ && random_() % 500 == 0) {
        for (int n = 0; n < 90; ++n) arrive();
      } else if (random_() % 3 == 0) {
        read();
      } else {
        arrive();
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  wl_u64 overflows = 0;
  wl_u64 reads_of_several = 0;
  wl_u64 partial_reads = 0;
  wl_u64 first_unknown = 0;
  wl_u64 last_unknown = 0;

 private:
  void arrive() {
    if (!may_overflow_ && queue_->head - queue_->tail >= WL_TCP_QUEUE_LEN) return;
    const wl_u32 len = 1 + static_cast<wl_u32>(random_() % 200);
    // Sometimes the segment begins with bytes that were sent before.
    const wl_u32 unread = static_cast<wl_u32>(bytes_.size());
    const wl_u32 again = !may_overflow_ && random_() % 10 == 0
                             ? static_cast<wl_u32>(random_() % (unread + 1)) % 200
                             : 0;
    int overflow = 0;
    wl_segment* segment = wl_tcp_queue_push(queue_.get(), &overflow);
    overflows += overflow != 0;
    segment->seq = rcv_nxt_ - again;
    segment->end_seq = rcv_nxt_ + len;
    segment->arrival.id = ++segments_;
    for (wl_u32 i = 0; i < len; ++i) bytes_.push_back(segments_);
    rcv_nxt_ += len;
  }

  void read() {
    if (bytes_.empty()) return;
    const wl_u32 all = static_cast<wl_u32>(bytes_.size());
    const wl_u32 len = random_() % 2 ? all : 1 + static_cast<wl_u32>(random_() % all);
    const wl_u32 first = bytes_.front();
    const wl_u32 last = bytes_[len - 1];
    if (first != last) ++reads_of_several;
    if (len < all && bytes_[len] == last) ++partial_reads;
    bytes_.erase(bytes_.begin(), bytes_.begin() + len);
    copied_ += len;
    wl_tcp_read read{};
    wl_tcp_queue_read(queue_.get(), copied_, len, &read);
    if (read.last < 0) {
      ++last_unknown;
    } else {
      ASSERT_EQ(id_of(read.last), last) << "read " << len << " of " << all;
    }
    if (read.first < 0) {
      ++first_unknown;
    } else {
      ASSERT_EQ(id_of(read.first), first);
    }
    if (bytes_.empty()) {
      ASSERT_EQ(queue_->head, queue_->tail);
    }
  }

  wl_u64 id_of(wl_s32 slot) const {
    return slot < 0 ? kNone : queue_->entries[slot & (WL_TCP_QUEUE_LEN - 1)].arrival.id;
  }

  std::mt19937_64 random_;
  std::unique_ptr<wl_tcp_queue> queue_ = std::make_unique<wl_tcp_queue>();
  std::deque<wl_u32> bytes_;  // unread: the segment each byte came with
  wl_u32 segments_ = 0;
  wl_u32 rcv_nxt_;
  wl_u32 copied_;
  bool may_overflow_;
};

TEST(TcpQueueModel, FirstAndLastAreTheSegmentsOfThoseBytes) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    StreamModel model(seed, static_cast<wl_u32>(seed * 0x12345678u), false);
    model.run(30'000);
    EXPECT_GT(model.reads_of_several, 1'000u);
    EXPECT_GT(model.partial_reads, 1'000u);
    EXPECT_EQ(model.overflows, 0u);
    EXPECT_EQ(model.first_unknown + model.last_unknown, 0u);
    if (HasFatalFailure()) return;
  }
}

TEST(TcpQueueModel, StaysRightAcrossTheWrapOfTheSequence) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    StreamModel model(seed, 0xffff0000u, false);
    model.run(10'000);
    EXPECT_EQ(model.first_unknown + model.last_unknown, 0u);
    if (HasFatalFailure()) return;
  }
}

// The reader sleeps now and then until more segments wait than the queue holds.
TEST(TcpQueueModel, WhenOverwrittenAByteIsUnknownNeverWrong) {
  wl_u64 overflows = 0;
  wl_u64 unknown = 0;
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    StreamModel model(seed, 0xffff0000u, true);
    model.run(10'000);
    overflows += model.overflows;
    unknown += model.first_unknown;
    EXPECT_LT(model.first_unknown, 500u);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(overflows, 1'000u);
  EXPECT_GT(unknown, 20u);
}

}  // namespace
}  // namespace whylate
