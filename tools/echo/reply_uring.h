// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <deque>
#include <set>

#include "echo/reply.h"
#include "echo/uring.h"

namespace whylate::echo {

/// Sends replies as io_uring operations: with the reader's own ring, where they go to the kernel
/// together with its next wait, or with a ring for replies alone, where flush() waits for them.
class UringReplier final : public Replier {
 public:
  UringReplier(Server& server, Uring& ring);
  UringReplier(Server& server, std::unique_ptr<Uring> own);
  ~UringReplier() override;

  void flush() override;

 private:
  class SendOp;
  void send(const ReplyTo& to, std::span<const std::uint8_t> reply) override;
  void start(SendOp& op);
  void completed(SendOp& op, int result);

  std::unique_ptr<Uring> own_;
  Uring& ring_;
  std::vector<std::unique_ptr<SendOp>> ops_;
  std::vector<SendOp*> free_;
  std::size_t sending_ = 0;
  // Two sends of one connection at a time could change places.
  std::set<int> busy_connections_;
  std::deque<SendOp*> waiting_;
};

}  // namespace whylate::echo
