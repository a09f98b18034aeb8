// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "echo/options.h"
#include "echo/poller.h"

namespace whylate::echo {

/// The thread `dispatcher`: waits in an epoll whose sockets are watched with EPOLLONESHOT and hands
/// what is readable to the threads that read. So one thread is woken by the request and another
/// reads it. Its CPU is the one after those of the readers in the list.
class HandOff {
 public:
  HandOff(Poller& poller, const ServerOptions& options);
  /// Ends the thread; the stop must have been requested.
  ~HandOff();
  HandOff(const HandOff&) = delete;
  HandOff& operator=(const HandOff&) = delete;

  /// Waits for a socket to read and returns its tag; null when the stop was requested.
  void* next();

 private:
  void run(const ServerOptions& options);

  Poller& poller_;
  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<void*> tags_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace whylate::echo
