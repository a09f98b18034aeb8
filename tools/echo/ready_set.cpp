// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/ready_set.h"

#include <algorithm>

#include "echo/stop.h"

namespace whylate::echo {

void ReadySet::clear() {
  waits_.clear();
  waits_.push_back({stop_event_fd(), POLLIN, 0});
}

bool ReadySet::add(int fd) {
  if (use_select_ && fd >= FD_SETSIZE) return false;
  waits_.push_back({fd, POLLIN, 0});
  return true;
}

bool ReadySet::wait() {
  if (!use_select_) {
    return ::poll(waits_.data(), waits_.size(), -1) > 0 && !stop_requested();
  }
  FD_ZERO(&readable_);
  int highest = -1;
  for (const pollfd& wait : waits_) {
    FD_SET(wait.fd, &readable_);
    highest = std::max(highest, wait.fd);
  }
  return ::select(highest + 1, &readable_, nullptr, nullptr, nullptr) > 0 && !stop_requested();
}

bool ReadySet::ready(std::size_t index) const {
  const pollfd& wait = waits_[index + 1];
  return use_select_ ? FD_ISSET(wait.fd, &readable_) : wait.revents != 0;
}

}  // namespace whylate::echo
