// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/hand_off.h"

#include <fmt/format.h>

#include <cstdio>

#include "echo/sockets.h"
#include "echo/stop.h"

namespace whylate::echo {

HandOff::HandOff(Poller& poller, const ServerOptions& options)
    : poller_(poller), thread_([this, &options] { run(options); }) {}

HandOff::~HandOff() { thread_.join(); }

void HandOff::run(const ServerOptions& options) {
  name_thread("dispatcher");
  if (auto pinned = pin_thread(options.cpus, static_cast<std::size_t>(options.threads)); !pinned)
    fmt::print(stderr, "whylate-echo: {}\n", pinned.error().message);
  while (!stop_requested()) {
    void* const tag = poller_.wait();
    if (tag == nullptr) continue;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      tags_.push_back(tag);
    }
    given_.notify_one();
  }
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    ending_ = true;
  }
  given_.notify_all();
}

void* HandOff::next() {
  std::unique_lock<std::mutex> lock(mutex_);
  given_.wait(lock, [this] { return ending_ || !tags_.empty(); });
  if (ending_) return nullptr;
  void* const tag = tags_.front();
  tags_.pop_front();
  return tag;
}

}  // namespace whylate::echo
