// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "support/child.h"
#include "support/host.h"

namespace whylate::live {

using Json = nlohmann::json;
using Args = std::vector<std::string>;

struct Occupant {
  std::string stage, kind, comm, policy, cgroup;
  std::int64_t pid = 0;
  std::uint64_t ns = 0;
};

/// What the tests look at in a line of schema whylate.request/1.
struct Record {
  std::optional<std::uint64_t> id;
  pid_t tid = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t recv_ns = 0;
  std::map<std::string, std::uint64_t> stages;
  std::vector<Occupant> occupants;
  std::string origin, idle_name, blocked_waker, softirq_mode;
  std::optional<int> hop_from;                   ///< the CPU that handed the packet over
  std::map<std::string, std::uint64_t> app_irq;  ///< parts of app_irq: "timer_ns", …
  std::string stage, culprit, text;              ///< of the verdict; empty without one
  std::vector<std::string> quality;
  std::uint64_t behind = 0;       ///< requests of its batch answered before it
  std::uint64_t fanout_rank = 0;  ///< multicast
  std::uint64_t fanout_ns = 0;
  pid_t woken = 0;  ///< thread that the arrival woke, when another one read

  std::uint64_t stage_ns(const std::string& name) const;
  bool is(const std::string& flag) const;
};

struct TraceResult {
  std::optional<int> exit_code;
  std::string err;
  std::vector<Record> records;
  Json summary;  ///< null when there was none

  std::uint64_t observed() const { return summary["requests"]["observed"]; }
  std::uint64_t complete() const { return summary["requests"]["complete"]; }
  std::uint64_t incomplete() const { return summary["requests"]["incomplete"]; }
  std::uint64_t unmatched(const std::string& reason) const;
  std::uint64_t unmatched_sum() const;
  std::uint64_t lost_sum() const;
};

/// A running `whylate trace ... --json-lines -o FILE`, attached when the constructor is through.
class Trace {
 public:
  /// `wrapper` is a command in front of it, such as setpriv with its arguments.
  explicit Trace(const Args& args, const SpawnOptions& options = {}, const Args& wrapper = {});

  Child& child() { return child_; }
  const std::string& file() const { return file_; }

  /// The file stays after the end, for `whylate correlate`.
  void keep_file() { keep_file_ = true; }

  /// Ends it with SIGINT, unless it ends by itself, and reads what it wrote. Every record is
  /// checked on the way: see fault_of().
  TraceResult stop();
  /// The same, but it must end by itself.
  TraceResult finish(int timeout_ms = 20'000);

 private:
  std::uint64_t begin_ns_;
  std::string file_;
  bool keep_file_ = false;
  Child child_;
};

/// What holds for every record ever: the stages sum to the total, nothing is above the run's
/// length, and the occupants of a wait tile it exactly. Empty: it holds; else what does not.
std::string fault_of(const Json& json, std::uint64_t run_ns);

/// Reads a file of --json-lines; every record is checked by fault_of().
TraceResult read_trace_file(const std::string& file, std::uint64_t run_ns);

/// A read as the server logged it.
struct Read {
  std::uint64_t id;
  std::uint64_t read_ns;
};
using ReadLog = std::map<pid_t, std::vector<Read>>;

/// A `whylate-echo server` with a log of its reads.
class Server {
 public:
  explicit Server(const Args& args, const SpawnOptions& options = {});

  Child& child() { return child_; }
  pid_t pid() const { return child_.pid(); }
  int port() const { return port_; }
  std::string address(const std::string& host) const { return host + ":" + std::to_string(port_); }
  Args trace_args(const Args& more = {}) const;

  /// Ends the server; its log by thread.
  ReadLog stop();

 private:
  std::string log_file_;
  Child child_;
  int port_ = 0;
};

ReadLog read_log_file(const std::string& file);

/// Runs `whylate-echo client` to its end; its JSON summary. The test fails when it could not run.
Json run_client(const Args& args, const SpawnOptions& options = {});
Child start_client(const Args& args, const SpawnOptions& options = {});

std::string whylate_path();

/// A copy of the program that every user may start.
std::string public_whylate();

std::string echo_path();

/// A shared library called libonload.so that holds nothing of Onload.
std::string onload_shim_path();

Args operator+(Args left, const Args& right);

}  // namespace whylate::live
