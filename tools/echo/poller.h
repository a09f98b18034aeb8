// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "echo/fd.h"
#include "echo/stack.h"

namespace whylate::echo {

/// An epoll that also watches for the stop.
class Poller {
 public:
  /// With --stack busy-poll the epoll busy-polls by itself.
  explicit Poller(const StackOptions& stack);

  /// Watches a socket for `events`; wait() then returns its tag, which must not be null.
  void watch(int fd, void* tag, std::uint32_t events);
  /// Watches it again after EPOLLONESHOT.
  void watch_again(int fd, void* tag, std::uint32_t events);
  /// Waits for one event and returns its tag; null when the stop was requested, or interrupted.
  void* wait();

 private:
  Fd fd_;
};

}  // namespace whylate::echo
