// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/server_uring.h"

#include <fmt/format.h>
#include <poll.h>

#include "echo/reply_uring.h"
#include "echo/stop.h"

namespace whylate::echo {
namespace {

/// Wakes the thread when the stop is requested; there is nothing else to do then.
class StopOp final : public UringOp {
 public:
  void complete(int, bool, int) override {}
};

}  // namespace

Status check_uring(const UringOptions& options) {
  auto ring = Uring::create(options);
  if (!ring) return ring.error();
  if (!options.multishot) return Done{};
  auto buffers = UringBuffers::create(**ring, 16);
  return buffers ? Status(Done{}) : Status(buffers.error());
}

std::unique_ptr<UringThread> UringThread::create(Server& server, std::size_t buffer_bytes) {
  const auto failed = [](const Error& error) {
    fmt::print(stderr, "whylate-echo: {}\n", error.message);
    request_stop();
    return nullptr;
  };
  std::unique_ptr<UringThread> thread(new UringThread);
  const UringOptions& options = server.options().uring;
  auto ring = Uring::create(options);
  if (!ring) return failed(ring.error());
  thread->ring_ = std::move(*ring);
  if (options.multishot) {
    auto buffers = UringBuffers::create(*thread->ring_, buffer_bytes);
    if (!buffers) return failed(buffers.error());
    thread->buffers_ = std::move(*buffers);
  }
  if (server.options().send == SendWay::kUring) {
    thread->replier_ = std::make_unique<UringReplier>(server, *thread->ring_);
  } else {
    thread->replier_ = make_replier(server);
  }
  return thread;
}

int UringThread::take(Fd& socket) {
  constexpr int kFirst = 0;
  if (auto kept = ring_->keep_in_slot(kFirst, socket.get()); !kept) {
    fmt::print(stderr, "whylate-echo: {}\n", kept.error().message);
    request_stop();
    return -1;
  }
  socket.reset();
  return kFirst;
}

std::shared_ptr<const void> UringThread::keep_slot(int slot) {
  return std::shared_ptr<const void>(
      this, [this, slot](const void*) { ring_->close_slot(static_cast<unsigned>(slot)); });
}

void UringThread::run() {
  StopOp stop;
  ring_->start(stop,
               [](io_uring_sqe* sqe) { io_uring_prep_poll_add(sqe, stop_event_fd(), POLLIN); });
  while (!stop_requested()) ring_->run();
  ring_->cancel_all();
}

}  // namespace whylate::echo
