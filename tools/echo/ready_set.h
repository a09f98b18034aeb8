// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <poll.h>
#include <sys/select.h>

#include <vector>

namespace whylate::echo {

/// The descriptors one poll() or select() waits for. Always watches for the stop as well.
class ReadySet {
 public:
  /// True: select(), which cannot watch descriptors from FD_SETSIZE on; false: poll().
  explicit ReadySet(bool use_select) : use_select_(use_select) { clear(); }

  void clear();
  /// False when select() cannot watch this descriptor.
  bool add(int fd);
  /// Waits until one is readable; false when interrupted or the stop was requested.
  bool wait();
  /// Whether the descriptor added as number `index` is readable.
  bool ready(std::size_t index) const;

 private:
  bool use_select_;
  std::vector<pollfd> waits_;  // the stop first
  fd_set readable_{};
};

}  // namespace whylate::echo
