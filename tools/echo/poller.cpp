// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/poller.h"

#include <sys/epoll.h>

#include "echo/stop.h"

namespace whylate::echo {
namespace {

void change(int poller, int operation, int fd, void* tag, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = tag;
  epoll_ctl(poller, operation, fd, &event);
}

}  // namespace

Poller::Poller(const StackOptions& stack) : fd_(epoll_create1(EPOLL_CLOEXEC)) {
  change(fd_.get(), EPOLL_CTL_ADD, stop_event_fd(), nullptr, EPOLLIN);
  set_busy_poll_of_epoll(fd_, stack);
}

void Poller::watch(int fd, void* tag, std::uint32_t events) {
  change(fd_.get(), EPOLL_CTL_ADD, fd, tag, events);
}

void Poller::watch_again(int fd, void* tag, std::uint32_t events) {
  change(fd_.get(), EPOLL_CTL_MOD, fd, tag, events);
}

void* Poller::wait() {
  epoll_event event{};
  return epoll_wait(fd_.get(), &event, 1, -1) == 1 ? event.data.ptr : nullptr;
}

}  // namespace whylate::echo
