// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace whylate::host {

/// Highest CPU number that a list may name; no kernel goes beyond.
inline constexpr int kMaxCpu = 65535;

/// Parses "0,3-7" as in sysfs and on command lines: ascending, each CPU once. White space at the
/// ends is allowed; an empty text is an empty list. Error (kUsage): anything else, the line quotes
/// it.
Result<std::vector<int>> parse_cpu_list(std::string_view text);

/// "0,3-7" of ascending CPU numbers; "" of none.
std::string format_cpu_list(const std::vector<int>& cpus);

/// CPUs the kernel has room for, holes included. Error when sysfs cannot be read.
Result<std::vector<int>> possible_cpus(const std::string& root);

/// CPUs that run now. Error when sysfs cannot be read.
Result<std::vector<int>> online_cpus(const std::string& root);

}  // namespace whylate::host
