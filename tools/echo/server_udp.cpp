// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <sys/epoll.h>

#include <optional>

#include "echo/hand_off.h"
#include "echo/poller.h"
#include "echo/ready_set.h"
#include "echo/server.h"
#include "echo/stop.h"
#include "echo/udp_reader.h"

namespace whylate::echo {
namespace {

void serve_event(UdpReader& reader, const ServerOptions& options) {
  while (reader.serve() && options.drain && !stop_requested()) {
  }
}

/// An epoll for all threads, and who waits in it for them.
struct SharedEpoll {
  explicit SharedEpoll(const ServerOptions& options) : poller(options.stack) {
    if (options.hand_off) hand_off.emplace(poller, options);
  }
  Poller poller;
  std::optional<HandOff> hand_off;
};

/// What is handed to a thread is watched again when it has been read.
void loop_hand_off(UdpReader& reader, int fd, SharedEpoll& shared, const ServerOptions& options) {
  while (void* const tag = shared.hand_off->next()) {
    serve_event(reader, options);
    shared.poller.watch_again(fd, tag, EPOLLIN | EPOLLONESHOT);
  }
}

void loop_epoll(UdpReader& reader, Poller& poller, const ServerOptions& options) {
  while (!stop_requested()) {
    if (poller.wait() != nullptr) serve_event(reader, options);
  }
}

void loop_ready_set(UdpReader& reader, int fd, const ServerOptions& options) {
  ReadySet set(options.mode == ServerMode::kSelect);
  set.add(fd);
  while (!stop_requested()) {
    if (set.wait() && set.ready(0)) serve_event(reader, options);
  }
}

/// One datagram should wake one of the threads that share the socket. The threads of one epoll are
/// woken one at a time anyway.
std::uint32_t events_of(const ServerOptions& options) {
  const bool exclusive = options.threads > 1 && !options.reuseport && !options.share_epoll;
  return exclusive ? EPOLLIN | EPOLLEXCLUSIVE : EPOLLIN;
}

void serve_epoll(UdpReader& reader, int fd, SharedEpoll* shared, const ServerOptions& options) {
  if (options.hand_off) {
    loop_hand_off(reader, fd, *shared, options);
    return;
  }
  if (options.share_epoll) {
    loop_epoll(reader, shared->poller, options);
    return;
  }
  Poller own(options.stack);
  own.watch(fd, &reader, events_of(options));
  loop_epoll(reader, own, options);
}

void serve_thread(UdpReader& reader, int fd, SharedEpoll* shared, const ServerOptions& options) {
  switch (options.mode) {
    case ServerMode::kEpoll:
      serve_epoll(reader, fd, shared, options);
      break;
    case ServerMode::kPoll:
    case ServerMode::kSelect:
      loop_ready_set(reader, fd, options);
      break;
    case ServerMode::kBlocking:
    case ServerMode::kSpin:
      // These two differ in the socket's O_NONBLOCK only.
      while (!stop_requested()) reader.serve();
      break;
    case ServerMode::kUring:
      break;  // serve_udp_uring()
  }
}

}  // namespace

void serve_udp(Server& server, const std::vector<Fd>& sockets) {
  const ServerOptions& options = server.options();
  std::optional<SharedEpoll> shared;
  if (options.share_epoll || options.hand_off) {
    shared.emplace(options);
    shared->poller.watch(sockets[0].get(), &server,
                         options.hand_off ? EPOLLIN | EPOLLONESHOT : EPOLLIN);
  }
  const auto serve = [&](Worker& worker, std::size_t index) {
    const int fd = sockets[index % sockets.size()].get();
    const auto reader = make_udp_reader(server, worker, fd);
    serve_thread(*reader, fd, shared ? &*shared : nullptr, options);
  };
  server.run_threads(static_cast<std::size_t>(options.threads), serve);
}

}  // namespace whylate::echo
