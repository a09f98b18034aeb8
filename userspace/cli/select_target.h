// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/result.h"
#include "capture/features.h"
#include "capture/session.h"
#include "cli/options.h"
#include "host/process.h"

namespace whylate::cli {

/// Which processes a selection means right now.
struct Target {
  std::vector<host::ProcessInfo> processes;  ///< at least one
  std::vector<capture::SocketInfo> sockets;  ///< what they have open and the port admits
  bool sockets_known = false;                ///< false: a launched command has none yet
  capture::Features features;                ///< of this kernel

  std::vector<pid_t> pids() const;
};

/// Resolves --pid, --comm or --port, or takes the launched process. Errors: kUsage for a wrong
/// pid, a kernel thread, a name or port nobody has, a process without a socket; kUnsupported when a
/// privilege or the kernel lacks something.
Result<Target> select_target(const TraceOptions& options, std::optional<pid_t> launched);

}  // namespace whylate::cli
