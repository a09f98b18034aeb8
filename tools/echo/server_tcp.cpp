// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <list>
#include <thread>

#include "echo/server.h"
#include "echo/stop.h"
#include "echo/tcp_connection.h"
#include "echo/tcp_pools.h"

namespace whylate::echo {
namespace {

/// A connection with the thread that serves it.
struct ConnectionThread {
  explicit ConnectionThread(Fd fd, const ServerOptions& options)
      : connection(std::move(fd), options) {}
  Connection connection;
  std::atomic<bool> ended{false};
  std::thread thread;
};

void serve_connection(Server& server, Worker& worker, std::size_t index, ConnectionThread& own) {
  server.begin_thread(worker, index);
  const auto replier = make_replier(server);
  while (!stop_requested() &&
         own.connection.step(server, worker, *replier) != Connection::Step::kClosed) {
  }
  // The descriptor stays open until the acceptor has joined, so that its number cannot be reused
  // under it.
  own.connection.shut_down();
  own.ended = true;
}

void serve_blocking(Server& server, const Fd& listener) {
  std::list<ConnectionThread> threads;
  std::size_t accepted = 0;
  while (!stop_requested()) {
    Fd fd = accept_connection(listener, false);
    if (!fd.valid()) continue;
    threads.remove_if([](ConnectionThread& old) {
      if (!old.ended) return false;
      old.thread.join();
      return true;
    });
    auto& own = threads.emplace_back(std::move(fd), server.options());
    Worker& worker = server.add_worker(true);
    const std::size_t index = accepted++;
    own.thread = std::thread(
        [&server, &worker, index, &own] { serve_connection(server, worker, index, own); });
  }
  for (auto& own : threads) own.connection.shut_down();
  for (auto& own : threads) own.thread.join();
}

}  // namespace

Status serve_tcp(Server& server, const Fd& listener) {
  if (server.options().mode == ServerMode::kBlocking) {
    serve_blocking(server, listener);
  } else {
    serve_pools(server, listener);
  }
  return Done{};
}

}  // namespace whylate::echo
