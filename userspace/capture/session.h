// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "histogram.h"
#include "record.h"

namespace whylate::capture {

/// A socket held open by a process, as the kernel knows it (any network namespace).
struct SocketInfo {
  pid_t tgid = 0;  ///< owner, in the initial pid namespace
  int fd = -1;
  std::uint64_t inode = 0;
  int family = 0;              ///< AF_INET or AF_INET6
  std::uint8_t proto = 0;      ///< WL_PROTO_TCP or WL_PROTO_UDP
  std::uint8_t tcp_state = 0;  ///< TCP_LISTEN == 10, TCP_ESTABLISHED == 1; 0 for UDP
  std::uint16_t local_port = 0;
  std::uint16_t remote_port = 0;  ///< 0: not connected
  std::uint8_t local_addr[16] = {};
  std::uint8_t remote_addr[16] = {};
  std::uint32_t netns = 0;      ///< inode number of the network namespace
  std::uint64_t sk_cookie = 0;  ///< equals wl_request::sk_cookie of requests read from this socket
  std::string comm;
};

/// What to watch and how. Everything is decided before the session opens.
struct Config {
  std::vector<pid_t>
      tgids;  ///< processes to watch, as seen from this pid namespace; children are followed
  /// Asked once their end would be noticed: whether a process is still the one that was meant. It
  /// may have ended before, and another one may have its id.
  std::function<bool(pid_t)> still_there;
  std::optional<std::uint16_t> port;  ///< only sockets bound to this local port
  std::optional<std::uint8_t> proto;  ///< with port: only WL_PROTO_TCP or WL_PROTO_UDP
  std::uint64_t slower_than_ns =
      0;  ///< no record for requests faster than this; the aggregates still hold them
  std::optional<std::uint32_t>
      id_offset;               ///< where in the payload the request number lies (little endian)
  std::uint32_t id_bytes = 8;  ///< 1, 2, 4 or 8
  std::uint64_t count = 0;     ///< freeze everything after so many requests; 0: never
  bool syscalls = false;       ///< the finer split by sys_enter and sys_exit
  std::uint32_t ring_bytes = 8u << 20;  ///< power of two, a multiple of the page size
  std::uint32_t thread_slots = 1024;    ///< threads of the target that can be followed at once
  std::uint32_t udp_slots =
      64;                    ///< UDP sockets of the target open at once, at most 256 (56 KiB each)
  bool old_reads = false;    ///< Plan::old_reads
  bool preemptible = false;  ///< Features::tracepoints_preemptible
  std::vector<std::string> programs_off;  ///< BPF programs that the attach plan leaves out
  std::optional<int> fixed_idle_state;    ///< the idle state of every CPU where wl_cpu_idle is off
};

/// One row of the blame totals, over all requests of the run.
struct BlameTotal {
  wl_blame_key key;
  wl_blame value;
};

/// Everything the kernel side counted, merged over the CPUs.
struct Totals {
  wl_counters counters{};
  wl_aggregate aggregate{};
  std::vector<BlameTotal> blame;
  std::uint64_t recursion_misses = 0;  ///< program invocations the kernel skipped
  double call_ns = 0;                  ///< measured cost of one empty invocation on this machine
};

/// A loaded and attached tracer. Destroying it detaches everything.
class Session {
 public:
  /// Opens, loads, attaches and adopts the target's threads and sockets.
  /// Errors: kUnsupported names the missing capability or kernel option in one line.
  static Result<std::unique_ptr<Session>> open(const Config& config);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Adopts sockets opened since the last call (and on the first call all of them); returns what is
  /// open now.
  Result<std::vector<SocketInfo>> adopt_sockets();

  /// Hands the waiting records to `sink`, oldest first, until it returns false or none is left.
  /// Does not wait. False: the sink stopped it, so that more may be waiting.
  Result<bool> drain(const std::function<bool(std::span<const std::byte>)>& sink);

  /// Totals so far. Cheap enough for once a second.
  Result<Totals> totals() const;

  /// True once every watched process has ended.
  bool target_gone() const;

  /// Adds a process to the watched ones (a launched command).
  Status watch(pid_t tgid);

  /// Milliseconds from the start of open() until every hook was in.
  double attach_ms() const;

  /// Stops the hooks; totals() and drain() still work.
  void detach();

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// All inet sockets open in any process (or in one), by a BPF iterator: needs CAP_BPF and
/// CAP_PERFMON only.
Result<std::vector<SocketInfo>> list_sockets(std::optional<pid_t> tgid);

}  // namespace whylate::capture
