// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "echo/reply.h"

namespace whylate::echo {

/// The thread `replier`: sends what others give it, in their order, each so long after it was given
/// as the options say.
class ReplyThread {
 public:
  explicit ReplyThread(Server& server);
  /// Sends what is left without waiting for its time, and ends the thread.
  ~ReplyThread();
  ReplyThread(const ReplyThread&) = delete;
  ReplyThread& operator=(const ReplyThread&) = delete;

  /// Called by any thread.
  void give(const ReplyTo& to, std::span<const std::uint8_t> reply);

 private:
  struct Item {
    ReplyTo to;
    sockaddr_storage peer;
    std::vector<std::uint8_t> reply;
    std::int64_t due_ns;
  };
  void run();
  bool take(Item& item);

  Server& server_;
  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<Item> items_;
  bool ending_ = false;
  std::thread thread_;
};

/// Gives every reply to the reply thread.
class QueueReplier final : public Replier {
 public:
  QueueReplier(Server& server, ReplyThread& thread) : Replier(server), thread_(thread) {}

 private:
  void send(const ReplyTo& to, std::span<const std::uint8_t> reply) override {
    thread_.give(to, reply);
  }

  ReplyThread& thread_;
};

}  // namespace whylate::echo
