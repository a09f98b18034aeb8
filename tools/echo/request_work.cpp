// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/request_work.h"

#include <poll.h>

#include <ctime>

#include "echo/clock.h"
#include "echo/sockets.h"
#include "echo/stop.h"

namespace whylate::echo {
namespace {

// Two clock reads follow each other within 100 ns; even a short interrupt takes longer than this.
constexpr std::int64_t kLongestStepNs = 1'000;

timespec to_timespec(std::int64_t ns) {
  return timespec{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

void sleep_for(std::int64_t ns) {
  const timespec length = to_timespec(ns);
  clock_nanosleep(CLOCK_MONOTONIC, 0, &length, nullptr);
}

/// Sleeps until the time is over or the stop is requested.
void sleep_or_stop(std::int64_t ns) {
  pollfd stop{stop_event_fd(), POLLIN, 0};
  const timespec length = to_timespec(ns);
  ppoll(&stop, 1, &length, nullptr);
}

}  // namespace

void compute(std::int64_t work_ns) {
  std::int64_t done_ns = 0;
  std::int64_t last_ns = monotonic_ns();
  while (done_ns < work_ns) {
    const std::int64_t now_ns = monotonic_ns();
    if (now_ns - last_ns < kLongestStepNs) done_ns += now_ns - last_ns;
    last_ns = now_ns;
  }
}

RequestWork::RequestWork(const ServerOptions& options)
    : work_ns_(options.work_ns),
      sleep_ns_(options.sleep_ns),
      lock_hold_ns_(options.lock_hold_ns),
      lock_every_ns_(options.lock_every_ns) {
  if (lock_hold_ns_ > 0) holder_.emplace([this] { hold_lock_now_and_then(); });
}

RequestWork::~RequestWork() {
  if (holder_) holder_->join();
}

void RequestWork::hold_lock_now_and_then() {
  name_thread("lock-holder");
  while (!stop_requested()) {
    sleep_or_stop(lock_every_ns_);
    const std::lock_guard<std::mutex> hold(mutex_);
    sleep_or_stop(lock_hold_ns_);
  }
}

void RequestWork::perform() {
  if (lock_hold_ns_ > 0) {
    const std::lock_guard<std::mutex> needed(mutex_);
  }
  if (work_ns_ > 0) compute(work_ns_);
  if (sleep_ns_ > 0) sleep_for(sleep_ns_);
}

}  // namespace whylate::echo
