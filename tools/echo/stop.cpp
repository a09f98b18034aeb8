// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/stop.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "echo/sockets.h"

namespace whylate::echo {
namespace {

// Plain atomics with static storage: all of it is touched by a signal handler.
constexpr int kMaxSockets = 1024;
std::atomic<bool> g_stop{false};
std::atomic<int> g_event_fd{-1};
std::atomic<int> g_socket_count{0};
std::atomic<int> g_sockets[kMaxSockets];

static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int) {
  const int saved = errno;
  request_stop();
  errno = saved;
}

}  // namespace

Status install_stop_handlers() {
  g_event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (g_event_fd < 0) return system_error("eventfd");
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGINT);
  sigaddset(&both, SIGTERM);
  sigprocmask(SIG_UNBLOCK, &both, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return Done{};
}

bool stop_requested() { return g_stop.load(std::memory_order_relaxed); }

void request_stop() {
  g_stop = true;
  for (int i = 0; i < g_socket_count; ++i) ::shutdown(g_sockets[i], SHUT_RD);
  const std::uint64_t one = 1;
  // Nothing can be done about a failure here, and the flag is set.
  [[maybe_unused]] const auto written = ::write(g_event_fd, &one, sizeof one);
}

Status shut_down_on_stop(int fd) {
  if (g_socket_count >= kMaxSockets) {
    return Error{ExitCode::kRuntimeError, "too many sockets to watch"};
  }
  // The slot before the count: the handler may run between the two.
  g_sockets[g_socket_count] = fd;
  ++g_socket_count;
  if (stop_requested()) ::shutdown(fd, SHUT_RD);
  return Done{};
}

int stop_event_fd() { return g_event_fd; }

}  // namespace whylate::echo
