// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "capture/session.h"
#include "cli/options.h"
#include "stack/traffic.h"
#include "stack/verdict.h"

namespace whylate::cli {

/// What needs BPF; empty in a build without live capture.
struct StackSources {
  /// Counts during a window that all share; one result per request.
  std::function<std::vector<Result<stack::TrafficWindow>>(
      const std::vector<stack::ObserveRequest>&)>
      observe;
  /// Lists the sockets of a process, or of all; for --port.
  std::function<Result<std::vector<capture::SocketInfo>>(std::optional<pid_t>)> list_sockets;
};

/// Looks at these processes, waits one window out for all, looks again, judges; one result for
/// each. Errors: no such process, a kernel thread, a zombie (kUsage), no right to look at it
/// (kUnsupported).
std::vector<Result<stack::StackReport>> examine_stacks(const std::vector<pid_t>& pids,
                                                       const StackCommand& command,
                                                       const StackSources& sources);

/// Judges without a window: what is open, not what moves. Nothing when it may not be looked at.
std::optional<stack::StackReport> look_once(pid_t pid);

/// For a command that needs the kernel's stack: one line naming the stack that carries the process
/// instead, and the tools that show it; or that its sockets are only in io_uring's own table.
/// Nothing when the kernel does, or when it is not at least likely. Looks once, without a window.
std::optional<std::string> other_stack(pid_t pid);

/// `whylate stack`: prints a report for each selected process. Returns the exit code: kFinding when
/// a process ended during its window.
int run_stack(const StackCommand& command, const StackSources& sources);

}  // namespace whylate::cli
