// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whatever marks are missing or out of order: the stages of a request sum to its total, to the ns.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <random>

#include "stages_model.h"

namespace whylate {
namespace {

class RandomMarks {
 public:
  explicit RandomMarks(wl_u64 seed) : random_(seed) {}

  /// Anywhere in and around the request; sometimes missing, sometimes absurd.
  wl_u64 mark() {
    switch (random_() % 12) {
      case 0:
        return 0;
      case 1:
        return ~wl_u64{0} >> (random_() % 8);
      default:
        return kBase + random_() % kSpan;
    }
  }
  wl_u64 counter() { return random_() % 4 ? random_() % kSpan : random_(); }
  wl_u64 below(wl_u64 limit) { return random_() % limit; }

  static constexpr wl_u64 kBase = 1'000'000;
  static constexpr wl_u64 kSpan = 100'000;

 private:
  std::mt19937_64 random_;
};

wl_arrival random_arrival(RandomMarks& random) {
  wl_arrival a{};
  a.origin_ns = random.mark();
  a.raise_ns = random.mark();
  a.entry_ns = random.mark();
  a.rx_ns = RandomMarks::kBase + random.below(RandomMarks::kSpan);
  a.origin = static_cast<wl_u8>(random.below(WL_ORIGIN_SOCKET + 1));
  a.flags = static_cast<wl_u8>(random.below(64));
  return a;
}

wl_thread random_thread(RandomMarks& random) {
  wl_thread t{};
  t.nr_waits = static_cast<wl_u32>(random.below(20));
  t.activity_ns = random.mark();
  for (wl_wait& wait : t.waits) {
    wait.start_ns = random.mark();
    wait.wakeup_ns = random.mark();
    wait.in_ns = random.mark();
    wait.idle_end_ns = random.below(2) ? 0 : random.mark();
    wait.throttled_ns = random.below(2) ? 0 : random.below(RandomMarks::kSpan);
    wait.kind = random.below(2) ? WL_WAIT_WAKE : WL_WAIT_PREEMPTED;
  }
  return t;
}

TEST(StagesProperty, AnyMarksSumToTheTotal) {
  wl_u64 clamped_requests = 0;
  for (wl_u64 seed = 1; seed <= 200'000; ++seed) {
    RandomMarks random(seed);
    const wl_arrival arrival = random_arrival(random);
    const wl_thread thread = random_thread(random);
    const wl_thread other = random_thread(random);
    const wl_thread* by = random.below(2) ? &other : nullptr;
    const wl_u64 recv_ns = RandomMarks::kBase + random.below(RandomMarks::kSpan);
    const wl_u64 end_ns = recv_ns + random.below(RandomMarks::kSpan);
    const auto random_time = [&random] {
      wl_thread_time time{random.counter(), random.counter(), random.counter(), {}};
      for (wl_u64& ns : time.theft_ns) ns = random.counter();
      return time;
    };
    const wl_thread_time before = random_time();
    const wl_thread_time after = random_time();
    test::Stages stages;
    wl_u64 clamped = 0;
    wl_u64 queued_ns = RandomMarks::kBase + random.below(RandomMarks::kSpan);
    const wl_u64 start_ns =
        wl_stages_arrival(&arrival, random.mark(), &queued_ns, recv_ns, stages.data(), &clamped);
    ASSERT_LE(start_ns, queued_ns) << seed;
    ASSERT_LE(queued_ns, recv_ns) << seed;
    ASSERT_EQ(stages.sum(), queued_ns - start_ns) << seed;
    std::array<wl_u64, WL_NR_THEFT> theft{};
    wl_read_split split{};
    wl_stages_read(&thread, by, queued_ns, recv_ns, random.mark(), stages.data(), &split);
    ASSERT_EQ(stages.sum(), recv_ns - start_ns) << seed;
    wl_stages_app(recv_ns, random.mark(), random.mark(), random.mark(), end_ns, &before, &after,
                  stages.data(), theft.data());
    ASSERT_EQ(stages.sum(), end_ns - start_ns) << seed;
    ASSERT_EQ(std::accumulate(theft.begin(), theft.end(), wl_u64{0}), stages[WL_STAGE_APP_IRQ])
        << seed;
    for (int stage = 0; stage < WL_NR_STAGES; ++stage) {
      ASSERT_LE(stages.ns[stage], end_ns - start_ns) << "stage " << stage << " seed " << seed;
    }
    ASSERT_EQ(wl_stages_close(start_ns, end_ns, stages.data()), 1) << seed;
    ASSERT_EQ(stages[WL_STAGE_UNATTRIBUTED], 0u) << seed;
    wl_u64 run_queue = 0;
    ASSERT_LE(split.nr_waits, static_cast<wl_u32>(WL_READ_WAITS));
    for (wl_u32 i = 0; i < split.nr_waits; ++i) {
      ASSERT_GT(split.waits[i].to, split.waits[i].from);
      ASSERT_GE(split.waits[i].from, queued_ns);
      ASSERT_LE(split.waits[i].to, recv_ns);
      run_queue += split.waits[i].to - split.waits[i].from;
    }
    ASSERT_EQ(run_queue, stages[WL_STAGE_RUN_QUEUE]) << "what is to be blamed, seed " << seed;
    ASSERT_LE(split.throttled_ns, stages[WL_STAGE_THROTTLED]);
    clamped_requests += clamped > 0;
  }
  EXPECT_GT(clamped_requests, 10'000u);
}

// Marks in order: nothing is clamped, every distance is where it belongs.
TEST(StagesProperty, MarksInOrderAreNeverClamped) {
  for (wl_u64 seed = 1; seed <= 20'000; ++seed) {
    RandomMarks random(seed);
    wl_u64 now = RandomMarks::kBase;
    const auto next = [&] { return now += random.below(1'000); };
    wl_arrival a{};
    a.origin = random.below(2) ? WL_ORIGIN_IRQ : WL_ORIGIN_NETIF_RX;
    a.origin_ns = next();
    a.raise_ns = next();
    a.entry_ns = next();
    a.rx_ns = next();
    a.flags = static_cast<wl_u8>(WL_ARR_KNOWN | (random.below(2) ? WL_ARR_BACKLOG : 0));
    const wl_u64 probe_ns = next();
    wl_u64 queued_ns = next();
    test::ThreadModel model;
    wl_wait& wait = model.add_wait(WL_WAIT_WAKE, next(), 0);
    wait.wakeup_ns = next();
    wait.in_ns = next();
    const wl_u64 recv_ns = next();
    test::Stages stages;
    wl_u64 clamped = 0;
    const wl_u64 queued_before = queued_ns;
    const wl_u64 start =
        wl_stages_arrival(&a, probe_ns, &queued_ns, recv_ns, stages.data(), &clamped);
    wl_read_split split{};
    wl_stages_read(&model.thread, nullptr, queued_ns, recv_ns, 0, stages.data(), &split);
    ASSERT_EQ(clamped, 0u);
    ASSERT_EQ(queued_ns, queued_before);
    ASSERT_EQ(start, a.origin_ns);
    ASSERT_EQ(stages[WL_STAGE_HARD_IRQ], a.raise_ns - a.origin_ns);
    ASSERT_EQ(stages[WL_STAGE_SOFTIRQ_WAIT], a.entry_ns - a.raise_ns);
    ASSERT_EQ(stages[WL_STAGE_SOFTIRQ_POLL], a.rx_ns - a.entry_ns);
    ASSERT_EQ(stages[WL_STAGE_BACKLOG] + stages[WL_STAGE_STACK], queued_ns - a.rx_ns);
    if (wait.in_ns > queued_ns) {
      ASSERT_EQ(stages[WL_STAGE_SOCKET_QUEUE], wait.start_ns - queued_ns);
      ASSERT_EQ(stages[WL_STAGE_WAKEUP], wait.wakeup_ns - wait.start_ns);
      ASSERT_EQ(stages[WL_STAGE_RUN_QUEUE], wait.in_ns - wait.wakeup_ns);
      ASSERT_EQ(stages[WL_STAGE_RECV], recv_ns - wait.in_ns);
    }
  }
}

}  // namespace
}  // namespace whylate
