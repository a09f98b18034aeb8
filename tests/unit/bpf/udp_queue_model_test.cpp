// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The datagram FIFO against a model of the kernel: a queue of numbered datagrams, CPUs that signal
// late, a reader that is early.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "logic/udp_queue.h"

namespace whylate {
namespace {

/// More than the clocks of two CPUs may differ.
constexpr wl_u64 kStepNs = 2 * WL_CLOCK_SKEW_NS;
/// Small enough that a signal follows within WL_ORDER_WINDOW_NS, as it does in the kernel.
constexpr wl_u64 kPromptNs = WL_ORDER_WINDOW_NS / 1'000;

struct Options {
  wl_u64 seed = 1;
  int steps = 100'000;
  wl_u32 cpus = 1;
  wl_u32 queued_before = 0;    ///< datagrams in the kernel's queue at attach
  wl_u32 unknown_percent = 0;  ///< arrivals that could not be matched
  bool bursts = false;         ///< long phases in which the reader does not run
  bool split_reads = false;    ///< datagrams arrive between dequeue and the end of the read
  wl_u64 step_ns = kStepNs;    ///< shortest time between two steps, the longest is 40 times that
  /// The same while a CPU is between queueing a datagram and signalling it.
  wl_u64 signal_step_ns = kStepNs;
  wl_u64 reader_behind_ns = 0;  ///< the reader's clock against the others
};

struct Outcome {
  wl_u64 reads = 0;
  wl_u64 unsynced = 0;
  wl_u64 paired = 0;
  wl_u64 debts = 0;
  wl_u64 paid = 0;
  wl_u64 overflows = 0;
  wl_u64 cancelled = 0;
  wl_u64 early = 0;  ///< reads that seem to lie before the arrival of what they read
  wl_u64 wrong = 0;
  wl_u64 swapped = 0;         ///< wrong, where one CPU's signal overtook another's
  wl_u64 swapped_marked = 0;  ///< of these, marked order_unsure
};

class Model {
 public:
  explicit Model(const Options& options) : options_(options), random_(options.seed) {
    for (wl_u32 i = 0; i < options.queued_before; ++i) kernel_.push_back(++next_id_);
    cpus_.resize(options.cpus);
    out_of_order_.resize(next_id_ + 1);
    position_.resize(next_id_ + 1);
  }

  Outcome run() {
    bool reader_stopped = false;
    for (int step = 0; step < options_.steps; ++step) {
      now_ +=
          (1 + random_() % 40) * (signal_to_come() ? options_.signal_step_ns : options_.step_ns);
      if (options_.bursts && random_() % 2'000 == 0) reader_stopped = !reader_stopped;
      const bool read = !reader_stopped && random_() % 2 == 0;
      if (read) {
        step_reader();
      } else {
        step_cpu(static_cast<wl_u32>(random_() % options_.cpus));
      }
    }
    return outcome_;
  }

 private:
  enum class Phase { kIdle, kArrived, kQueued };
  struct Cpu {
    Phase phase = Phase::kIdle;
    wl_u64 id = 0;
    wl_u64 rx_ns = 0;
    bool known = false;
  };
  struct Debt {
    wl_u64 id;
    wl_u64 index;
    wl_u64 read_ns;
  };

  bool signal_to_come() const {
    for (const Cpu& cpu : cpus_) {
      if (cpu.phase == Phase::kQueued) return true;
    }
    return false;
  }

  // netif_receive_skb, then (unless dropped) the kernel's queue, then sk_data_ready.
  void step_cpu(wl_u32 number) {
    Cpu& cpu = cpus_[number];
    switch (cpu.phase) {
      case Phase::kIdle:
        cpu.id = ++next_id_;
        out_of_order_.resize(next_id_ + 1);
        position_.resize(next_id_ + 1);
        cpu.rx_ns = now_;
        cpu.known = random_() % 100 >= options_.unknown_percent;
        cpu.phase = Phase::kArrived;
        break;
      case Phase::kArrived:
        if (random_() % 20 == 0 || kernel_.size() > 1'200) {
          cpu.phase = Phase::kIdle;  // dropped before it was queued: no signal
          break;
        }
        kernel_.push_back(cpu.id);
        position_[cpu.id] = ++queued_;
        cpu.phase = Phase::kQueued;
        break;
      case Phase::kQueued: {
        wl_datagram d{};
        note_disorder(cpu);
        d.queued_ns = now_;
        d.arrival.id = cpu.id;
        d.arrival.rx_ns = cpu.known ? cpu.rx_ns : 0;
        d.arrival.flags = cpu.known ? WL_ARR_KNOWN : 0;
        d.pusher = static_cast<wl_u16>(number);
        const wl_udp_push_result result = wl_udp_queue_push(queue_.get(), &d, kernel_length());
        outcome_.overflows += result.overflow;
        outcome_.cancelled += result.cancelled;
        cpu.phase = Phase::kIdle;
        break;
      }
    }
  }

  void step_reader() {
    if (!reading_) {
      if (kernel_.empty()) return;
      reading_ = kernel_.front();
      kernel_.pop_front();
      if (options_.split_reads && random_() % 2 == 0) return;
    }
    const wl_u64 id = *reading_;
    reading_.reset();
    settle_debt();
    ++outcome_.reads;
    const wl_u64 read_ns = now_ - options_.reader_behind_ns;
    wl_u64 index = 0;
    wl_datagram out{};
    switch (wl_udp_queue_pop(queue_.get(), read_ns, kernel_length(), &index, &out)) {
      case WL_POP_OK:
        check(id, out);
        break;
      case WL_POP_UNSYNCED:
        ++outcome_.unsynced;
        break;
      case WL_POP_DEBT:
        ++outcome_.debts;
        debt_ = Debt{id, index, read_ns};
        break;
      case WL_POP_TORN:
        FAIL() << "no second CPU writes here";
    }
  }

  // As the caller: the kernel's queue is only looked at where it may matter.
  wl_u32 kernel_length() const {
    return queue_->synced == WL_UDP_SYNCED ? 0 : static_cast<wl_u32>(kernel_.size());
  }

  // At the next read of the thread, as the caller does it.
  void settle_debt() {
    if (!debt_) return;
    wl_datagram out{};
    if (wl_udp_queue_take(queue_.get(), debt_->index, &out) == WL_POP_OK &&
        (out.arrival.flags & WL_ARR_KNOWN) &&
        out.arrival.rx_ns <= debt_->read_ns + WL_CLOCK_SKEW_NS) {
      ++outcome_.paid;
      outcome_.early += out.arrival.rx_ns > debt_->read_ns;
      check(debt_->id, out);
    }
    debt_.reset();
  }

  void check(wl_u64 id, const wl_datagram& out) {
    ++outcome_.paired;
    if (out.arrival.id == id) return;
    if (out_of_order_[out.arrival.id]) {
      ++outcome_.swapped;
      outcome_.swapped_marked += out.order_unsure != 0;
    } else {
      ++outcome_.wrong;
    }
  }

  // A datagram that is signalled before one that was queued earlier, and that one.
  void note_disorder(const Cpu& signals) {
    for (const Cpu& other : cpus_) {
      if (other.phase != Phase::kQueued || position_[other.id] >= position_[signals.id]) continue;
      out_of_order_[signals.id] = true;
      out_of_order_[other.id] = true;
    }
  }

  Options options_;
  std::mt19937_64 random_;
  std::unique_ptr<wl_udp_queue> queue_ = std::make_unique<wl_udp_queue>();
  std::deque<wl_u64> kernel_;
  std::vector<Cpu> cpus_;
  std::vector<bool> out_of_order_;  // by id
  std::vector<wl_u64> position_;    // in the kernel's queue, by id
  wl_u64 queued_ = 0;
  std::optional<wl_u64> reading_;
  std::optional<Debt> debt_;
  wl_u64 next_id_ = 0;
  wl_u64 now_ = 1'000'000;
  Outcome outcome_;
};

TEST(UdpQueueModel, OneCpuEveryPairIsRight) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = Model({.seed = seed}).run();
    EXPECT_EQ(outcome.wrong + outcome.swapped, 0u) << "seed " << seed;
    EXPECT_GT(outcome.paired, outcome.reads * 9 / 10);
    EXPECT_GT(outcome.debts, 0u) << "the model must contain early readers";
    EXPECT_GT(outcome.paid, 0u);
  }
}

TEST(UdpQueueModel, AttachToAQueueThatIsNotEmpty) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = Model({.seed = seed, .queued_before = 700}).run();
    EXPECT_EQ(outcome.wrong + outcome.swapped, 0u) << "seed " << seed;
    EXPECT_GE(outcome.unsynced, 700u);
    EXPECT_GT(outcome.paired, 10'000u);
  }
}

TEST(UdpQueueModel, OverflowsAndRecovers) {
  wl_u64 overflows = 0;
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = Model({.seed = seed, .queued_before = 3, .bursts = true}).run();
    EXPECT_EQ(outcome.wrong + outcome.swapped, 0u) << "seed " << seed;
    EXPECT_GT(outcome.paired, 0u);
    overflows += outcome.overflows;
  }
  EXPECT_GT(overflows, 10u);
}

TEST(UdpQueueModel, UnknownArrivalsDoNotShiftTheOthers) {
  for (const wl_u64 signal_step_ns : {kStepNs, kPromptNs}) {
    for (wl_u64 seed = 1; seed <= 20; ++seed) {
      const Outcome outcome = Model({.seed = seed,
                                     .queued_before = 20,
                                     .unknown_percent = 10,
                                     .signal_step_ns = signal_step_ns})
                                  .run();
      EXPECT_EQ(outcome.wrong + outcome.swapped, 0u) << "seed " << seed;
      EXPECT_GT(outcome.paired, outcome.reads / 2);
    }
  }
}

// What cannot be known: a signal that overtakes another CPU's. The error must not outlive it.
TEST(UdpQueueModel, OnlyOvertakingSignalsSwapNeighbours) {
  for (const wl_u64 signal_step_ns : {kStepNs, kPromptNs}) {
    SCOPED_TRACE(signal_step_ns);
    wl_u64 swapped = 0;
    wl_u64 marked = 0;
    for (wl_u64 seed = 1; seed <= 20; ++seed) {
      const Outcome outcome =
          Model({.seed = seed, .cpus = 2, .queued_before = 5, .signal_step_ns = signal_step_ns})
              .run();
      EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
      EXPECT_GT(outcome.paired, 1'000u) << "seed " << seed;
      swapped += outcome.swapped;
      marked += outcome.swapped_marked;
    }
    EXPECT_GT(swapped, 0u) << "the model must contain such swaps";
    EXPECT_GT(marked, 0u);
  }
}

// The clocks differ by almost what is allowed, and everything happens within microseconds.
TEST(UdpQueueModel, AReaderWhoseClockIsBehindIsPairedAllTheSame) {
  wl_u64 early = 0;
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = Model({.seed = seed,
                                   .queued_before = 5,
                                   .step_ns = 100,
                                   .signal_step_ns = kPromptNs,
                                   .reader_behind_ns = WL_CLOCK_SKEW_NS - 100})
                                .run();
    EXPECT_EQ(outcome.wrong + outcome.swapped, 0u) << "seed " << seed;
    EXPECT_EQ(outcome.cancelled, 0u) << "seed " << seed;
    EXPECT_GT(outcome.paired, outcome.reads * 9 / 10) << "seed " << seed;
    early += outcome.early;
  }
  EXPECT_GT(early, 0u) << "the model must contain reads before the arrival";
}

TEST(UdpQueueModel, DatagramsThatArriveDuringTheCopyDoNotMatter) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = Model({.seed = seed,
                                   .queued_before = static_cast<wl_u32>(seed * 13),
                                   .unknown_percent = static_cast<wl_u32>(seed % 4),
                                   .bursts = seed % 2 == 0,
                                   .split_reads = true})
                                .run();
    EXPECT_EQ(outcome.wrong + outcome.swapped, 0u) << "seed " << seed;
    EXPECT_GT(outcome.paired, 100u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace whylate
