// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The copy of a socket's queue against a model of the kernel: a queue of numbered datagrams, CPUs
// that signal late or for each other, readers that are early or overtake each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "logic/udp_queue.h"

namespace whylate {
namespace {

struct Options {
  wl_u64 seed = 1;
  int steps = 100'000;
  wl_u32 cpus = 1;
  wl_u32 readers = 1;
  wl_u32 queued_before = 0;    ///< datagrams in the kernel's queue at attach
  wl_u32 unknown_percent = 0;  ///< whose packet cannot be found
  wl_u32 no_signal_per_mille = 0;
  wl_u32 unseen_per_mille = 0;  ///< one to three queued without any report
  bool bursts = false;          ///< long phases in which no reader runs
  bool split_reads = false;     ///< others run between taking a datagram and the end of the read
  bool for_each_other = false;  ///< a CPU queues and signals what another one received
  wl_u64 step_ns = 1'000;       ///< shortest time between two steps, the longest is 40 times that
  wl_u64 reader_behind_ns = 0;  ///< the reader's clock against the others
};

struct Outcome {
  wl_u64 reads = 0;
  wl_u64 unsynced = 0;
  wl_u64 paired = 0;
  wl_u64 marked = 0;  ///< paired, and said to be unsure
  wl_u64 debts = 0;
  wl_u64 paid = 0;
  wl_u64 overflows = 0;
  wl_u64 unpaid = 0;   ///< debts that ended without their datagram
  wl_u64 waiting = 0;  ///< debts that have not ended
  wl_u64 unknown = 0;  ///< the arrival is not known
  wl_u64 wrong = 0;    ///< and not marked
  wl_u64 wrong_marked = 0;
};

class Model {
 public:
  explicit Model(const Options& options) : options_(options), random_(options.seed) {
    packets_.resize(1);
    for (wl_u32 i = 0; i < options.queued_before; ++i) {
      packets_.push_back({.known = true, .taken = true});
      kernel_.push_back(packets_.size() - 1);
    }
    cpus_.resize(options.cpus);
    readers_.resize(options.readers);
  }

  Outcome run() {
    bool stopped = false;
    for (int step = 0; step < options_.steps; ++step) {
      now_ += (1 + random_() % 40) * options_.step_ns;
      if (options_.bursts && random_() % 2'000 == 0) stopped = !stopped;
      if (!stopped && random_() % 2 == 0) {
        step_reader(readers_[random_() % readers_.size()]);
      } else {
        step_cpu(static_cast<wl_u32>(random_() % options_.cpus));
      }
    }
    for (const Reader& reader : readers_) outcome_.waiting += reader.debt.has_value();
    EXPECT_EQ(outcome_.reads,
              outcome_.unsynced + outcome_.paired + outcome_.unpaid + outcome_.waiting)
        << "a read is in one figure, and in one only";
    return outcome_;
  }

 private:
  enum class Phase { kIdle, kArrived, kQueued };
  struct Packet {
    wl_u32 cpu = 0;
    wl_u64 rx_ns = 0;
    bool known = false;
    bool taken = false;
    bool unseen = false;
  };
  struct Cpu {
    Phase phase = Phase::kIdle;
    wl_u64 id = 0;
    int signals = 0;
  };
  struct Reader {
    std::optional<wl_u64> reading;
    std::optional<wl_u64> debt;  // the datagram that was read
    wl_u64 debt_index = 0;
    wl_u64 debt_ns = 0;
  };

  static wl_u64 skb_of(wl_u64 id) { return id * 256; }

  void queue(wl_u64 id) { kernel_.push_back(id); }

  // netif_receive_skb, then (unless dropped) the kernel's queue, then sk_data_ready.
  void step_cpu(wl_u32 number) {
    Cpu& cpu = cpus_[number];
    switch (cpu.phase) {
      case Phase::kIdle:
        if (random_() % 1'000 < options_.unseen_per_mille) {
          for (wl_u64 n = 1 + random_() % 3; n > 0; --n) {
            packets_.push_back({.unseen = true});
            queue(packets_.size() - 1);
          }
        }
        packets_.push_back(
            {.cpu = number, .rx_ns = now_, .known = random_() % 100 >= options_.unknown_percent});
        cpu.id = packets_.size() - 1;
        cpu.phase = Phase::kArrived;
        break;
      case Phase::kArrived:
        if (random_() % 20 == 0 || kernel_.size() > 1'200) {
          packets_[cpu.id].taken = true;  // dropped before it was queued: no signal
          cpu.phase = Phase::kIdle;
          break;
        }
        queue(cpu.id);
        cpu.signals = random_() % 1'000 < options_.no_signal_per_mille ? 0 : 1;
        for (Cpu& other : cpus_) {
          if (!options_.for_each_other || other.phase != Phase::kArrived || &other == &cpu)
            continue;
          if (random_() % 4 != 0) continue;
          queue(other.id);
          other.phase = Phase::kIdle;
          ++cpu.signals;
        }
        cpu.phase = Phase::kQueued;
        break;
      case Phase::kQueued:
        if (cpu.signals-- > 0) signal(number);
        if (cpu.signals <= 0) cpu.phase = Phase::kIdle;
        break;
    }
  }

  // As wl_udp_ready.
  void signal(wl_u32 number) {
    int pushed = 0;
    int unseen = 0;
    const wl_u64 own = own_of(number);
    const wl_u64 newest = kernel_.empty() ? 0 : kernel_.back();
    const bool strange = newest && !packets_[newest].known && skb_of(newest) != queue_->last_skb;
    if ((own && std::find(kernel_.begin(), kernel_.end(), own) == kernel_.end()) || strange) {
      push(number, own, strange ? skb_of(newest) : 0);
      ++pushed;
    }
    for (int n = 0; n < 8; ++n) {
      wl_u64 found = 0;
      wl_u64 all = 0;
      bool known = true;
      bool met = false;
      int steps = 0;
      for (auto one = kernel_.rbegin(); one != kernel_.rend(); ++one) {
        const Packet& packet = packets_[*one];
        const wl_seen seen =
            wl_udp_seen(skb_of(*one) == queue_->last_skb, packet.known, packet.taken, 0);
        met = seen == WL_SEEN_PUSHED;
        if (met || (seen != WL_SEEN_NEW && !all)) break;
        known = known && seen == WL_SEEN_NEW;
        all = *one;
        if (known) found = all;
        if (++steps == 16) break;
      }
      if (met || (steps < 16 && queue_->synced == WL_UDP_SYNCED)) found = all;
      if (!found) break;
      if (steps == 16 && !known && queue_->synced == WL_UDP_SYNCED) {
        queue_->synced = WL_UDP_UNSYNCED;
        continue;
      }
      push(number, packets_[found].unseen ? 0 : found, skb_of(found));
      ++(packets_[found].unseen ? unseen : pushed);
    }
    if (pushed > 0) {
      queue_->ahead += static_cast<wl_u32>(pushed - 1);
    } else if (unseen > 0) {
      // the datagram of this signal is pushed at the next one
    } else if (queue_->ahead > 0) {
      --queue_->ahead;
    } else {
      push(number, 0, 0);
    }
  }

  void push(wl_u32 number, wl_u64 found, wl_u64 queued) {
    wl_datagram d{};
    d.queued_ns = now_;
    d.pusher = static_cast<wl_u16>(number);
    d.skb = queued;
    if (found) {
      packets_[found].taken = true;
      d.arrival.id = found;
      d.arrival.rx_ns = packets_[found].rx_ns;
      d.arrival.rx_cpu = static_cast<wl_u16>(packets_[found].cpu);
      d.arrival.flags = WL_ARR_KNOWN;
    }
    wl_udp_push_result result{};
    result.debts_before = queue_->debt_head;
    wl_udp_queue_push(queue_.get(), &d, found ? skb_of(found) : 0, &result);
    outcome_.overflows += result.overflow;
  }

  // The oldest packet that this CPU received and that nobody has signalled yet.
  wl_u64 own_of(wl_u32 number) const {
    for (wl_u64 id = packets_.size() > 64 ? packets_.size() - 64 : 1; id < packets_.size(); ++id) {
      const Packet& packet = packets_[id];
      if (packet.cpu == number && packet.known && !packet.taken) return id;
    }
    return 0;
  }

  void step_reader(Reader& reader) {
    if (!reader.reading) {
      if (kernel_.empty()) return;
      reader.reading = kernel_.front();
      kernel_.pop_front();
      if (options_.split_reads && random_() % 2 == 0) return;
    }
    const wl_u64 id = *reader.reading;
    reader.reading.reset();
    settle_debt(reader);
    ++outcome_.reads;
    wl_udp_read read{};
    read.now = now_ - options_.reader_behind_ns;
    read.head = queue_->head;
    read.front = kernel_.empty() ? 0 : skb_of(kernel_.front());
    read.second = kernel_.size() < 2 ? 0 : skb_of(kernel_[1]);
    read.cpu = 99;
    read.shared = readers_.size() > 1;
    wl_u64 index = 0;
    wl_datagram out{};
    switch (wl_udp_queue_pop(queue_.get(), &read, &index, &out)) {
      case WL_POP_OK:
        check(id, out, read.unsure != 0);
        break;
      case WL_POP_UNSYNCED:
        ++outcome_.unsynced;
        break;
      case WL_POP_DEBT:
        ++outcome_.debts;
        reader.debt = id;
        reader.debt_index = index;
        reader.debt_ns = read.now;
        break;
      case WL_POP_TORN:
        FAIL() << "no second CPU writes here";
    }
  }

  // At the next read of the thread, as the caller does it.
  void settle_debt(Reader& reader) {
    if (!reader.debt) return;
    wl_datagram out{};
    if (wl_udp_queue_take(queue_.get(), reader.debt_index, &out) == WL_POP_OK &&
        (out.arrival.flags & WL_ARR_KNOWN) &&
        out.arrival.rx_ns <= reader.debt_ns + WL_CLOCK_SKEW_NS) {
      ++outcome_.paid;
      check(*reader.debt, out, false);
    } else {
      ++outcome_.unpaid;
    }
    reader.debt.reset();
  }

  void check(wl_u64 id, const wl_datagram& out, bool unsure) {
    ++outcome_.paired;
    const bool marked = unsure || out.order_unsure;
    outcome_.marked += marked;
    if (!(out.arrival.flags & WL_ARR_KNOWN)) {
      ++outcome_.unknown;
    } else if (out.arrival.id != id) {
      ++(marked ? outcome_.wrong_marked : outcome_.wrong);
    }
  }

  Options options_;
  std::mt19937_64 random_;
  std::unique_ptr<wl_udp_queue> queue_ = std::make_unique<wl_udp_queue>();
  std::deque<wl_u64> kernel_;
  std::vector<Packet> packets_;  // by id
  std::vector<Cpu> cpus_;
  std::vector<Reader> readers_;
  wl_u64 now_ = 1'000'000;
  Outcome outcome_;
};

TEST(UdpQueueModel, OneCpuEveryPairIsRight) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = Model({.seed = seed}).run();
    EXPECT_EQ(outcome.wrong + outcome.marked, 0u) << "seed " << seed;
    EXPECT_GT(outcome.paired, outcome.reads * 9 / 10);
    EXPECT_GT(outcome.debts, 0u) << "the model must contain early readers";
    EXPECT_GT(outcome.paid, outcome.debts * 9 / 10);
    EXPECT_LE(outcome.unsynced, 8u);
  }
}

TEST(UdpQueueModel, AttachToAQueueThatIsNotEmpty) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = Model({.seed = seed, .queued_before = 700}).run();
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_GE(outcome.unsynced, 700u);
    EXPECT_LE(outcome.unsynced, 702u + (outcome.overflows ? WL_UDP_QUEUE_LEN : 0)) << "and no more";
    EXPECT_GT(outcome.paired, 10'000u);
  }
}

TEST(UdpQueueModel, OverflowsAndRecovers) {
  wl_u64 overflows = 0;
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = Model({.seed = seed, .queued_before = 3, .bursts = true}).run();
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_GT(outcome.paired, 0u);
    overflows += outcome.overflows;
  }
  EXPECT_GT(overflows, 10u);
}

TEST(UdpQueueModel, UnknownArrivalsDoNotShiftTheOthers) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = Model({.seed = seed, .queued_before = 20, .unknown_percent = 10}).run();
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_GT(outcome.paired - outcome.unknown, outcome.reads / 2);
  }
}

// A softirq on top of a task whose events are not reported.
TEST(UdpQueueModel, DatagramsThatCameUnseenDoNotShiftTheOthers) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome =
        Model({.seed = seed, .queued_before = seed % 2 ? 20u : 0u, .unseen_per_mille = 20}).run();
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_GT(outcome.unknown + outcome.unpaid, 100u);
    EXPECT_GT(outcome.paired - outcome.unknown, outcome.reads * 9 / 10);
  }
}

// Two CPUs signal in the other order than they queued, and for each other.
TEST(UdpQueueModel, SignalsInAnyOrderAreSortedOut) {
  for (const bool for_each_other : {false, true}) {
    for (const wl_u32 cpus : {2u, 3u}) {
      wl_u64 paired = 0;
      wl_u64 marked = 0;
      wl_u64 wrong = 0;
      for (wl_u64 seed = 1; seed <= 20; ++seed) {
        const Outcome outcome = Model({.seed = seed,
                                       .cpus = cpus,
                                       .queued_before = 5,
                                       .split_reads = true,
                                       .for_each_other = for_each_other})
                                    .run();
        wrong += outcome.wrong;
        paired += outcome.paired;
        marked += outcome.marked;
      }
      std::printf("%u CPUs: %llu paired, %llu marked, %llu wrong\n", cpus,
                  static_cast<unsigned long long>(paired), static_cast<unsigned long long>(marked),
                  static_cast<unsigned long long>(wrong));
      // The model's reader is as fast as its CPUs and never sleeps, which is the hardest case.
      EXPECT_LT(wrong * 1'000, paired) << cpus;
      EXPECT_LT(marked * 2, paired) << cpus;
    }
  }
}

TEST(UdpQueueModel, ASignalThatNeverComesCostsOneRead) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = Model({.seed = seed, .no_signal_per_mille = 10}).run();
    EXPECT_LT(outcome.wrong * 500, outcome.paired) << "seed " << seed;
    EXPECT_GT(outcome.paired, outcome.reads * 9 / 10) << "seed " << seed;
  }
}

// The clocks differ by almost what is allowed, and everything happens within microseconds.
TEST(UdpQueueModel, AReaderWhoseClockIsBehindIsPairedAllTheSame) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = Model({.seed = seed,
                                   .queued_before = 5,
                                   .step_ns = 20,
                                   .reader_behind_ns = WL_CLOCK_SKEW_NS - 100})
                                .run();
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_LT(outcome.unpaid * 100, outcome.reads) << "seed " << seed;
    EXPECT_GT(outcome.paired, outcome.reads * 9 / 10) << "seed " << seed;
  }
}

TEST(UdpQueueModel, DatagramsThatArriveDuringTheCopyDoNotMatter) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = Model({.seed = seed,
                                   .queued_before = static_cast<wl_u32>(seed * 13),
                                   .unknown_percent = static_cast<wl_u32>(seed % 4),
                                   .bursts = seed % 2 == 0,
                                   .split_reads = true})
                                .run();
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_GT(outcome.paired, 100u) << "seed " << seed;
  }
}

// Readers that overtake each other between taking a datagram and the end of the read.
TEST(UdpQueueModel, SeveralReadersAreMarkedOnlyWhereTheyOverlap) {
  for (wl_u64 seed = 1; seed <= 20; ++seed) {
    const Outcome alone = Model({.seed = seed, .readers = 3}).run();
    EXPECT_EQ(alone.wrong, 0u) << "seed " << seed;
    EXPECT_LT(alone.marked, alone.paired) << "seed " << seed << ": no two reads overlap";
    const Outcome mixed =
        Model({.seed = seed, .readers = 3, .split_reads = true, .step_ns = 100}).run();
    EXPECT_EQ(mixed.wrong, 0u) << "seed " << seed;
    EXPECT_GT(mixed.wrong_marked, 0u) << "the model must contain reads that overtake";
  }
}

}  // namespace
}  // namespace whylate
