// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "logic/blame.h"

namespace whylate::test {

/// Kind (enum wl_occupant_kind) and thread id, the latter for tasks only.
using Holder = std::pair<int, wl_u32>;
using Shares = std::map<Holder, wl_u64>;

/// One CPU that feeds a wl_timeline as the hooks would, and remembers who really held it.
class CpuModel {
 public:
  explicit CpuModel(wl_u64 start_ns = 1'000'000) : now_(start_ns) {}

  wl_timeline& timeline() { return *timeline_; }
  wl_u64 now() const { return now_; }
  bool in_interrupt() const { return irq_depth_ > 0 || in_softirq_; }

  void pass(wl_u64 ns) {
    if (ns == 0) return;
    Holder holder{pid_ ? WL_OCC_TASK : WL_OCC_IDLE, pid_};
    if (irq_depth_ > 0) {
      holder = {wl_theft_kind(kind_), 0};
    } else if (in_softirq_) {
      holder = {WL_OCC_SOFTIRQ, 0};
    }
    pieces_.push_back({now_, now_ + ns, holder});
    now_ += ns;
  }
  /// A switch that no hook reports. What runs until the next one is only known to truth().
  void switch_unreported(wl_u32 pid) { pid_ = pid; }
  void switch_to(wl_u32 pid) {
    wl_slice_check(timeline_.get(), pid_, now_);
    if (pid_ == 0) timeline_->idle_left_ns = now_;
    wl_slice* slice = wl_slice_begin(timeline_.get(), now_);
    slice->pid = pid;
    slice->tgid = pid;
    slice->prio = 120;
    slice->policy = 0;
    slice->nice = 0;
    const std::string comm = "t" + std::to_string(pid);
    for (std::size_t i = 0; i < WL_COMM_LEN; ++i) slice->comm[i] = i < comm.size() ? comm[i] : 0;
    pid_ = pid;
  }
  /// An interrupt inside another counts as that one.
  void irq_begin(wl_u32 kind = WL_THEFT_DEVICE) {
    wl_irq_begin(timeline_.get(), now_, kind);
    if (irq_depth_++ == 0) kind_ = kind;
  }
  void irq_end() {
    wl_irq_end(timeline_.get(), now_);
    --irq_depth_;
  }
  void softirq_begin() {
    wl_softirq_begin(timeline_.get(), now_);
    in_softirq_ = true;
  }
  void softirq_end() {
    wl_softirq_end(timeline_.get(), now_);
    in_softirq_ = false;
  }

  /// One event that can happen in the present context, after some time.
  void random_event(std::mt19937_64& random, wl_u32 pids, wl_u64 max_ns) {
    pass(random() % max_ns);
    const auto kind = random() % 8;
    const auto irq_kind = static_cast<wl_u32>(random() % 4);
    if (irq_depth_ > 0) {
      if (kind == 0 && irq_depth_ < 3) {
        irq_begin(irq_kind);
      } else {
        irq_end();
      }
    } else if (kind == 1) {
      irq_begin(irq_kind);
    } else if (in_softirq_) {
      softirq_end();
    } else if (kind == 2) {
      softirq_begin();
    } else {
      switch_to(static_cast<wl_u32>(random() % pids));
    }
  }

  /// Ends interrupts and softirqs, so that a switch is possible.
  void leave_interrupts() {
    while (irq_depth_ > 0) irq_end();
    if (in_softirq_) softirq_end();
  }

  /// A window that begins now, with the CPU's counters.
  wl_window open_window(bool with_snapshot = true) const {
    wl_window window{};
    window.from = now_;
    window.has_snapshot = with_snapshot;
    if (with_snapshot) {
      wl_theft_totals(timeline_.get(), now_, window.theft_ns);
    }
    window.cpu = 3;
    window.stage = WL_STAGE_RUN_QUEUE;
    return window;
  }

  /// Who held the CPU, for certain.
  Shares truth(wl_u64 from, wl_u64 to) const {
    Shares shares;
    for (const Piece& piece : pieces_) {
      const wl_u64 begin = piece.from > from ? piece.from : from;
      const wl_u64 end = piece.to < to ? piece.to : to;
      if (end > begin) shares[piece.holder] += end - begin;
    }
    return shares;
  }

 private:
  struct Piece {
    wl_u64 from;
    wl_u64 to;
    Holder holder;
  };
  std::unique_ptr<wl_timeline> timeline_ = std::make_unique<wl_timeline>();
  std::vector<Piece> pieces_;
  wl_u64 now_;
  wl_u32 pid_ = 0;
  int irq_depth_ = 0;
  wl_u32 kind_ = WL_THEFT_DEVICE;
  bool in_softirq_ = false;
};

/// The walk of the kernel side, newest slice first. Returns the part that no slice covered.
inline wl_u64 blame(wl_timeline& timeline, const wl_window& window, wl_u64 now,
                    wl_occupants& table) {
  wl_blame_walk walk{};
  walk.window = window;
  wl_blame_begin(&walk, &timeline, now);
  for (int n = 0; n < WL_SLICES - 1; ++n) {
    --walk.index;
    const wl_slice* slice = wl_slice_at(&timeline, walk.index);
    if (!slice->start_ns || wl_blame_step(&walk, slice, &table)) break;
  }
  const wl_u64 left = walk.open_ns;
  wl_blame_finish(&walk, &table);
  return left;
}

inline Shares shares_of(const wl_occupants& table) {
  Shares shares;
  for (wl_u32 i = 0; i < table.count; ++i) {
    shares[{table.entries[i].kind, table.entries[i].pid}] += table.entries[i].ns;
  }
  return shares;
}

inline wl_u64 sum_of(const wl_occupants& table) {
  wl_u64 sum = 0;
  for (wl_u32 i = 0; i < table.count; ++i) sum += table.entries[i].ns;
  return sum;
}

inline wl_u64 share(const Shares& shares, int kind, wl_u32 pid = 0) {
  const auto found = shares.find({kind, pid});
  return found == shares.end() ? 0 : found->second;
}

/// Hard interrupts of every kind.
inline wl_u64 irq_share(const Shares& shares) {
  return share(shares, WL_OCC_IRQ) + share(shares, WL_OCC_TIMER) + share(shares, WL_OCC_IPI) +
         share(shares, WL_OCC_IRQ_WORK);
}

/// All that was taken, by whatever.
template <typename Holder>
wl_u64 theft_of(const Holder& holder) {
  wl_u64 sum = 0;
  for (const wl_u64 ns : holder.theft_ns) sum += ns;
  return sum;
}

}  // namespace whylate::test
