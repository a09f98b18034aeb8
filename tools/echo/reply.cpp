// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/reply.h"

#include <algorithm>
#include <cerrno>

#include "echo/reply_batch.h"
#include "echo/reply_file.h"
#include "echo/reply_thread.h"
#include "echo/reply_uring.h"
#include "echo/server.h"

namespace whylate::echo {
namespace {

class PlainReplier final : public Replier {
 public:
  using Replier::Replier;

 private:
  void send(const ReplyTo& to, std::span<const std::uint8_t> reply) override {
    server_.finish(*to.worker, send_plain(server_.options(), to, reply));
  }
};

/// The request's bytes over and over.
void repeat_to_size(std::span<const std::uint8_t> request, std::size_t size,
                    std::vector<std::uint8_t>& reply) {
  reply.clear();
  if (request.empty()) return;
  while (reply.size() < size) {
    const auto part = request.first(std::min(request.size(), size - reply.size()));
    reply.insert(reply.end(), part.begin(), part.end());
  }
}

bool send_stream(int fd, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    } else if (errno == EAGAIN ? !wait_writable(fd) : errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

void Replier::answer(const ReplyTo& to, std::span<const std::uint8_t> request) {
  const ServerOptions& options = server_.options();
  if (options.answer_thread && *options.answer_thread != to.worker->index) {
    server_.finish(*to.worker, true);
    return;
  }
  if (options.reply_bytes == 0 || options.reply_bytes == request.size()) {
    send(to, request);
    return;
  }
  repeat_to_size(request, options.reply_bytes, reply_);
  send(to, reply_);
}

bool send_plain(const ServerOptions& options, const ReplyTo& to,
                std::span<const std::uint8_t> reply) {
  if (to.peer == nullptr) {
    const auto first = std::min(options.reply_split_bytes, reply.size());
    return send_stream(to.fd, reply.first(first)) && send_stream(to.fd, reply.subspan(first));
  }
  while (true) {
    const ssize_t sent =
        ::sendto(to.fd, reply.data(), reply.size(), MSG_NOSIGNAL, to.peer, to.peer_length);
    if (sent >= 0) return static_cast<std::size_t>(sent) == reply.size();
    if (errno != EAGAIN || !wait_writable(to.fd)) return false;
  }
}

std::unique_ptr<Replier> make_replier(Server& server) {
  if (server.reply_thread() != nullptr)
    return std::make_unique<QueueReplier>(server, *server.reply_thread());
  switch (server.options().send) {
    case SendWay::kSendmmsg:
    case SendWay::kGso:
      return std::make_unique<BatchReplier>(server);
    case SendWay::kSendfile:
    case SendWay::kSplice:
      return std::make_unique<FileReplier>(server);
    case SendWay::kUring:
      // run_server() has seen that it works. Failing that, the replies leave all the same.
      if (auto ring = Uring::create(server.options().uring); ring)
        return std::make_unique<UringReplier>(server, std::move(*ring));
      break;
    case SendWay::kPlain:
      break;
  }
  return std::make_unique<PlainReplier>(server);
}

}  // namespace whylate::echo
