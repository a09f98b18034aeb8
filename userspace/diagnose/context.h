// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "record.h"

namespace whylate {

/// Whether a stage can be seen in this run, and if not, why.
struct StageStatus {
  bool measured = true;
  std::string why_not;
};

/// One idle state of one CPU as its driver describes it.
struct IdleState {
  std::string name;
  std::optional<std::uint64_t> exit_latency_ns;  ///< the driver's table: a bound, not a measurement
};

struct NetDevice {
  std::string name;
  std::string qdisc;  ///< empty: unknown
};

/// A socket of the target.
struct LocalSocket {
  std::uint8_t proto = 0;   ///< WL_PROTO_TCP or WL_PROTO_UDP
  std::uint8_t family = 0;  ///< 4 or 6
  std::uint8_t address[16] = {};
  std::uint16_t port = 0;
  std::uint64_t inode = 0;
  std::uint64_t cookie = 0;  ///< equals wl_request::sk_cookie
  bool serves = false;       ///< it listens, or takes datagrams from anyone
};

/// What is known about the target and the host beside the requests themselves. Plain data: filled
/// by the commands from the readers of host/ and capture/, or by a test. Whatever is empty is
/// unknown and is reported so.
struct RunContext {
  std::optional<pid_t> pid;
  std::vector<pid_t> pids;  ///< all processes of the target
  std::string comm;
  std::optional<std::uint64_t> start_ns;  ///< when the process began, ns after boot
  std::string cgroup;                     ///< the target's cgroup of the cpu controller
  std::optional<std::uint64_t> quota_us;  ///< CPU quota per period; none: unlimited or unknown
  std::optional<std::uint64_t> period_us;
  /// Paths of groups of the cpu controller by wl_occupant::cgroup; what is not in it is not known.
  std::map<std::uint64_t, std::string> cgroups;
  std::vector<LocalSocket> sockets;
  std::map<std::uint64_t, std::uint64_t> inodes;  ///< of the target's sockets, by cookie

  std::string kernel_release;
  std::string machine;  ///< as uname: picks the table of system call names
  std::map<std::pair<std::uint32_t, int>, IdleState> idle_states;  ///< by CPU and index
  /// The state of every idle CPU where that is known without watching it.
  std::optional<int> fixed_idle_state;
  std::map<std::uint32_t, std::string> irq_names;
  std::map<std::uint32_t, NetDevice> devices;  ///< by interface index, of the target's namespace
  std::optional<bool> virtualised;
  std::optional<std::uint64_t> steal_ns;  ///< time taken from this machine's CPUs in the run

  bool syscalls = false;
  std::uint64_t slower_than_ns = 0;
  std::uint64_t duration_ns = 0;
  std::array<StageStatus, WL_NR_STAGES> stages;
  pid_t own_pid = 0;
  std::optional<std::uint64_t> own_cpu_ns;  ///< this process's CPU time in the run
};

}  // namespace whylate
