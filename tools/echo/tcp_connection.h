// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "echo/fd.h"
#include "echo/reply.h"
#include "echo/server.h"

namespace whylate::echo {

/// One accepted connection and the message being read from it. Used by one thread at a time.
class Connection {
 public:
  Connection(Fd fd, const ServerOptions& options);
  /// Of a socket that has a number elsewhere (a slot of io_uring's table); `keep` holds it open.
  Connection(int number, std::shared_ptr<const void> keep, const ServerOptions& options);

  int fd() const { return number_; }
  void shut_down();

  enum class Step { kNothing, kRead, kClosed };
  /// Reads once, and answers the messages that are complete with it.
  Step step(Server& server, Worker& worker, Replier& replier);
  /// Where a read by other means than step() may put its bytes; took() then takes them, read at
  /// read_ns, and answers as step() does.
  std::span<std::uint8_t> room();
  void took(Server& server, Worker& worker, Replier& replier, std::size_t bytes,
            std::int64_t read_ns);
  /// Takes bytes from elsewhere, likewise.
  void take(Server& server, Worker& worker, Replier& replier, std::span<const std::uint8_t> bytes,
            std::int64_t read_ns);

 private:
  void answer_complete(Server& server, Worker& worker, Replier& replier, std::int64_t read_ns);

  int number_;
  std::shared_ptr<const void> keep_;  // shared with the replies that are still to be sent
  std::size_t size_bytes_;
  std::size_t read_bytes_;
  std::vector<std::uint8_t> buffer_;
  std::size_t have_ = 0;
};

}  // namespace whylate::echo
