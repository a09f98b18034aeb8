// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <memory>

#include "echo/reply.h"
#include "echo/server.h"

namespace whylate::echo {

/// One thread's way to read requests from a UDP socket.
class UdpReader {
 public:
  virtual ~UdpReader() = default;
  /// One read call, and the answers to what it brought; false when it brought nothing.
  virtual bool serve() = 0;
};

/// recvfrom(), with a look (MSG_PEEK) before it when the options say so, or recvmmsg().
std::unique_ptr<UdpReader> make_udp_reader(Server& server, Worker& worker, int fd);

}  // namespace whylate::echo
