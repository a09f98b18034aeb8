// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>
#include <sys/ioctl.h>

#include <cstdint>

#include "echo/sockets.h"
#include "echo/stack.h"

#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#endif

namespace whylate::echo {
namespace {

/// struct epoll_params of Linux 6.9; older headers do not have it.
struct EpollParams {
  std::uint32_t busy_poll_usecs;
  std::uint16_t busy_poll_budget;
  std::uint8_t prefer_busy_poll;
  std::uint8_t pad;
};
static_assert(sizeof(EpollParams) == 8);
constexpr unsigned long kEpollSetParams = _IOW(0x8A, 0x01, EpollParams);
constexpr std::uint16_t kBudget = 8;

// Smaller numbers are not NAPI instances (include/net/busy_poll.h: MIN_NAPI_ID is above the CPUs).
constexpr unsigned kNoNapi = 0;

}  // namespace

Status set_busy_poll(const Fd& socket, const StackOptions& stack) {
  auto set = set_option(socket, SOL_SOCKET, SO_BUSY_POLL, stack.busy_poll_us, "SO_BUSY_POLL");
  if (!set) return set;
  return set_option(socket, SOL_SOCKET, SO_PREFER_BUSY_POLL, 1, "SO_PREFER_BUSY_POLL");
}

void set_busy_poll_of_epoll(const Fd& poller, const StackOptions& stack) {
  if (stack.kind != StackKind::kBusyPoll) return;
  const EpollParams params{static_cast<std::uint32_t>(stack.busy_poll_us), kBudget, 1, 0};
  if (ioctl(poller.get(), kEpollSetParams, &params) != 0) {
    fmt::print(stderr,
               "whylate-echo: this kernel has no busy polling of a single epoll: "
               "net.core.busy_poll rules\n");
  }
}

void report_busy_poll(const Fd& socket, const StackOptions& stack, bool any_request) {
  unsigned napi = kNoNapi;
  socklen_t length = sizeof napi;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_INCOMING_NAPI_ID, &napi, &length) != 0) {
    fmt::print(stderr, "busy poll {} us: cannot tell, the kernel was built without it\n",
               stack.busy_poll_us);
  } else if (napi != kNoNapi) {
    fmt::print(stderr, "busy poll {} us: effective, packets come through NAPI {}\n",
               stack.busy_poll_us, napi);
  } else if (any_request) {
    fmt::print(stderr, "busy poll {} us: not effective, packets come through no NAPI (id 0)\n",
               stack.busy_poll_us);
  } else {
    fmt::print(stderr, "busy poll {} us: cannot tell, no packet came\n", stack.busy_poll_us);
  }
}

}  // namespace whylate::echo
