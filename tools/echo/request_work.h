// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "echo/options.h"

namespace whylate::echo {

/// Computes for `work_ns` of running time, without system calls. Steps of the clock that are too
/// long for the loop (the thread was preempted or interrupted) do not count, so that being held up
/// makes a request later and never its work shorter.
void compute(std::int64_t work_ns);

/// What the application does with each request, between reading it and answering it.
class RequestWork {
 public:
  /// Starts the thread that holds the lock when the options ask for one.
  explicit RequestWork(const ServerOptions& options);
  /// Ends that thread; the stop must have been requested.
  ~RequestWork();
  RequestWork(const RequestWork&) = delete;
  RequestWork& operator=(const RequestWork&) = delete;

  /// Called by any serving thread, once per request.
  void perform();

 private:
  void hold_lock_now_and_then();

  std::int64_t work_ns_;
  std::int64_t sleep_ns_;
  std::int64_t lock_hold_ns_;
  std::int64_t lock_every_ns_;
  std::mutex mutex_;
  std::optional<std::thread> holder_;
};

}  // namespace whylate::echo
