// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/server.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "echo/payload.h"
#include "echo/reply_thread.h"
#include "echo/server_uring.h"
#include "echo/sockets.h"
#include "echo/stack.h"
#include "echo/stop.h"

namespace whylate::echo {
namespace {

// A connection's thread reads few requests, and there may be ten thousands of them.
constexpr std::size_t kLogChunk = std::size_t{1} << 16;
constexpr std::size_t kShortLogChunk = 64;
constexpr std::size_t kThreadsPrinted = 64;

void print_summary(const Server& server) {
  std::uint64_t served = 0;
  std::uint64_t reply_errors = 0;
  for (const auto& worker : server.workers()) {
    served += worker.served;
    reply_errors += worker.reply_errors;
  }
  fmt::print(stderr, "served {} requests in {} thread{}", served, server.workers().size(),
             server.workers().size() == 1 ? "" : "s");
  if (reply_errors > 0) fmt::print(stderr, "; {} replies could not be sent", reply_errors);
  fmt::print(stderr, "\n");
  const std::size_t printed = std::min(server.workers().size(), kThreadsPrinted);
  for (std::size_t i = 0; i < printed; ++i) {
    const Worker& worker = server.workers()[i];
    fmt::print(stderr, "  thread {}: {}\n", worker.tid, worker.served.load());
  }
  if (printed < server.workers().size())
    fmt::print(stderr, "  and {} more\n", server.workers().size() - printed);
}

Status write_log(const Server& server) {
  if (server.options().log_file.empty()) return Done{};
  std::vector<ThreadReads> logs;
  for (const auto& worker : server.workers()) logs.push_back({worker.tid, &worker.log});
  return write_sequence_log(server.options().log_file, logs);
}

/// A server that takes whole frames opens what it needs itself.
Status run_frames_server(const ServerOptions& options) {
  Server server(options);
  auto served = serve_frames(server);
  request_stop();
  if (!served) return served;
  print_summary(server);
  return write_log(server);
}

void sleep_or_stop(std::int64_t ns) {
  pollfd stop{stop_event_fd(), POLLIN, 0};
  const timespec length{static_cast<time_t>(ns / 1'000'000'000),
                        static_cast<long>(ns % 1'000'000'000)};
  ppoll(&stop, 1, &length, nullptr);
}

}  // namespace

Server::Server(const ServerOptions& options) : options_(options), work_(options) {
  if (options.reply_thread) reply_thread_ = std::make_unique<ReplyThread>(*this);
}

Server::~Server() = default;

Worker& Server::add_worker(bool short_lived) {
  const std::lock_guard<std::mutex> guard(workers_mutex_);
  Worker& worker =
      workers_.emplace_back(!options_.log_file.empty(), short_lived ? kShortLogChunk : kLogChunk);
  worker.next_pause = options_.pause_every;
  return worker;
}

void Server::end_reply_thread() { reply_thread_.reset(); }

void Server::run_threads(std::size_t count,
                         const std::function<void(Worker&, std::size_t)>& serve) {
  std::vector<Worker*> workers;
  for (std::size_t i = 0; i < count; ++i) workers.push_back(&add_worker());
  const auto run = [&](std::size_t i) {
    begin_thread(*workers[i], i);
    serve(*workers[i], i);
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back([&run, i] { run(i); });
  run(0);
  for (auto& thread : threads) thread.join();
}

void Server::pause(Worker& worker) const {
  worker.next_pause = worker.reads + options_.pause_every;
  sleep_or_stop(options_.pause_ns);
}

void Server::begin_thread(Worker& worker, std::size_t index) {
  worker.tid = gettid();
  worker.index = static_cast<int>(index);
  // The main thread keeps the program's name: that is what the process is called.
  if (worker.tid != getpid()) name_thread(fmt::format("echo-{}", index).c_str());
  if (auto pinned = pin_thread(options_.cpus, index); !pinned) {
    fmt::print(stderr, "whylate-echo: {}\n", pinned.error().message);
  }
}

void Server::handle(Worker& worker, std::span<const std::uint8_t> request, std::int64_t read_ns) {
  ++worker.reads;
  worker.log.add(payload_id(request), read_ns);
  work_.perform();
}

void Server::finish(Worker& worker, bool reply_sent) {
  worker.served.fetch_add(1, std::memory_order_relaxed);
  if (!reply_sent) worker.reply_errors.fetch_add(1, std::memory_order_relaxed);
  if (options_.count > 0 && ++finished_ == options_.count) request_stop();
}

bool wait_writable(int fd) {
  pollfd waits[2] = {{fd, POLLOUT, 0}, {stop_event_fd(), POLLIN, 0}};
  poll(waits, 2, -1);
  return !stop_requested();
}

Status run_server(const ServerOptions& options) {
  if (auto handlers = install_stop_handlers(); !handlers) return handlers.error();
  // Tell a CPU that cannot be used now, not from within a thread later.
  for (std::size_t i = 0; i < options.cpus.size(); ++i) {
    cpu_set_t before;
    sched_getaffinity(0, sizeof before, &before);
    auto pinned = pin_thread(options.cpus, i);
    sched_setaffinity(0, sizeof before, &before);
    if (!pinned) return pinned.error();
  }

  if (options.mode == ServerMode::kUring || options.send == SendWay::kUring) {
    if (auto able = check_uring(options.uring); !able) return able;
  }
  if (takes_frames(options.stack.kind)) return run_frames_server(options);

  std::vector<Fd> sockets;
  Endpoint listen = options.listen;
  const int wanted = options.reuseport ? options.threads : 1;
  for (int i = 0; i < wanted; ++i) {
    auto socket = open_server_socket(options, listen);
    if (!socket) return socket.error();
    auto bound = local_endpoint(*socket);
    if (!bound) return bound.error();
    listen = *bound;  // with port 0 the first socket decides for all
    // A ring that owns the socket is woken by the stop itself.
    if (!options.uring.direct) {
      if (auto watched = shut_down_on_stop(socket->get()); !watched) return watched.error();
    } else if (options.proto == Proto::kTcp && !options.nagle) {
      // Its connections, which no call can reach, have it from the listening socket.
      (void)set_option(*socket, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    }
    sockets.push_back(std::move(*socket));
  }

  Status served = Done{};
  Server server(options);
  fmt::print("ready pid={} port={} proto={} listen={}\n", getpid(), listen.port(),
             name_of(options.proto), to_string(listen));
  std::fflush(stdout);
  if (options.mode == ServerMode::kUring) {
    if (options.proto == Proto::kUdp) {
      serve_udp_uring(server, sockets);
    } else {
      serve_tcp_uring(server, sockets.front());
    }
  } else if (options.proto == Proto::kUdp) {
    serve_udp(server, sockets);
  } else {
    served = serve_tcp(server, sockets.front());
  }
  request_stop();
  server.end_reply_thread();
  print_summary(server);
  if (options.stack.kind == StackKind::kBusyPoll) {
    const auto& workers = server.workers();
    const bool any = std::any_of(workers.begin(), workers.end(),
                                 [](const Worker& worker) { return worker.served > 0; });
    for (const Fd& socket : sockets) report_busy_poll(socket, options.stack, any);
  }
  if (auto written = write_log(server); !written) return written;
  return served;
}

}  // namespace whylate::echo
