// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/tcp_connection.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "echo/clock.h"
#include "echo/sockets.h"

namespace whylate::echo {

Connection::Connection(int number, std::shared_ptr<const void> keep, const ServerOptions& options)
    : number_(number),
      keep_(std::move(keep)),
      size_bytes_(options.size_bytes),
      read_bytes_(options.read_bytes),
      buffer_(options.size_bytes + options.read_bytes) {}

Connection::Connection(Fd fd, const ServerOptions& options)
    : Connection(fd.get(), nullptr, options) {
  // Best effort: without it a reply waits for the peer's acknowledgement, which shows in the
  // figures.
  if (!options.nagle) (void)set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
  keep_ = std::make_shared<Fd>(std::move(fd));
}

void Connection::shut_down() { ::shutdown(number_, SHUT_RDWR); }

Connection::Step Connection::step(Server& server, Worker& worker, Replier& replier) {
  server.before_read(worker);
  if (server.options().peek) {
    std::uint8_t first = 0;
    const ssize_t seen = ::recv(number_, &first, sizeof first, MSG_PEEK);
    if (seen < 0 && (errno == EAGAIN || errno == EINTR)) return Step::kNothing;
  }
  const auto free = room();
  const ssize_t got = ::recv(number_, free.data(), free.size(), 0);
  const std::int64_t read_ns = monotonic_ns();
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Step::kNothing : Step::kClosed;
  if (got == 0) return Step::kClosed;
  took(server, worker, replier, static_cast<std::size_t>(got), read_ns);
  return Step::kRead;
}

std::span<std::uint8_t> Connection::room() {
  // By default never beyond the current message, so that each has a read of its own.
  const std::size_t wanted = read_bytes_ > 0 ? read_bytes_ : size_bytes_ - have_;
  return {buffer_.data() + have_, wanted};
}

void Connection::took(Server& server, Worker& worker, Replier& replier, std::size_t bytes,
                      std::int64_t read_ns) {
  have_ += bytes;
  answer_complete(server, worker, replier, read_ns);
}

void Connection::take(Server& server, Worker& worker, Replier& replier,
                      std::span<const std::uint8_t> bytes, std::int64_t read_ns) {
  if (buffer_.size() < have_ + bytes.size()) buffer_.resize(have_ + bytes.size());
  std::copy(bytes.begin(), bytes.end(), buffer_.data() + have_);
  have_ += bytes.size();
  answer_complete(server, worker, replier, read_ns);
}

void Connection::answer_complete(Server& server, Worker& worker, Replier& replier,
                                 std::int64_t read_ns) {
  std::size_t from = 0;
  for (; have_ - from >= size_bytes_; from += size_bytes_) {
    const std::span<const std::uint8_t> message(buffer_.data() + from, size_bytes_);
    server.handle(worker, message, read_ns);
    replier.answer({&worker, number_, nullptr, 0, keep_}, message);
  }
  replier.flush();
  have_ -= from;
  if (from > 0 && have_ > 0) std::memmove(buffer_.data(), buffer_.data() + from, have_);
}

}  // namespace whylate::echo
