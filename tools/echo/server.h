// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "echo/fd.h"
#include "echo/options.h"
#include "echo/request_work.h"
#include "echo/sequence_log.h"

namespace whylate::echo {

/// Runs the server until a signal or its count: prints `ready ...` on stdout once it listens, the
/// summary on stderr at the end, and writes the log.
Status run_server(const ServerOptions& options);

/// One serving thread's own figures.
struct Worker {
  explicit Worker(bool log_reads) : log(log_reads) {}
  pid_t tid = 0;
  std::atomic<std::uint64_t> served{0};
  std::uint64_t reply_errors = 0;
  ReadLog log;
};

/// What all serving threads share.
class Server {
 public:
  explicit Server(const ServerOptions& options) : options_(options), work_(options) {}

  const ServerOptions& options() const { return options_; }

  /// Adds a worker, to be used by one thread; stays valid as long as the server.
  Worker& add_worker();
  const std::deque<Worker>& workers() const { return workers_; }

  /// To be called first by the serving thread: its tid, CPU and name. `index` counts threads from
  /// 0.
  void begin_thread(Worker& worker, std::size_t index);
  /// A request was read, at read_ns: logs it and does the application's work.
  void handle(Worker& worker, std::span<const std::uint8_t> request, std::int64_t read_ns);
  /// Its reply was sent, or could not be. Requests the stop when the count is reached.
  void finish(Worker& worker, bool reply_sent);

 private:
  const ServerOptions& options_;
  RequestWork work_;
  std::mutex workers_mutex_;
  std::deque<Worker> workers_;
  std::atomic<std::uint64_t> finished_{0};
};

/// Serves on one or (SO_REUSEPORT) several UDP sockets; returns when the stop was requested.
void serve_udp(Server& server, const std::vector<Fd>& sockets);
/// Serves the connections of a listening TCP socket; returns when the stop was requested.
Status serve_tcp(Server& server, const Fd& listener);

/// Waits until a non-blocking socket takes data again; false when the stop was requested.
bool wait_writable(int fd);

}  // namespace whylate::echo
