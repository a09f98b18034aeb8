// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "cpu_model.h"
#include "logic/thread.h"

namespace whylate {

/// A thread and two CPUs, driven by the events of the scheduler.
class Thread : public testing::Test {
 protected:
  Thread() : cpus_(std::make_unique<wl_timeline[]>(2)) {}

  void in(wl_u64 now, wl_u32 cpu = 0, wl_u64 throttled_ns = 0) {
    wl_thread_in(&t_, &cpus_[cpu], cpu, now, throttled_ns);
  }
  void out(wl_u64 now, bool runnable, wl_u32 cpu = 0, wl_u8 stop = WL_STOP_NONE) {
    wl_thread_out(&t_, &cpus_[cpu], cpu, now, runnable, stop);
  }
  int heal(wl_u64 now, wl_u32 cpu = 0) { return wl_thread_heal(&t_, &cpus_[cpu], cpu, now); }
  int waking(wl_u64 now, wl_u8 stop = WL_STOP_NONE) { return wl_thread_waking(&t_, now, stop); }
  void wakeup(wl_u64 now, wl_u32 cpu = 0, bool idle = false, wl_s8 state = -1,
              bool budget_out = false) {
    wl_thread_wakeup(&t_, &cpus_[cpu], cpu, now, idle, state, budget_out);
  }
  wl_thread_time at(wl_u64 now, wl_u32 cpu = 0) const {
    wl_thread_time time{};
    wl_thread_time_at(&t_, &cpus_[cpu], now, &time);
    return time;
  }
  void irq(wl_u64 begin, wl_u64 end, wl_u32 cpu = 0) {
    wl_irq_begin(&cpus_[cpu], begin, WL_THEFT_DEVICE);
    wl_irq_end(&cpus_[cpu], end);
  }
  const wl_wait& last_wait() { return *wl_wait_last(&t_); }

  std::unique_ptr<wl_timeline[]> cpus_;
  wl_thread t_{};
};

}  // namespace whylate
