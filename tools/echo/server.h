// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
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

class ReplyThread;

/// One serving thread's own figures. The counters of replies are atomic because another thread may
/// send them.
struct Worker {
  Worker(bool log_reads, std::size_t log_chunk) : log(log_reads, log_chunk) {}
  pid_t tid = 0;
  int index = 0;            ///< counts threads from 0
  std::uint64_t reads = 0;  ///< requests read
  std::uint64_t next_pause = 0;
  std::atomic<std::uint64_t> served{0};
  std::atomic<std::uint64_t> reply_errors{0};
  ReadLog log;
};

/// What all serving threads share.
class Server {
 public:
  explicit Server(const ServerOptions& options);
  ~Server();

  const ServerOptions& options() const { return options_; }
  /// The thread that sends all replies; null when each thread sends its own.
  ReplyThread* reply_thread() { return reply_thread_.get(); }

  /// Adds a worker, to be used by one thread; stays valid as long as the server. `short_lived` when
  /// there may be very many, one for each connection.
  Worker& add_worker(bool short_lived = false);
  const std::deque<Worker>& workers() const { return workers_; }
  /// Sends what the reply thread still has and ends it; no request may be handled any more.
  void end_reply_thread();

  /// Runs `serve` with a worker and its index in each of `count` threads, the first of which is the
  /// calling one: with one thread, the process is its reader.
  void run_threads(std::size_t count, const std::function<void(Worker&, std::size_t)>& serve);

  /// To be called first by the serving thread: its tid, CPU and name. `index` counts threads from
  /// 0.
  void begin_thread(Worker& worker, std::size_t index);
  /// To be called before each read: pauses when the options ask for one now.
  void before_read(Worker& worker) {
    if (options_.pause_ns > 0 && worker.reads >= worker.next_pause) pause(worker);
  }
  /// A request was read, at read_ns: logs it and does the application's work.
  void handle(Worker& worker, std::span<const std::uint8_t> request, std::int64_t read_ns);
  /// Its reply was sent, or could not be. Requests the stop when the count is reached. Called by
  /// any thread.
  void finish(Worker& worker, bool reply_sent);

 private:
  void pause(Worker& worker) const;

  const ServerOptions& options_;
  RequestWork work_;
  std::mutex workers_mutex_;
  std::deque<Worker> workers_;
  std::atomic<std::uint64_t> finished_{0};
  std::unique_ptr<ReplyThread> reply_thread_;
};

/// Serves on one or (SO_REUSEPORT) several UDP sockets; returns when the stop was requested.
void serve_udp(Server& server, const std::vector<Fd>& sockets);
/// Serves the connections of a listening TCP socket; returns when the stop was requested.
Status serve_tcp(Server& server, const Fd& listener);

/// Waits until a non-blocking socket takes data again; false when the stop was requested.
bool wait_writable(int fd);

}  // namespace whylate::echo
