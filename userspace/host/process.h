// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace whylate::host {

/// A process as /proc shows it at one moment.
struct ProcessInfo {
  pid_t pid = 0;     ///< thread group id, as seen from this pid namespace
  std::string comm;  ///< name of the thread group leader, unescaped
  std::uint64_t start_ticks =
      0;  ///< start in clock ticks after boot; with pid it names the process for good
  std::uint64_t start_ns = 0;  ///< the same in ns after boot (suspend included), exact to one tick
  bool is_kernel_thread = false;
  bool is_zombie = false;      ///< ended, not yet waited for
  std::vector<pid_t> threads;  ///< thread ids, ascending; a thread that ended meanwhile is left out
  std::vector<pid_t>
      nspid;  ///< the pid in each namespace from this one inwards; at least one entry
  std::vector<int> cpus_allowed;  ///< CPUs that at least one thread may use, ascending
  std::string cgroup_v2;          ///< path in the unified hierarchy, "" when there is none
  std::vector<std::pair<std::string, std::string>>
      cgroup_v1;  ///< controllers ("cpu,cpuacct") and path
};

/// Reads /proc/PID. Errors, one line each: no such process, or the id of a thread that is not the
/// leader (kUsage; the line names the process); not readable (kRuntimeError).
Result<ProcessInfo> read_process(const std::string& root, pid_t pid);

/// Whether this process can have requests at all. Errors (one line, kUsage): kernel thread,
/// zombie.
Status check_traceable(const ProcessInfo& process);

/// Processes whose thread group leader has exactly this name, ascending. The kernel keeps 15 bytes
/// of a name, so only the first 15 of `comm` count. Kernel threads and zombies are left out.
std::vector<pid_t> find_by_comm(const std::string& root, std::string_view comm);

/// Whether some network device is polled by kernel threads of its own (threaded NAPI). False also
/// when the kernel does not list the children of a task.
bool has_napi_threads(const std::string& root);

}  // namespace whylate::host
