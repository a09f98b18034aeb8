// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/reply_thread.h"

#include <chrono>
#include <cstring>

#include "echo/clock.h"
#include "echo/server.h"
#include "echo/sockets.h"

namespace whylate::echo {

ReplyThread::ReplyThread(Server& server) : server_(server), thread_([this] { run(); }) {}

ReplyThread::~ReplyThread() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    ending_ = true;
  }
  given_.notify_one();
  thread_.join();
}

void ReplyThread::give(const ReplyTo& to, std::span<const std::uint8_t> reply) {
  Item item{to, {}, {reply.begin(), reply.end()}, 0};
  if (to.peer != nullptr) std::memcpy(&item.peer, to.peer, to.peer_length);
  item.due_ns = monotonic_ns() + server_.options().reply_after_ns;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    items_.push_back(std::move(item));
  }
  given_.notify_one();
}

bool ReplyThread::take(Item& item) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (items_.empty()) {
      if (ending_) return false;
      given_.wait(lock);
      continue;
    }
    const std::int64_t left_ns = items_.front().due_ns - monotonic_ns();
    if (left_ns <= 0 || ending_) break;
    given_.wait_for(lock, std::chrono::nanoseconds(left_ns));
  }
  item = std::move(items_.front());
  items_.pop_front();
  return true;
}

void ReplyThread::run() {
  name_thread("replier");
  Item item;
  while (take(item)) {
    if (item.to.peer != nullptr) item.to.peer = reinterpret_cast<const sockaddr*>(&item.peer);
    server_.finish(*item.to.worker, send_plain(server_.options(), item.to, item.reply));
    item.to.keep.reset();
  }
}

}  // namespace whylate::echo
