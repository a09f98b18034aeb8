// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "echo/fd.h"
#include "echo/reply.h"

namespace whylate::echo {

/// TCP: replies leave by sendfile() from a file in memory, or by splice() through a pipe.
class FileReplier final : public Replier {
 public:
  explicit FileReplier(Server& server);

 private:
  void send(const ReplyTo& to, std::span<const std::uint8_t> reply) override;
  void open_pipe();
  bool send_file(int fd, std::span<const std::uint8_t> reply);
  bool send_spliced(int fd, std::span<const std::uint8_t> reply);

  bool splice_;
  Fd file_;
  off_t next_ = 0;
  Fd pipe_out_;
  Fd pipe_in_;
};

}  // namespace whylate::echo
