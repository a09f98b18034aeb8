// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <netinet/in.h>

#include "echo/reply.h"

namespace whylate::echo {

/// UDP: keeps the replies to what was read at once, then sends them with one sendmmsg(), or with
/// UDP_SEGMENT, where each run of replies of one size to one peer is a single datagram to be
/// cut up (GSO).
class BatchReplier final : public Replier {
 public:
  explicit BatchReplier(Server& server);
  void flush() override;

 private:
  struct Kept {
    ReplyTo to;
    sockaddr_in6 peer;  // large enough for both families
    std::size_t from;
    std::size_t size;
    bool sent = false;
  };
  void send(const ReplyTo& to, std::span<const std::uint8_t> reply) override;
  bool joins_run(std::size_t first, std::size_t next) const;
  void send_all();

  bool gso_;
  std::vector<Kept> kept_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace whylate::echo
