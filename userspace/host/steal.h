// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"

namespace whylate::host {

/// Time the hypervisor gave to others while a virtual CPU had work, from /proc/stat. Exact to one
/// clock tick (usually 10 ms), so it describes a run, never a request.
struct Steal {
  std::uint64_t total_ns = 0;
  std::map<int, std::uint64_t> cpu_ns;  ///< online CPUs
};

/// Error: /proc/stat cannot be read, or its kernel has no such column.
Result<Steal> read_steal(const std::string& root);

}  // namespace whylate::host
