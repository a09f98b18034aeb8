// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "echo/options.h"

namespace whylate::echo {

class Server;
struct Worker;

/// Where a reply goes, and whose it is.
struct ReplyTo {
  Worker* worker = nullptr;        ///< the thread that read the request
  int fd = -1;                     ///< the request's socket
  const sockaddr* peer = nullptr;  ///< UDP: the requester; null for a connection
  socklen_t peer_length = 0;
  std::shared_ptr<const void> keep;  ///< what keeps the socket open; null: it outlives all replies
};

/// A way for replies to leave. Used by one thread.
class Replier {
 public:
  explicit Replier(Server& server) : server_(server) {}
  virtual ~Replier() = default;
  Replier(const Replier&) = delete;
  Replier& operator=(const Replier&) = delete;

  /// Answers a request as the options ask for; may keep the reply back until flush(). Either way
  /// the request's bytes are no longer needed afterwards.
  void answer(const ReplyTo& to, std::span<const std::uint8_t> request);
  /// The thread has handled what it had read: what was kept back goes out.
  virtual void flush() {}

 protected:
  /// Sends one reply, now or with the next flush(), and reports it to Server::finish().
  virtual void send(const ReplyTo& to, std::span<const std::uint8_t> reply) = 0;

  Server& server_;

 private:
  std::vector<std::uint8_t> reply_;
};

/// The way the options ask for, for a thread that reads requests.
std::unique_ptr<Replier> make_replier(Server& server);

/// One sendto(), or send() until all bytes are taken; in two parts when the options split replies.
/// False when the peer is gone or the stop was requested while waiting for room.
bool send_plain(const ServerOptions& options, const ReplyTo& to,
                std::span<const std::uint8_t> reply);

}  // namespace whylate::echo
