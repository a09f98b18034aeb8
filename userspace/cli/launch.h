// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace whylate::cli {

/// A command that is started but waits before its exec until release(). Destroying it ends the
/// command: it is asked with SIGTERM, after two seconds it is killed, and waited for.
class LaunchedCommand {
 public:
  /// Forks. Error (kRuntimeError): no process or pipe could be made.
  static Result<std::unique_ptr<LaunchedCommand>> start(const std::vector<std::string>& argv);
  ~LaunchedCommand();
  LaunchedCommand(const LaunchedCommand&) = delete;
  LaunchedCommand& operator=(const LaunchedCommand&) = delete;

  pid_t pid() const { return pid_; }

  /// Lets it exec. Error (kUsage): the program cannot be run, with the reason.
  Status release();

  /// Its exit code, 128 + signal when a signal ended it; nothing while it runs. Does not wait.
  std::optional<int> exit_code();

  /// Waits up to `timeout_ms` for its end.
  std::optional<int> wait_exit(int timeout_ms);

 private:
  LaunchedCommand(pid_t pid, int release_fd, int failure_fd)
      : pid_(pid), release_fd_(release_fd), failure_fd_(failure_fd) {}

  pid_t pid_;
  int release_fd_;  // closing it without a byte makes the child leave
  int failure_fd_;  // carries errno of a failed exec; closed by a successful one
  std::optional<int> exit_code_;
};

}  // namespace whylate::cli
