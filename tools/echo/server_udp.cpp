// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <sys/epoll.h>

#include <cerrno>
#include <thread>

#include "echo/clock.h"
#include "echo/server.h"
#include "echo/stack.h"
#include "echo/stop.h"

namespace whylate::echo {
namespace {

constexpr std::size_t kMaxDatagramBytes = 65'536;

/// One thread's reader of a UDP socket.
class UdpReader {
 public:
  UdpReader(Server& server, Worker& worker, int fd)
      : server_(server), worker_(worker), fd_(fd), buffer_(kMaxDatagramBytes) {}

  /// Reads and answers one datagram; false when there was none.
  bool serve_one() {
    sockaddr_storage peer;
    socklen_t peer_length = sizeof peer;
    const ssize_t got = ::recvfrom(fd_, buffer_.data(), buffer_.size(), 0,
                                   reinterpret_cast<sockaddr*>(&peer), &peer_length);
    const std::int64_t read_ns = monotonic_ns();
    // A socket that was shut down reads as empty datagrams without a sender.
    if (got < 0 || (got == 0 && stop_requested())) return false;
    const auto size = static_cast<std::size_t>(got);
    server_.handle(worker_, {buffer_.data(), size}, read_ns);
    ssize_t sent = -1;
    while (true) {
      sent = ::sendto(fd_, buffer_.data(), size, MSG_NOSIGNAL,
                      reinterpret_cast<const sockaddr*>(&peer), peer_length);
      if (sent >= 0 || errno != EAGAIN || !wait_writable(fd_)) break;
    }
    server_.finish(worker_, sent == got);
    return true;
  }

 private:
  Server& server_;
  Worker& worker_;
  int fd_;
  std::vector<std::uint8_t> buffer_;
};

void loop_epoll(UdpReader& reader, int fd, const ServerOptions& options) {
  const Fd poller(epoll_create1(EPOLL_CLOEXEC));
  set_busy_poll_of_epoll(poller, options.stack);
  epoll_event stop{};
  stop.events = EPOLLIN;
  stop.data.fd = stop_event_fd();
  epoll_ctl(poller.get(), EPOLL_CTL_ADD, stop_event_fd(), &stop);
  epoll_event readable{};
  // One datagram should wake one of the threads that share the socket.
  const bool shared = options.threads > 1 && !options.reuseport;
  readable.events = shared ? EPOLLIN | EPOLLEXCLUSIVE : EPOLLIN;
  readable.data.fd = fd;
  epoll_ctl(poller.get(), EPOLL_CTL_ADD, fd, &readable);
  while (!stop_requested()) {
    epoll_event event;
    if (epoll_wait(poller.get(), &event, 1, -1) != 1 || event.data.fd != fd) continue;
    while (reader.serve_one() && options.drain && !stop_requested()) {
    }
  }
}

void serve_thread(Server& server, Worker& worker, std::size_t index, int fd) {
  server.begin_thread(worker, index);
  UdpReader reader(server, worker, fd);
  if (server.options().mode == ServerMode::kEpoll) {
    loop_epoll(reader, fd, server.options());
    return;
  }
  // Blocking and spinning differ in the socket's O_NONBLOCK only.
  while (!stop_requested()) reader.serve_one();
}

}  // namespace

void serve_udp(Server& server, const std::vector<Fd>& sockets) {
  const auto count = static_cast<std::size_t>(server.options().threads);
  std::vector<Worker*> workers;
  for (std::size_t i = 0; i < count; ++i) workers.push_back(&server.add_worker());
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < count; ++i) {
    const int fd = sockets[i % sockets.size()].get();
    threads.emplace_back(
        [&server, worker = workers[i], i, fd] { serve_thread(server, *worker, i, fd); });
  }
  // The first reader is the main thread: with one thread, the process is its reader.
  serve_thread(server, *workers[0], 0, sockets[0].get());
  for (auto& thread : threads) thread.join();
}

}  // namespace whylate::echo
