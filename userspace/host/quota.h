// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/process.h"

namespace whylate::host {

/// A cgroup that limits the CPU time of its tasks.
struct QuotaLevel {
  std::string path;  ///< cgroup path in its hierarchy, as in /proc/PID/cgroup
  bool v2 = false;
  std::uint64_t quota_us = 0;   ///< CPU time per period, over all CPUs
  std::uint64_t period_us = 0;  ///< above 0
};

/// The CPU quotas above a process.
struct QuotaInfo {
  std::vector<QuotaLevel> levels;  ///< levels with a limit, innermost first
  std::optional<std::size_t>
      tightest;  ///< index of the smallest quota/period; nothing without a limit
};

/// Walks from the cgroups of the process up to the root, v1 and v2. Error (kRuntimeError, one
/// line): the cgroup file system is not mounted here or the process's group is not below the mount.
Result<QuotaInfo> read_quota(const std::string& root, const ProcessInfo& process);

}  // namespace whylate::host
