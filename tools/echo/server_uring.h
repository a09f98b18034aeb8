// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <memory>

#include "echo/reply.h"
#include "echo/server.h"
#include "echo/uring.h"

namespace whylate::echo {

/// Serves UDP sockets with an io_uring for each thread; returns when the stop was requested.
void serve_udp_uring(Server& server, std::vector<Fd>& sockets);
/// The same for the connections of a listening socket, from which each thread accepts. With direct
/// descriptors both close what they were given.
void serve_tcp_uring(Server& server, Fd& listener);

/// Whether this kernel has what the options ask for; kUnsupported otherwise.
Status check_uring(const UringOptions& options);

/// One thread's ring, the replier that goes with it, and the stop.
class UringThread {
 public:
  /// Null, with a word on stderr, when the ring or its buffers of `buffer_bytes` cannot be had.
  static std::unique_ptr<UringThread> create(Server& server, std::size_t buffer_bytes);

  Uring& ring() { return *ring_; }
  UringBuffers& buffers() { return *buffers_; }
  Replier& replier() { return *replier_; }
  /// Direct descriptors: moves a socket into a slot of the ring's table and closes its descriptor.
  /// The slot; -1, with a word on stderr and the stop, when the ring does not take it.
  int take(Fd& socket);
  /// Closes the slot when the last owner of the result is gone.
  std::shared_ptr<const void> keep_slot(int slot);
  /// Runs until the stop, then takes back what the kernel still has.
  void run();

 private:
  UringThread() = default;
  std::unique_ptr<Uring> ring_;
  std::unique_ptr<UringBuffers> buffers_;
  std::unique_ptr<Replier> replier_;
};

}  // namespace whylate::echo
