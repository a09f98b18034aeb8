// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <numeric>

#include "stages.h"

namespace whylate::test {

/// The stage times of one request, by enum wl_stage.
struct Stages {
  std::array<wl_u64, WL_NR_STAGES> ns{};

  wl_u64* data() { return ns.data(); }
  wl_u64 operator[](wl_stage stage) const { return ns[stage]; }
  wl_u64 sum() const { return std::accumulate(ns.begin(), ns.end(), wl_u64{0}); }
};

/// A thread whose waits are given directly, as the scheduler hooks would have left them.
class ThreadModel {
 public:
  wl_thread thread{};

  /// The thread runs at the end of every wait.
  wl_wait& add_wait(wl_wait_kind kind, wl_u64 start_ns, wl_u64 in_ns) {
    ++thread.nr_waits;
    wl_wait& wait = *wl_wait_last(&thread);
    wait = {};
    wait.kind = static_cast<wl_u8>(kind);
    wait.start_ns = start_ns;
    wait.wakeup_ns = start_ns;
    wait.in_ns = in_ns;
    wait.idle_state = -1;
    thread.state = WL_T_RUNNING;
    thread.since_ns = in_ns;
    return wait;
  }
};

}  // namespace whylate::test
